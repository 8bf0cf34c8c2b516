"""Fusion against loops, against ranx, and against trying everything."""

import itertools
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

os.environ.setdefault('NUMBA_DISABLE_JIT', '1')  # ranx compiles for minutes.

from neg_contrast import errors
from neg_contrast.retrieval import fusion, hits

PASSAGES = 12
RANKS = np.random.default_rng(7).permutation(PASSAGES).astype(np.int32)


def random_hits(seed, queries=3, depth=6):
  """Rankings of some passages, with ties, and not all of equal length."""
  rng = np.random.default_rng(seed)
  scores = rng.integers(-3, 4, (queries, PASSAGES)).astype(np.float32)
  scores[rng.random(scores.shape) < 0.4] = -np.inf
  return hits.top_k(scores, RANKS, depth)


def as_runs(found):
  """Query -> passage -> score, in plain Python."""
  return [
      {int(row): float(score) for row, score in zip(*line, strict=True)
       if row >= 0}
      for line in zip(found.rows, found.scores, strict=True)
  ]


def ranked(scores):
  """Rows of a dict by float32 score and tie rank."""
  return sorted(scores, key=lambda row: (-np.float32(scores[row]), RANKS[row]))


def assert_is(found, expected, depth):
  """Rankings with their scores, query by query."""
  for run, scores in zip(as_runs(found), expected, strict=True):
    best = ranked(scores)[:depth]
    assert list(run) == best
    np.testing.assert_allclose(
        [run[row] for row in best], [scores[row] for row in best], rtol=1e-6,
        atol=1e-6,
    )


def reciprocal(runs, k):
  """By a loop: Σ 1 / (k + rank)."""
  result = {}
  for run in runs:
    for rank, row in enumerate(run, start=1):
      result[row] = result.get(row, 0) + 1 / (k + rank)
  return result


def min_max(run):
  """By a loop."""
  low, high = min(run.values(), default=0), max(run.values(), default=0)
  return {row: (score - low) / (high - low) if high > low else 0
          for row, score in run.items()}


def weighted(runs, weights):
  """By a loop."""
  result = {}
  for run, weight in zip(runs, weights, strict=True):
    for row, score in run.items():
      result[row] = result.get(row, 0) + weight * score
  return result


@given(seed=st.integers(0, 10**6), k=st.sampled_from([1.0, 60.0]),
       depth=st.integers(1, 9))
@settings(max_examples=50, deadline=None)
def test_rank_fusion_is_the_loop(seed, k, depth):
  systems = [random_hits(seed + i, depth=4 + i) for i in range(3)]
  runs = zip(*map(as_runs, systems), strict=True)
  found = fusion.fuse(systems, (1, 1, 1), RANKS, depth,
                      fusion.reciprocal_rank(k))
  assert_is(found, [reciprocal(of_query, k) for of_query in runs], depth)


@given(seed=st.integers(0, 10**6), with_min_max=st.booleans())
@settings(max_examples=50, deadline=None)
def test_score_fusion_is_the_loop(seed, with_min_max):
  systems = [random_hits(seed + i) for i in range(3)]
  weights = (0.5, 0.0, 1.5)
  change = min_max if with_min_max else dict
  expected = [
      weighted([change(run) for run in of_query], weights)
      for of_query in zip(*map(as_runs, systems), strict=True)
  ]
  scale = fusion.min_max if with_min_max else fusion.raw
  found = fusion.fuse(systems, weights, RANKS, 8, scale)
  assert_is(found, expected, 8)


@pytest.mark.parametrize('seed', range(5))
def test_fusions_are_those_of_ranx(seed):
  import ranx

  rng = np.random.default_rng(seed)
  # Without ties: ranx breaks them its own way.
  systems = [hits.top_k(
      rng.permutation(3 * PASSAGES).astype(np.float32).reshape(3, -1), RANKS, 7
  ) for _ in range(3)]
  runs = [ranx.Run({f'q{number}': {str(row): score for row, score in of.items()}
                    for number, of in enumerate(as_runs(found))})
          for found in systems]
  weights = (0.2, 0.3, 0.5)
  for ours, scale, method, norm, params in (
      ((1, 1, 1), fusion.reciprocal_rank(60), 'rrf', None, {'k': 60}),
      (weights, fusion.min_max, 'wsum', 'min-max', {'weights': weights}),
      (weights, fusion.raw, 'wsum', None, {'weights': weights}),
  ):
    found = fusion.fuse(systems, ours, RANKS, PASSAGES, scale)
    theirs = ranx.fuse(runs=runs, norm=norm, method=method, params=params)
    expected = [{int(row): float(score) for row, score in of.items()}
                for of in theirs.to_dict().values()]
    assert_is(found, expected, PASSAGES)


def test_queries_are_fused_in_blocks_alike(monkeypatch):
  systems = [random_hits(seed, queries=7) for seed in (1, 2)]
  whole = fusion.fuse(systems, (1, 2), RANKS, 5, fusion.min_max)
  monkeypatch.setattr(fusion, '_QUERIES_AT_ONCE', 3)
  parts = fusion.fuse(systems, (1, 2), RANKS, 5, fusion.min_max)
  np.testing.assert_array_equal(whole.rows, parts.rows)
  np.testing.assert_array_equal(whole.scores, parts.scores)


