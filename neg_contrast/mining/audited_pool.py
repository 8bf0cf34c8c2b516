"""The candidates of an audit: of all sources that apply to the data."""

import dataclasses
import functools

from neg_contrast.artifacts import artifact
from neg_contrast.mining import candidate_folder, mined_pool


@dataclasses.dataclass(frozen=True)
class AuditedPool(mined_pool.MinedPool):
  """A pool of those sources alone, known once the data is prepared."""

  name = 'candidates'

  def describe(self) -> str:
    """Of what, and where."""
    task = self.task
    judged = f', judged by {self.judge.model.checkpoint}' if self.judge else ''
    return (f'top {task.depth} of all sources for {task.max_queries:,} queries '
            f'of {task.split}{judged} in '
            f'{task.mined_dir / candidate_folder.FOLDER}')

  def needs(self) -> dict[str, artifact.Artifact]:
    """The data; and once that is prepared, candidates too."""
    data = self.task.data
    if data.contents() is None:
      return {'data': data}
    return super().needs()

  @functools.cached_property
  def sources(self) -> tuple[candidate_folder.CandidateFolder, ...]:
    """Of the strategies that apply."""
    task = self.task.open()
    return tuple(source for source in super().sources
                 if source.strategy.applies(task))
