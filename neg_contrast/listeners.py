"""Callbacks that hear how far work is, for programs that use the package.

Long work says so in two places: `progress.Ticker`, and the log of a training.
They tell whoever listens at the time; what a callback raises ends the work,
which the same call goes on with.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

OnStep = Callable[[int, Mapping[str, Any]], None]
OnEvaluation = Callable[[int, Mapping[str, float]], None]
OnProgress = Callable[[str, int, int], None]


@dataclasses.dataclass(frozen=True)
class Listener:
  """Callbacks; None: it does not want to hear of that.

  Attributes:
    on_step: (number of a training step, its record: `loss`, `learning_rate`,
      `queries_per_second`, `total_steps` ...); called some steps late, when
      they are logged.
    on_evaluation: (step, metrics of the tune split).
    on_progress: (name of the work, done, total); at the work's own pace, many
      times a second where pieces are small.
  """

  on_step: OnStep | None = None
  on_evaluation: OnEvaluation | None = None
  on_progress: OnProgress | None = None


_listening: list[Listener] = []


@contextlib.contextmanager
def listening(*listeners: Listener) -> Iterator[None]:
  """What runs inside tells these, and those outside."""
  _listening.extend(listeners)
  try:
    yield
  finally:
    del _listening[len(_listening) - len(listeners):]


def tell_step(step: int, record: Mapping[str, Any]) -> None:
  """Tells of a training step."""
  for one in _listening:
    if one.on_step is not None:
      one.on_step(step, dict(record))


def tell_evaluation(step: int, metrics: Mapping[str, float]) -> None:
  """Tells of an evaluation in training."""
  for one in _listening:
    if one.on_evaluation is not None:
      one.on_evaluation(step, dict(metrics))


def tell_progress(what: str, done: int, total: int) -> None:
  """Tells how far some work is."""
  for one in _listening:
    if one.on_progress is not None:
      one.on_progress(what, done, total)
