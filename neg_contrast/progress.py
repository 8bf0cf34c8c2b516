"""How far long work is, and how long the rest will take."""

import time

from absl import logging

from neg_contrast import listeners


class Ticker:
  """Says, at most every few seconds, how far a long piece of work is."""

  def __init__(
      self, what: str, total: int, every_seconds: float = 5.0, before: int = 0
  ):
    """Starts the clock; what was done `before` counts, but not as speed."""
    self._what, self._total, self._every = what, total, every_seconds
    self._before = before
    self._began = self._said = time.monotonic()

  def __call__(self, done: int) -> None:
    """Reports `done` of the total, what was done before included."""
    listeners.tell_progress(self._what, done, self._total)
    now = time.monotonic()
    if now - self._said < self._every and done < self._total:
      return
    self._said = now
    rate = (done - self._before) / max(now - self._began, 1e-9)
    logging.info(
        '%s: %d/%d  %.0f/s  ETA %s', self._what, done, self._total, rate,
        format_seconds((self._total - done) / max(rate, 1e-9)),
    )


def format_seconds(seconds: float) -> str:
  """Seconds as `h:mm:ss`."""
  hours, rest = divmod(int(seconds + 0.5), 3600)
  return f'{hours}:{rest // 60:02d}:{rest % 60:02d}'
