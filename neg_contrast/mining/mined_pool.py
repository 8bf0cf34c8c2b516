"""A pool that is mined as `config.negatives` says."""

import functools
from typing import Any

import numpy as np
from absl import logging

from neg_contrast import progress
from neg_contrast.artifacts import folders, plan
from neg_contrast.mining import (
  candidate_folder,
  pool_files,
  pool_folder,
)
from neg_contrast.mining import texts as texts_lib
from neg_contrast.mining.strategies import strategy as strategy_lib
from neg_contrast.negatives import pool as pool_lib


class MinedPool(pool_folder.PoolFolder):
  """Mines by every strategy, filters the candidates and joins them."""

  remedy = ('Put that back, or remove the folder to have it mined anew, or '
            'name another --workdir')

  @functools.cached_property
  def _mined(self) -> dict[str, candidate_folder.CandidateFolder]:
    return candidate_folder.make_all(self._task)

  def steps(self) -> list[plan.Step]:
    """Mining by each strategy, those that train first last; then the pool."""
    if not self._mined:
      return []
    steps = []
    for mined in sorted(self._mined.values(),
                        key=lambda mined: mined.strategy.trains_miner):
      steps += mined.steps()
    return [*steps, plan.Step(
        'pool', f'hard negatives of {" + ".join(self._mined)} in '
        f'{self.folder}', self.is_made, self._make,
    )]

  def is_made(self) -> bool:
    """Whether the pool is there.

    Raises:
      UserError: one of another corpus, other queries or another checkpoint is.
    """
    made = folders.read_manifest(self.folder, pool_lib.FORMAT)
    wanted = self.identity
    if made is None or wanted is None:
      return False
    self._refuse(_foreign(made['identity'], wanted))
    return made['identity'] == wanted

  @property
  def identity(self) -> dict[str, Any] | None:
    """What the pool depends on; None before all miners are trained."""
    strategies = [mined.strategy for mined in self._mined.values()]
    if any(strategy.lacks() for strategy in strategies) or not all(
        strategy.training.is_trained()
        for strategy in strategies if strategy.trains_miner
    ):
      return None
    return folders.as_json(self._identity)

  @functools.cached_property
  def _identity(self) -> dict[str, Any]:
    settings = self._task.negatives
    return {
        'sources': list(self._mined),  # Their order counts.
        'inputs': {name: mined.identity for name, mined in self._mined.items()},
        'filters': {
            **{key: getattr(settings, key)
               for key in ('pool_size', 'first_rank', 'last_rank', 'margin',
                           'relative_margin', 'drop_duplicates')},
            'drop_answers': [name for name in self._mined
                             if name in settings.drop_answers],
            'answer_rule': self._task.evaluation.answer_rule,
        },
    }

  def release(self) -> None:
    """Lets go of the weights of miners; they are read again when asked for."""
    for mined in self._mined.values():
      mined.strategy.release()

  def _make(self) -> None:
    task, found, halves = self._task, {}, np.zeros((0, 3), np.int32)
    for name, mined in self._mined.items():
      found[name], own = mined.read()
      halves = own if len(own) else halves
    identity = self.identity
    assert identity is not None  # The steps before saw to that.
    pool_files.write(
        self.folder, identity, task.query_rows, found, halves,
        self._corpus(halves), task.negatives,
        progress.Ticker('filtering', len(task.query_rows)),
        {'checkpoints': {
            name: strategy_lib.absolute(mined.strategy.checkpoint)
            for name, mined in self._mined.items() if mined.strategy.checkpoint
        }},
    )
    self.__dict__.pop('pool', None)
    _log(self.pool)

  def _corpus(self, halves: np.ndarray) -> pool_files.Corpus:
    """What the filters have to know."""
    task, prepared = self._task, self._task.dataset.prepared
    texts, rule = task.texts(halves), task.evaluation.answer_rule
    return pool_files.Corpus(
        prepared.passage_groups, task.positives,
        lambda queries, rows, where: texts_lib.find_answers(
            texts, [prepared.queries[int(row)].answers for row in queries],
            rows, where, rule,
        ),
    )


def _log(pool: pool_lib.Pool) -> None:
  for source, counts in pool.counts().items():
    logging.info('%s: %d negatives; dropped: %s', source,
                 counts['negatives'], ', '.join(
                     f'{name} {counts[name]}' for name in
                     pool_lib.DROPPED_BY[1:] if counts[name]
                 ) or 'none')
    if not counts['negatives']:
      logging.warning('%s gives no hard negative at all; loosen the filters '
                      'of config.negatives, or leave it out', source)


def _foreign(there: dict[str, Any], here: dict[str, Any]) -> list[str]:
  """How the sources that two pools share differ in more than their settings.

  A pool of other sources or filters is made again from the candidates; one of
  other data or another checkpoint is not ours to replace.
  """
  lines = []
  for source in there['inputs'].keys() & here['inputs'].keys():
    ours, theirs = here['inputs'][source], there['inputs'][source]
    for key in ('corpus', 'queries', 'data'):
      lines += folders.differences(theirs[key], ours[key], key)
    if 'embeddings' in ours:
      lines += folders.differences(
          theirs['embeddings']['model'], ours['embeddings']['model'],
          f'the model of {source}',
      )
  return sorted(set(lines))
