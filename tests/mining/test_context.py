"""Context negatives of a query: those of its examples, nearest first."""

import numpy as np

from neg_contrast.mining import context
from neg_contrast.negatives import document_neighbours
from tests import tiny


def make_miner(documents, groups, positives, known, asked, depth=3):
  def half(query, row):
    asked.append((query, row))
    return np.array([row, 2, 4] if row != 10 else [-1, -1, -1], np.int32)

  return context.ContextMiner(
      document_neighbours.Neighbours(documents, groups, tiny.positives(known)),
      lambda query: np.array(positives[query], np.int32), half,
      len(documents), depth)


def test_a_query_has_those_of_all_its_examples():
  #                     0  1  2  3  4  5  6   7  8  9  10
  documents = np.array([0, 0, 1, 0, 0, 1, 2, -1, 2, 3, 4], np.int32)
  groups = np.array([0, 1, 2, 3, 0, 5, 6, 7, 6, 9, 10], np.int32)
  positives = {0: [1], 1: [6], 2: [], 3: [1, 5], 4: [6, 9], 5: [10], 6: [1, 9]}
  known = [[1], [6], [7], [1, 5], [6, 9], [10], [1, 9]]
  asked = []
  miner = make_miner(documents, groups, positives, known, asked)
  found = miner.mine(np.arange(7))
  assert found.rows.tolist() == [
      [0, 3, -1],  # Distances 1 and 1; passage 4 has the text of 0.
      [11, -1, -1],  # Row 8 is a copy of the positive: half of it.
      [-1, -1, -1],  # Its document is unknown.
      [0, 2, 3],  # Of both documents, all at distance 1.
      [12, 13, -1],  # Both stand alone.
      [-1, -1, -1],  # Its passage is too short to be halved.
      [14, 0, 3],  # One has neighbours, and the other half a passage.
  ]
  np.testing.assert_array_equal(found.scores[6], [0, -1, -1])
  halves = np.array(miner.halves).reshape(-1, 3)
  assert halves.tolist() == [[6, 2, 4], [6, 2, 4], [9, 2, 4], [9, 2, 4]]
  assert asked == [(1, 6), (4, 6), (4, 9), (5, 10), (6, 9)]


def test_thirty_documents_all_have_their_turn():
  documents = np.repeat(np.arange(30, dtype=np.int32), 3)
  rows = np.arange(90, dtype=np.int32)
  positives = rows[1::3]
  found = make_miner(documents, rows, [positives], [positives], [], 60).mine(
      np.array([0]))
  assert sorted(found.rows[0]) == sorted(set(rows) - set(positives))
