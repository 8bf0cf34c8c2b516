"""The record of a run: `log.jsonl` (each step once), trackers, console.

A line of `log.jsonl` ends with a checksum of what stands before it.
"""

import collections
import contextlib
import dataclasses
import json
import os
import pathlib
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from absl import logging

from neg_contrast import errors, hosts, listeners, progress
from neg_contrast.artifacts import atomic, places
from neg_contrast.training import solved, trackers

FILE = 'log.jsonl'
_UPLOAD_SECONDS = 60.0  # Between uploads of the whole log, at least.
_CHECKSUM = 'crc32'  # Of a line without it.


@dataclasses.dataclass(frozen=True)
class StepRecord:
  """What is logged of a step.

  Attributes:
    step: number of the step, from 1.
    loss: what is minimised.
    learning_rate: of this step.
    queries_per_second: examples over the step.
    useful_tokens_per_second: tokens without padding.
    padding: part of the processed tokens that is padding.
    step_seconds: wall time of a step, averaged between two log lines.
    host_wait_seconds: of these, waiting for the batch.
    values: what else the step measured, by name; logged beside the others.
    contrast: source of negatives (`batch`: the other rows) -> mean `score`,
      share of the softmax `mass`, `accuracy` of the positives against it, and
      mean `gradient` with respect to a score of its.
  """

  step: int
  loss: float
  learning_rate: float
  queries_per_second: float
  useful_tokens_per_second: float
  padding: float
  step_seconds: float
  host_wait_seconds: float
  values: dict[str, float] = dataclasses.field(default_factory=dict)
  contrast: dict[str, dict[str, float]] = dataclasses.field(
      default_factory=dict
  )


class RunLog:
  """Appends records; a resumed run first cuts the log back to its step."""

  def __init__(
      self, workdir: pathlib.Path, start_step: int, total_steps: int,
      remedy: solved.Remedy = solved.NOTHING,
      tracker: Callable[[], trackers.Tracker] | None = None,
  ):
    """Opens the log of a run; see `opened`."""
    path = workdir / FILE
    self._watch = solved.Watch(remedy, total_steps)
    for record in _cut_back(path, start_step):
      self._watch.see(record['step'], record.get('contrast', {}))
    self._growing = places.Growing(path, workdir / trackers.TENSORBOARD)
    self._writer = tracker() if tracker else trackers.opened(
        workdir, start_step)
    self._file = open(  # noqa: SIM115
        places.local(path), 'a', encoding='utf-8')
    self._total_steps = total_steps
    self._is_compiling = True  # In the seconds of the first steps.
    self._recent: collections.deque[float] = collections.deque(maxlen=50)

  def write_step(self, record: StepRecord) -> None:
    """Appends a step."""
    values = dataclasses.asdict(record)
    values |= values.pop('values')
    self._append(values)
    listeners.tell_step(record.step, {
        **values, 'total_steps': self._total_steps
    })
    self._recent.append(record.step_seconds)
    for told in self._watch.see(record.step, record.contrast):
      self._append({'step': record.step, 'solved': told})
      logging.warning('step %d: %s', record.step, told['text'])
    for source, kind in values.pop('contrast').items():
      values |= {f'{key}/{source}': value for key, value in kind.items()}
    for name, value in values.items():
      if name != 'step':
        self._writer.add_scalar(f'train/{name}', value, record.step)

  def write_evaluation(self, step: int, metrics: dict[str, float]) -> None:
    """Appends an evaluation on the tune split."""
    self._append({'step': step, 'evaluation': metrics})
    listeners.tell_evaluation(step, metrics)
    for name, value in metrics.items():
      self._writer.add_scalar(f'tune/{name}', value, step)

  def write_bias(self, step: int, measured: dict[str, dict[str, Any]]) -> None:
    """Appends and prints what `bias/meter.py` measured after a step."""
    self._append({'step': step, 'bias': measured})
    model, kinds = measured['model'], measured['kinds']
    for name, values in {'model': model, **kinds}.items():
      for key, value in values.items():
        self._writer.add_scalar(f'bias/{name}/{key}', value, step)
    logging.info(
        'step %d: bias %s; cross-entropy %.4f  gradient %.3f  accuracy %.3f  '
        'false negatives %.4f', step,
        '  '.join(f'{name} {values["bias"]:.3f} (cosine {values["cosine"]:.3f})'
                  for name, values in kinds.items()),
        model['loss'], model['gradient'], model['accuracy'],
        model['known_positive_mass'] + model['answer_mass'],
    )

  def write_refresh(self, step: int, told: dict[str, Any]) -> None:
    """Appends and prints what making negatives again cost and changed.

    Args:
      step: the first that draws from them.
      told: numbers, and groups of numbers; what is neither is not printed.
    """
    self._append({'step': step, 'refresh': told})
    numbers: dict[str, float] = {}
    for name, value in told.items():
      if isinstance(value, dict):
        numbers |= {f'{name}/{key}': one for key, one in value.items()}
      elif isinstance(value, (int, float)):
        numbers[name] = value
    for name, value in numbers.items():
      self._writer.add_scalar(f'refresh/{name}', value, step)
    logging.info('negatives from step %d on: %s', step, '  '.join(
        f'{name} {value:,}' if isinstance(value, int) else f'{name} {value:.4g}'
        for name, value in numbers.items()
    ))

  def print_step(
      self, record: StepRecord, evaluations: int = 0,
      evaluation_seconds: float | None = None,
  ) -> None:
    """Prints speed and remaining time: a line, or the live line.

    Args:
      record: of the step.
      evaluations: that are still to come.
      evaluation_seconds: of each of them; None: none was made yet.
    """
    left = self._total_steps - record.step
    seconds = left * sum(self._recent) / max(1, len(self._recent))
    seconds += evaluations * (evaluation_seconds or 0)
    is_open = evaluations and evaluation_seconds is None
    eta = progress.PLAN.eta(seconds, (
        f'{evaluations} evaluation{"" if evaluations == 1 else "s"}'
        if is_open else ''
    ))
    step = f'step {record.step}/{self._total_steps}'
    what = (f'loss {record.loss:.4f}{_both_losses(record)}  '
            f'accuracy {record.values["accuracy"]:.3f}  '
            f'{record.queries_per_second:.1f} queries/s')
    done = progress.bar(record.step, self._total_steps)
    if self._is_compiling:
      self._is_compiling = False
      self._recent.clear()
    if not progress.show(f'{step} {done}  {eta}  {what}'):
      logging.info(
          '%s%s  %s  %.0f tokens/s  padding %.1f%%  wait %.2fs  %s',
          progress.PLAN.place, step, what, record.useful_tokens_per_second,
          100 * record.padding, record.host_wait_seconds, eta,
      )

  def flush(self) -> None:
    """Puts on disk what was written; in a bucket, once a minute."""
    self._file.flush()
    os.fsync(self._file.fileno())
    self._writer.flush()
    self._growing.put(_UPLOAD_SECONDS)

  def keep(self) -> None:
    """Puts on disk what was written, and in a bucket: comes before a save."""
    self.flush()
    self._growing.put()

  def close(self) -> None:
    """Keeps what was written, and closes."""
    try:
      self.keep()
    finally:
      self._file.close()
      self._writer.close()

  def _append(self, value: dict[str, Any]) -> None:
    self._file.write(_line(value))


