import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from neg_contrast.retrieval import hits

# Few values, so that most lines have ties, often at the boundary.
_SCORES = st.sampled_from([-np.inf, -2.5, -0.0, 0.0, 1.0, 1.5])


def brute_force(scores, ranks, k):
  """(score descending, rank ascending) by Python's sort."""
  order = sorted(range(len(scores)), key=lambda i: (-scores[i], ranks[i]))
  best = [i for i in order if scores[i] > -np.inf][:k]
  padding = k - len(best)
  return (
      best + [-1] * padding,
      [scores[i] for i in best] + [-np.inf] * padding,
  )


@given(
    hnp.arrays(np.float32, st.tuples(
        st.integers(1, 3), st.integers(0, 12)), elements=_SCORES),
    st.integers(1, 15),
    st.randoms(use_true_random=False),
)
def test_top_k_equals_a_sort_ties_at_the_boundary_too(scores, k, random):
  ranks = np.arange(scores.shape[1], dtype=np.int32)
  random.shuffle(ranks)
  found = hits.top_k(scores, ranks, k)
  assert found.rows.dtype == np.int32
  assert found.scores.dtype == np.float32
  for i, line in enumerate(scores.tolist()):
    rows, values = brute_force(line, ranks.tolist(), k)
    assert found.rows[i].tolist() == rows
    assert found.scores[i].tolist() == values


@given(st.permutations(range(9)))
def test_order_of_passages_changes_no_id(order):
  ids = np.array([f'p{i}' for i in range(9)])
  scores = np.array([3, 1, 1, 1, 2, 1, 1, 0, 3], np.float32)

  def best_ids(order):
    found = hits.top_k(scores[order], hits.tie_ranks(ids[order].tolist()), 5)
    return ids[order][found.rows].tolist()

  assert best_ids(np.array(order)) == ['p8', 'p0', 'p4', 'p6', 'p5']


def test_leading_axes_and_ranks_of_each_line():
  scores = np.zeros((2, 3, 4), np.float32)
  rng = np.random.default_rng(0)
  ranks = rng.permuted(np.tile(np.arange(4, dtype=np.int32), (2, 3, 1)), axis=2)
  found = hits.top_k(scores, ranks, 4)
  expected = np.argsort(ranks)
  assert found.rows.shape == (2, 3, 4)
  np.testing.assert_array_equal(found.rows, expected)
  one_line = hits.top_k(scores[1, 2], ranks[1, 2], 4)
  np.testing.assert_array_equal(one_line.rows, expected[1, 2])


def test_tie_ranks_follow_the_bytes_descending():
  ids = ['a10', 'a9', 'é', 'z', 'Z', '\U0001f600', '\uffff', 'a']
  by_bytes = sorted(ids, key=lambda passage: passage.encode(), reverse=True)
  ranks = hits.tie_ranks(ids)
  assert ranks.dtype == np.int32
  assert [by_bytes[rank] for rank in ranks] == ids


def test_nan_is_refused():
  with pytest.raises(ValueError, match='NaN'):
    hits.top_k(np.array([[1, np.nan]], np.float32), hits.tie_ranks('ab'), 1)


def test_k_below_one_is_refused():
  with pytest.raises(ValueError, match='at least 1'):
    hits.top_k(np.zeros((1, 2), np.float32), hits.tie_ranks('ab'), 0)


def test_recall_counts_what_was_found():
  def rows(*lines):
    rows = np.array(lines, np.int32)
    scores = np.where(rows < 0, -np.inf, 9 - rows)  # 0 is the best passage.
    return hits.Hits(rows, scores.astype(np.float32))

  found = rows([0, 5, 6, -1], [0, 1, 2, 3], [-1] * 4, [5, 6, 7, 8])
  best = rows([0, 1, -1, -1], [0, 1, 2, 3], [-1] * 4, [1, 2, 3, 4])
  assert hits.recall(found, best) == pytest.approx((0.5 + 1 + 0) / 3)


def test_recall_takes_a_copy_for_the_last_passage():
  scores = np.array([[3, 1]], np.float32)
  best = hits.Hits(np.array([[7, 8]], np.int32), scores)
  found = hits.Hits(np.array([[7, 9]], np.int32), scores)
  assert hits.recall(found, best) == 1
  worse = hits.Hits(found.rows, scores - np.float32([0, 0.5]))
  assert hits.recall(worse, best) == 0.5
