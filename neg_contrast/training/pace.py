"""How long evaluations take, of a training that has some to come."""

import time
from collections.abc import Callable


class Evaluations:
  """Measures those that are made."""

  def __init__(self):
    """Knows of none."""
    self._seconds: list[float] = []

  def measured(
      self, evaluate: Callable[..., dict[str, float]], *args
  ) -> dict[str, float]:
    """Evaluates, and remembers what it took."""
    began = time.monotonic()
    metrics = evaluate(*args)
    self._seconds.append(time.monotonic() - began)
    return metrics

  @property
  def seconds(self) -> float | None:
    """Mean of one; the first compiles, and counts where it is the only one.

    None: none was made yet.
    """
    known = self._seconds[1:] or self._seconds
    return sum(known) / len(known) if known else None
