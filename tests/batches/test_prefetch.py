"""Prefetching: in order, with errors, without a thread left over."""

import threading
import time

import pytest

from neg_contrast.batches import prefetch


def test_prefetch_keeps_order_and_hands_over_errors():
  assert [x for x, _ in prefetch.prefetch(lambda n: n * n, range(5))] == [
      0, 1, 4, 9, 16]

  def fails(n):
    if n == 2:
      raise ValueError('at 2')
    return n

  got = []
  with pytest.raises(ValueError, match='at 2'):
    for item, _ in prefetch.prefetch(fails, range(5)):
      got.append(item)
  assert got == [0, 1]


def test_prefetch_leaves_no_thread_when_closed_early():
  made = prefetch.prefetch(lambda n: n, range(1000))
  next(made)
  made.close()
  time.sleep(0.05)
  assert not [t for t in threading.enumerate() if t.name == 'prefetch']
