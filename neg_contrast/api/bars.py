"""Progress of work from Python as bars, in a notebook or a terminal."""

import contextlib
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from absl import logging

from neg_contrast import listeners

_TRAINING = 'training'


@contextlib.contextmanager
def shown() -> Iterator[listeners.Listener]:
  """A listener that draws bars while the block runs.

  It draws nothing where nobody looks (the output is a file or a pipe), and
  where jobs print their log, which says the same (`show_progress`).
  """
  if not _is_looked_at() or logging.get_verbosity() >= logging.INFO:
    yield listeners.Listener()
    return
  bars = Bars()
  try:
    yield bars.listener
  finally:
    bars.close()


class Bars:
  """One bar, of the work that was heard of last."""

  def __init__(self, **options: Any):
    """Draws nothing yet; `options` are tqdm's."""
    self._options = options
    self._name, self._bar = '', None

  @property
  def listener(self) -> listeners.Listener:
    """Draws what it hears."""
    return listeners.Listener(self._step, None, self._progress)

  def close(self) -> None:
    """Leaves the last bar as it is."""
    if self._bar is not None:
      self._bar.close()
    self._name, self._bar = '', None

  def _step(self, step: int, record: Mapping[str, Any]) -> None:
    bar = self._of(_TRAINING, record['total_steps'])
    bar.set_postfix_str(f'loss {record["loss"]:.4f}', refresh=False)
    bar.update(step - bar.n)

  def _progress(self, what: str, done: int, total: int) -> None:
    bar = self._of(what, total)
    bar.update(done - bar.n)

  def _of(self, name: str, total: int) -> Any:
    if self._bar is None:
      from tqdm import auto

      self._bar = auto.tqdm(desc=name, total=total, **self._options)
    elif (name, total) != (self._name, self._bar.total):
      self._bar.reset(total)
      self._bar.set_postfix_str('', refresh=False)
      self._bar.set_description(name)
    self._name = name
    return self._bar


def _is_looked_at() -> bool:
  return 'ipykernel' in sys.modules or sys.stderr.isatty()
