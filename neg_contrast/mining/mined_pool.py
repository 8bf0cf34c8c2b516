"""A pool that is mined as `config.negatives` says."""

import dataclasses
import functools
import operator
import pathlib
from typing import Any

import numpy as np
from absl import logging

from neg_contrast import errors, progress
from neg_contrast.artifacts import artifact, folders, kept_parts
from neg_contrast.mining import (
  candidate_folder,
  candidates,
  filters,
  pool_files,
  pool_folder,
  strategies,
)
from neg_contrast.mining import mining_task as task_lib
from neg_contrast.mining import texts as texts_lib
from neg_contrast.mining.strategies import strategy as strategy_lib
from neg_contrast.negatives import pool as pool_lib

_FILTERS = ('pool_size', 'first_rank', 'last_rank', 'margin', 'relative_margin',
            'drop_duplicates')
_TEXTS, _DATA, _EMBEDDINGS = 'texts', 'data', 'embeddings'  # Roles.
_DROPPED = 'dropped_by'


@dataclasses.dataclass(frozen=True)
class MinedPool(pool_folder.PoolFolder, artifact.Named):
  """Candidates of every strategy, filtered and joined.

  Attributes:
    workdir: the pool goes to its folder `pool`.
  """

  is_divided = True
  workdir: pathlib.Path

  @property
  def folder(self) -> pathlib.Path:
    """Where it lies."""
    return self.workdir / pool_lib.FOLDER

  @property
  def remedy(self) -> str:
    """What to do about a pool of something else."""
    return ('Put that back, or remove the folder to have it mined anew, or '
            f'name another {errors.flag("workdir")}')

  @property
  def sources(self) -> tuple[candidate_folder.CandidateFolder, ...]:
    """The candidates that it is made of; their order counts."""
    return tuple(
        candidate_folder.CandidateFolder(
            strategies.strategy_of(name, self.task)
        ) for name in self.config.sources
    )

  def describe(self) -> str:
    """Of what, and where."""
    return (f'hard negatives of {" + ".join(self.config.sources)} in '
            f'{self.folder}')

  def needs(self) -> dict[str, artifact.Artifact]:
    """Candidates by source; those that a miner is trained for come last."""
    ordered = sorted(self.sources,
                     key=operator.attrgetter('strategy.trains_miner'))
    return {source.name: source for source in ordered}

  def settings(self) -> dict[str, Any]:
    """Sources and filters."""
    names = [source.name for source in self.sources]
    return {
        'sources': names,
        **{key: getattr(self.config, key) for key in _FILTERS},
        'drop_answers': [name for name in names
                         if name in self.config.drop_answers],
        'answer_rule': self.task.answer_rule,
    }

  def check(self, made: Any, wanted: dict[str, Any] | None) -> None:
    """Refuses to replace a pool of other data, or by another model.

    One of other sources or filters is made again from the candidates.
    """
    if wanted is None or made is None:
      return
    lines = []
    for source in made['needs'].keys() & wanted['needs'].keys():
      there, here = (one['needs'][source]['needs'] for one in (made, wanted))
      for role in (_TEXTS, _DATA):
        lines += folders.differences(there[role], here[role])
      if _EMBEDDINGS in here:
        lines += folders.differences(
            there[_EMBEDDINGS]['model'], here[_EMBEDDINGS]['model'],
            f'the model of {source}',
        )
    self._refuse(sorted(set(lines)))

  def prepare(self) -> None:
    """Filters the candidates of all queries, in parts."""
    task = self.task.open()
    queries, (found, halves) = task.query_rows, self._candidates()
    blocks = self._blocks(task)
    corpus = self._corpus(task, halves)
    say = progress.Ticker('filtering', len(queries))

    def fill(
        part: int, scratch: pathlib.Path, manifest: dict[str, Any]
    ) -> None:
      del manifest
      np.save(scratch / f'{_DROPPED}.npy', pool_files.drop(
          blocks[part], queries, found, corpus, self.config
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
    manifest['unscored_queries'] = self._count_unscored(found)
    manifest['checkpoints'] = {
        source.name: strategy_lib.absolute(source.strategy.checkpoint)
        for source in self.sources if source.strategy.checkpoint
    }
    _log(manifest['counts'])

  def _blocks(self, task: task_lib.OpenTask) -> list[slice]:
    """The queries of each part."""
    return kept_parts.divide(
        len(task.query_rows), pool_files.QUERIES_AT_ONCE
    )

  def _candidates(
      self,
  ) -> tuple[dict[str, candidates.Candidates], np.ndarray]:
    """Candidates by source, and half passages."""
    found, halves = {}, np.zeros((0, 3), np.int32)
    for source in self.sources:
      found[source.name], own = source.load()
      halves = own if len(own) else halves
    return found, halves

  def _count_unscored(
      self, found: dict[str, candidates.Candidates]
  ) -> dict[str, int]:
    """Ranked source -> queries that a margin leaves without negatives of it."""
    if not filters.has_margin(self.config):
      return {}
    counts = {name: int(np.isnan(of.positive_scores).sum())
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
