"""A training run in a folder: the part that is the same for every model."""

import abc
import contextlib
import functools
import pathlib
from typing import Any

import jax
from absl import logging
from jax.sharding import Mesh

from neg_contrast import errors, hosts
from neg_contrast.artifacts import checkpoints as checkpoints_lib
from neg_contrast.artifacts import failures, folders, leases
from neg_contrast.data import thin_data
from neg_contrast.models import by_name
from neg_contrast.training import (
  chunking,
  loop,
  recipe,
  run_log,
  run_record,
  run_settings,
  trackers,
)
from neg_contrast.training import state as state_lib


class Training(recipe.Recipe):
  """Trains a model as its settings say, from where it stopped.

  Attributes:
    workdir: of its checkpoints and logs.
  """

  def __init__(
      self,
      config: run_settings.RunSettings,
      workdir: pathlib.Path,
      given: recipe.Given = recipe.NOTHING_GIVEN,
      identity: dict[str, Any] | None = None,
      mesh: Mesh | None = None,
  ):
    """Reads nothing yet.

    Args:
      config: settings of the run.
      workdir: of its checkpoints and logs.
      given: what it is made from.
      identity: what the trained parameters depend on.
      mesh: where it runs; None: as the settings say.
    """
    super().__init__(config, given, mesh)
    self.workdir, self._identity = workdir, identity or {}
    self._record = run_record.RunRecord(workdir)

  @abc.abstractmethod
  def _save_description(self) -> None:
    """Writes all of the model but its weights into the workdir."""

  def is_trained(self) -> bool:
    """Whether it ran to its end.

    Raises:
      UserError: the workdir holds another run, or one of another format.
    """
    if not self._record.exists():
      return False
    self._record.check(self._identity, self._environment())
    with checkpoints_lib.reading(self.workdir) as checkpoints:
      step = checkpoints.latest_step()
      return step is not None and checkpoints.progress(step).finished

  def read_encoder(
      self, checkpoints: checkpoints_lib.Checkpoints, step: int
  ) -> Any:
    """The towers of a checkpoint as a step leaves them, not averages."""
    towers = self._params()['encoder']
    adapters = run_settings.adapters_of(self._config, self._params())
    trained = checkpoints.restore_params(
        'encoder', adapters.shapes(towers), step, averaged=False
    )
    return adapters.merge(trained, adapters.frozen(towers))

  def train_once(self) -> None:
    """Trains, unless another program does, which is waited for then."""
    with contextlib.ExitStack() as turn:

      def is_trained() -> bool:
        turn.enter_context(folders.only_one(self.workdir))
        return self.is_trained()

      if not hosts.on_first(is_trained):
        self.train()

  def train(self) -> None:
    """Trains, from the last checkpoint if there is one."""
    workdir, ready = self.workdir, self.set_up()
    measure = self._meter()
    hosts.on_first(lambda: self._describe_run(ready))
    hosts.on_first(functools.partial(self._warn_of_little, ready))
    with (
        failures.while_writing(workdir), leases.program(workdir),
        checkpoints_lib.writing(workdir) as checkpoints,
    ):
      state, progress = self._start(ready, checkpoints)
      lengths = '/'.join(map(str, self.row_lengths.values()))
      logging.info(
          'training: %d examples, %d steps of %d queries%s, '
          '%d parameters, mesh of %s, starting after step %d', ready.examples,
          ready.total_steps, self._config.data.batch_size,
          f', rows of {lengths} tokens' if lengths else '',
          sum(a.size for a in jax.tree.leaves(state.params)),
          ' x '.join(f'{size} ({axis})' for axis, size
                     in self._mesh.shape.items()), int(state.step),
      )
      with run_log.opened(
          workdir, int(state.step), ready.total_steps,
          self._remedy(ready.examples), functools.partial(
              trackers.opened, workdir, int(state.step),
              self._config.checkpointing.wandb_project, self._config.resolved,
          ),
      ) as log:
        loop.Trainer(
            ready.step, ready.put, self._tune(), checkpoints, log,
            loop.schedule_of(self._config, ready.total_steps, self.criterion,
                             self._refresh_steps),
            self._refresh, measure, ready.complete,
        ).fit(state, progress)

  def _warn_of_little(self, ready: recipe.Ready) -> None:
    """Says what there is too little of, and what comes once more."""
    evaluation = self._config.evaluation
    for line in thin_data.of_training(thin_data.Sizes(
        ready.examples, self._config.data.batch_size, ready.total_steps,
        self._tune_queries if evaluation.eval_steps else None,
        evaluation.may_stop_early, self._config.optim.warmup_steps,
    )):
      logging.warning('%s', line)
    start = getattr(self._given.start, 'checkpoint', '')
    if start and run_record.repeats(self._identity, start):
      logging.warning(
          '%s has the same data and the same seed: its batches come once more, '
          'in the same order. Another %s gives others', start,
          errors.key('seed'),
      )

  @property
  def _tune_queries(self) -> int | None:
    """How many queries it is tuned by; None: of several data sets."""
    return len(self._dataset.gold.train_and_tune[1].queries)

  def _environment(self) -> dict[str, Any]:
    return run_record.environment(self._mesh, by_name.compute_dtype(
        self._config.model, self._mesh.devices.flat[0].platform
    ))

  def _settled_groups(self):
    return self._record.chunk_groups(run_record.devices(self._mesh))

  def _start(
      self, ready: recipe.Ready, checkpoints: checkpoints_lib.Checkpoints
  ) -> tuple[state_lib.TrainState, checkpoints_lib.Progress]:
    """The state and progress to start from: the latest checkpoint, or new."""
    latest = checkpoints.latest_step()
    if latest is not None:
      state, progress = checkpoints.restore(ready.like, latest)
      return self.with_frozen(state, ready), progress
    return self.first_state(ready), checkpoints_lib.Progress()

  def _describe_run(self, ready: recipe.Ready) -> None:
    """Leaves in the workdir what a run is made of; refuses another run's."""
    folders.make_folder(self.workdir)
    environment = self._environment()
    if self._record.exists():
      self._record.check(self._identity, environment)
      return
    self._save_description()
    resolved = self._config.resolved
    self._record.write(
        self._identity,
        {**resolved, 'model': {**resolved['model'],
                               'chunk_groups': ready.chunk_groups}},
        environment, ready.examples, ready.total_steps, self.row_lengths,
        ready.chunk_groups if self._config.model.chunk_groups ==
        chunking.AUTOMATIC else None,
    )
