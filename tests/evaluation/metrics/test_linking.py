"""Accuracies of a retriever and a reranker, against explicit loops."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neg_contrast.evaluation import metrics
from neg_contrast.evaluation.metrics import metric

ENTITIES = 'abcdef'
SCORES = st.dictionaries(st.sampled_from(ENTITIES),
                         st.sampled_from([0.5, 1.0, 2.0]))
MENTIONS = st.lists(st.tuples(
    st.sampled_from(ENTITIES), SCORES, st.sampled_from(['sea', 'air', 'fire'])
), min_size=1, max_size=8)


def accuracies(qrels, candidates, reranked, worlds=None):
  names = metrics.names_with(metric.CANDIDATES)
  return metrics.score(metric.Ranking(
      reranked, qrels, candidates=lambda: candidates, worlds=worlds), names)


def best_first(scores):
  """Score descending, then id descending."""
  return [name for name, _ in sorted(
      scores.items(), key=lambda item: (item[1], item[0]), reverse=True)]


def by_loops(mentions, reranked, depth):
  """(recall, normalised and unnormalised accuracy over worlds), as defined."""
  recalled, worlds = 0, {}
  for (gold, scores, world), ranking in zip(mentions, reranked, strict=True):
    of = worlds.setdefault(world, {'all': 0, 'found': 0, 'right': 0})
    of['all'] += 1
    if gold in best_first(scores)[:depth]:
      recalled += 1
      of['found'] += 1
    if ranking and ranking[0] == gold:
      of['right'] += 1
  unnormalized = sum(w['right'] / w['all'] for w in worlds.values())
  normalized = [w['right'] / w['found'] for w in worlds.values() if w['found']]
  return (recalled / len(mentions), unnormalized / len(worlds),
          sum(normalized) / len(normalized) if normalized else 0.0)


@given(MENTIONS, st.integers(1, 4), st.randoms(use_true_random=False))
def test_equals_loops(mentions, depth, random):
  names = [f'm{i}' for i in range(len(mentions))]
  qrels = {name: {gold: 1, 'zero': 0}
           for name, (gold, _, _) in zip(names, mentions, strict=True)}
  candidates = {name: [(entity, scores[entity])
                       for entity in best_first(scores)[:depth]]
                for name, (_, scores, _) in zip(names, mentions, strict=True)}
  reranked = []
  for _, scores, _ in mentions:
    some = best_first(scores)[:depth]
    random.shuffle(some)
    reranked.append(some)
  run = {name: [(entity, -float(rank)) for rank, entity in enumerate(ranking)]
         for name, ranking in zip(names, reranked, strict=True)}
  found = accuracies(
      qrels, candidates, run,
      dict(zip(names, [world for _, _, world in mentions], strict=True)))
  recall, unnormalized, normalized = by_loops(mentions, reranked, depth)
  assert found.mean['unnormalized_accuracy'] == pytest.approx(unnormalized)
  assert found.mean['normalized_accuracy'] == pytest.approx(normalized)
  # What the retriever alone reaches, before and after.
  for ranking in (candidates, run):
    scores = metrics.score(metric.Ranking(ranking, qrels),
                           [f'accuracy@{depth}'])
    assert scores.mean == {f'accuracy@{depth}': pytest.approx(recall)}


QRELS = {'1': {'a': 1}, '2': {'a': 1}, '3': {'b': 1}}
CANDIDATES = {'1': [('a', 2.0), ('b', 1.0)], '2': [('b', 2.0), ('c', 1.0)],
              '3': [('a', 3.0), ('b', 2.0)]}


def test_an_example():
  reranked = {'1': [('a', 0.2), ('b', 0.1)], '2': [('c', 1.0)],
              '3': [('a', 0.9), ('b', 0.8)]}
  found = accuracies(
      QRELS, CANDIDATES, reranked, {'1': 'x', '2': 'x', '3': 'y'})
  assert found.mean == {
      'unnormalized_accuracy': 0.25, 'micro_unnormalized_accuracy':
      pytest.approx(1 / 3),
      'normalized_accuracy': 0.5, 'micro_normalized_accuracy': 0.5,
  }
  assert found.per_world == {
      'x': {'queries': 2, 'unnormalized_accuracy': 0.5,
            'normalized_accuracy': 1.0},
      'y': {'queries': 1, 'unnormalized_accuracy': 0.0,
            'normalized_accuracy': 0.0}}
  assert found.per_query['normalized_accuracy'] == {'1': 1.0, '3': 0.0}


def test_what_is_no_candidate_can_not_be_reranked():
  with pytest.raises(ValueError, match="'3': 'c' is reranked and not among the "
                     '2 candidates'):
    accuracies(QRELS, CANDIDATES, {'3': [('c', 1.0)]})


def test_a_world_where_nothing_was_found_has_no_normalized_accuracy():
  worlds = {'1': 'x', '2': 'y', '3': 'x'}
  found = accuracies(
      QRELS, CANDIDATES, {'1': [('a', 1.0)], '3': [('b', 1.0)]}, worlds)
  assert 'normalized_accuracy' not in found.per_world['y']
  assert found.mean['normalized_accuracy'] == 1.0
  assert found.mean['unnormalized_accuracy'] == 0.5
  assert accuracies(QRELS, {}, {}).mean['normalized_accuracy'] == 0


@given(MENTIONS)
def test_macro_metrics_are_means_over_worlds(mentions):
  names = [f'm{i}' for i in range(len(mentions))]
  of = {name: world for name, (_, _, world)
        in zip(names, mentions, strict=True)}
  scores = metrics.score(metric.Ranking(
      {name: list(some.items()) for name, (_, some, _)
       in zip(names, mentions, strict=True)},
      {name: {gold: 1} for name, (gold, _, _)
       in zip(names, mentions, strict=True)}, worlds=of,
  ), ['macro_mrr@2', 'accuracy@1', 'macro_accuracy@1'])
  assert list(scores.per_query) == ['mrr@2', 'accuracy@1']
  assert list(scores.mean) == ['macro_mrr@2', 'accuracy@1', 'macro_accuracy@1']
  for name in ('mrr@2', 'accuracy@1'):
    worlds = {}
    for query, value in scores.per_query[name].items():
      worlds.setdefault(of[query], []).append(value)
    means = {world: sum(some) / len(some) for world, some in worlds.items()}
    assert scores.mean[f'macro_{name}'] == pytest.approx(
        sum(means.values()) / len(means))
    assert {world: values[name] for world, values
            in scores.per_world.items()} == pytest.approx(means)


def test_one_world_has_equal_means():
  scores = metrics.score(metric.Ranking(CANDIDATES, QRELS),
                         ['mrr', 'macro_mrr'])
  assert scores.mean['mrr'] == scores.mean['macro_mrr'] == pytest.approx(0.5)
  assert list(scores.per_world) == ['all']
  metrics.check_names(['macro_recall@5'])
