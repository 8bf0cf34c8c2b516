"""Matryoshka: the mean of a loss over widths, by hand and against torch."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from neg_contrast import errors, scoring
from neg_contrast.losses import loss_table, matryoshka
from neg_contrast.settings import config as config_lib
from tests.losses import vector_batches

KINDS = ['softmax', 'triplet', 'hinge', 'bce', 'lambdarank']


def make(kind, **options):
  return loss_table.make(config_lib.LossConfig(
      kind=kind, bidirectional=kind == 'softmax', **options))


@pytest.mark.parametrize('normalize', [False, True])
@pytest.mark.parametrize('kind', KINDS)
def test_it_is_the_mean_of_the_losses_of_narrower_vectors(kind, normalize):
  vectors, batch = vector_batches.make(2)
  loss = make(kind)
  scale = jnp.float32(3.0)
  of = lambda vectors: loss(
      vectors, batch, scale, scoring.DUAL, vector_batches.SOURCES)
  value, metrics = matryoshka.mean_over((2, 3), normalize, of, vectors)
  parts = [float(of(vectors)[0])]
  for dim in (2, 3):
    cut = [np.array(a, np.float64)[..., :dim] for a in vectors]
    if normalize:
      cut = [a / np.linalg.norm(a, axis=-1, keepdims=True) for a in cut]
    parts.append(float(of(type(vectors)(
        *(jnp.asarray(a, jnp.float32) for a in cut)))[0]))
  assert float(value) == pytest.approx(np.mean(parts), rel=1e-5)
  assert [float(metrics[f'loss_{name}']) for name in ('all', 2, 3)] == (
      pytest.approx(parts, rel=1e-5))
  assert float(metrics['accuracy']) == float(of(vectors)[1]['accuracy'])
  plain, same = matryoshka.mean_over((), normalize, of, vectors)
  assert float(plain) == parts[0] and 'loss_all' not in same


def test_gradients_equal_those_of_torch():
  """Of the softmax over a batch, of vectors of length 1."""
  rng = np.random.default_rng(0)
  queries, positives = rng.normal(size=(2, 5, 6)).astype(np.float32)
  vectors, _ = vector_batches.make(1)
  vectors = vectors._replace(
      queries=jnp.asarray(queries), positives=jnp.asarray(positives),
      negatives=jnp.zeros((5, 0, 6)), corpus=jnp.zeros((0, 6)),
      queue=jnp.zeros((0, 6)))
  batch = vector_batches.of_masks(
      np.ones((5, 5), bool), np.ones((5, 5), bool), np.zeros((5, 0)))
  loss = make('softmax')

  def by_jax(queries):
    return matryoshka.mean_over(
        (2, 4), True, lambda vectors: loss(
            vectors, batch, jnp.float32(7.0), scoring.DUAL, ()),
        vectors._replace(queries=queries))[0]

  q, p = torch.tensor(queries, requires_grad=True), torch.tensor(positives)
  total: Any = 0
  for dim in (2, 4, 6):
    cut = lambda a, dim=dim: (
        torch.nn.functional.normalize(a[:, :dim], dim=1) if dim < 6
        else a)
    scores = 7.0 * cut(q) @ cut(p).T
    own = torch.arange(5)
    total = total + (torch.nn.functional.cross_entropy(scores, own)
                     + torch.nn.functional.cross_entropy(scores.T, own)) / 2
  (total / 3).backward()
  value, gradient = jax.value_and_grad(by_jax)(jnp.asarray(queries))
  assert float(value) == pytest.approx(float(total / 3), rel=1e-5)
  np.testing.assert_allclose(gradient, q.grad.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize('dims', [(4, 2), (2, 2), (0, 3)])
def test_widths_are_ascending(dims):
  with pytest.raises(errors.UserError, match='config.loss.matryoshka'):
    config_lib.LossConfig(matryoshka=dims)
