"""Measures training, encoding, search, mining or input; prints one table."""

import dataclasses
import pathlib

from neg_contrast.artifacts import artifact, atomic
from neg_contrast.benchmarks import made_up, measurement, results_table
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import random_texts
from neg_contrast.jobs.common import (
  checks,
  declared_runs,
  settings_of_rooms,
)
from neg_contrast.models import given
from neg_contrast.settings import config as config_lib

TABLE = 'benchmark.md'
_CORPUS, _PREPARED = 'corpus', 'prepared'  # Of a workdir, if made up.
_FEW_TOKENS = 12  # Of passages that are not encoded.


def check(config: config_lib.Config) -> None:
  """Refuses a config that does not suit `job=benchmark`."""
  checks.check_init(config)
  if {*config.negatives.names} - {'corpus'}:
    raise config.error('negatives.sources', 'are none or corpus in a '
                       'benchmark, such as corpus:2: mined negatives take as '
                       'long to train with')
  peer = config.benchmark.versus
  for key, value in (('model.shared', True), ('loss.learn_scale', False),
                     ('optim.optimizer', 'adamw'), ('optim.clip_norm', 0)):
    error = config.error(key, f'must be {value} beside {peer}')
    if peer and error.value != value:
      raise error


class BenchmarkJob:
  """`job=benchmark`: rounds of one task, alone or in turns with a peer."""

  def __init__(self, config: config_lib.Config, workdir: pathlib.Path):
    """Reads nothing yet."""
    self._workdir, self._is_made_up = workdir, not config.data.source
    config = dataclasses.replace(config, data=config.data.shuffled())
    if self._is_made_up:
      config = dataclasses.replace(config, data=dataclasses.replace(
          config.data, source=f'beir:{workdir / _CORPUS}',
          prepared_dir=str(workdir / _PREPARED),
          train_split=random_texts.SPLIT, tune_split=random_texts.TUNE,
      ))
    self._config = config
    self._measurement = measurement.Measurement(
        config.benchmark, settings_of_rooms.training(config),
        settings_of_rooms.search(config), workdir,
        self._made_up() if self._is_made_up
        else dataset_lib.data_of(config.data), declared_runs.start(config),
    )

  def targets(self) -> list[artifact.Artifact]:
    """What is measured."""
    return [self._measurement]

  def finish(self) -> None:
    """Prints the table, and keeps it."""
    config = self._config
    table = results_table.markdown(results_table.title(
        config.benchmark, config.data, config.negatives.per_query,
        config.model.init, self._measurement.dtype, self._is_made_up,
    ), self._measurement.load())
    with atomic.writing(self._workdir / TABLE) as f:
      f.write(table + '\n')
    print(f'\n{table}', flush=True)

  def _made_up(self) -> made_up.MadeUpData:
    """Texts of the lengths that the config expects."""
    settings, data = self._config.benchmark, self._config.data
    is_read = settings.task in ('train', 'encode', 'input')
    return made_up.MadeUpData(
        dataset_lib.data_of(data).config, self._workdir / _CORPUS,
        given.Tokenizer(self._config.model.init), settings.passages,
        settings.queries,
        data.expected_passage_tokens if is_read else _FEW_TOKENS,
        data.expected_query_tokens,
    )
