"""The one training loop."""

import collections
import contextlib
import dataclasses
import math
import time
from collections.abc import Callable
from typing import Any, NoReturn

import jax
import numpy as np
import optax
from absl import logging

from neg_contrast import cpu, errors, hosts
from neg_contrast.artifacts import checkpoints as checkpoints_lib
from neg_contrast.batches import batcher, prefetch
from neg_contrast.training import criterion as criterion_lib
from neg_contrast.training import memory as memory_lib
from neg_contrast.training import (
  optimizer,
  pace,
  run_log,
  run_settings,
  stop_signals,
)
from neg_contrast.training import state as state_lib

# More steps than this are never queued on the device: enough to hide the host,
# few enough that simulated CPU devices don't starve each other.
_STEPS_IN_FLIGHT = 2
_SILENT_SECONDS = 30  # Slow steps are logged before `log_steps` of them.


class Interrupted(SystemExit):
  """Asked to stop by a signal; the state is saved."""


@dataclasses.dataclass(frozen=True)
class Schedule:
  """When the loop does what.

  Attributes:
    total_steps: where training ends.
    eval_steps: steps between evaluations, 0: never.
    patience: evaluations without a better one before it stops, 0: no limit.
    save_steps: steps between checkpoints.
    log_steps: steps between log lines; fewer, where they take longer than
      half a minute.
    batch_size: queries in a step.
    learning_rate: of a step.
    criterion: what early stopping goes by.
    refresh_steps: steps between refreshes of what batches are made of, 0:
      never.
    measure_steps: steps between measurements for the log, 0: never.
  """

  total_steps: int
  eval_steps: int
  patience: int
  save_steps: int
  log_steps: int
  batch_size: int
  learning_rate: optax.Schedule
  criterion: criterion_lib.Criterion
  refresh_steps: int = 0
  measure_steps: int = 0

  def refreshes(self, step: int) -> bool:
    """Whether batches have to be refreshed before what follows step `step`."""
    return bool(self.refresh_steps) and step % self.refresh_steps == 0

  def evaluates(self, step: int) -> bool:
    """Whether step `step` is followed by an evaluation."""
    return bool(self.eval_steps) and (
        step % self.eval_steps == 0 or step == self.total_steps
    )

  def evaluations_from(self, step: int) -> int:
    """How many there are from step `step` on, its own included."""
    if not self.eval_steps:
      return 0
    end = self.total_steps
    return (end // self.eval_steps - (step - 1) // self.eval_steps
            + bool(end % self.eval_steps))

  def measures(self, step: int) -> bool:
    """Whether step `step` is followed by a measurement."""
    return bool(self.measure_steps) and step % self.measure_steps == 0

  def pauses(self, step: int) -> bool:
    """Whether step `step` is followed by an evaluation or a checkpoint."""
    return (self.evaluates(step) or step == self.total_steps
            or step % self.save_steps == 0 or self.refreshes(step))

  def part_from(self, step: int) -> range:
    """The steps from `step` on that need no refresh in between."""
    end = self.total_steps
    if self.refresh_steps:
      end = min(end, (step // self.refresh_steps + 1) * self.refresh_steps)
    return range(step, end)


def schedule_of(
    config: run_settings.RunSettings,
    total_steps: int,
    criterion: criterion_lib.Criterion,
    refresh_steps: int,
) -> Schedule:
  """The schedule of a run.

  Args:
    config: settings of the run.
    total_steps: where it ends.
    criterion: see `Schedule`.
    refresh_steps: see `Schedule`.
  """
  return Schedule(
      total_steps=total_steps,
      eval_steps=config.evaluation.eval_steps,
      patience=config.evaluation.patience,
      save_steps=config.checkpointing.save_steps,
      log_steps=config.checkpointing.log_steps,
      batch_size=config.data.batch_size,
      learning_rate=optimizer.make_schedule(
          config.optim.schedule, optimizer.rates_of(config.optim, total_steps)
      ),
      criterion=criterion,
      refresh_steps=refresh_steps,
      measure_steps=config.nce.log_steps,
  )


@dataclasses.dataclass(frozen=True)
class Pending:
  """A step that was started and not yet read back."""

  step: int
  metrics: dict[str, Any]
  stats: batcher.BatchStats
  host_wait_seconds: float


class Trainer:
  """Runs a training step over a schedule, and all that goes with it."""

  def __init__(
      self,
      train_step: Callable[..., Any],
      make_batch: Callable[[int], tuple[Any, batcher.BatchStats]],
      evaluate: Callable[[Any], dict[str, float]],
      checkpoints: checkpoints_lib.Checkpoints,
      log: run_log.RunLog,
      schedule: Schedule,
      refresh: Callable[[Any, int], dict[str, Any] | None] = (
          lambda params, step: None
      ),
      measure: Callable[[Any], dict[str, Any]] = lambda params: {},
      complete: Callable[[Any, Any], Any] = lambda params, frozen: params,
  ):
    """Takes what a run is made of.

    Args:
      train_step: jitted `(state, batch) -> (state, metrics)`, state donated;
        metrics are scalars by name, with `loss` and `accuracy`, and may hold a
        `contrast` (see `contrast.of_batch`).
      make_batch: step -> batch on the devices, and its facts.
      evaluate: parameters -> metrics on the tune split, with the criterion.
      checkpoints: where to save.
      log: where to record.
      schedule: when to do what.
      refresh: (parameters, steps done) -> what `RunLog.write_refresh` takes,
        or None; remakes what batches after it are made of, the same however
        often it is called.
      measure: parameters -> what `RunLog.write_bias` takes.
      complete: (parameters, `frozen`) of a state -> those of the whole model,
        which `evaluate`, `refresh` and `measure` take.
    """
    self._train_step = cpu.fit_memory(train_step)
    self._make_batch = make_batch
    self._evaluate = evaluate
    self._checkpoints = checkpoints
    self._log = log
    self._schedule = schedule
    self._refresh = refresh
    self._measure = measure
    self._complete = complete
    self._pending: collections.deque[Pending] = collections.deque()
    self._evaluations = pace.Evaluations()
    self._drained = 0.0  # When the device was last known to be idle.

  def fit(
      self, state: state_lib.TrainState, progress: checkpoints_lib.Progress
  ) -> tuple[state_lib.TrainState, checkpoints_lib.Progress]:
    """Trains from `state` to the end of the schedule.

    An evaluation and the checkpoint after it belong together: a run that dies
    in between repeats both.

    Args:
      state: where to start; it is donated.
      progress: what was known there.

    Returns:
      The last state, and the progress with `finished` set.

    Raises:
      UserError: the loss is not finite, or the memory does not suffice.
      Interrupted: SIGTERM or SIGINT came, be it in the last evaluation;
        everything is saved. Several processes hear of it within a second or
        two, so that one that comes just before the end may come too late.
    """
    step, stop = int(state.step), None
    with (
        cpu.plain_memory_errors('a training step', _less_memory()),
        stop_signals.StopSignals() as signals,
    ):
      while step < self._schedule.total_steps and not (
          progress.finished or stop
      ):
        if self._schedule.refreshes(step):
          self._remake(self._complete(state.params, state.frozen), step)
        numbers = self._schedule.part_from(step)
        state, progress, step, stop = self._fit_part(
            state, progress, numbers, signals
        )
      self._checkpoints.wait()
      # It may have come too late for the last step.
      stop = signals.stop_after(step + 1) or stop
      if stop:
        logging.info('%s: saved step %d; the same command goes on from there',
                     stop.name, step)
        raise Interrupted(128 + stop)
    return state, progress

  def _remake(self, params, step):
    """Refreshes, and records it with the first step that it serves."""
    told = self._refresh(params, step)
    if told is not None:
      self._log.write_refresh(step + 1, told)

  def _fit_part(self, state, progress, numbers, signals):
    """Steps for which batches can be made ahead.

    Returns:
      The state, the progress, the last step, and the signal that ended it.
    """
    made = prefetch.prefetch(self._make_batch, numbers)
    with contextlib.closing(made):
      self._drained = time.monotonic()
      for number, ((batch, stats), waited) in zip(numbers, made, strict=True):
        step = number + 1
        state, metrics = self._train_step(state, batch)
        if len(self._pending) >= _STEPS_IN_FLIGHT:
          jax.block_until_ready(self._pending[-_STEPS_IN_FLIGHT].metrics)
        self._pending.append(Pending(step, metrics, stats, waited))
        if (len(self._pending) >= self._schedule.log_steps
            or time.monotonic() - self._drained > _SILENT_SECONDS):
          self._drain()
        if self._schedule.measures(step):
          self._drain()
          self._log.write_bias(step, self._measure(
              self._complete(state.params, state.frozen)
          ))
          self._drained = time.monotonic()
        stop = signals.stop_after(step)
        if self._schedule.pauses(step) or stop:
          progress = self._pause(state, progress, step)
          stop = stop or signals.come_alone  # While it was evaluated.
          self._drained = time.monotonic()
        if progress.finished or stop:
          break
    return state, progress, step, stop

  def _pause(self, state, progress, step):
    """Evaluates when due, and saves. Returns the progress."""
    self._drain()
    if self._schedule.evaluates(step):
      # All must judge alike, or some would stop and the others wait for them.
      params = memory_lib.evaluated(state.params, state.memory)
      metrics = hosts.from_first(self._evaluations.measured(
          self._evaluate, self._complete(params, state.frozen)
      ))
      self._log.write_evaluation(step, metrics)
      criterion = self._schedule.criterion
      progress = judge(
          progress, step, metrics, self._schedule.patience, criterion
      )
      logging.info(
          'step %d: tune %s; best %s %.4f at step %d', step,
          '  '.join(f'{name} {value:.4f}' for name, value in metrics.items()),
          criterion.name, progress.best_value, progress.best_step,
      )
    if step == self._schedule.total_steps:
      progress = dataclasses.replace(progress, finished=True)
    self._log.keep()
    self._checkpoints.save(state, progress)
    return progress

  def _drain(self) -> None:
    """Reads back and records every started step.

    Raises:
      UserError: a loss is not finite; names the step and the last checkpoint.
    """
    if not self._pending:
      return
    jax.block_until_ready(self._pending[-1].metrics)
    now = time.monotonic()
    mean_seconds = (now - self._drained) / len(self._pending)
    self._drained = now
    while self._pending:
      item = self._pending.popleft()
      values = jax.tree.map(float, jax.device_get(item.metrics))
      if not math.isfinite(values['loss']):
        self._stop_at_bad_loss(item.step, values['loss'])
      record = _record(item, values, self._schedule, mean_seconds)
      self._log.write_step(record)
    self._log.print_step(
        record, self._schedule.evaluations_from(record.step),
        self._evaluations.seconds,
    )

  def _stop_at_bad_loss(self, step: int, loss: float) -> NoReturn:
    self._log.flush()
    good = self._checkpoints.latest_step()
    last = ('No checkpoint was saved yet' if good is None
            else f'The last good checkpoint is step {good}')
    raise errors.UserError(
        f'step {step}: the loss is {loss}. {last}. Try a lower '
        f'{errors.key("optim.learning_rate")}, '
        f'{errors.key("optim.clip_norm")}=1.0 or '
        f'{errors.key("model.dtype")}=float32'
    )


def _less_memory() -> str:
  return (
      f'Set a smaller {errors.key("data.batch_size")}, '
      f'{errors.key("model.chunk_groups")}=-1 (dual encoders then encode as '
      f'much of a batch at once as fits), {errors.key("model.remat")}=full, or '
      'shorter texts'
  )


def judge(
    progress: checkpoints_lib.Progress,
    step: int,
    metrics: dict[str, float],
    patience: int,
    criterion: criterion_lib.Criterion,
) -> checkpoints_lib.Progress:
  """The progress after an evaluation; of equals the earlier stays the best."""
  value, best = metrics[criterion.name], progress.best_value
  is_better = progress.best_step < 0 or criterion.is_better(value, best)
  without_better = 0 if is_better else progress.evaluations_without_better + 1
  return checkpoints_lib.Progress(
      best_step=step if is_better else progress.best_step,
      best_value=value if is_better else progress.best_value,
      evaluations_without_better=without_better,
      evaluation=metrics,
      evaluated_step=step,
      finished=bool(patience) and without_better >= patience,
      criterion=criterion.name,
  )


def _record(item, values, schedule, seconds) -> run_log.StepRecord:
  stats = item.stats
  contrast = values.pop('contrast', {})
  return run_log.StepRecord(
      step=item.step,
      loss=values.pop('loss'),
      learning_rate=float(np.asarray(schedule.learning_rate(item.step - 1))),
      queries_per_second=schedule.batch_size / seconds,
      useful_tokens_per_second=stats.useful_tokens / seconds,
      padding=1 - stats.useful_tokens / stats.processed_tokens,
      step_seconds=seconds,
      host_wait_seconds=item.host_wait_seconds,
      values={**values, **stats.values},
      contrast={name: {key: getattr(kind, key)
                       for key in ('score', 'mass', 'accuracy', 'gradient')}
                for name, kind in contrast.items()},
  )
