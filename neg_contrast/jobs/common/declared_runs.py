"""Declares the trainings of dual encoders that a config asks for."""

import dataclasses
import pathlib

from absl import logging

from neg_contrast import errors
from neg_contrast.artifacts import artifact, places
from neg_contrast.jobs.common import (
  declared_draws,
  feature_checks,
  settings_of_rooms,
)
from neg_contrast.models import given
from neg_contrast.settings import config as config_lib
from neg_contrast.training import run_artifacts


def encoder_run(
    config: config_lib.Config,
    workdir: pathlib.Path,
    data: artifact.Artifact,
    gold: artifact.Artifact,
    pool: artifact.Artifact | None = None,
    after: run_artifacts.EncoderRun | None = None,
    name: str = 'training',
    drawn_from: tuple[tuple[str, artifact.Artifact], ...] = (),
) -> run_artifacts.EncoderRun:
  """A training of a dual encoder.

  Args:
    config: of the training.
    workdir: of its checkpoints.
    data: what is trained on.
    gold: what it is tuned on.
    pool: of its hard negatives; None: it needs none.
    after: the training that it goes on from; None: from `model.init`.
    name: in plans.
    drawn_from: (role, artifact) of what else negatives are drawn from.

  Raises:
    UserError: it does not go with features that its start reads.
  """
  if after is not None:
    config = dataclasses.replace(config, model=dataclasses.replace(
        config.model, init=str(after.workdir), layers=None
    ))
  first = start(config, after)
  feature_checks.check_start(config, first.side_features)
  return run_artifacts.EncoderRun(
      settings_of_rooms.training(config), workdir, data, first,
      None if gold == data else gold, pool, name,
      (*drawn_from, *declared_draws.together_from(config, data, first)),
  )


def starts(
    run: run_artifacts.EncoderRun, first: run_artifacts.EncoderRun | None
) -> dict[str, artifact.Artifact]:
  """What trainings begin with, by system: those that are worth evaluating.

  Args:
    run: begins with `initial`.
    first: the stage 1 before it, which begins with `untouched`; None: that is
      not wanted.
  """
  untouched = {} if first is None else {'untouched': first.start}
  return {system: start
          for system, start in {**untouched, 'initial': run.start}.items()
          if _is_worth_evaluating(system, start)}


def _is_worth_evaluating(system: str, start: artifact.Artifact) -> bool:
  """Whether the model that a training starts from is evaluated.

  It is not where its projection is random: its ranking would say nothing of the
  model. The log says so.
  """
  if not (isinstance(start, given.Start) and start.is_projection_random):
    return True
  logging.info(
      '%s is not evaluated: the projection on top of %s (%s) is random before '
      'the training', system, start.checkpoint,
      errors.key('model.projection_dim'),
  )
  return False


def stage1_folder(
    first: config_lib.Config, workdir: pathlib.Path
) -> pathlib.Path:
  """Where a stage 1 lies: in its own workdir, or below that of its training."""
  return places.path(first.workdir or workdir / 'stage1')


def start(
    config: config_lib.Config, after: run_artifacts.EncoderRun | None = None
) -> given.Start:
  """What a training starts from: `model.init`.

  Args:
    config: of the training.
    after: the training that makes it; whatever goes on from that has the same
      start, whose seed is that training's.
  """
  seed = config.seed if after is None else after.config.seed
  return given.Start(config.model.init, seed, config.model, after)
