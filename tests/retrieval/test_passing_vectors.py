"""Vectors that are made as they are read."""

import numpy as np
import pytest

from neg_contrast.retrieval import passing_vectors, vector_table

VECS = np.arange(46, dtype=np.float32).reshape(23, 2)


def make():
  """Of blocks of five, and what was encoded so far."""
  spans = []

  def encode(span):
    assert span.start % 5 == 0 and (span.stop % 5 == 0 or span.stop == 23)
    spans.append(span)
    return VECS[span.start : span.stop]

  return passing_vectors.PassingVectors(
      encode, VECS.shape, 5), spans


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


@pytest.mark.parametrize('size', [1, 2, 3, 7, 9])
def test_readers_side_by_side_share_an_edge_at_most(size):
  """Three of them, in turns, as devices read their parts of a corpus."""
  vecs, spans = make()
  edges, read = [0, 8, 16, 23], {}
  for turn in range(8):
    for first, last in zip(edges, edges[1:], strict=False):
      start, stop = (min(first + n * size, last) for n in (turn, turn + 1))
      read[start, stop] = vecs[start:stop]
  for (start, stop), found in read.items():
    np.testing.assert_array_equal(found, VECS[start:stop])
  assert sum(map(len, spans)) <= 23 + 2 * 5  # A block for each edge.
