"""Declares the training on several data sets that a config asks for."""

import dataclasses
import pathlib

from neg_contrast import errors
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.jobs.common import (
  checks,
  declared_draws,
  declared_runs,
  settings_of_rooms,
)
from neg_contrast.settings import config as config_lib
from neg_contrast.training import mixture_artifacts, mixture_run, run_artifacts

_OF_DATA = tuple(one.name for one in dataclasses.fields(config_lib.SetConfig)
                 if one.name not in ('weight', 'negatives'))


def place_of(name: str) -> str:
  """The key of a data set."""
  return f'mixture.sets.{name}'


def configs_of(config: config_lib.Config) -> dict[str, config_lib.Config]:
  """Name -> the config of a training on that data set alone.

  Empty: the config has one data set, `data.source`.
  """
  configs = {}
  for name, one in (config.mixture.sets or {}).items():
    with errors.within(place_of(name)):
      configs[name] = dataclasses.replace(
          config,
          mixture=config_lib.MixtureConfig(),
          data=dataclasses.replace(config.data, name=name, **{
              key: getattr(one, key) for key in _OF_DATA
          }),
          negatives=dataclasses.replace(
              config.negatives,
              sources=one.negatives or config.negatives.sources,
          ),
      )
  return configs


def main_config(config: config_lib.Config) -> config_lib.Config:
  """The config with the first data set that has a test split as `data`."""
  if not config.mixture.sets:
    return config
  first = next(one for one in configs_of(config).values()
               if one.data.test_split)
  return dataclasses.replace(config, data=first.data)


def mixture_run_of(
    config: config_lib.Config,
    workdir: pathlib.Path,
    after: run_artifacts.EncoderRun | None = None,
) -> mixture_artifacts.MixtureRun:
  """The training on all data sets.

  Args:
    config: of the training.
    workdir: of its checkpoints.
    after: the training that it goes on from; None: from `model.init`.
  """
  sets, configs = [], configs_of(config)
  for name, own in configs.items():
    with errors.within(place_of(name)):
      data = dataset_lib.data_of(own.data)
      assert config.mixture.sets is not None
      sets.append(mixture_run.TrainedSet(
          name, config.mixture.sets[name].weight,
          settings_of_rooms.training(own), data,
          declared_draws.pool_of_training(
              own, mixture_run.folder_of(workdir, name), data, data
          ),
          declared_draws.drawn_from(own, data, data),
      ))
  first = next(iter(configs.values()))  # Whichever is evaluated.
  plain = declared_runs.encoder_run(
      dataclasses.replace(config, data=first.data), workdir, sets[0].data,
      sets[0].data, after=after,
  )
  sets = [dataclasses.replace(one, drawn_from=(
      *one.drawn_from,
      *declared_draws.together_from(own, one.data, plain.start),
  )) for one, own in zip(sets, configs.values(), strict=True)]
  return mixture_artifacts.MixtureRun(
      plain.config, workdir, plain.data, plain.start,
      mixture=mixture_run.Mixture(
          tuple(sets), config.mixture.temperature,
          config.mixture.batches == 'mixed',
      ),
  )


def check(config: config_lib.Config) -> None:
  """Refuses what several data sets can't be trained with.

  Raises:
    UserError: names the key and the remedy.
  """
  for name in (*_OF_DATA, 'name'):
    if getattr(config.data, name) != getattr(config_lib.DataConfig(), name):
      raise config.error(
          f'data.{name}', f'and {errors.key("mixture.sets")} both name data; '
          + ('leave it out: sets have names' if name == 'name' else
             f'give it to sets, as {errors.key(f"mixture.sets.NAME.{name}")}'))
  _check_unfinished(config)
  if not any(one.test_split for one in (config.mixture.sets or {}).values()):
    raise errors.SettingError(
        'mixture.sets', tuple(config.mixture.sets or {}),
        'has no set with a test_split; name one, to evaluate on at the end'
    )
  for name, own in configs_of(config).items():
    with errors.within(place_of(name)):
      checks.check_tuning(own)
    if own.negatives.per_query != config.negatives.per_query or (
        own.negatives.shared != config.negatives.shared
    ):
      raise errors.SettingError(
          f'{place_of(name)}.negatives', own.negatives.sources,
          'must give each query as many, and the same queue, as '
          f'{errors.key("negatives.sources")}={config.negatives.sources}'
      )


def _check_unfinished(config: config_lib.Config) -> None:
  """Refuses what draws or measures with one data set in mind."""
  negatives = config.negatives
  named = {name for own in (config, *configs_of(config).values())
           for name in own.negatives.names}
  for name in ('shared_corpus', 'sampled', 'retrieved'):
    if name in named:
      raise config.error('negatives.sources', f'"{name}" is for one corpus; '
                         'with mixture.sets name another, such as corpus')
  for key, is_set in (
      ('negatives.refresh_steps', negatives.refresh_steps),
      ('negatives.pool', negatives.pool), ('negatives.runs', negatives.runs),
      ('negatives.judge', negatives.judge), ('loss.distil', config.loss.distil),
      ('synthetic.pairs', config.synthetic.pairs),
      ('nce.log_steps', config.nce.log_steps),
  ):
    if is_set:
      raise config.error(key, 'is for trainings on one data set; leave it out, '
                         'or mixture.sets')

