"""The candidates of one strategy, in a folder that their identity names."""

import dataclasses
import pathlib
from typing import Any

import numpy as np

from neg_contrast import errors, progress
from neg_contrast.artifacts import artifact
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

  def prepare(self) -> None:
    """Mines all queries, in parts."""
    task = self._open()
    proposer, blocks = self.strategy.proposer(task), self._blocks(task)
    say = progress.Ticker(f'mining {self.name}', len(task.query_rows))

    def mine(part: int) -> candidates.Candidates:
      found = proposer.miner.mine(task.query_rows[blocks[part]])
      say(blocks[part].stop)
      return found

    def save(
        found: candidates.Candidates, scratch: pathlib.Path,
        manifest: dict[str, Any],
    ) -> None:
      candidates.write_part(scratch, found)
      manifest['facts'] = proposer.facts

    parts = self.parts(FOLDER, len(blocks))
    if self.strategy.is_on_mesh(task):
      parts.make_together(mine, save)
    else:
      parts.make(lambda part, *place: save(mine(part), *place))

  def write(self, scratch: pathlib.Path, manifest: dict[str, Any]) -> None:
    """Mines, or joins the parts."""
    task = self._open()
    rows, depth, blocks = task.query_rows, self._task.depth, self._blocks(task)
    if self.is_divided:
      parts = self.parts(FOLDER, len(blocks))
      candidates.write(scratch, manifest, len(rows), depth, (
          (lines, candidates.read_part(
              parts, part, lines.stop - lines.start, depth
          )) for part, lines in enumerate(blocks)
      ))
      manifest |= parts.manifest(0)['facts']
      return
    proposer = self.strategy.proposer(task)
    candidates.write(
        scratch, manifest, len(rows), depth,
        candidates.mine(proposer.miner, rows, blocks), proposer.halves,
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

  def _blocks(self, task: task_lib.OpenTask) -> list[slice]:
    """The queries of each part."""
    return candidates.divide(
        len(task.query_rows), self.strategy.queries_at_once,
        task.positives if self.strategy.is_on_mesh(task) else None,
    )

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
