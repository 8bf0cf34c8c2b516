"""A pool that is mined as `config.negatives` says."""

import dataclasses
import operator
import pathlib
from typing import Any

import numpy as np

from neg_contrast import errors, hosts
from neg_contrast.artifacts import artifact, folders
from neg_contrast.mining import (
  candidate_folder,
  candidates,
  filtered_pool,
  pool_verdicts,
  refreshed_pool,
  strategies,
)
from neg_contrast.mining import judge_model as judge_lib
from neg_contrast.mining.strategies import strategy as strategy_lib
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.negatives import refresh

_TEXTS, _DATA, _EMBEDDINGS = 'texts', 'data', 'embeddings'  # Roles.


@dataclasses.dataclass(frozen=True)
class MinedPool(filtered_pool.FilteredPool):
  """Candidates of every strategy, filtered and joined.

  Attributes:
    workdir: the pool goes to its folder `pool`.
    judge: of the candidates; None: nobody judges.
  """

  workdir: pathlib.Path
  judge: judge_lib.Judge | None = None

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
        ) for name in self.config.strategies
    )

  def describe(self) -> str:
    """Of what, and where."""
    return (f'hard negatives of {" + ".join(self.config.strategies)} in '
            f'{self.folder}')

  def needs(self) -> dict[str, artifact.Artifact]:
    """Candidates by source; those that a miner is trained for come last."""
    ordered = sorted(self.sources,
                     key=operator.attrgetter('strategy.trains_miner'))
    judged = self.verdicts
    return {**{source.name: source for source in ordered},
            **(judged.needs() if judged else {})}

  @property
  def verdicts(self) -> pool_verdicts.PoolVerdicts | None:
    """On the candidates of all sources, and on the positives."""
    return pool_verdicts.of(
        self.judge, self.task, {one.name: one for one in self.sources}
    )

  def settings(self) -> dict[str, Any]:
    """Sources and filters."""
    names = [source.name for source in self.sources]
    return {
        'sources': names,
        **{key: getattr(self.config, key) for key in filtered_pool.FILTERS},
        'drop_answers': [name for name in names
                         if name in self.config.drop_answers],
        'answer_rule': self.task.answer_rule,
        **({'judge': pool_verdicts.settings(self.config)}
           if self.judge else {}),
    }

  def check(self, made: Any, wanted: dict[str, Any] | None) -> None:
    """Refuses to replace a pool of other data, or by another model.

    One of other sources or filters is made again from the candidates.
    """
    if wanted is None or made is None:
      return
    lines = []
    for source in made['needs'].keys() & wanted['needs'].keys():
      if source not in wanted['settings']['sources']:
        continue  # A judge, whose change makes the pool again.
      there, here = (one['needs'][source]['needs'] for one in (made, wanted))
      for role in (_TEXTS, _DATA):
        lines += folders.differences(there[role], here[role])
      if _EMBEDDINGS in here:
        lines += folders.differences(
            there[_EMBEDDINGS]['model'], here[_EMBEDDINGS]['model'],
            f'the model of {source}',
        )
    self._refuse(sorted(set(lines)))

  def remake(
      self, moment: refresh.Moment, open_retriever: refresh.OpenRetriever
  ) -> None:
    """Makes it again by another model; see `refreshed_pool.py`."""
    made = refreshed_pool.RefreshedPool(
        self.task, refreshed_pool.settings_of(self.config), moment, self,
        open_retriever,
    )
    if not hosts.on_first(made.is_made):
      made.build()
    artifact.changed(made)  # Else what is known of it would keep the model.

  def _candidates(
      self,
  ) -> tuple[dict[str, candidates.Candidates], np.ndarray]:
    found, halves = {}, np.zeros((0, 3), np.int32)
    for source in self.sources:
      found[source.name], own = source.load()
      halves = own if len(own) else halves
    return found, halves

  def _checkpoints(self) -> dict[str, str]:
    return {
        source.name: strategy_lib.absolute(source.strategy.checkpoint)
        for source in self.sources if source.strategy.checkpoint
    }
