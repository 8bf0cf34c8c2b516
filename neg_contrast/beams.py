"""Apache Beam, for corpus work that one machine can't do.

`--runner=local` is no Beam: this host's processes do the work (`workers.py`).
Any other runner gets the same work in parts. A part is a function of its input
and writes files under names of its own, whole or not at all. It can be done
twice, on any machine, and leaves the same bytes.

A runner has a process of its own here. Beam's DirectRunner waits for ever when
one of its workers is killed; then that process ends with all its workers, and
the work starts again with the parts that are missing.
"""

import base64
import contextlib
import dataclasses
import importlib.util
import os
import re
import signal
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from absl import logging

from neg_contrast import errors, hosts, workers

LOCAL = 'local'
_DIRECT = 'direct'
_TRIES = 3
_TOLD = re.compile('<neg_contrast ([A-Za-z0-9+/=]*)>')
_chosen: list['Runner'] = []


@dataclasses.dataclass(frozen=True)
class Runner:
  """Who does corpus work.

  Attributes:
    name: `direct`, or a runner of Beam, such as `DataflowRunner`.
    options: of Beam, such as `--direct_num_workers=2`.
  """

  name: str
  options: tuple[str, ...] = ()

  def all_options(self) -> list[str]:
    """Those of Beam; for `direct` as many processes as cores, if none says."""
    if self.name != _DIRECT:
      return [f'--runner={self.name}', *self.options]
    return ['--runner=DirectRunner', '--direct_running_mode=multi_processing',
            '--default_sdk_harness_log_level=ERROR',  # They say a lot else.
            f'--direct_num_workers={hosts.usable_cores()}', *self.options]


def choose(name: str, options: str = '') -> None:
  """Sets the runner of this program.

  Args:
    name: `local`, `direct`, or a runner of Beam.
    options: of Beam, separated by spaces.

  Raises:
    UserError: Beam is needed and missing, there are other processes, or
      `local` has options.
  """
  _chosen.clear()
  if name == LOCAL:
    if options:
      raise errors.UserError(
          f'--beam_options={options}: --runner=local has none; name a runner, '
          'such as --runner=direct'
      )
    return
  if hosts.are_several():
    raise errors.UserError(
        f'--runner={name}: several processes run this command, and each would '
        'start it; do the corpus work by one process first'
    )
  if importlib.util.find_spec('apache_beam') is None:
    raise errors.UserError(
        f'--runner={name}: needs Apache Beam; install the extra [beam], or '
        'launch/requirements-beam.txt'
    )
  _chosen.append(Runner(name, tuple(options.split())))


def is_chosen() -> bool:
  """Whether a runner of Beam does the work, and not this host alone."""
  return bool(_chosen)


Job = Callable[[Any], object]
"""Adds transforms to a pipeline of Beam. Can be pickled."""


@dataclasses.dataclass(frozen=True)
class Each:
  """A job that calls a task with each item.

  Attributes:
    task: can be pickled; its result is not used.
    items: of plain values.
  """

  task: Callable[[Any], object]
  items: Sequence[Any]

  def __call__(self, pipeline: Any) -> None:
    """Adds the transforms."""
    import apache_beam as beam

    name = f'{type(self.task).__name__} {uuid.uuid4()}'
    pipeline | f'{name} of' >> beam.Create(self.items) | (
        f'{name} by all' >> beam.Reshuffle()
    ) | name >> beam.Map(Placed(self.task))


@dataclasses.dataclass(frozen=True)
class Grouped:
  """A job that brings values together by key.

  Attributes:
    emit: (item) -> pairs of a key and a value, both plain.
    collect: (key, its values in any order); its result is not used.
    items: of plain values.
  """

  emit: Callable[[Any], Iterator[tuple[Any, Any]]]
  collect: Callable[[Any, Iterable[Any]], object]
  items: Sequence[Any]

  def __call__(self, pipeline: Any) -> None:
    """Adds the transforms."""
    import apache_beam as beam

    name = f'{type(self.emit).__name__} {uuid.uuid4()}'
    pipeline | f'{name} of' >> beam.Create(self.items) | (
        f'{name} by all' >> beam.Reshuffle()
    ) | f'{name} emit' >> beam.FlatMap(Emitting(self.emit)) | (
        f'{name} group' >> beam.GroupByKey()
    ) | f'{name} collect' >> beam.MapTuple(Placed(self.collect))


