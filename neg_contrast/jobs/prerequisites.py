"""Models that a job needs first, each by a config of its own."""

import dataclasses
import pathlib
from collections.abc import Callable, Sequence

from neg_contrast import config as config_lib
from neg_contrast import plan
from neg_contrast.jobs import model as model_lib
from neg_contrast.jobs import train_generator
from neg_contrast.models import generator as generator_lib


def generator(
    config: config_lib.Config,
) -> tuple[list[plan.Step], Callable[[], generator_lib.Generator]]:
  """The generator of a job: trained first, or named by `checkpoint`.

  Returns:
    (what has to be done first, what loads the generator then).
  """
  if config.generator is None:
    name = config.checkpoint
    return [], lambda: model_lib.load_generator(config, name)
  job = train_generator.TrainGeneratorJob(
      config.generator, pathlib.Path(config.generator.workdir)
  )
  return named('generator', job.steps()), job.generator


def named(prefix: str, steps: Sequence[plan.Step]) -> list[plan.Step]:
  """Steps of a job within another, so called that nobody mixes them up."""
  return [dataclasses.replace(step, name=f'{prefix}: {step.name}')
          for step in steps]
