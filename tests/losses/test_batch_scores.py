"""Scores, masks and sources of a batch, against a loop."""

import jax.numpy as jnp
import numpy as np
import pytest

from neg_contrast import scoring
from neg_contrast.losses import batch_scores
from tests.losses import vector_batches


@pytest.mark.parametrize(('negatives', 'corpus', 'queue'), [
    (0, 0, 0), (1, 0, 0), (3, 0, 0), (0, 2, 0), (1, 0, 4), (2, 2, 3),
])
def test_every_candidate_has_a_score_and_a_source(negatives, corpus, queue):
  vectors, batch = vector_batches.make(
      1, negatives=negatives, corpus=corpus, queue=queue)
  made = vector_batches.scores(vectors, batch, 1.7)
  shared = [name for name, count in (
      ('shared_corpus', corpus), ('shared_queue', queue)) if count]
  assert made.names == ('batch', 'bm25', 'context', *shared)
  owned = 5 * (1 + negatives)
  dots = np.asarray(vectors.queries, float) @ vector_batches.candidates(
      vectors).T
  np.testing.assert_allclose(made.scores, 1.7 * dots, rtol=1e-5, atol=1e-5)
  np.testing.assert_allclose(made.positive, 1.7 * np.diag(dots), rtol=1e-5)
  np.testing.assert_array_equal(made.by_row, made.scores[:, :5])
  for i in range(5):
    for j in range(owned + corpus + queue):
      owner = (j if j < 5 else (j - 5) // negatives if j < owned else None)
      own_slot = None if owner is None or j < 5 else (j - 5) % negatives
      assert bool(made.is_positive[i, j]) == (i == j)
      if i == j or not batch.forward_mask[i, j]:
        want = -1
      elif owner is None:
        want = made.names.index(
            'shared_corpus' if j < owned + corpus else 'shared_queue')
      elif owner != i:
        want = 0
      else:
        assert made.own_columns[i, own_slot] == j
        want = 1 + batch.negative_sources[i, own_slot]
      assert made.sources[i, j] == want
      assert bool(made.is_negative[i, j]) == (
          i != j and bool(batch.forward_mask[i, j]))
      assert np.isfinite(made.candidate_scores[i, j]) == (
          bool(batch.forward_mask[i, j]))


def test_any_score_function():
  """Two vectors of a passage, the better of which counts."""
  vectors, batch = vector_batches.make(2, negatives=1, features=6)
  vectors = vectors._replace(queries=vectors.queries[:, :3])
  made = batch_scores.score_batch(
      vectors, batch, jnp.float32(2), scoring.ScoreFunction(passage_vectors=2)
  )
  both = vector_batches.candidates(vectors).reshape(10, 2, 3)
  want = 2 * np.einsum(
      'qd,pvd->qpv', np.asarray(vectors.queries, float), both).max(-1)
  np.testing.assert_allclose(made.scores, want, rtol=1e-5, atol=1e-5)
