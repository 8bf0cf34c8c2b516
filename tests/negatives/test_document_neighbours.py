"""Neighbours in the document, against explicit loops; what they cost."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neg_contrast import errors
from neg_contrast.data import examples
from neg_contrast.negatives import document_neighbours as neighbours_lib
from tests import tiny


def nearest(documents, groups, known, row, depth):
  """What `Neighbours.of` gives for a positive, by a loop over the document."""
  if documents[row] < 0:
    return []
  members = [p for p, d in enumerate(documents) if d == documents[row]]
  own = members.index(row)
  ordered = sorted(range(len(members)), key=lambda i: (abs(i - own), i))
  rows, texts = [], set(known)
  for place in ordered:
    group = groups[members[place]]
    if place != own and group not in texts:
      rows.append(members[place])
      texts.add(group)
  return rows[:depth]


@st.composite
def corpora(draw):
  """Documents that are no runs, copies, several positives, own passages."""
  count = draw(st.integers(1, 24))
  some = lambda least, most: draw(st.lists(
      st.integers(least, most), min_size=count, max_size=count))
  texts = np.array(some(0, draw(st.integers(0, count))))
  groups = np.array([np.flatnonzero(texts == t)[0] for t in texts], np.int32)
  judged = draw(st.lists(st.tuples(
      st.integers(0, 3), st.integers(0, count - 1)), min_size=1, max_size=30))
  return (np.array(some(-1, 3), np.int32), groups,
          np.array(sorted(set(judged)), np.int32), draw(st.integers(1, 9)),
          np.array(draw(st.lists(st.integers(-1, count - 1), min_size=4,
                                 max_size=4)), np.int32))


@settings(max_examples=150, deadline=None)
@given(corpora())
def test_they_are_those_of_a_loop_and_no_positive_or_own_passage(corpus):
  documents, groups, pairs, depth, own = corpus
  known = [sorted({int(groups[row]) for query, row in pairs if query == q})
           for q in range(4)]
  made = neighbours_lib.Neighbours(
      documents, groups, tiny.positives(known), own)
  never = [[*known[q], *([int(groups[own[q]])] if own[q] >= 0 else [])]
           for q in range(4)]
  found = made.of(pairs[:, 0], pairs[:, 1], depth)
  assert found.shape == (len(pairs), depth) and found.dtype == np.int32
  for (query, row), rows in zip(pairs, found.tolist(), strict=True):
    there = [other for other in rows if other >= 0]
    assert rows == there + [-1] * (depth - len(there))
    assert there == nearest(documents, groups, never[query], row, depth)
    assert not set(groups[there].tolist()) & set(never[query])
  # Each example's are its own: any part of a batch gives the same.
  np.testing.assert_array_equal(
      made.of(pairs[1:, 0], pairs[1:, 1], depth), found[1:])


def test_it_looks_past_any_number_of_positives(monkeypatch):
  monkeypatch.setattr(neighbours_lib, '_PLACES_AT_ONCE', 40)
  documents, groups = np.zeros(400, np.int32), np.arange(400, dtype=np.int32)
  made = neighbours_lib.Neighbours(
      documents, groups, tiny.positives([range(1, 399), [0]]))
  found = made.of(np.array([0, 0, 1]), np.array([7, 390, 0]), 3)
  assert found.tolist() == [[0, 399, -1], [399, 0, -1], [1, 2, 3]]
  assert made.distances(np.array([7]), found[:1, :2]).tolist() == [[7, 392]]


def test_three_thousand_equal_questions_take_no_table():
  """Of documents with 300 passages, and with two."""
  count = 3000
  groups = np.arange(count, dtype=np.int32)
  for documents in (groups // 300, groups // 2):
    made = neighbours_lib.Neighbours(documents, groups, examples.Positives(
        np.stack([np.zeros(count, np.int32), groups], axis=1), 1))
    tracemalloc.start()
    found = made.of(np.zeros(count, np.int32), groups, 10)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (found == -1).all()
    assert peak < 150e6  # The table of all pairs took 611 MB.


def test_state_is_a_few_bytes_a_passage():
  count = 100_000
  documents = np.repeat(np.arange(count // 5, dtype=np.int32), 5)
  made = neighbours_lib.Neighbours(
      documents, np.arange(count, dtype=np.int32), tiny.positives([[0]]))
  given = '_documents', '_groups'
  assert made.state_bytes == sum(
      value.nbytes for name, value in vars(made).items()
      if isinstance(value, np.ndarray) and name not in given)
  assert made.state_bytes <= count * 9 + count // 5 * 8 + 64


def test_unknown_documents_are_refused_where_all_are():
  assert neighbours_lib.check_documents(np.array([0, -1]), 'here', 'key') == 1
  with pytest.raises(errors.UserError, match='key: .*here.*"coarse".*title'):
    neighbours_lib.check_documents(np.array([-1, -1]), 'here', 'key')
