"""How far long work is, and how long the rest will take.

On a terminal one line says it, again and again; elsewhere lines do, fewer the
longer it takes.
"""

import collections
import contextlib
import threading
import time
from collections.abc import Iterator, Sequence

from absl import logging

from neg_contrast import listeners, terminal

_EVERY_SECONDS = 5.0
_MOST_OFTEN = 0.1  # Of the time since the beginning.
_BAR = 10


class Plan:
  """The parts of a plan that are to be made, and what they take.

  What a part takes is expected of the mean of its kind: nothing is known of a
  kind that was not made yet.
  """

  def __init__(self):
    """Knows of no part."""
    self._left: list[tuple[str, str]] = []
    self._total = self._number = 0
    self._seconds: dict[str, list[float]] = collections.defaultdict(list)
    self._began = 0.0

  def expect(self, parts: Sequence[tuple[str, str]]) -> None:
    """Begins a plan: (title, kind) of what is to be made, in order."""
    self._left, self._total, self._number = list(parts), len(parts), 0

  def begin(self, title: str, kind: str) -> None:
    """Goes on to a part, which need not have been expected."""
    if (title, kind) in self._left:
      self._left.remove((title, kind))
    self._number += 1
    self._total = max(self._total, self._number + len(self._left))
    self._began = time.monotonic()
    show(terminal.styled(title, terminal.BOLD))

  def end(self, title: str, kind: str) -> None:
    """Logs that a part is made."""
    seconds = time.monotonic() - self._began
    self._seconds[kind].append(seconds)
    terminal.LIVE.forget()
    logging.info('%s%s: done in %s', self.place, title, format_seconds(seconds))

  def skip(self, title: str, kind: str) -> None:
    """Expects a part no more: it was found to be made."""
    if (title, kind) in self._left:
      self._left.remove((title, kind))
      self._total -= 1

  def leave(self) -> None:
    """Ends a plan, or leaves it when a part failed."""
    self.expect([])
    self._seconds.clear()
    terminal.LIVE.forget()

  @property
  def place(self) -> str:
    """`[3/9] `, or nothing outside of a plan."""
    return f'[{self._number}/{self._total}] ' if self._number else ''

  def eta(self, seconds: float, unmeasured: str = '') -> str:
    """When this part is over, and when all of the plan is.

    Args:
      seconds: what is left of this part.
      unmeasured: what else this part does, of which nothing is known.
    """
    told = f'ETA {format_seconds(seconds)}'
    told += f' + {unmeasured}' if unmeasured else ''
    if not self._left:
      return told
    known = [self._seconds[kind] for _, kind in self._left
             if self._seconds.get(kind)]
    later = sum(sum(times) / len(times) for times in known)
    unknown = len(self._left) - len(known)
    if not known:
      return f'{told}, then {_parts(len(self._left))}'
    return ' + '.join(filter(None, (
        f'{told}, plan {format_seconds(seconds + later)}', unmeasured,
        _parts(unknown) if unknown else '',
    )))


PLAN = Plan()


def _parts(number: int) -> str:
  return f'{number} more step{"" if number == 1 else "s"}'


def show(text: str) -> bool:
  """Shows a live line; False: there is no terminal for one."""
  if terminal.LIVE.is_on:
    terminal.LIVE.show(PLAN.place + text)
  return terminal.LIVE.is_on


@contextlib.contextmanager
def busy(what: str, is_logged: bool = True) -> Iterator[None]:
  """Says that something takes its time; on a terminal with the seconds so far.

  Args:
    what: such as `compiling the training step`.
    is_logged: whether it is said where there is no terminal, too.
  """
  if not terminal.LIVE.is_on:
    if is_logged:
      logging.info('%s%s ...', PLAN.place, what)
    yield
    return
  over, began = threading.Event(), time.monotonic()

  def tell() -> None:
    while not over.is_set():
      seconds = time.monotonic() - began
      show(f'{what} ... {format_seconds(seconds)}')
      over.wait(1.0)

  teller = threading.Thread(target=tell, daemon=True)
  teller.start()
  try:
    yield
  finally:
    over.set()
    teller.join()


class Ticker:
  """Says how far a long piece of work is."""

  def __init__(
      self, what: str, total: int, every_seconds: float = _EVERY_SECONDS,
      before: int = 0,
  ):
    """Starts the clock; what was done `before` counts, but not as speed."""
    self._what, self._total, self._every = what, total, every_seconds
    self._before = before
    self._began = self._said = time.monotonic()
    show(f'{what}: {before:,}/{total:,}')

  def __call__(self, done: int) -> None:
    """Reports `done` of the total, what was done before included."""
    listeners.tell_progress(self._what, done, self._total)
    now = time.monotonic()
    spent = now - self._began
    is_due = (spent >= self._every if done >= self._total else
              now - self._said >= max(self._every, _MOST_OFTEN * spent))
    if not (is_due or terminal.LIVE.is_on):
      return
    rate = (done - self._before) / max(spent, 1e-9)
    eta = PLAN.eta((self._total - done) / max(rate, 1e-9))
    if show(f'{self._what} {bar(done, self._total)} {done:,}/{self._total:,}  '
            f'{_rate(rate)}  {eta}'):
      return
    self._said = now
    logging.info(
        '%s%s: %d/%d  %s  %s', PLAN.place, self._what, done, self._total,
        _rate(rate), eta,
    )


def bar(done: int, total: int) -> str:
  """A bar and a percentage."""
  part = min(1.0, done / total) if total else 1.0
  full = int(part * _BAR)
  return f'{"━" * full}{"╌" * (_BAR - full)} {part:4.0%}'


def _rate(rate: float) -> str:
  if rate < 0.1:
    return f'{60 * rate:.1f}/min'
  return f'{rate:.0f}/s' if rate >= 10 else f'{rate:.1f}/s'


def format_seconds(seconds: float) -> str:
  """Seconds as `h:mm:ss`."""
  hours, rest = divmod(int(seconds + 0.5), 3600)
  return f'{hours}:{rest // 60:02d}:{rest % 60:02d}'
