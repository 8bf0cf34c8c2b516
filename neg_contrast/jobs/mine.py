"""Mines a pool of hard negatives, for this or any other trainer."""

import functools
import pathlib

from neg_contrast import artifacts, plan
from neg_contrast import config as config_lib
from neg_contrast.jobs import dataset as dataset_lib
from neg_contrast.jobs import negatives as negatives_lib


class MineJob:
  """`job=mine`: candidates, filters, a pool."""

  def __init__(self, config: config_lib.Config, workdir: pathlib.Path):
    """Reads nothing yet."""
    self._config, self._workdir = config, workdir
    self._negatives = negatives_lib.Negatives(
        config, workdir, lambda: self._dataset
    )

  def steps(self) -> list[plan.Step]:
    """The plan."""
    return [
        dataset_lib.preparation_step(self._config.data, lambda: self._dataset),
        *self._negatives.steps(),
    ]

  def finish(self) -> None:
    """Says what came out."""
    artifacts.write_json(self._workdir / artifacts.MANIFEST, {
        'config': config_lib.to_dict(self._config),
        'environment': artifacts.environment(),
        'pool': self._negatives.pool.manifest,
    })

  @functools.cached_property
  def _dataset(self) -> dataset_lib.Dataset:
    return dataset_lib.Dataset(self._config.data)
