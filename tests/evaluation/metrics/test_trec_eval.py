import math
import pathlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neg_contrast import errors
from neg_contrast.evaluation import metrics, trec
from neg_contrast.evaluation.metrics import metric

TREC_EVAL = (
    pathlib.Path(__file__).parents[4]
    / 'shared' / 'data' / 'oracles' / 'trec_eval-test'
)
_OUR_NAMES = {
    'success': 'accuracy', 'recall': 'recall', 'P': 'precision',
    'ndcg_cut': 'ndcg',
}
_IDS = st.sampled_from('abcdefgh')
ALL = ('accuracy@2', 'recall@2', 'precision@2', 'ndcg@2', 'mrr@2', 'mrr', 'map')


def evaluate(qrels, run, names, level=1):
  return metrics.score(metric.Ranking(run, qrels, relevance_level=level), names)


def printed(path):
  """(our metric name, query id or 'all') → the value trec_eval printed."""
  values = {}
  for line in path.read_text().splitlines():
    measure, query, value = (field.strip() for field in line.split('\t'))
    cut = re.fullmatch('(success|recall|P|ndcg_cut)_([0-9]+)', measure)
    if cut:
      values[f'{_OUR_NAMES[cut[1]]}@{cut[2]}', query] = float(value)
    elif measure in ('map', 'recip_rank'):
      name = {'map': 'map', 'recip_rank': 'mrr'}[measure]
      values[name, query] = float(value)
  return values


# (what trec_eval printed, judgements, run, -M, -l, how many values we offer)
@pytest.mark.skipif(
    not TREC_EVAL.exists(), reason='the real data is not here'
)
@pytest.mark.parametrize('out, qrels, run, depth, level, count', [
    ('out.test', 'qrels.test', 'results.test', None, 1, 11),
    ('out.test.a', 'qrels.test', 'results.test', None, 1, 32),
    ('out.test.aq', 'qrels.test', 'results.test', None, 1, 128),
    ('out.test.aqc', 'qrels.test', 'results.trunc', None, 1, 128),
    ('out.test.aqcM', 'qrels.test', 'results.trunc', 100, 1, 128),
    ('out.test.aql', 'qrels.rel_level', 'results.test', None, 2, 128),
    ('out.test.meas_params', 'qrels.test', 'results.test', None, 1, 44),
])
def test_equals_trec_eval(out, qrels, run, depth, level, count):
  expected = printed(TREC_EVAL / out)
  assert len(expected) == count
  rankings = trec.read_run(TREC_EVAL / run)
  scores = evaluate(
      trec.read_qrels(TREC_EVAL / qrels),
      {query: ranking[:depth] for query, ranking in rankings.items()},
      sorted({name for name, _ in expected}),
      level,
  )
  for (name, query), value in expected.items():
    ours = (
        scores.mean[name] if query == 'all' else scores.per_query[name][query]
    )
    assert ours == pytest.approx(value, abs=5.0001e-5), (name, query)


@pytest.mark.skipif(
    not TREC_EVAL.exists(), reason='the real data is not here'
)
def test_one_query_alone_has_the_values_it_has_among_others():
  expected = printed(TREC_EVAL / 'out.test.aq')
  names = sorted({name for name, _ in expected})
  scores = evaluate(
      trec.read_qrels(TREC_EVAL / 'qrels-302.test'),
      trec.read_run(TREC_EVAL / 'results-302.test'),
      names,
  )
  for name in names:
    assert scores.mean[name] == pytest.approx(expected[name, '302'], abs=5.1e-5)


# Without -c, trec_eval averages over the queries of both sides.
def test_mean_is_over_all_judged_queries_and_no_others():
  qrels = {'found': {'a': 1}, 'absent': {'a': 1}, 'empty': {'a': 1},
           'no positive': {'a': 0}, 'no judgement': {}}
  hit = [('a', 1.0)]
  run = {'found': hit, 'empty': [], 'no positive': hit, 'no judgement': hit,
         'not judged': hit}
  scores = evaluate(qrels, run, ALL)
  for name in ALL:
    best = 0.5 if name == 'precision@2' else 1.0
    assert scores.per_query[name] == {
        query: best if query == 'found' else 0.0 for query in qrels
    }
    assert scores.mean[name] == pytest.approx(best / 5)
  both = {query: qrels[query] for query in qrels if query in run}
  assert evaluate(both, run, ['map']).mean['map'] == 0.25


