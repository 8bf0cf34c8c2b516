"""Shards propose candidates of the whole corpus together."""

import numpy as np

from neg_contrast.retrieval import quantized_shard


class Toy(quantized_shard.Shard):
  """Knows the scores of its rows; finds none of the last."""

  def __init__(self, first, scores):
    super().__init__(first, first + len(scores))
    self._scores = np.array(scores, np.float32)

  def use_threads(self, count):
    pass

  def best(self, queries, leaves, count):
    assert (leaves, count) <= (1, self.rows)
    rows = np.argsort(-self._scores)[:count].astype(np.int32)
    scores = self._scores[rows]
    lost = rows == self.rows - 1
    rows[lost], scores[lost] = -1, -np.inf
    return tuple(np.tile(x, (len(queries), 1)) for x in (rows, scores))

  def write(self, folder):
    pass


def test_no_shards_propose_nothing():
  rows, scores = quantized_shard.propose([], np.ones((3, 4), np.float32), 1, 5)
  assert rows.shape == scores.shape == (3, 0)


def test_they_are_ranked_together():
  shards = [Toy(0, [3, 1, 9]), Toy(3, [2, 5]), Toy(5, [4, 0, 6, 7])]
  rows, scores = quantized_shard.propose(
      shards, np.ones((2, 4), np.float32), 3, 4)
  assert rows.tolist() == [[7, 5, 0, 3]] * 2
  assert scores.tolist() == [[6, 4, 3, 2]] * 2
  rows, _ = quantized_shard.propose(
      shards[:1], np.ones((1, 4), np.float32), 1, 3)
  assert rows.tolist() == [[-1, 0, 1]]
