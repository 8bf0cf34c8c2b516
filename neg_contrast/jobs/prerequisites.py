"""Models that a job needs first, each by a config of its own."""

import dataclasses
import pathlib
import re
from collections.abc import Callable, Sequence
from typing import Any

from neg_contrast import errors
from neg_contrast.artifacts import plan
from neg_contrast.jobs import train_generator
from neg_contrast.models import by_name as model_lib
from neg_contrast.models import generator as generator_lib
from neg_contrast.settings import config as config_lib


def generator(
    config: config_lib.Config,
) -> tuple[list[plan.Step], Callable[[], generator_lib.Generator]]:
  """The generator of a job: trained first, or named by `checkpoint`.

  Returns:
    (what has to be done first, what loads the generator then).
  """
  if config.generator is None:
    name = config.checkpoint
    if config.job == 'train':  # The keys of its model are an encoder's.
      config = dataclasses.replace(config, model=config_lib.ModelConfig(
          init=config.model.init, dtype=config.model.dtype
      ))
    return [], lambda: model_lib.load_generator(
        name, config.model, config.seed
    )
  job = train_generator.TrainGeneratorJob(
      config.generator, pathlib.Path(config.generator.workdir)
  )
  return within(config, 'generator', job.steps()), job.generator


def within(
    config: config_lib.Config, name: str, steps: Sequence[plan.Step]
) -> list[plan.Step]:
  """Steps of a job within another, so called that nobody mixes them up.

  Args:
    config: of the job around it.
    name: `stage1` or `generator`.
    steps: of the job within; the first prepares its data, and is left out where
      the other prepares the same.
  """
  theirs = getattr(config, name).data
  is_same = all(
      getattr(config.data, key) == getattr(theirs, key)
      for key in ('source', 'prepared_dir', 'on_invalid')
  )
  prefix = {'stage1': 'stage 1', 'generator': 'generator'}[name]
  return [
      dataclasses.replace(
          step, name=f'{prefix}: {step.name}',
          missing=told_as(name, step.missing), run=told_as(name, step.run),
          is_done=told_as(name, step.is_done),
          share=told_as(name, step.share),
      ) for step in steps[1 if is_same else 0:]
  ]


def told_as(name: str, call: Callable[[], Any]) -> Callable[[], Any]:
  """Lets errors and remedies name keys and workdir as the outer config does.

  Args:
    name: of the key that holds the config within, such as `stage1`.
    call: of a step.
  """
  rename = lambda text: re.sub(
      r'\bconfig\.(?=\w+[.=])', f'config.{name}.', text
  ).replace('--workdir', f'--config.{name}.workdir')

  def renamed() -> Any:
    try:
      result = call()
    except errors.UserError as e:
      raise errors.UserError(rename(str(e))) from None
    return rename(result) if isinstance(result, str) else result

  return renamed
