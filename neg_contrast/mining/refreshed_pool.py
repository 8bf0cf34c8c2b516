"""A mined pool that a training makes again by its own model.

Candidates of dense strategies are replaced by the model's nearest passages.
Those of others stay as they were mined, and are read from the mined pool. All
filters apply again, margins with the model's scores of the positives.
"""

import contextlib
import dataclasses
import pathlib
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from absl import logging
from jaxtyping import Int, Integer

from neg_contrast import errors, progress
from neg_contrast.artifacts import artifact, kept_parts
from neg_contrast.mining import (
  candidates,
  filtered_pool,
  pool_folder,
)
from neg_contrast.mining import mining_task as task_lib
from neg_contrast.negatives import hubness, refresh
from neg_contrast.settings import config as config_lib

_FOUND, _VECTORS = 'found', 'vectors'  # Parts.
_QUERIES_AT_ONCE = 4096
_MADE = 1  # Raised when the same model gives another pool.


@dataclasses.dataclass(frozen=True)
class RefreshedPool(filtered_pool.FilteredPool):
  """A generation of a mined pool.

  Its sources are those of the mined pool, with the same numbers. What the model
  finds has the name of the first dense one; the other dense ones are empty.

  Attributes:
    moment: when it is made, and in which training.
    mined: generation 0.
    open_retriever: searches by the model.
    seconds: that processes spent here together, by what they did.
  """

  moment: refresh.Moment
  mined: pool_folder.PoolFolder
  open_retriever: refresh.OpenRetriever = dataclasses.field(
      compare=False, repr=False
  )
  seconds: dict[str, float] = dataclasses.field(
      default_factory=dict, compare=False, repr=False
  )

  @property
  def folder(self) -> pathlib.Path:
    """Where it lies."""
    return self.moment.folder

  @property
  def remedy(self) -> str:
    """Nothing: one of another training is replaced."""
    return ''

  @property
  def replaced(self) -> list[str]:
    """The sources whose candidates the model's replace."""
    return list(self.config.dense)

  def describe(self) -> str:
    """Of what, and where."""
    return (f'hard negatives by the model after step {self.moment.step} in '
            f'{self.folder}')

  def needs(self) -> dict[str, artifact.Artifact]:
    """The pool before any training."""
    return {'mined': self.mined}

  def settings(self) -> dict[str, Any]:
    """When it is made, and by which training."""
    return {'step': self.moment.step, 'run': self.moment.run, 'made': _MADE}

  def prepare(self) -> None:
    """Encodes, searches and filters, all in parts."""
    task = self.task.open()
    blocks, parts = self._searched(task)
    searcher = self._searcher(task)
    miner = candidates.SearchMiner(searcher, task.positives)
    say = progress.Ticker(
        f'searching negatives after step {self.moment.step}',
        len(task.query_rows),
    )

    def mine(part: int) -> candidates.Candidates:
      with self._timed('encoding'):
        searcher.encode()
      with self._timed('searching'):
        found = miner.mine(task.query_rows[blocks[part]])
      say(blocks[part].stop)
      return found

    parts.make_together(
        mine, lambda found, scratch, _: candidates.write_part(scratch, found)
    )
    with self._timed('filtering'):
      super().prepare()

  def write(self, scratch: pathlib.Path, manifest: dict[str, Any]) -> None:
    """Joins the candidates; adds cost and effect to the manifest."""
    super().write(scratch, manifest)
    task = self.task.open()
    passages = len(task.prepared.passages if task.among is None
                   else task.among)
    manifest[refresh.FACTS] = {
        refresh.REPLACED: self.replaced,
        'passages': passages,
        'queries': len(task.query_rows),
        'seconds': {name: round(value, 3)
                    for name, value in self.seconds.items()},
        'new': self._part_new(scratch),
        'hubness': hubness.measure(self._fresh(task).rows, passages),
        'counts': {
            name: value for name, value in
            manifest['counts'][self.replaced[0]].items() if value
        },
    }

  def _candidates(
      self,
  ) -> tuple[dict[str, candidates.Candidates], np.ndarray]:
    pool, (first, *others) = self.mined.pool, self.replaced
    found = {name: candidates.of_pool(pool, number)
             for number, name in enumerate(pool.sources)}
    found[first] = self._fresh(self.task.open())
    for name in others:
      found[name] = found[first].first(0)
    return found, pool.halves

  def _fresh(self, task: task_lib.OpenTask) -> candidates.Candidates:
    """What the model finds."""
    blocks, parts = self._searched(task)
    return candidates.join([
        candidates.read_part(
            parts, part, lines.stop - lines.start, self.task.depth
        ) for part, lines in enumerate(blocks)
    ])

  def _searched(
      self, task: task_lib.OpenTask
  ) -> tuple[list[slice], kept_parts.KeptParts]:
    """The queries of each part of a search, and the parts."""
    blocks = candidates.divide(
        len(task.query_rows), _QUERIES_AT_ONCE, task.positives
    )
    return blocks, self.parts(_FOUND, len(blocks))

  def _searcher(self, task: task_lib.OpenTask) -> refresh.Searcher:
    folder = self.parts(_VECTORS, 1).folder
    return refresh.Searcher(
        self.open_retriever(folder, task.among), task.dataset,
        self.task.depth, task.among,
    )

  @contextlib.contextmanager
  def _timed(self, what: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    self.seconds[what] = (
        self.seconds.get(what, 0.0) + time.monotonic() - began
    )

  def _part_new(self, scratch: pathlib.Path) -> float | None:
    """Negatives by the model that the generation before did not have.

    None where that is not there any more, which training does not need.
    """
    before, pool = self.moment.before, self.mined.pool
    if before is not None:
      try:
        pool = refresh.read(before, pool)
      except errors.UserError as e:
        logging.warning('how many negatives are new is not known: %s', e)
        return None
    arrays = {name: np.load(scratch / f'{name}.npy', mmap_mode='r')
              for name in ('rows', 'source', 'dropped_by')}
    numbers = [pool.sources.index(name) for name in self.replaced]
    is_new, count = 0, 0
    for begin in range(0, len(pool), _QUERIES_AT_ONCE):
      lines = slice(begin, begin + _QUERIES_AT_ONCE)
      now, then = (
          _keys(rows[lines], dropped[lines], source[lines], numbers)
          for rows, dropped, source in (
              (arrays['rows'], arrays['dropped_by'], arrays['source']),
              (pool.rows, pool.dropped_by, pool.source),
          )
      )
      is_new += int((~np.isin(now, then)).sum())
      count += len(now)
    return is_new / max(1, count)


def settings_of(
    config: config_lib.NegativesConfig,
) -> config_lib.NegativesConfig:
  """Filters of refreshed pools.

  What the model finds is looked through for answers if that of any strategy
  is, whose place it takes.
  """
  first, *others = config.dense
  if not {*others} & {*config.drop_answers}:
    return config
  return dataclasses.replace(
      config, drop_answers=(*config.drop_answers, first)
  )


def _keys(
    rows: Integer[np.ndarray, 'queries depth'],
    dropped: Integer[np.ndarray, 'queries depth'],
    source: Integer[np.ndarray, 'queries depth'],
    numbers: list[int],
) -> Int[np.ndarray, ' negatives']:
  """Line and row of each negative of some sources, as one number."""
  is_ours = (rows >= 0) & (dropped == 0) & np.isin(source, numbers)
  lines, columns = np.nonzero(is_ours)
  return lines.astype(np.int64) << 32 | rows[lines, columns]
