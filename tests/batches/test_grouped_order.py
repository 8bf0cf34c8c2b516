"""Examples of one group stand together, and each comes once a pass."""

import itertools

import numpy as np
import pytest

from neg_contrast.batches import grouped_order, mixture_order

SIZES = (1, 2, 3, 8, 9, 17, 40)


def make_order(documents=None, together=8, batch=6, seed=3):
  if documents is None:
    documents = np.random.default_rng(0).permutation(
        np.repeat(np.arange(len(SIZES)), SIZES))
  return grouped_order.GroupedOrder(
      documents, np.arange(len(documents)), together, batch, seed), documents


def taken(order, steps):
  return np.concatenate([order(step) for step in range(steps)])


@pytest.mark.parametrize('together', [1, 2, 8, 100])
@pytest.mark.parametrize('batch', [2, 6, 90, 200])
def test_each_comes_once_before_any_comes_again(together, batch):
  order, documents = make_order(together=together, batch=batch)
  count = len(documents)
  numbers = taken(order, -(-3 * count // batch))
  for number in range(3):
    one = numbers[number * count : (number + 1) * count]
    assert sorted(one) == list(range(count))


@pytest.mark.parametrize('together', [2, 8, 100])
def test_those_of_one_document_come_together(together):
  order, documents = make_order(together=together, batch=1)
  runs = [(name, len(list(some))) for name, some in itertools.groupby(
      documents[taken(order, len(documents))])]
  parts = sum(-(-size // together) for size in SIZES)
  assert len(runs) <= parts  # Parts of one document may meet.
  for name, size in enumerate(SIZES):
    lengths = [length for of, length in runs if of == name]
    assert sum(lengths) == size
    assert len(lengths) <= -(-size // together)


def test_parts_are_of_about_one_size():
  order, _ = make_order(np.zeros(9, int), together=8, batch=9)
  # Nine in parts of at most eight are five and four; which, nobody sees, as
  # they are of one document; so beside another one.
  documents = np.repeat([0, 1], [9, 30])
  seen = set()
  for seed in range(40):
    order, _ = make_order(documents, together=8, batch=39, seed=seed)
    seen |= {len(list(some)) for name, some in itertools.groupby(
        documents[order(0)]) if name == 0}
  assert seen == {4, 5, 9}


def test_those_of_one_positive_go_to_different_parts():
  """Of three passages with four questions each, in parts of three."""
  groups = np.repeat(np.arange(5), 12)
  alike = np.repeat(np.arange(15), 4)
  for seed in range(5):
    order = grouped_order.GroupedOrder(groups, alike, 3, 60, seed)(0)
    parts = alike[order].reshape(-1, 3)
    assert all(len(set(part)) == 3 for part in parts.tolist())
    assert len({tuple(part) for part in parts.tolist()}) > 5  # In any order.


def test_more_of_one_positive_than_parts_still_come_once():
  groups, alike = np.zeros(13, int), np.array([4] * 11 + [5, 6])
  order = grouped_order.GroupedOrder(groups, alike, 4, 13, 0)
  assert sorted(order(0)) == sorted(order(1)) == list(range(13))


def test_without_documents_each_is_its_own():
  order, _ = make_order(np.full(12, -1), batch=12)
  first, second = order(0), order(1)
  assert sorted(first) == sorted(second) == list(range(12))
  assert first.tolist() not in (second.tolist(), list(range(12)))


def test_seed_and_step_alone_count():
  steps = [7, 0, 31, 7, 2]
  order, other = make_order()[0], make_order()[0]
  for step in reversed(range(40)):
    other(step)
  for step in steps:
    np.testing.assert_array_equal(order(step), other(step))
  assert order(0).tolist() != make_order(seed=4)[0](0).tolist()


def test_passes_differ():
  order, documents = make_order(batch=80)
  assert len(documents) == 80
  assert order(0).tolist() != order(1).tolist()


@pytest.mark.parametrize('is_mixed', [False, True])
def test_in_a_mixture_a_set_comes_as_it_does_alone(is_mixed):
  alone, documents = make_order()
  first = 11
  mixture = mixture_order.MixtureOrder(
      (first, len(documents)), (1, 3), 6, 5, is_mixed, (None, alone))
  numbers = np.concatenate([mixture(step) for step in range(40)])
  own = numbers[numbers >= first] - first
  assert 100 < len(own) < len(numbers)
  np.testing.assert_array_equal(own, taken(alone, 40)[:len(own)])
  shuffled = mixture_order.MixtureOrder(
      (first, len(documents)), (1, 3), 6, 5, is_mixed)
  others = np.concatenate([shuffled(step) for step in range(40)])
  np.testing.assert_array_equal(
      numbers[numbers < first], others[others < first])
