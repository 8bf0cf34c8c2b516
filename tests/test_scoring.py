"""Score functions against explicit loops over the vectors of two texts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neg_contrast import scoring

FEATURES = 5
NAMES = ['dual', 'poly-3', 'multi-4', 'som', 'genpoly-3', 'genpoly-1',
         'multi-1', 'poly-1']


def texts(rng, counts, vectors):
  """Rows of vectors side by side, of which so many exist."""
  vecs = rng.normal(size=(len(counts), vectors, FEATURES)).astype(np.float32)
  for line, count in zip(vecs, counts, strict=True):
    line[count:] = 0
  return jnp.asarray(vecs.reshape(len(counts), -1))


def by_loop(name, function, query, passage):
  """Section 4.2, as it stands, on the vectors that exist."""
  kept = lambda vecs, count: [
      v for v in vecs.reshape(-1, FEATURES)[:count] if np.any(v != 0)
  ]
  xs = kept(query, function.query_vectors)
  ys = kept(passage, function.passage_vectors)
  kind = name.split('-')[0]
  if not xs or not ys:
    return 0.0
  if kind == 'dual':
    return float(xs[0] @ ys[0])
  if kind == 'multi':
    return max(float(xs[0] @ y) for y in ys)
  if kind == 'som':
    return sum(max(float(x @ y) for y in ys) for x in xs)
  total = 0.0
  for y in ys:  # poly, genpoly: F_t(y)^T K softmax(K^T F_t(y)).
    products = np.array([float(x @ y) for x in xs], np.float64)
    weights = np.exp(products) / np.exp(products).sum()
    total += float(weights @ products)
  return total


@pytest.mark.parametrize('name', NAMES)
def test_equals_a_loop(name, monkeypatch):
  rng = np.random.default_rng(0)
  function = scoring.named(name, query_length=6, passage_length=7)
  counts = ([3, 1, 6, 0], [7, 2, 4, 1, 0])
  queries = texts(rng, counts[0], function.query_vectors)
  passages = texts(rng, counts[1], function.passage_vectors)
  want = [[by_loop(name, function, q, p) for p in np.asarray(passages)]
          for q in np.asarray(queries)]
  np.testing.assert_allclose(
      function(queries, passages), want, rtol=1e-5, atol=1e-5
  )
  pairs = function.pairs(queries, passages[: len(queries)])
  np.testing.assert_allclose(pairs, np.diag(want), rtol=1e-5, atol=1e-5)
  monkeypatch.setattr(scoring, '_PRODUCTS_AT_ONCE', 200)  # Some at a time.
  np.testing.assert_allclose(
      function(queries, passages), want, rtol=1e-5, atol=1e-5
  )


@pytest.mark.parametrize('name', NAMES)
def test_gradients_equal_differences(name, monkeypatch):
  """And vectors that do not exist get none, nor does anything become nan."""
  rng = np.random.default_rng(1)
  function = scoring.named(name, query_length=4, passage_length=5)
  queries = texts(rng, [3, 4, 0], function.query_vectors)
  passages = texts(rng, [2, 5, 4], function.passage_vectors)
  cotangent = rng.normal(size=(3, 3)).astype(np.float32)

  def total(queries, passages):
    return (function(queries, passages) * cotangent).sum()

  grads = jax.grad(total, (0, 1))(queries, passages)
  monkeypatch.setattr(scoring, '_PRODUCTS_AT_ONCE', 40)
  blocked = jax.grad(total, (0, 1))(queries, passages)
  for number, (values, grad) in enumerate(
      zip((queries, passages), grads, strict=True)
  ):
    np.testing.assert_allclose(grad, blocked[number], rtol=1e-5, atol=1e-6)
    exists = np.repeat(
        (np.asarray(values).reshape(3, -1, FEATURES) != 0).any(-1), FEATURES,
        axis=-1,
    )
    if not function.is_dot:  # Else the one vector there is counts as it is.
      assert np.all(np.asarray(grad)[~exists] == 0)
    direction = exists * rng.normal(size=values.shape).astype(np.float32)
    moved = [
        total(*(queries + step * direction, passages) if number == 0
              else (queries, passages + step * direction))
        for step in (-1e-2, 1e-2)
    ]
    slope = (moved[1] - moved[0]) / 2e-2
    np.testing.assert_allclose(
        slope, (grad * direction).sum(), rtol=3e-2, atol=3e-2
    )


def test_padding_never_wins():
  """Where all real products are negative, zeros would be the best."""
  function = scoring.named('som', 2, 3)
  one = jnp.ones((1, 2, FEATURES))
  passage = jnp.concatenate([-one, 0 * one[:, :1]], axis=1)
  got = function(one.reshape(1, -1), passage.reshape(1, -1))
  assert float(got[0, 0]) == -2 * FEATURES


def test_a_tower_of_both_roles_gives_more_features():
  """Further vectors of a role that needs fewer are left out."""
  rng = np.random.default_rng(2)
  function = scoring.named('multi-3', 8, 8)
  queries, passages = texts(rng, [3], 3), texts(rng, [3, 3], 3)
  np.testing.assert_allclose(
      function(queries, passages),
      function(queries[:, :FEATURES], passages), rtol=1e-6
  )


@pytest.mark.parametrize('name', ['', 'poly', 'som-3', 'multi-0', 'max'])
def test_unknown_names(name):
  with pytest.raises(ValueError, match='choose dual, poly-M'):
    scoring.named(name, 8, 8)
