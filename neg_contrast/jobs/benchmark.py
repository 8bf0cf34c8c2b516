"""Measures training, encoding, search, mining or input; prints one table."""

import contextlib
import dataclasses
import functools
import pathlib
from typing import Any

import numpy as np

from neg_contrast import errors, hosts
from neg_contrast.artifacts import folders, plan
from neg_contrast.benchmarks import material as material_lib
from neg_contrast.benchmarks import peer as peer_lib
from neg_contrast.benchmarks import results_table, rounds, tasks
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import random_texts
from neg_contrast.jobs import checks, negatives_checks, settings_of_rooms
from neg_contrast.models import by_name as model_lib
from neg_contrast.settings import config as config_lib
from neg_contrast.training import encoder_run

TABLE = 'benchmark.md'
_CORPUS, _PREPARED = 'corpus', 'prepared'  # Of a workdir, if made up.
_FEW_TOKENS = 12  # Of passages that are not encoded.


def check(config: config_lib.Config) -> None:
  """Refuses a config that does not suit `job=benchmark`."""
  checks.check_init(config)
  negatives_checks.check_drawn(config)
  if config.negatives.strategy not in ('random', 'corpus'):
    raise config.error('negatives.strategy', 'must be random or corpus in a '
                       'benchmark: mined negatives take as long to train with')
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
    self._made: dict[str, Any] = {}
    if self._is_made_up:
      config = dataclasses.replace(config, data=dataclasses.replace(
          config.data, source=f'beir:{workdir / _CORPUS}',
          prepared_dir=str(workdir / _PREPARED),
          train_split=random_texts.SPLIT, tune_split=random_texts.TUNE,
      ))
    self._config = config

  def steps(self) -> list[plan.Step]:
    """The plan. A measurement is made anew every time."""
    settings = self._config.benchmark
    data = dataset_lib.preparation_step(
        self._config.data, lambda: self._dataset
    )
    if self._is_made_up:
      data = plan.Step(
          'data', f'made-up texts in {self._workdir / _CORPUS}',
          lambda: False, self._make_up,
          lambda: model_lib.missing(self._config.model.init), opens_rest=True,
      )
    beside = f' in turns with {settings.versus}' if settings.versus else ''
    return [data, plan.Step(
        'measure', f'{settings.rounds} rounds of {settings.task}{beside}',
        lambda: False, missing=self._missing, share=self._measure,
    )]

  def finish(self) -> None:
    """Prints the table, and keeps it."""
    table = results_table.markdown(results_table.title(
        self._config.benchmark, self._config.data,
        self._config.negatives.per_query, self._config.model.init, self._dtype,
        self._is_made_up,
    ), self._made)
    (self._workdir / TABLE).write_text(table + '\n', encoding='utf-8')
    folders.write_sealed(self._workdir / folders.MANIFEST, {
        'config': config_lib.to_dict(self._config),
        'environment': folders.environment(),
        'measured': self._made,
    })
    print(f'\n{table}', flush=True)

  @functools.cached_property
  def _dataset(self) -> dataset_lib.Dataset:
    return dataset_lib.Dataset(self._config.data)

  def _missing(self) -> str | None:
    versus = self._config.benchmark.versus
    lack = peer_lib.missing(versus) if versus else None
    return lack or model_lib.missing(self._config.model.init)

  def _make_up(self) -> None:
    config = self._config
    is_read = config.benchmark.task in ('train', 'encode', 'input')
    data = config.data
    random_texts.write(
        self._workdir / _CORPUS, model_lib.load_tokenizer(config.model.init),
        config.benchmark.passages, config.benchmark.queries,
        data.expected_passage_tokens if is_read else _FEW_TOKENS,
        data.expected_query_tokens,
    )
    _ = self._dataset

  def _measure(self) -> None:
    """All rounds.

    Raises:
      UserError: several processes have to do with what one can only.
    """
    settings = self._config.benchmark
    if hosts.are_several() and (settings.task != 'train' or settings.versus):
      raise errors.UserError(
          f'config.benchmark.task={settings.task}: several processes are '
          'measured at training alone; add --processes=1'
      )
    material = self._material()
    with contextlib.ExitStack() as stack:
      task = tasks.make(material)
      stack.callback(task.close)
      peer = None
      if settings.versus:
        peer = peer_lib.Peer(material, self._config.loss, self._config.optim,
                             self._dtype)
        stack.callback(peer.close)
      self._made = rounds.run(task, peer, settings)
      if settings.profile:
        rounds.add_profile(self._made, task, settings.profile, self._workdir)

  def _material(self) -> material_lib.Material:
    config, dataset = self._config, self._dataset
    return material_lib.Material(
        config.benchmark, config.data, config.negatives,
        settings_of_rooms.encoding(config), settings_of_rooms.search(config),
        self._workdir, dataset, self._is_made_up,
        lambda: encoder_run.DualEncoderTraining(
            settings_of_rooms.training(config), self._workdir, lambda: dataset
        ),
    )

  @property
  def _dtype(self) -> str:
    return np.dtype(model_lib.compute_dtype(self._config.model)).name
