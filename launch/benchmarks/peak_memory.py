"""How much memory a process takes at most; needs the package psutil."""

import threading


class Memory:
  """Peaks of this process's memory, in a thread, above what there was."""

  def __init__(self):
    self._start = self._now()
    self._peak = self._start
    self._stop = threading.Event()
    self._thread = threading.Thread(target=self._watch, daemon=True)
    self._thread.start()

  def end(self) -> dict[str, float]:
    """Bytes of anonymous memory and of file pages."""
    self._stop.set()
    self._thread.join()
    own, mapped = (p - s for p, s in zip(self._peak, self._start, strict=True))
    return {'own': own, 'mapped': mapped}

  def _watch(self) -> None:
    while not self._stop.wait(0.01):
      self._peak = tuple(map(max, self._peak, self._now()))

  def _now(self) -> tuple[int, ...]:
    import psutil

    info = psutil.Process().memory_info()
    return info.rss - info.shared, info.shared
