"""How long evaluations take, of a training that has some to come."""

import time
from collections.abc import Callable


class Evaluations:
  """Counts those that are left, and measures those that are made."""

  def __init__(self, total_steps: int, follows: Callable[[int], bool]):
    """Takes the schedule: whether a step is followed by an evaluation."""
    self._steps = total_steps
    self._follows = follows
    self._seconds: list[float] = []

  def measured(
      self, evaluate: Callable[..., dict[str, float]], *args
  ) -> dict[str, float]:
    """Evaluates, and remembers what it took."""
    began = time.monotonic()
    metrics = evaluate(*args)
    self._seconds.append(time.monotonic() - began)
    return metrics

  def left(self, step: int) -> int:
    """How many there are from a step on, its own included."""
    return sum(map(self._follows, range(step, self._steps + 1)))

  @property
  def seconds(self) -> float | None:
    """Of one; the first compiles, and counts where it is the only one."""
    known = self._seconds[1:] or self._seconds
    return sum(known) / len(known) if known else None
