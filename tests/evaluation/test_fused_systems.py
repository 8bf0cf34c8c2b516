"""Systems that are made of others, on rankings that are written out."""

import dataclasses

import numpy as np
import pytest

from neg_contrast.artifacts import artifact
from neg_contrast.evaluation import fused_systems, judged, weight_tuning
from neg_contrast.retrieval import hits, searched
from neg_contrast.settings import config as config_lib
from tests.evaluation import test_weight_tuning
from tests.retrieval import test_retriever

NOTHING = -np.inf


@dataclasses.dataclass(frozen=True)
class Fixed(judged.Ranking):
  """A ranking of every query."""

  kind = 'fixed'
  rows: tuple[int, ...] = ()
  scores: tuple[float, ...] = ()

  def read(self):
    """The same for both queries."""
    return searched.Searched(hits.Hits(
        np.array([self.rows] * 2, np.int32),
        np.array([self.scores] * 2, np.float32)))


@dataclasses.dataclass(frozen=True)
class Known(weight_tuning.Weights):
  """Weights that were tuned before."""

  known: tuple[float, ...] = ()

  def read(self):
    """The same for every system."""
    return dict.fromkeys(fused_systems.NAMES, {'weights': list(self.known)})


@pytest.fixture
def queries(tmp_path):
  return judged.Judged(
      test_weight_tuning.data_of(tmp_path), 'dev',
      config_lib.EvaluationConfig(depth=2))


def weights_of(folder, queries, *known):
  members = [test_weight_tuning.RIGHT_AT_Q0, test_weight_tuning.RIGHT_BY_CHANCE]
  made = test_weight_tuning.make(folder, *members, data=queries.data)
  return Known(**{field.name: getattr(made, field.name)
                  for field in dataclasses.fields(made)
                  if field.name != 'place'}, known=known)


@pytest.mark.parametrize(('members', 'runs', 'hybrid', 'names'), [
    (1, 0, False, ()),
    (1, 0, True, ('hybrid', 'hybrid_scores', 'hybrid_ranks')),
    (2, 0, False, ('fusion_embedding', 'fusion_rank')),
    (1, 1, False, ('fusion_rank',)),
    (0, 2, False, ('fusion_rank',)),
    (2, 1, True, fused_systems.NAMES),
])
def test_which_there_are(members, runs, hybrid, names):
  assert fused_systems.names(config_lib.EnsembleConfig(
      members=tuple('ab'[:members]), runs=('r.trec',) * runs, hybrid=hybrid
  )) == names


def test_ranks_below_the_depth_do_not_count(queries):
  one = Fixed(queries, 'one', (2, 0, 1), (9, 8, 7))
  other = Fixed(queries, 'other', (1, 2, 0), (0.3, 0.2, 0.1))
  found = fused_systems.RankFusion(queries, 'fusion_rank', (one, other), 1.0
                                   ).load().found
  # 2: 1/2 + 1/3; 1: 1/2, and not 1/2 + 1/4; 0: 1/3.
  assert found.rows.tolist() == [[2, 1]] * 2
  np.testing.assert_allclose(found.scores, [[5 / 6, 1 / 2]] * 2, rtol=1e-6)


def test_what_is_fused_is_its_identity(queries):
  one = Fixed(queries, 'one', (2, 0), (9, 8))
  two = Fixed(queries, 'two', (1, 2), (9, 8))
  make = lambda *of, k=60.0: fused_systems.RankFusion(
      queries, 'fusion_rank', of, k)
  made = make(one, two)
  assert made.needs() == {
      'texts': queries.data, 'ranking-0': one, 'ranking-1': two}
  assert made.identity != make(one, two, k=1.0).identity
  assert made.identity != make(one).identity


def test_scores_are_brought_to_one_scale(tmp_path, queries):
  sparse = Fixed(queries, 'bm25', (0, 1), (4, 2))
  dense = Fixed(queries, 'dense', (1, 2), (100, 50))
  made = fused_systems.ScoreFusion(
      queries, 'hybrid_scores', sparse, dense,
      weights_of(tmp_path, queries, 0.25, 0.75))
  # The last of each counts as nothing: 0 and 2 have 0.25 and 0.
  found = made.load().found
  assert found.rows.tolist() == [[1, 0]] * 2
  assert found.scores.tolist() == [[0.75, 0.25]] * 2
  assert made.needs().keys() == {'texts', 'bm25', 'dense', 'hybrid_scores'}


def test_only_what_bm25_found_is_ranked_anew(tmp_path, queries):
  sparse = Fixed(queries, 'bm25', (0, 1, -1), (2, 1, NOTHING))
  dense = test_weight_tuning.Member(
      queries.data, test_weight_tuning.test_text_encoder.settings(), tmp_path,
      ((0, 3, 50), (5, 0, 50)))
  made = fused_systems.Rescored(
      queries, 'hybrid', sparse, dense,
      weights_of(tmp_path, queries, 1.0, 2.0), test_retriever.settings())
  found = made.load().found
  assert found.rows.tolist() == [[1, 0], [0, 1]]
  assert found.scores.tolist() == [[7, 2], [12, 1]]


def test_members_are_one_with_their_weights(tmp_path, queries):
  weights = weights_of(tmp_path, queries, 0.25, 0.75)
  made = fused_systems.FusedEmbeddings(weights.members, weights)
  assert made.needs().keys() == {'member-0', 'member-1', 'fusion_embedding'}
  vecs = made.load()
  np.testing.assert_allclose(
      vecs.query_vecs(np.array([0, 1], np.int32)) @ vecs.passage_vecs[:].T,
      0.25 * np.array(test_weight_tuning.RIGHT_AT_Q0)
      + 0.75 * np.array(test_weight_tuning.RIGHT_BY_CHANCE), rtol=1e-6)
  artifact.keep_only(())
  assert made.load() is not vecs