class NoLog(RunLog):
  """Of a process that leaves the record to another."""

  def __init__(self):
    """Opens nothing."""

  def write_step(self, record: StepRecord) -> None:
    """Does nothing."""

  def write_evaluation(self, step: int, metrics: dict[str, float]) -> None:
    """Does nothing."""

  def write_bias(self, step: int, measured: dict[str, dict[str, Any]]) -> None:
    """Does nothing."""

  def write_refresh(self, step: int, told: dict[str, Any]) -> None:
    """Does nothing."""

  def print_step(
      self, record: StepRecord, evaluations: int = 0,
      evaluation_seconds: float | None = None,
  ) -> None:
    """Does nothing."""

  def flush(self) -> None:
    """Does nothing."""

  def keep(self) -> None:
    """Does nothing."""

  def close(self) -> None:
    """Does nothing."""


def _both_losses(record: StepRecord) -> str:
  """Forward and backward, of a loss that has both."""
  names = 'forward_loss', 'backward_loss'
  if not all(name in record.values for name in names):
    return ''
  told = (f'{name.removesuffix("_loss")} {record.values[name]:.4f}'
          for name in names)
  return f' ({", ".join(told)})'


@contextlib.contextmanager
def opened(
    workdir: pathlib.Path, start_step: int, total_steps: int,
    remedy: solved.Remedy = solved.NOTHING,
    tracker: Callable[[], trackers.Tracker] | None = None,
) -> Iterator[RunLog]:
  """The log of a run, of which the first process alone writes.

  Args:
    workdir: of the run.
    start_step: steps that it has behind it.
    total_steps: of the run.
    remedy: what to say when its negatives are solved.
    tracker: opens where curves go beside the log; None: TensorBoard.

  Raises:
    UserError: a line of an earlier part is damaged, or `tracker` raises it.
  """
  log = (RunLog(workdir, start_step, total_steps, remedy, tracker)
         if hosts.is_first() else NoLog())
  try:
    yield log
  finally:
    log.close()


def read(path: pathlib.Path) -> list[dict[str, Any]]:
  """The records of a log, but for a last line that a crash cut short.

  Args:
    path: of `log.jsonl`.

  Raises:
    UserError: another line is damaged; names its number.
  """
  *lines, last = path.read_bytes().split(b'\n')
  is_checked = any(_CHECKSUM.encode() in line for line in lines)
  records = []
  for number, line in enumerate(lines, 1):
    try:
      records.append(_parse(line, is_checked))
    except (ValueError, RecursionError):
      raise errors.UserError(
          f'{path}, line {number}: damaged. Remove that line; what it says of '
          'a step is lost, and nothing else'
      ) from None
  if last:
    with contextlib.suppress(ValueError, RecursionError):
      records.append(_parse(last, is_checked))
  return records


def _line(record: dict[str, Any]) -> str:
  checksum = {_CHECKSUM: zlib.crc32(json.dumps(record).encode())}
  return json.dumps({**record, **checksum}) + '\n'


def _parse(line: bytes, is_checked: bool) -> dict[str, Any]:
  """A record.

  Args:
    line: without its end.
    is_checked: whether it has a checksum; those of earlier revisions have none.

  Raises:
    ValueError: it is none, or its checksum is another.
  """
  record = json.loads(line)
  if not isinstance(record, dict) or not isinstance(record.get('step'), int):
    raise ValueError('no record of a step')
  checksum = record.pop(_CHECKSUM, None)
  if is_checked and checksum != zlib.crc32(json.dumps(record).encode()):
    raise ValueError('another checksum')
  return record


def _cut_back(path: pathlib.Path, step: int) -> list[dict[str, Any]]:
  """Drops records after `step`, and a last line that a crash cut short.

  Returns:
    The records that stay.
  """
  if not path.exists():
    if places.is_remote(path):  # What a kill left here before it was put there.
      places.on_disk(path).unlink(missing_ok=True)
    return []
  kept = [record for record in read(path) if record['step'] <= step]
  with atomic.writing(path) as f:
    for record in kept:
      f.write(_line(record))
  return kept
