"""A pool of candidates that are at hand: filtered in parts, and joined."""

import abc
import dataclasses
import functools
import pathlib
from typing import Any

import numpy as np
from absl import logging

from neg_contrast import errors, progress
from neg_contrast.artifacts import artifact, kept_parts
from neg_contrast.mining import (
  candidates,
  filters,
  pool_files,
  pool_folder,
  strategies,
)
from neg_contrast.mining import mining_task as task_lib
from neg_contrast.mining import texts as texts_lib
from neg_contrast.negatives import pool as pool_lib

FILTERS = ('pool_size', 'first_rank', 'last_rank', 'margin', 'relative_margin',
           'drop_duplicates')
"""Keys of `config.negatives` that a pool depends on."""
_DROPPED = 'dropped_by'


@dataclasses.dataclass(frozen=True)
class FilteredPool(pool_folder.PoolFolder, artifact.Named):
  """Filters the candidates of all queries, and joins those of all sources."""

  is_divided = True

  @abc.abstractmethod
  def _candidates(
      self,
  ) -> tuple[dict[str, candidates.Candidates], np.ndarray]:
    """Candidates by source, and half passages."""

  def prepare(self) -> None:
    """Filters the candidates of all queries, in parts."""
    task = self.task.open()
    queries, (found, halves) = task.query_rows, self._candidates()
    blocks = self._blocks(task)
    corpus, judged = self._corpus(task, halves), self.verdicts
    say = progress.Ticker('filtering', len(queries))

    def fill(
        part: int, scratch: pathlib.Path, manifest: dict[str, Any]
    ) -> None:
      del manifest
      np.save(scratch / f'{_DROPPED}.npy', pool_files.drop(
          blocks[part], queries, found, corpus, self.config,
          judged.beliefs(blocks[part]) if judged else {},
      ))
      say(blocks[part].stop)

    self.parts(_DROPPED, len(blocks)).make(fill)

  def write(self, scratch: pathlib.Path, manifest: dict[str, Any]) -> None:
    """Joins the candidates, and what the filters drop of them."""
    task = self.task.open()
    found, halves = self._candidates()
    blocks = self._blocks(task)
    parts = self.parts(_DROPPED, len(blocks))
    pool_files.write(
        scratch, manifest, task.query_rows, found, halves,
        task.prepared.manifest['counts']['passages'],
        ((lines, parts.array(
            part, _DROPPED, (lines.stop - lines.start, None), np.uint8
        )) for part, lines in enumerate(blocks)),
    )
    if self.verdicts is not None:
      self.verdicts.write(scratch, manifest, self.config)
    manifest['unscored_queries'] = self._count_unscored(found)
    manifest['checkpoints'] = self._checkpoints()
    _log({source: by_filter for source, by_filter in manifest['counts'].items()
          if found[source].rows.shape[1]})

  def _checkpoints(self) -> dict[str, str]:
    """Source -> the place of the model that mined it."""
    return {}

  def _blocks(self, task: task_lib.OpenTask) -> list[slice]:
    """The queries of each part."""
    return kept_parts.divide(
        len(task.query_rows), pool_files.QUERIES_AT_ONCE
    )

  def _count_unscored(
      self, found: dict[str, candidates.Candidates]
  ) -> dict[str, int]:
    """Ranked source -> queries that a margin leaves without negatives of it."""
    if not filters.has_margin(self.config) or self.config.margin_by == 'judge':
      return {}
    counts = {name: int((~np.isfinite(of.positive_scores)).sum())
              for name, of in found.items() if strategies.is_ranked(name)}
    for name, count in counts.items():
      if count:
        logging.warning(
            '%s gives the positives of %d of %d queries no score to compare '
            'with, so that they get no negatives of it (%s)', name, count,
            len(found[name].positive_scores), errors.key('negatives.margin'),
        )
    return counts

  def _corpus(
      self, task: task_lib.OpenTask, halves: np.ndarray
  ) -> pool_files.Corpus:
    """What the filters have to know."""
    find = functools.partial(
        _find_answers, task, self.task.texts(halves), self.task.answer_rule
    )
    return pool_files.Corpus(
        task.prepared.passage_groups, task.positives, find
    )


def _find_answers(
    task: task_lib.OpenTask,
    texts: texts_lib.Texts,
    rule: str,
    query_rows: np.ndarray,
    rows: np.ndarray,
    where: np.ndarray,
) -> np.ndarray:
  """Which candidates of some queries hold an answer."""
  answers = [task.prepared.queries[int(row)].answers for row in query_rows]
  return texts_lib.find_answers(texts.some, answers, rows, where, rule)


def _log(counts: dict[str, dict[str, int]]) -> None:
  for source, by_filter in counts.items():
    logging.info('%s: %d negatives; dropped: %s', source,
                 by_filter['negatives'], ', '.join(
                     f'{name} {by_filter[name]}' for name in
                     pool_lib.DROPPED_BY[1:] if by_filter[name]
                 ) or 'none')
    if not by_filter['negatives']:
      logging.warning('%s gives no hard negative at all; loosen the filters '
                      'of %s, or leave it out', source,
                      errors.key('negatives'))
