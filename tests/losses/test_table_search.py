"""What a step finds in a table, against a loop over the corpus."""

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import strategies as st

from neg_contrast.losses import table_search


def make_table(vecs, groups, shards, blocks, rows):
  size = shards * blocks * rows
  assert size >= len(vecs)
  padded = np.zeros((size, vecs.shape[1]), np.float32)
  padded[:len(vecs)] = vecs
  names = np.full(size, -1, np.int32)
  names[:len(vecs)] = groups
  return table_search.Table(
      jnp.asarray(padded.reshape(shards, blocks, rows, -1)),
      jnp.asarray(names.reshape(shards, blocks, rows)),
  )


@pytest.mark.parametrize('layout', [
    (1, 1, 30), (1, 6, 5), (4, 2, 4), (3, 3, 3),
])
def test_finds_the_best_that_are_not_excluded(layout):
  rng = np.random.default_rng(0)
  vecs, queries = rng.normal(size=(26, 6)), rng.normal(size=(5, 6))
  groups = np.arange(26)
  groups[[7, 19]] = 3  # Copies of passage 3.
  excluded = np.array([[3, -1], [-1, -1], [0, 25], [3, 4], [25, -1]], np.int32)
  table = make_table(vecs, groups, *layout)
  rows, sources = jax.jit(table_search.nearest, static_argnums=3)(
      jnp.float32(queries), table, jnp.asarray(excluded), 4)
  for i in range(5):
    scores = vecs @ queries[i]
    scores[np.isin(groups, excluded[i])] = -np.inf
    np.testing.assert_array_equal(rows[i], np.argsort(-scores)[:4])
  assert (np.asarray(sources) == 0).all()
  np.testing.assert_allclose(
      table.take(rows), vecs[np.asarray(rows)], rtol=1e-6)


@hypothesis.settings(max_examples=25, deadline=None)
@hypothesis.given(st.integers(0, 2**32 - 1))
def test_never_finds_a_positive_or_a_copy_or_what_is_not_there(seed):
  """Tiny corpora: often there are fewer than wanted."""
  rng = np.random.default_rng(seed)
  count = int(rng.integers(1, 9))
  vecs, queries = rng.normal(size=(count, 3)), rng.normal(size=(2, 3))
  groups = rng.integers(0, 4, count)
  excluded = rng.integers(-1, 4, (2, 2)).astype(np.int32)
  rows, sources = jax.device_get(table_search.nearest(
      jnp.float32(queries), make_table(vecs, groups, 2, 2, 2),
      jnp.asarray(excluded), 5))
  for i in range(2):
    free = np.nonzero(~np.isin(groups, excluded[i]))[0]
    found = rows[i][sources[i] == 0]
    assert len(found) == min(5, len(free))
    assert len(set(found)) == len(found) and set(found) <= set(free)
    assert (np.diff((vecs @ queries[i])[found]) <= 1e-6).all()
    assert (sources[i][len(found):] == -1).all()


def test_no_gradient_goes_through_the_search():
  rng = np.random.default_rng(0)
  table = make_table(rng.normal(size=(8, 3)), np.arange(8), 2, 2, 2)

  def sum_of_found(queries):
    rows, _ = table_search.nearest(
        queries, table, jnp.full((2, 1), -1, jnp.int32), 3)
    return table.take(rows).sum() + queries.sum()

  gradient = jax.grad(sum_of_found)(jnp.float32(rng.normal(size=(2, 3))))
  np.testing.assert_array_equal(gradient, np.ones((2, 3)))
