"""Draws are uniform, without replacement, and depend on their keys alone."""

import numpy as np

from neg_contrast.negatives import drawing


def test_pool_draw_is_from_the_pool_without_replacement():
  pool = np.arange(40, dtype=np.int32).reshape(4, 10)
  pool[1, 3:] = -1
  pool[2, 1:] = -1
  drawn = drawing.draw_from_pool(pool, 3, 0, 7, np.arange(4))
  for row in range(4):
    real = drawn[row][drawn[row] >= 0]
    assert set(real) <= set(pool[row])
    assert len(set(real)) == len(real) == min(3, (pool[row] >= 0).sum())


def test_pool_smaller_than_count_pads():
  drawn = drawing.draw_from_pool(np.array([[5]], np.int32), 3, 0, 0,
                                 np.array([0]))
  np.testing.assert_array_equal(drawn, [[5, -1, -1]])


def test_draw_depends_on_seed_step_and_example_only():
  pool = np.tile(np.arange(50, dtype=np.int32), (3, 1))
  draw = lambda seed, step, examples: drawing.draw_from_pool(
      pool[:len(examples)], 5, seed, step, np.array(examples)
  )
  whole = draw(1, 2, [10, 11, 12])
  np.testing.assert_array_equal(draw(1, 2, [12])[0], whole[2])
  for other in (draw(2, 2, [10]), draw(1, 3, [10]), draw(1, 2, [13])):
    assert (other[0] != whole[0]).any()


def test_draw_is_uniform():
  pool = np.tile(np.arange(8, dtype=np.int32), (4000, 1))
  drawn = drawing.draw_from_pool(pool, 2, 3, 4, np.arange(4000))
  counts = np.bincount(drawn.reshape(-1), minlength=8)
  # 1000 expected each, standard deviation sqrt(8000 * 1/8 * 7/8) ~ 27.
  assert np.abs(counts - 1000).max() < 5 * 27


def test_corpus_draw_avoids_positives_and_repeats():
  groups = np.array([0, 0, 2, 3, 4, 5], np.int32)  # Rows 0, 1: the same text.
  positives = np.array([[0, -1], [3, 4]], np.int32)
  for step in range(50):
    drawn = drawing.draw_from_corpus(
        6, groups, positives, 2, 0, step, np.array([4, 9])
    )
    assert not set(drawn[0]) & {0, 1}
    assert not set(drawn[1]) & {3, 4}
    for row in drawn:
      assert len(set(row)) == 2