def test_one_table_serves_every_weight():
  """As the paper's coefficients √w on both sides, concatenated."""
  rng = np.random.default_rng(0)
  dims, weights = (3, 5, 2), (0.2, 0.7, 0.1)
  queries = [rng.normal(size=(4, d)).astype(np.float32) for d in dims]
  passages = [rng.normal(size=(9, d)).astype(np.float32) for d in dims]
  table = fusion.ConcatenatedTable(passages)
  one_sided = fusion.fuse_queries(queries, weights) @ table[:].T
  roots = np.sqrt(weights)
  two_sided = fusion.fuse_queries(queries, tuple(roots)) @ np.concatenate(
      [r * p for r, p in zip(roots, passages, strict=True)], axis=1
  ).T
  separate = sum(w * q @ p.T for w, q, p in zip(
      weights, queries, passages, strict=True
  ))
  np.testing.assert_allclose(one_sided, two_sided, rtol=1e-5, atol=1e-6)
  np.testing.assert_allclose(one_sided, separate, rtol=1e-5, atol=1e-6)
  assert table.shape == (9, 10) and len(table) == 9
  assert table.nbytes == 9 * 10 * 4
  np.testing.assert_array_equal(table[2:4], table[np.array([2, 3])])
  np.testing.assert_array_equal(table[3], table[:][3])


def test_tables_of_two_corpora_are_refused():
  with pytest.raises(ValueError, match=r'\[3, 4\] passages'):
    fusion.ConcatenatedTable([np.zeros((3, 2)), np.zeros((4, 2))])


def random_candidates(rng, queries, systems, distinct=5):
  """Candidates with ties, padding, and queries without a positive."""
  proposals = [rng.integers(-1, PASSAGES, (queries, 4)) for _ in range(systems)]
  tables = rng.integers(0, distinct, (systems, queries, PASSAGES))
  return fusion.gather(proposals, [
      lambda rows, table=table: np.take_along_axis(
          table.astype(np.float32), np.maximum(rows, 0), axis=1
      ) for table in tables
  ], RANKS), tables


def test_gathered_are_all_that_was_proposed():
  rng = np.random.default_rng(3)
  proposals = [rng.integers(-1, PASSAGES, (6, 5)) for _ in range(2)]
  candidates = fusion.gather(
      proposals, [np.float32, lambda rows: -np.float32(rows)], RANKS,
  )
  for line, rows in enumerate(candidates.rows):
    kept = rows[rows >= 0].tolist()
    wanted = {int(row) for part in proposals for row in part[line] if row >= 0}
    assert kept == sorted(wanted, key=lambda row: RANKS[row])
    assert (rows[len(kept):] == -1).all()
    np.testing.assert_array_equal(candidates.scores[line, :len(kept), 0], kept)
  assert not candidates.scores[candidates.rows < 0].any()


@given(seed=st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_candidates_are_ranked_by_the_weighted_sum(seed):
  rng = np.random.default_rng(seed)
  candidates, tables = random_candidates(rng, 4, 2)
  expected = [
      {int(row): float(0.25 * tables[0][line][row] + 0.5 * tables[1][line][row])
       for row in rows if row >= 0}
      for line, rows in enumerate(candidates.rows)
  ]
  assert_is(candidates.ranked((0.25, 0.5), 5), expected, 5)


@given(seed=st.integers(0, 10**6), systems=st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_tuned_weights_are_the_best_of_all(seed, systems):
  """Every point of the grid by a full ranking; the first of the best."""
  rng = np.random.default_rng(seed)
  candidates, _ = random_candidates(rng, 8, systems)
  is_positive = (rng.random(candidates.rows.shape) < 0.15) & (
      candidates.rows >= 0
  )
  grid = fusion.simplex(systems, 4)
  tried = []
  for weights in grid:
    found = candidates.ranked(tuple(weights), 10)
    first = []
    for line, rows in enumerate(found.rows):
      right = set(candidates.rows[line][is_positive[line]].tolist())
      first.append(next((place for place, row in enumerate(rows, start=1)
                         if row in right), None))
    tried.append((np.mean([f == 1 for f in first]),
                  np.mean([1 / f if f else 0 for f in first])))
  best = max(tried, key=lambda pair: (pair[0], round(pair[1], 9)))
  tuned = fusion.tune(candidates, is_positive, grid)
  number = [tuple(point) for point in grid.tolist()].index(tuned.weights)
  assert (tuned.accuracy, tuned.mrr) == pytest.approx(best)
  assert not any(
      pair == pytest.approx(best) for pair in tried[:number]
  )


def test_simplex_is_every_weighting_once():
  grid = fusion.simplex(3, 10)
  shares = [tuple(np.rint(point * 10).astype(int)) for point in grid]
  wanted = [point for point in itertools.product(range(11), repeat=3)
            if sum(point) == 10]
  assert sorted(shares) == sorted(wanted)
  uneven = [sum((3 * n - 10) ** 2 for n in point) for point in shares]
  assert uneven == sorted(uneven)
  assert shares[0] == (4, 3, 3)
  assert fusion.simplex(1, 10).tolist() == [[1.0]]


def test_too_many_weightings_are_refused():
  with pytest.raises(errors.UserError, match=r'weight_steps=20: 8 members'):
    fusion.simplex(8, 20)


def test_equal_members_get_equal_weights():
  scores = np.random.default_rng(0).random((20, 6)).astype(np.float32)
  candidates = fusion.Candidates(
      np.tile(np.arange(6, dtype=np.int32), (20, 1)),
      np.stack([scores, scores], axis=2),
  )
  is_positive = np.zeros((20, 6), bool)
  is_positive[:, 2] = True
  tuned = fusion.tune(candidates, is_positive, fusion.simplex(2, 10))
  assert tuned.weights == (0.5, 0.5)


@pytest.mark.parametrize('queries, weight', [(0, 1.0), (1, -0.5)])
def test_nothing_to_tune_on(queries, weight):
  candidates = fusion.Candidates(np.zeros((queries, 1), np.int32),
                                 np.zeros((queries, 1, 1), np.float32))
  with pytest.raises(ValueError, match='tuning needs'):
    fusion.tune(candidates, np.ones((queries, 1), bool), np.array([[weight]]))
