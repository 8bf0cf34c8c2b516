"""What positives are up against, by source, against a loop."""

import numpy as np
import pytest

from neg_contrast.losses import batch_softmax, contrast
from tests.losses import test_batch_softmax


@pytest.mark.parametrize('negatives', [0, 2])
def test_contrast_by_source_against_a_loop(negatives):
  q, p, n, forward, backward = test_batch_softmax.random_batch(
      3, batch=6, negatives=negatives)
  sources = np.random.default_rng(1).integers(-1, 2, (6, negatives))
  for i, k in zip(*np.nonzero(sources < 0), strict=True):
    forward[:, 6 + i * negatives + k] = False
  terms = batch_softmax.batch_softmax(q, p, n, 3.0, forward, backward)
  got = contrast.by_source(
      terms.scores, sources.astype(np.int32), 3.0, ('bm25', 'context'))
  candidates = np.concatenate([p, np.asarray(n).reshape(6 * negatives, 7)])
  dots = np.asarray(q) @ candidates.T
  mass = np.where(forward, np.exp(3 * dots), 0)
  mass /= mass.sum(axis=1, keepdims=True)
  positive_mass = np.mean([mass[i, i] for i in range(6)])
  for number, name in ((-1, 'batch'), (0, 'bm25'), (1, 'context')):
    scores, shares, right = [], 0.0, []
    for i in range(6):
      own = range(6 + i * negatives, 6 + (i + 1) * negatives)
      if name == 'batch':
        chosen = [j for j in range(len(candidates)) if j != i and j not in own]
      else:
        chosen = [own[k] for k in range(negatives) if sources[i, k] == number]
      chosen = [j for j in chosen if forward[i, j]]
      scores += [dots[i, j] for j in chosen]
      shares += sum(mass[i, j] for j in chosen) / 6
      if chosen:
        right.append(dots[i, i] > max(dots[i, j] for j in chosen))
    np.testing.assert_allclose(got[name].score, np.mean(scores or [0]),
                               atol=1e-5)
    np.testing.assert_allclose(got[name].mass, shares, atol=1e-5)
    np.testing.assert_allclose(got[name].accuracy,
                               np.mean(right) if right else 1)
  np.testing.assert_allclose(
      sum(float(kind.mass) for kind in got.values()) + positive_mass, 1,
      atol=1e-5)
