"""Random batches of vectors, as losses take them, without an encoder."""

import jax.numpy as jnp
import numpy as np

from neg_contrast.batches import batcher
from neg_contrast.losses import batch_scores, dual_encoder_loss

SOURCES = ('bm25', 'context')


def make(seed, batch=5, negatives=2, features=7, kept=0.7, corpus=0, queue=0):
  """Signed vectors; some candidates masked, some hard negatives missing.

  With so many passages of the corpus and of the queue, which all share.

  Returns:
    `(vectors, batch)`, which fit each other.
  """
  rng = np.random.default_rng(seed)
  queries, positives = rng.normal(size=(2, batch, features))
  hard = rng.normal(size=(batch, negatives, features))
  sources = rng.integers(-1, len(SOURCES), (batch, negatives))
  shared = rng.normal(size=(corpus + queue, features))
  forward = rng.random((batch, batch * (1 + negatives) + len(shared))) < kept
  backward = rng.random((batch, batch)) < kept
  forward[:, batch : batch * (1 + negatives)] &= (sources >= 0).reshape(-1)
  own = np.arange(batch)
  forward[own, own] = backward[own, own] = True
  vectors = dual_encoder_loss.Vectors(
      *(jnp.asarray(a, jnp.float32) for a in (
          queries, positives, hard, shared[:corpus], shared[corpus:]))
  )
  return vectors, of_masks(forward, backward, sources)


def of_masks(forward, backward, sources):
  """A batch of masks and sources alone."""
  return batcher.Batch(
      sequences={}, query_slots=None, positive_slots=None, negative_slots=None,
      negative_sources=np.asarray(sources, np.int32), forward_mask=forward,
      backward_mask=backward,
  )


def scores(vectors, batch, scale=1.0):
  """Dot products of the batch."""
  return batch_scores.score_batch(vectors, batch, scale, sources=SOURCES)


def candidates(vectors):
  """The columns of the scores, as vectors, in float64."""
  hard = np.asarray(vectors.negatives, float)
  return np.concatenate([
      np.asarray(vectors.positives, float), hard.reshape(-1, hard.shape[-1]),
      np.asarray(vectors.corpus, float), np.asarray(vectors.queue, float),
  ])
