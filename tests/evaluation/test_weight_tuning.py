"""Weights of fusions: what is tried on the tune split, and what is kept."""

import dataclasses

import numpy as np
import pytest

from neg_contrast.artifacts import artifact
from neg_contrast.evaluation import dense_members, judged, weight_tuning
from neg_contrast.retrieval import (
  bm25_search,
  corpus_vectors,
  hits,
  hybrid,
  search_settings,
)
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.settings import config as config_lib
from tests import corpora
from tests.retrieval import test_retriever, test_text_encoder

PASSAGES = {'p0': 'kite', 'p1': 'kite kite', 'p2': 'ship'}
TUNE = {'q0': {'p0': 1, 'p1': 0}, 'q1': {'p1': 1, 'p0': 0}}
CONFIG = config_lib.EvaluationConfig(depth=3)
RIGHT_AT_Q0 = ((1, 0, -9), (2, 1, -9))
RIGHT_BY_CHANCE = ((0, 3, -9), (0, 0, -9))


@dataclasses.dataclass(frozen=True)
class Member(corpus_vectors.CorpusVectors):
  """A model that gives each query and passage a score.

  Attributes:
    scores: a line for each query.
  """

  scores: tuple[tuple[int, ...], ...]

  def describe(self):
    """Nothing to tell."""
    return ''

  def needs(self):
    """The texts."""
    return {'texts': self.data}

  def read(self):
    """Vectors with these products."""
    return test_retriever.Given(self.scores, np.eye(len(self.scores[0])))


def data_of(folder, tune=None, queries=('kite', 'kite'), **config):
  source = corpora.write_beir(
      folder / 'data', PASSAGES,
      {f'q{n}': text for n, text in enumerate(queries)},
      dev=tune or TUNE, train={'q0': {'p0': 1}})
  data = corpora.data_of(folder, source, tune_split='dev', **config)
  data.build()
  return data


def members_of(folder, data, *members):
  return dense_members.DenseMembers(tuple(
      Member(data, test_text_encoder.settings(), folder / 'vectors', scores)
      for scores in members), test_retriever.settings(), folder / 'vectors')


def make(folder, *members, data=None, depth=3, **config):
  """Weights of members with these scores."""
  data = data or data_of(folder)
  values = {'members': tuple('abc'[:len(members)]), 'weight_steps': 2,
            'candidates': 2, 'hybrid': False, 'hybrid_depth': 3, **config}
  return weight_tuning.Weights(
      config_lib.EnsembleConfig(**values), members_of(folder, data, *members),
      bm25_search.bm25_of(CONFIG, data),
      judged.TuneJudged(data, config_lib.EvaluationConfig(depth=depth)),
      folder)


@pytest.mark.parametrize(('config', 'reads'), [
    ({'members': ('a', 'b')}, True),
    ({'members': ('a', 'b'), 'weights': (0.5, 0.5)}, False),
    ({'members': ('a',)}, False),
    ({'members': ('a',), 'hybrid': True}, True),
    ({'members': ('a', 'b'), 'weights': (0.5, 0.5), 'hybrid': True}, True),
    ({'runs': ('a.trec', 'b.trec'), 'hybrid': False}, False),
])
def test_the_tune_split_is_read_where_something_is_tuned(config, reads):
  config = config_lib.EnsembleConfig(**{'hybrid': False, **config})
  assert weight_tuning.reads_tune_split(config) == reads


def test_an_index_is_chosen_by_the_queries_of_a_split(tmp_path, monkeypatch):
  """Two queries are worth building one, and one is not."""
  for name, value in (('EXACT_BELOW', 0), ('EXACT_PAIR', 1), ('SCANN_SHARD', 4),
                      ('SCANN_PASSAGE', 0), ('SCANN_QUERY', 0),
                      ('SCANN_PAIR', 0)):
    monkeypatch.setattr(search_settings, f'_{name}', value)
  data = data_of(tmp_path)

  def is_exact(made):
    return made.settings()['index'] == 'exact'

  for split, wanted in (('train', True), ('dev', False)):
    assert wanted == is_exact(judged.DenseRanking(
        judged.Judged(data, split, CONFIG), 'dense',
        members_of(tmp_path, data, RIGHT_AT_Q0).vectors[0],
        test_retriever.settings(), tmp_path))
  both = RIGHT_AT_Q0, RIGHT_BY_CHANCE
  assert not is_exact(make(tmp_path, *both, data=data))
  assert is_exact(make(tmp_path, *both, data=data, weights=(0.5, 0.5)))