def test_ndcg_gains_are_grades_whatever_the_level():
  run = {'q': [('a', 3.0), ('b', 2.0), ('c', 1.0)]}
  qrels = {'q': {'a': 1, 'b': 3, 'c': -2}}
  expected = (1 + 3 / math.log2(3)) / (3 + 1 / math.log2(3))
  for level in (1, 2):
    scores = evaluate(qrels, run, ['ndcg@3', 'mrr'], level)
    assert scores.mean['ndcg@3'] == pytest.approx(expected)
    assert scores.mean['mrr'] == 1 / level


def test_negative_grades_are_zero_to_trec_eval(monkeypatch):
  """It crashed of -2 now and then, with the whole process."""
  import pytrec_eval

  evaluator = pytrec_eval.RelevanceEvaluator

  def checked(judgements, *rest):
    assert min(min(judged.values()) for judged in judgements.values()) == 0
    return evaluator(judgements, *rest)

  monkeypatch.setattr(pytrec_eval, 'RelevanceEvaluator', checked)
  run = {query: [('b', 2.0), ('a', 1.0)] for query in ('q0', 'q')}
  qrels = {'q0': {'a': 1, 'b': -1}, 'q': {'a': -2}}
  assert evaluate(qrels, run, ['map', 'ndcg@2']).per_query == {
      'map': {'q0': 0.5, 'q': 0},
      'ndcg@2': {'q0': pytest.approx(1 / math.log2(3)), 'q': 0}}


@pytest.mark.parametrize('rank', range(1, 60))
def test_mrr_is_cut_at_k(rank):
  run = {'q': [(f'{i}', -float(i)) for i in range(1, 61)]}
  scores = evaluate(
      {'q': {str(rank): 1}}, run, [f'mrr@{k}' for k in range(1, 60)]
  )
  for k in range(1, 60):
    assert scores.mean[f'mrr@{k}'] == (1 / rank if rank <= k else 0)


def test_equal_scores_go_to_the_larger_id():
  run = {'q': [('p10', 1.0), ('p9', 1.0), ('é', 1.0 + 1e-9)]}
  for passage, rank in (('é', 1), ('p9', 2), ('p10', 3)):
    scores = evaluate({'q': {passage: 1}}, run, ['mrr'])
    assert scores.mean['mrr'] == pytest.approx(1 / rank)


@given(
    st.dictionaries(_IDS, st.integers(-1, 2), min_size=1),
    st.dictionaries(_IDS, st.sampled_from([0.0, 1.0])),
    st.randoms(use_true_random=False),
)
def test_order_of_input_changes_nothing(judged, scored, random):
  pairs = list(scored.items())
  before = evaluate({'q': judged, 'r': judged}, {'q': pairs}, ALL)
  shuffled = random.sample(pairs, len(pairs))
  after = evaluate({'r': judged, 'q': judged}, {'q': shuffled}, ALL)
  assert before == after


@pytest.mark.parametrize('name', [
    'accuracy', 'accuracy@0', 'mrr@', 'map@10', 'P@5', 'recall@1.5', 'ndcg@-1',
    'accuracy@k', 'macro_', 'micro_map', 'macro_macro_map', '',
])
def test_unknown_metric_lists_the_forms(name):
  with pytest.raises(errors.UserError, match=re.escape(repr(name))) as caught:
    evaluate({'q': {'d': 1}}, {}, [name])
  for form in ('accuracy@k', 'recall@k', 'mrr@k', 'mrr', 'ndcg@k', 'map',
               'precision@k'):
    assert form in str(caught.value)


def test_what_needs_judgements_is_left_out_without_them():
  assert evaluate({}, {'q': [('a', 1.0)]}, ['map', 'answer_accuracy@1']) == (
      metrics.Scores({}, {}, {}))