@dataclasses.dataclass(frozen=True)
class Inferred:
  """A job that does each item with a model, by Beam's RunInference.

  Attributes:
    load: gives what does an item; called once by each process of a worker,
      where it reads the model. Can be pickled.
    items: of plain values.
  """

  load: Callable[[], Callable[[Any], object]]
  items: Sequence[Any]

  def __call__(self, pipeline: Any) -> None:
    """Adds the transforms; an item is a batch of its own."""
    import apache_beam as beam
    from apache_beam.ml.inference import base

    class Handler(base.ModelHandler):
      def __init__(self, load, place):
        super().__init__(max_batch_size=1)
        self._load, self._place = load, place

      def load_model(self):
        with errors.at(self._place), _telling():
          return self._load()

      def run_inference(self, batch, model, inference_args=None):
        del inference_args
        for item in batch:
          Placed(model, self._place)(item)
          yield item

    name = f'{type(self.load).__name__} {uuid.uuid4()}'
    pipeline | f'{name} of' >> beam.Create(self.items) | (
        f'{name} by all' >> beam.Reshuffle()
    ) | name >> base.RunInference(Handler(self.load, errors.place()))


@dataclasses.dataclass(frozen=True)
class Placed:
  """Calls a task in a worker, as if this program did.

  Attributes:
    task: can be pickled.
    place: where the config lies that it is of.
  """

  task: Callable[..., Any]
  place: tuple[str, ...] = dataclasses.field(default_factory=errors.place)

  def __call__(self, *args: Any) -> Any:
    """What the task gives."""
    with errors.at(self.place), _telling():
      return self.task(*args)


@dataclasses.dataclass(frozen=True)
class Emitting(Placed):
  """The same of a task that gives values one by one."""

  def __call__(self, *args: Any) -> Iterator[Any]:
    """Its values."""
    with errors.at(self.place), _telling():
      yield from self.task(*args)


@contextlib.contextmanager
def _telling() -> Iterator[None]:
  """Brings the message of a UserError through what Beam makes of errors.

  A runner puts traces around it, quotes it, or quotes that again.
  """
  try:
    yield
  except errors.UserError as e:
    code = base64.b64encode(str(e).encode()).decode()
    raise RuntimeError(f'{e} <neg_contrast {code}>') from None


def run(what: str, jobs: Sequence[Job]) -> None:
  """Runs jobs as one pipeline, to its end.

  Args:
    what: is done, for messages.
    jobs: whose tasks skip what is done already.

  Raises:
    UserError: a task raises it, or the pipeline fails again and again.
    RuntimeError: a task fails with another error; Beam's, with its message.
  """
  (runner,) = _chosen
  for left in reversed(range(_TRIES)):
    try:
      with workers.aside(_Pipeline(runner), has_helper=True) as send:
        send(list(jobs))
      return
    except workers.Ended as e:
      if not left:
        raise errors.UserError(
            f'{what} with --runner={runner.name} failed {_TRIES} times: {e}'
        ) from None
      logging.warning('%s: a worker was lost; what it did not finish is done '
                      'again', what)
    except Exception as e:
      told = _TOLD.search(str(e))
      if told is None:
        raise
      raise errors.UserError(
          base64.b64decode(told[1]).decode()
      ) from None


@dataclasses.dataclass(frozen=True)
class _Pipeline:
  """Runs jobs as a pipeline; the process ends when a worker of it does."""

  runner: Runner

  def __call__(self, jobs: Sequence[Job]) -> None:
    import apache_beam as beam
    from apache_beam.options import pipeline_options

    if self.runner.name == _DIRECT:
      threading.excepthook = _end
    pipeline = beam.Pipeline(options=pipeline_options.PipelineOptions(
        self.runner.all_options()
    ))
    for job in jobs:
      job(pipeline)
    pipeline.run().wait_until_finish()


def _end(args: Any) -> None:
  """Ends this process and those it started: DirectRunner would wait for ever.
  """
  del args
  os.killpg(os.getpgrp(), signal.SIGKILL)
