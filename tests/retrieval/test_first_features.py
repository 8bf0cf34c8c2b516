"""Narrow vectors are the first features, of length 1 where vectors are."""

import numpy as np
import pytest

from neg_contrast.retrieval import first_features


@pytest.mark.parametrize('normalize', [False, True])
def test_a_table_of_first_features(normalize):
  rng = np.random.default_rng(0)
  vecs = rng.normal(size=(7, 5)).astype(np.float32)
  vecs[3] = 0
  table = first_features.NarrowTable(vecs, 2, normalize)
  want = vecs[:, :2].astype(float)
  if normalize:
    norms = np.linalg.norm(want, axis=1, keepdims=True)
    want = np.where(norms > 0, want / np.where(norms > 0, norms, 1), 0)
  assert table.shape == (7, 2) and len(table) == 7 and table.nbytes == 56
  for rows in (slice(1, 4), 3, np.array([[6, 0], [2, 2]])):
    got = table[rows]
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, want[rows], rtol=1e-6)
  assert first_features.narrow(vecs, 5, False).flags.c_contiguous
