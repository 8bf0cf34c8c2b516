"""Mines a pool of hard negatives, for this or any other trainer."""

import dataclasses
import pathlib

from neg_contrast.artifacts import artifact, folders
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.jobs.common import (
  checks,
  declared_pools,
  negatives_checks,
  reporting,
)
from neg_contrast.mining import pool_table, trainer_files
from neg_contrast.settings import config as config_lib
from neg_contrast.settings import source_list


def check(config: config_lib.Config) -> None:
  """Refuses a config that does not suit `job=mine`."""
  checks.check_source(config)
  if not (config.negatives.strategies or config.negatives.pool):
    raise config.error('negatives.sources', 'have nothing to mine; choose of '
                       f'{", ".join(config_lib.MINED.names)}')
  negatives_checks.check_mined(config)


class MineJob:
  """`job=mine`: candidates, filters, a pool, and files for other trainers."""

  def __init__(self, config: config_lib.Config, workdir: pathlib.Path):
    """Reads nothing yet."""
    if config.negatives.pool:  # All that it has.
      config = dataclasses.replace(config, negatives=dataclasses.replace(
          config.negatives, sources=(f'{source_list.POOL}:1',)
      ))
    self._config, self._workdir = config, workdir
    self._data = dataset_lib.data_of(config.data)
    self.pool = declared_pools.negatives(
        config, workdir, self._data, self._data
    )
    formats = tuple(sorted(set(config.negatives.formats)))
    self._files = trainer_files.TrainerFiles(
        self.pool, formats, workdir
    ) if formats else None

  def targets(self) -> list[artifact.Artifact]:
    """The pool, and its files."""
    files = [] if self._files is None else [self._files]
    return [self._data, self.pool, *files]

  def finish(self) -> None:
    """Says what came out and how to train with it."""
    pool, place = self.pool.load(), self.pool.folder
    folders.write_sealed(self._workdir / folders.MANIFEST, {
        'config': config_lib.to_dict(self._config),
        'environment': folders.environment(),
        'pool': pool.manifest,
    })
    counts = pool_table.format_counts(pool.manifest['counts'], len(pool))
    print(f'\n{counts}\n\n'
          f'{place}: negatives of {len(pool)} queries. To train with them:\n'
          f'  --config.negatives.pool={place} '
          f'--config.negatives.sources={source_list.POOL}:2')
    if self._files is not None:
      for name, rows in self._files.load().items():
        path = self._files.folder / name
        print(f'{path}: {rows["rows"]} rows, '
              f'{path.stat().st_size / 1000:,.0f} kB')
    judged = self.pool.verdicts
    values = None if judged is None else judged.judge.calibration.load()
    reporting.write_report(self._workdir, self._config, self._data.load(),
                           negatives=self.pool, calibration=values)
