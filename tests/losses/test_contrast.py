"""What positives are up against, by source, against a loop."""

import jax.numpy as jnp
import numpy as np
import pytest

from neg_contrast.losses import contrast
from tests.losses import vector_batches


@pytest.mark.parametrize(('negatives', 'corpus', 'queue'), [
    (0, 0, 0), (2, 0, 0), (0, 3, 2), (2, 0, 4),
])
def test_contrast_by_source_against_a_loop(negatives, corpus, queue):
  vectors, batch = vector_batches.make(
      3, batch=6, negatives=negatives, corpus=corpus, queue=queue)
  forward, sources = batch.forward_mask, batch.negative_sources
  made = vector_batches.scores(vectors, batch, 3.0)
  slopes = np.random.default_rng(1).normal(size=made.scores.shape)
  got = contrast.of_batch(made, jnp.float32(slopes))
  candidates = vector_batches.candidates(vectors)
  dots = np.asarray(vectors.queries) @ candidates.T
  mass = np.where(forward, np.exp(3 * dots), 0)
  mass /= mass.sum(axis=1, keepdims=True)
  positive_mass = np.mean([mass[i, i] for i in range(6)])
  owned = 6 * (1 + negatives)
  shared = {'shared_corpus': range(owned, owned + corpus),
            'shared_queue': range(owned + corpus, owned + corpus + queue)}
  shared = {name: columns for name, columns in shared.items() if columns}
  assert set(got) == {'batch', *vector_batches.SOURCES, *shared}
  for number, name in enumerate(got, -1):
    scores, shares, right, norms = [], 0.0, [], []
    for i in range(6):
      own = range(6 + i * negatives, 6 + (i + 1) * negatives)
      if name == 'batch':
        chosen = [j for j in range(owned) if j != i and j not in own]
      elif name in shared:
        chosen = shared[name]
      else:
        chosen = [own[k] for k in range(negatives) if sources[i, k] == number]
      chosen = [j for j in chosen if forward[i, j]]
      scores += [dots[i, j] for j in chosen]
      norms += [3 * 6 * abs(slopes[i, j]) for j in chosen]
      shares += sum(mass[i, j] for j in chosen) / 6
      if chosen:
        right.append(dots[i, i] > max(dots[i, j] for j in chosen))
    np.testing.assert_allclose(got[name].score, np.mean(scores or [0]),
                               atol=1e-5)
    np.testing.assert_allclose(got[name].mass, shares, atol=1e-5)
    np.testing.assert_allclose(got[name].gradient, np.mean(norms or [0]),
                               rtol=1e-5)
    np.testing.assert_allclose(got[name].accuracy,
                               np.mean(right) if right else 1, rtol=1e-6)
  np.testing.assert_allclose(
      sum(float(kind.mass) for kind in got.values()) + positive_mass, 1,
      atol=1e-5)
