"""Vectors that are made as they are read."""

import numpy as np
import pytest

from neg_contrast.retrieval import passing_vectors, vector_table

VECS = np.arange(46, dtype=np.float32).reshape(23, 2)


def make(kept_blocks=2):
  """Of blocks of five, and what was encoded so far."""
  spans = []

  def encode(span):
    assert span.start % 5 == 0 and (span.stop % 5 == 0 or span.stop == 23)
    spans.append(span)
    return VECS[span.start : span.stop]

  return passing_vectors.PassingVectors(
      encode, VECS.shape, 5, kept_blocks), spans


@pytest.mark.parametrize('size', [3, 5, 7, 10, 23])
def test_any_parts_are_the_whole(size):
  vecs, spans = make()
  assert isinstance(vecs, vector_table.Rows)
  assert (len(vecs), vecs.shape, vecs.nbytes) == (23, (23, 2), VECS.nbytes)
  read = [vector_table.read(vecs, range(start, min(start + size, 23)))
          for start in range(0, 23, size)]
  np.testing.assert_array_equal(np.concatenate(read), VECS)
  assert sum(map(len, spans)) == 23  # Each is encoded once.


def test_whole_blocks_are_not_kept():
  vecs, spans = make()
  for _ in range(2):
    np.testing.assert_array_equal(vecs[5:15], VECS[5:15])
  assert spans == [range(5, 15)] * 2


def test_readers_side_by_side_have_a_block_each():
  vecs, spans = make(kept_blocks=3)
  for at in (0, 2, 4):
    for first in (0, 10):
      np.testing.assert_array_equal(
          vecs[first + at : first + at + 2], VECS[first + at : first + at + 2])
  assert sorted({span.start for span in spans}) == [0, 5, 10, 15]
  assert len(spans) == 4