def test_of_equally_good_weights_the_first_are_taken(tmp_path):
  weights = make(tmp_path, RIGHT_AT_Q0, RIGHT_BY_CHANCE)
  assert not weights.is_made() and weights.contents('any') is None
  weights.build()
  # Halves are right at none; each alone at one, and has the other second.
  assert weights.is_made() and weights.load() == {'fusion_embedding': {
      'weights': [1.0, 0.0], 'queries': 2, 'tried': 3, 'accuracy@1': 0.5,
      'mrr@10': 0.75}}
  assert weights.of('fusion_embedding') == (1.0, 0.0)
  artifact.changed(weights)
  assert weights.contents('fusion_embedding') == {'weights': [1.0, 0.0]}


@pytest.mark.parametrize(('members', 'given', 'want'), [
    (1, (), [1.0]), (2, (0.25, 0.75), [0.25, 0.75]),
])
def test_nothing_is_tried_where_there_is_no_choice(
    tmp_path, members, given, want
):
  weights = make(tmp_path, *[RIGHT_AT_Q0] * members, weights=given)
  weights.build()
  assert weights.load() == {'fusion_embedding': {'weights': want}}


def test_hybrids_are_tuned_with_bm25(tmp_path):
  data = data_of(tmp_path, {'q0': {'p0': 1}})
  # BM25 has p1 before p0, and the member the other way round, by far.
  weights = make(tmp_path, ((1000, 0, 0), (0, 0, 0)), data=data, hybrid=True)
  weights.build()
  found = weights.load()
  assert found['fusion_embedding'] == {'weights': [1.0]}
  reached = {'queries': 1, 'accuracy@1': 1.0, 'mrr@10': 1.0}
  assert found['hybrid'] == {
      'weights': [1.0, 2.0**-4], 'tried': 26, **reached}
  # On one scale halves tie, and then the larger id is the first.
  assert found['hybrid_scores'] == {
      'weights': [0.0, 1.0], 'tried': 3, **reached}


def test_bm25_alone_is_best_where_it_is_right(tmp_path):
  data = data_of(tmp_path, {'q0': {'p1': 1}})
  weights = make(tmp_path, ((1000, 0, 0), (0, 0, 0)), data=data, hybrid=True)
  weights.build()
  assert weights.of('hybrid') == (1.0, 0.0)
  # Halves tie: the larger id is the right one.
  assert weights.of('hybrid_scores') == (0.5, 0.5)


def test_what_is_tried_is_their_identity(tmp_path):
  two = RIGHT_AT_Q0, RIGHT_BY_CHANCE
  data = data_of(tmp_path)
  one = make(tmp_path, *two, data=data).identity
  assert one == make(tmp_path, *two, data=data, hybrid_depth=2).identity
  assert one == make(tmp_path, *two, data=data, rank_k=7.0).identity
  for other in (
      make(tmp_path, *two[::-1], data=data),
      make(tmp_path, *two, data=data, weight_steps=3),
      make(tmp_path, *two, data=data, candidates=3),
      make(tmp_path, *two, data=data, depth=2),
      make(tmp_path, *two, data=data, hybrid=True),
      make(tmp_path, *two, data=data, weights=(0.5, 0.5)),
  ):
    assert other.identity != one
  both = make(tmp_path, *two, data=data, hybrid=True).identity
  assert both != make(tmp_path, *two, data=data, hybrid=True,
                        hybrid_depth=2).identity


def test_judgements_count_only_where_weights_are_tuned(tmp_path):
  data = data_of(tmp_path)
  other = data_of(tmp_path / 'other', {'q0': {'p2': 1}, 'q1': {'p1': 1}})
  for given, is_same in (((), False), ((0.5, 0.5), True)):
    one, two = (
        make(tmp_path, RIGHT_AT_Q0, RIGHT_AT_Q0, data=of, weights=given)
        for of in (data, other))
    assert (one.identity == two.identity) == is_same


def test_rescoring_keeps_what_bm25_says(tmp_path):
  data = data_of(tmp_path)
  given = test_retriever.Given([(1, 2, 3), (4, 5, 6)], np.eye(3))
  retriever = retriever_lib.Retriever(
      test_retriever.settings(), data.load(), given)
  sparse = hits.Hits(np.array([[2, 0, -1], [-1, -1, -1]], np.int32), np.array(
      [[0.5, 0.25, -np.inf], [-np.inf] * 3], np.float32))
  found = hybrid.rescored(
      retriever, sparse, given.query_vecs(np.array([1, 0], np.int32)))
  assert found.rows.tolist() == [[2, 0], [-1, -1]]
  assert found.scores.tolist() == [[[0.5, 6], [0.25, 4]], [[0, 0], [0, 0]]]
