"""Makes the next items in a thread while the device works on the last."""

import queue
import threading
import time
from collections.abc import Callable, Generator, Iterable
from typing import TypeVar

Item = TypeVar('Item')

_END = object()


def prefetch(
    make: Callable[[int], Item], numbers: Iterable[int], depth: int = 2
) -> Generator[tuple[Item, float], None, None]:
  """Yields `make(n)` for each number, with the seconds spent waiting for it.

  Args:
    make: called in one background thread, in order.
    numbers: its arguments.
    depth: items made ahead.

  Raises:
    Exception: whatever `make` raised, where its item would have come.
  """
  items: queue.Queue = queue.Queue(maxsize=depth)
  stopped = threading.Event()

  def put(item) -> bool:
    while not stopped.is_set():
      try:
        items.put(item, timeout=0.1)
        return True
      except queue.Full:
        continue
    return False

  def work():
    try:
      for number in numbers:
        if not put((make(number), None)):
          return
    except BaseException as error:  # Handed to the consumer.
      put((None, error))
    else:
      put((_END, None))

  thread = threading.Thread(target=work, daemon=True, name='prefetch')
  thread.start()
  try:
    while True:
      began = time.monotonic()
      item, error = items.get()
      if error is not None:
        raise error
      if item is _END:
        return
      yield item, time.monotonic() - began
  finally:
    stopped.set()
    thread.join()
