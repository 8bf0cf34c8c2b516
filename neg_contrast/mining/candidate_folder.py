"""The candidates of one strategy, in a folder that their identity names."""

import collections
import dataclasses
import pathlib
from typing import Any

import numpy as np

from neg_contrast import errors, hosts, progress
from neg_contrast.artifacts import artifact, folders
from neg_contrast.mining import candidates, strategies
from neg_contrast.mining import mining_task as task_lib

FOLDER = 'candidates'  # Of `negatives.mined_dir`.


@dataclasses.dataclass(frozen=True)
class CandidateFolder(artifact.Cached):
  """What a strategy proposes for the queries of its task.

  It loads as candidates and half passages, see `candidates.read`.

  Attributes:
    strategy: proposes them.
  """

  kind = candidates.FORMAT.kind
  format = candidates.FORMAT.number
  strategy: strategies.Strategy

  @property
  def name(self) -> str:
    """That of the strategy."""
    return self.strategy.name

  @property
  def root(self) -> pathlib.Path:
    """Of the candidates of all strategies."""
    return self._task.mined_dir / FOLDER

  @property
  def label(self) -> str:
    """Data and strategy."""
    return f'{self._task.data.load().name}-{self.name}'

  def describe(self) -> str:
    """Of what, and where."""
    return (f'top {self._task.depth} of {self.name} for every query of '
            f'{self._task.split} in {self.root}')

  @property
  def is_divided(self) -> bool:
    """All processes mine together where candidates are ranked."""
    return self.strategy.is_ranked

  def needs(self) -> dict[str, artifact.Artifact]:
    """Texts, judgements, and what the strategy mines with."""
    data = self._task.data
    return {'texts': data, 'data': data, **self.strategy.needs()}

  def settings(self) -> dict[str, Any]:
    """Queries and depth, and those of the strategy."""
    return {**self._task.settings(), **self.strategy.settings()}

  def lacks(self) -> str | None:
    """What the strategy lacks."""
    return self.strategy.lacks()

  @property
  def identity(self) -> dict[str, Any] | None:
    """What the candidates depend on; None: something lacks, or is not made."""
    return None if self.lacks() else super().identity

  def build(self) -> None:
    """Mines; processes that mine together don't wait for another program."""
    if not (self.is_divided and hosts.are_several()):
      super().build()
    elif hosts.is_first():
      manifest = {'identity': self.identity}
      with folders.writing(self.folder, manifest,
                           format=self._format) as scratch:
        self.write(scratch, manifest)
    else:
      task = self._open()
      collections.deque(candidates.mine(
          task.query_rows, self._task.depth, self.strategy.proposer(task).miner,
          divide=True,
      ), maxlen=0)

  def write(self, scratch: pathlib.Path, manifest: dict[str, Any]) -> None:
    """Mines into files."""
    task = self._open()
    proposer, count = self.strategy.proposer(task), len(task.query_rows)
    candidates.write(
        scratch, manifest, task.query_rows, self._task.depth, proposer.miner,
        progress.Ticker(f'mining {self.name}', count), proposer.halves,
        self.is_divided,
    )
    manifest |= proposer.facts

  def read(self) -> tuple[candidates.Candidates, np.ndarray]:
    """Maps the candidates, and their half passages."""
    return candidates.read(
        self.folder, len(self._task.data.load().prepared.passages)
    )

  @property
  def _task(self) -> task_lib.Task:
    return self.strategy.task

  def _open(self) -> task_lib.OpenTask:
    """The task with its data.

    Raises:
      UserError: nothing is to be mined.
    """
    task = self._task.open()
    if not len(task.query_rows):
      raise errors.UserError(
          f'{task.source}: no query of the split "{self._task.split}" has a '
          'positive passage, so there is nothing to mine negatives for'
      )
    return task
