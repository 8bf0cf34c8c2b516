"""The order of several data sets: parts, passes, and random access."""

import numpy as np
import pytest

from neg_contrast.batches import mixture_order


def make_order(is_mixed, seed=3, sizes=(37, 11), weights=(3, 1), batch=6):
  cycle = tuple(map(int, mixture_order.cycle_of(weights)))
  return mixture_order.MixtureOrder(sizes, cycle, batch, seed, is_mixed)


@pytest.mark.parametrize('weights, cycle', [
    ((3, 1), [3, 1]), ((6.0, 2.0), [3, 1]), ((0.7, 0.2, 0.1), [7, 2, 1]),
    ((5,), [1]), ((1, 1, 1), [1, 1, 1]), ((999, 1), [999, 1]),
])
def test_exact_cycles(weights, cycle):
  assert mixture_order.cycle_of(weights).tolist() == cycle


@pytest.mark.parametrize('weights', [
    (np.pi, 1.0), (87_599, 58_880, 400_782), (1.0, 1e-4), (1, 2 ** 0.5, 17.3),
])
def test_other_cycles_are_near(weights):
  cycle = mixture_order.cycle_of(weights)
  assert cycle.sum() <= mixture_order.MOST_DRAWS
  np.testing.assert_allclose(
      cycle / cycle.sum(), np.array(weights) / np.sum(weights), rtol=1e-3)


def test_what_is_too_rare_has_no_draw():
  assert mixture_order.cycle_of((1, 1e-7))[1] == 0


def test_weights_of_sizes():
  sizes = (100, 25)
  of = lambda temperature: (
      mixture_order.weights_of_sizes(sizes, temperature))
  np.testing.assert_allclose(of(1), [100, 25])
  np.testing.assert_allclose(of(2), [10, 5])
  ratio = of(1000)[0] / of(1000)[1]
  assert 1 < ratio < 1.01


@pytest.mark.parametrize('is_mixed', [False, True])
def test_counts_over_hundreds_of_steps(is_mixed):
  order = make_order(is_mixed)
  counts = np.zeros(2, int)
  for step in range(200):
    np.testing.assert_array_equal(order.drawn(step), counts)
    examples = order(step)
    assert len(examples) == 6
    of = (examples >= 37).astype(int)
    assert is_mixed or len(set(of)) == 1
    counts += np.bincount(of, minlength=2)
  assert counts.tolist() == [900, 300]


@pytest.mark.parametrize('is_mixed', [False, True])
def test_each_pass_holds_every_example_once(is_mixed):
  order = make_order(is_mixed)
  drawn = np.concatenate([order(step) for step in range(200)])
  for first, size in ((0, 37), (37, 11)):
    own = drawn[(drawn >= first) & (drawn < first + size)]
    passes = own[:len(own) // size * size].reshape(-1, size)
    assert len(passes) > 10
    for one in passes:
      assert sorted(one) == list(range(first, first + size))
    assert len({tuple(one) for one in passes}) == len(passes)  # Shuffled anew.


@pytest.mark.parametrize('is_mixed', [False, True])
def test_a_function_of_seed_and_step(is_mixed):
  order = make_order(is_mixed)
  first = {step: order(step) for step in (7, 0, 153, 6)}
  again = make_order(is_mixed)
  for step in sorted(first):
    np.testing.assert_array_equal(again(step), first[step])
  other = make_order(is_mixed, seed=4)
  assert any(list(other(step)) != list(first[step]) for step in first)


def test_cycles_are_shuffled():
  order = make_order(False, weights=(5, 5))
  sets = np.array([order(step)[0] >= 37 for step in range(200)])
  assert len({tuple(one) for one in sets.reshape(-1, 2)}) == 2


def test_batches_wider_than_a_cycle_and_narrower():
  for batch in (1, 3, 20):
    order = make_order(True, weights=(7, 2), batch=batch)
    drawn = np.concatenate([order(step) for step in range(30)])
    sets, places = zip(*map(order.places, range(30)), strict=True)
    np.testing.assert_array_equal(
        np.concatenate(sets), (drawn >= 37).astype(int))
    for one in (0, 1):
      own = np.concatenate(places)[np.concatenate(sets) == one]
      np.testing.assert_array_equal(own, np.arange(len(own)))
