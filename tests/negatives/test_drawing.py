"""Draws are uniform, without replacement, and depend on their keys alone."""

import numpy as np
import pytest

from neg_contrast.negatives import drawing


def draw_from(pool, count, seed, step, examples, **kwargs):
  places = drawing.draw_places(pool >= 0, count, seed, step, examples, **kwargs)
  drawn = np.take_along_axis(pool, np.maximum(places, 0), axis=1)
  return np.where(places >= 0, drawn, -1)


def test_pool_draw_is_from_the_pool_without_replacement():
  pool = np.arange(40, dtype=np.int32).reshape(4, 10)
  pool[1, 3:] = -1
  pool[2, 1:] = -1
  drawn = draw_from(pool, 3, 0, 7, np.arange(4))
  for row in range(4):
    real = drawn[row][drawn[row] >= 0]
    assert set(real) <= set(pool[row])
    assert len(set(real)) == len(real) == min(3, (pool[row] >= 0).sum())


@pytest.mark.parametrize('quotas', [(), (1, 2), (0, 5)])
def test_draw_equals_sorting_whole_lines(quotas):
  rng = np.random.default_rng(0)
  usable, sources = rng.random((300, 9)) < 0.5, rng.integers(0, 3, (300, 9))
  keys = drawing._random_bits(3, 4, np.arange(300), 9)
  got = drawing.draw_places(
      usable, 4, 3, 4, np.arange(300), sources, quotas
  )
  for line in range(300):
    left = sorted(np.flatnonzero(usable[line]), key=lambda i: keys[line, i])
    first = [place for number, quota in enumerate(quotas)
             for place in [
                 i for i in left if sources[line, i] == number][:quota]]
    if quotas:
      mixed = drawing._mix(keys[line])
      left = sorted(left, key=lambda i: mixed[i])
    want = sorted(first, key=lambda i: keys[line, i])
    want += [i for i in left if i not in first]
    assert got[line].tolist() == [*want, -1, -1, -1, -1][:4]


def test_pool_smaller_than_count_pads():
  drawn = draw_from(np.array([[5]], np.int32), 3, 0, 0,
                                 np.array([0]))
  np.testing.assert_array_equal(drawn, [[5, -1, -1]])


def test_draw_depends_on_seed_step_and_example_only():
  pool = np.tile(np.arange(50, dtype=np.int32), (3, 1))
  draw = lambda seed, step, examples: draw_from(
      pool[:len(examples)], 5, seed, step, np.array(examples)
  )
  whole = draw(1, 2, [10, 11, 12])
  np.testing.assert_array_equal(draw(1, 2, [12])[0], whole[2])
  for other in (draw(2, 2, [10]), draw(1, 3, [10]), draw(1, 2, [13])):
    assert (other[0] != whole[0]).any()


def test_draw_is_uniform():
  pool = np.tile(np.arange(8, dtype=np.int32), (4000, 1))
  drawn = draw_from(pool, 2, 3, 4, np.arange(4000))
  counts = np.bincount(drawn.reshape(-1), minlength=8)
  # 1000 expected each, standard deviation sqrt(8000 * 1/8 * 7/8) ~ 27.
  assert np.abs(counts - 1000).max() < 5 * 27


def test_corpus_draw_avoids_positives_and_repeats():
  groups = np.array([0, 0, 2, 3, 4, 5], np.int32)  # Rows 0, 1: the same text.
  positives = np.array([[0, -1], [3, 4]], np.int32)
  for step in range(50):
    drawn = drawing.draw_from_corpus(
        6, groups, positives, 2, 0, step, np.array([4, 9])
    ).rows
    assert not set(drawn[0]) & {0, 1}
    assert not set(drawn[1]) & {3, 4}
    for row in drawn:
      assert len(set(row)) == 2


def test_quotas_are_kept_as_far_as_sources_go():
  rows, depth = 3000, 9
  pool = np.tile(np.arange(depth, dtype=np.int32), (rows, 1))
  pool[::2, 3:6] = -1  # Every second line has nothing of source 1.
  sources = np.repeat(np.arange(3), 3)[None].repeat(rows, 0)
  drawn = draw_from(pool, 3, 0, 1, np.arange(rows), sources=sources,
                    quotas=(2, 1, 0))
  of = drawn // 3
  assert (np.sort(of[1::2], axis=1) == [0, 0, 1]).all()
  assert ((of[::2] == 0).sum(axis=1) >= 2).all()
  assert all(len(set(row)) == 3 for row in drawn)
  # Within a source all are as likely; what lacks comes from all others.
  counts = np.bincount(drawn[1::2].reshape(-1), minlength=depth)
  assert np.abs(counts[:3] - 1000).max() < 5 * 19
  assert np.abs(counts[3:6] - 500).max() < 5 * 19
  third = of[::2][:, 2]
  assert 0.15 < (third == 0).mean() < 0.35  # 1 of 4 is left of source 0.


@pytest.mark.parametrize('among', [50, np.array([3, 9, 400, 7, 8], np.int32)])
def test_what_all_share_is_distinct_and_follows_from_seed_and_step(among):
  size = among if isinstance(among, int) else len(among)
  rows = np.arange(size) if isinstance(among, int) else among
  seen = np.zeros(401)
  for step in range(400):
    drawn = drawing.draw_shared(among, 4, 1, step)
    assert drawn.dtype == np.int32 and len(set(drawn)) == 4
    assert np.isin(drawn, rows).all()
    np.testing.assert_array_equal(
        drawn, drawing.draw_shared(among, 4, 1, step))
    seen[drawn] += 1
  # Uniform, within five standard deviations.
  part = 4 / size
  spread = 5 * np.sqrt(400 * part * (1 - part))
  assert np.abs(seen[rows] - 400 * part).max() <= spread
  assert (drawing.draw_shared(among, 4, 2, 0)
          != drawing.draw_shared(among, 4, 1, 0)).any()
  everything = drawing.draw_shared(among, size + 3, 1, 0)
  np.testing.assert_array_equal(np.sort(everything[:size]), np.sort(rows))
  assert (everything[size:] == -1).all()
