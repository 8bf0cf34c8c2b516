"""Candidates by single vectors against exact search by the whole score."""

import jax
import numpy as np
import pytest

from neg_contrast import scoring, sharding
from neg_contrast.retrieval import hits, mesh_search, multi_vector
from neg_contrast.settings import config as config_lib
from tests.retrieval import test_embeddings

FEATURES, PASSAGES = 6, 40


def make(rng, texts, vectors):
  """Some texts have fewer vectors than others."""
  vecs = rng.normal(size=(texts, vectors, FEATURES)).astype(np.float32)
  for line, count in zip(vecs, rng.integers(1, vectors + 1, texts),
                         strict=True):
    line[count:] = 0
  return vecs.reshape(texts, -1)


def mesh():
  return sharding.make_mesh(config_lib.MeshConfig(), jax.devices()[:1])


@pytest.mark.parametrize(('name', 'in_files'), [
    ('som', False), ('multi-4', False), ('poly-3', False),
    ('genpoly-3', False), ('som', True), ('multi-4', True)])
def test_finds_what_exact_search_finds(tmp_path, name, in_files):
  """With an exact index of vectors, and all but the deepest of the texts."""
  rng = np.random.default_rng(0)
  score = scoring.named(name, 3, 5)
  passages = make(rng, PASSAGES, score.passage_vectors)
  queries = make(rng, 4, score.query_vectors)
  ranks = rng.permutation(PASSAGES).astype(np.int32)
  kept = (test_embeddings.write(tmp_path / 'table', passages, shard_rows=7)
          if in_files else passages)
  singles = multi_vector.SingleVectors(kept, FEATURES)
  there = passages.reshape(-1, FEATURES)
  there = there[np.any(there, axis=1)]
  assert singles.shape == there.shape
  np.testing.assert_array_equal(singles[:], there)
  np.testing.assert_array_equal(singles[np.array([[3, 1]])], there[[[3, 1]]])
  vectors = mesh_search.MeshSearch(
      singles, np.arange(len(singles), dtype=np.int32), mesh()
  )
  index = multi_vector.CandidateIndex(
      kept, ranks, score, singles, vectors
  )
  want = mesh_search.MeshSearch(passages, ranks, mesh(), score=score).search(
      queries, PASSAGES
  )
  got = index.search(queries, PASSAGES)
  for line in range(len(queries)):
    is_hit = got.rows[line] >= 0
    assert is_hit[:20].all()
    scores = dict(zip(want.rows[line].tolist(), want.scores[line].tolist(),
                      strict=True))
    np.testing.assert_allclose(
        got.scores[line][is_hit],
        [scores[row] for row in got.rows[line][is_hit]], rtol=1e-5, atol=1e-5,
    )
  if name in ('som', 'multi-4'):  # Their best have a vector near the query's.
    shallow = index.search(queries, 5)
    np.testing.assert_array_equal(
        shallow.rows[:, :1], want.rows[:, :1]
    )


def test_is_an_index():
  assert issubclass(multi_vector.CandidateIndex, hits.Index)
