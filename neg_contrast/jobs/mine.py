"""Mines a pool of hard negatives, for this or any other trainer."""

import functools
import pathlib
from collections.abc import Iterator
from typing import Any

from absl import logging

from neg_contrast import progress
from neg_contrast.artifacts import folders, plan
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import examples
from neg_contrast.jobs import assembly, checks, negatives_checks, reporting
from neg_contrast.mining import pool_table, training_files
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.settings import config as config_lib

FOLDER = 'for_trainers'  # Of a workdir: files for other libraries.
_FORMAT = 1  # Of that folder.
_PASSAGES_HELD = 4096  # Texts in memory; several queries share a negative.


def check(config: config_lib.Config) -> None:
  """Refuses a config that does not suit `job=mine`."""
  checks.check_source(config)
  if not (config.negatives.sources or config.negatives.pool):
    raise config.error('negatives.strategy', 'has nothing to mine; choose '
                       f'{", ".join(config_lib.MINED)} or mixed')
  negatives_checks.check_mined(config)


class MineJob:
  """`job=mine`: candidates, filters, a pool, and files for other trainers."""

  def __init__(self, config: config_lib.Config, workdir: pathlib.Path):
    """Reads nothing yet."""
    self._config, self._workdir = config, workdir
    self._folder = workdir / FOLDER
    self._formats = sorted(set(config.negatives.formats))
    self._negatives = assembly.negatives(
        config, workdir, lambda: self._dataset
    )

  def steps(self) -> list[plan.Step]:
    """The plan."""
    steps = [
        dataset_lib.preparation_step(self._config.data, lambda: self._dataset),
        *self._negatives.steps(),
    ]
    if self._formats:
      steps.append(plan.Step(
          'files', f'{", ".join(self._formats)} in {self._folder}',
          self._is_written, self._write,
      ))
    return steps

  def finish(self) -> None:
    """Says what came out and how to train with it."""
    negatives = self._config.negatives
    pool = self._negatives.pool
    folders.write_sealed(self._workdir / folders.MANIFEST, {
        'config': config_lib.to_dict(self._config),
        'environment': folders.environment(),
        'pool': pool.manifest,
    })
    place, counts = self._place, pool.manifest['counts']
    print(f'\n{pool_table.format_counts(counts, len(pool))}\n\n'
          f'{place}: negatives of {len(pool)} queries. To train with them:\n'
          f'  --config.negatives.pool={place} '
          f'--config.negatives.strategy={negatives.strategy} '
          '--config.negatives.per_query=2')
    if self._formats:
      made = folders.read_json(self._folder / folders.MANIFEST)['files']
      for name, counts in made.items():
        path = self._folder / name
        print(f'{path}: {counts["rows"]} rows, '
              f'{path.stat().st_size / 1000:,.0f} kB')
    reporting.write_report(self._workdir, self._config, self._dataset,
                        negatives=self._negatives)

  @functools.cached_property
  def _dataset(self) -> dataset_lib.Dataset:
    return dataset_lib.Dataset(self._config.data)

  @property
  def _place(self) -> pathlib.Path:
    given = self._config.negatives.pool
    return pathlib.Path(given) if given else self._workdir / pool_lib.FOLDER

  @property
  def _identity(self) -> dict[str, Any]:
    return {
        'format': _FORMAT,
        'formats': self._formats,
        'split': self._config.data.train_split,
        'pool': self._negatives.pool.manifest['identity'],
    }

  def _is_written(self) -> bool:
    manifest = folders.read_manifest(self._folder)
    return (
        manifest is not None and self._negatives.is_made()
        and manifest['identity'] == self._identity
        and all((self._folder / name).is_file() for name in manifest['files'])
    )

  def _write(self) -> None:
    manifest: dict[str, Any] = {'identity': self._identity}
    split = self._config.data.train_split
    with folders.writing(self._folder, manifest) as scratch:
      made = training_files.write(scratch, split, self._formats, self._items())
      manifest['files'] = made
    for name, counts in made.items():
      logging.info('%s: %d rows%s', name, counts['rows'], (
          f'; left out {counts["left_out"]} queries that lack negatives'
          if counts['left_out'] else ''
      ))

  def _items(self) -> Iterator[training_files.Item]:
    prepared, pool = self._dataset.prepared, self._negatives.pool
    say = progress.Ticker('writing', len(pool))
    judgements = prepared.judgements(self._config.data.train_split)
    for done, item in enumerate(training_files.read_items(
        pool, prepared.queries, training_files.positives_of(judgements),
        functools.lru_cache(_PASSAGES_HELD)(self._negatives.texts),
        examples.known_positives(prepared).most == 1,
    ), start=1):
      yield item
      say(done)
