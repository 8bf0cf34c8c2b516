"""A given pool whose candidates a judge looks at: filtered again, as a new one.
"""

import dataclasses
import hashlib
import pathlib
from typing import Any

import numpy as np

from neg_contrast import errors
from neg_contrast.artifacts import artifact
from neg_contrast.mining import candidates as candidates_lib
from neg_contrast.mining import (
  filtered_pool,
  given_pool,
  pool_verdicts,
)
from neg_contrast.mining import judge_model as judge_lib
from neg_contrast.negatives import pool as pool_lib


@dataclasses.dataclass(frozen=True)
class PooledCandidates(artifact.InMemory):
  """The candidates of a source, as a given pool keeps them.

  Which of them its filters dropped is no part of their identity.

  Attributes:
    given: the pool.
    number: of the source.
  """

  kind = 'candidates of a pool'
  given: given_pool.GivenPool
  number: int

  @property
  def name(self) -> str:
    """That of the source."""
    return self.given.pool.sources[self.number]

  def describe(self) -> str:
    """Where they lie."""
    return f'candidates in {self.given.folder}'

  def needs(self) -> dict[str, artifact.Artifact]:
    """The pool."""
    return {'given': self.given}

  def read(self) -> tuple[candidates_lib.Candidates, np.ndarray]:
    """As `candidates.read`."""
    pool = self.given.load()
    return candidates_lib.of_pool(pool, self.number), pool.halves

  def _find_contents(self, role: str) -> Any:
    """The rows."""
    del role
    if self.given.contents() is None:
      return None
    found, halves = self.load()
    digest = hashlib.sha256()
    for values in (self.given.load().query_rows, found.rows, halves):
      digest.update(np.ascontiguousarray(values).tobytes())
    return {'kind': self.kind, 'rows': digest.hexdigest()}


@dataclasses.dataclass(frozen=True)
class JudgedPool(filtered_pool.FilteredPool):
  """All filters of the config, and the judge's, over what a pool holds.

  Attributes:
    workdir: the pool goes to its folder `pool`.
    given: what is judged.
    judge: who judges.
  """

  workdir: pathlib.Path
  given: given_pool.GivenPool
  judge: judge_lib.Judge

  @property
  def folder(self) -> pathlib.Path:
    """Where it lies."""
    return self.workdir / pool_lib.FOLDER

  @property
  def remedy(self) -> str:
    """What to do about a pool of something else."""
    return f'Name another {errors.flag("workdir")}'

  def describe(self) -> str:
    """Of what, and where."""
    return f'what a judge leaves of {self.given.folder} in {self.folder}'

  def lacks(self) -> str | None:
    """A place of its own."""
    if self.folder.resolve() == self.given.folder.resolve():
      return (f'{self.folder}: is the pool that is judged; name another '
              f'{errors.flag("workdir")}')
    return None

  def needs(self) -> dict[str, artifact.Artifact]:
    """The pool; and once that is there, the verdicts on it."""
    if self.given.contents() is None:
      return {'given': self.given, 'judge': self.judge.model}
    assert self.verdicts is not None
    return {'given': self.given, **self.verdicts.needs()}

  def settings(self) -> dict[str, Any]:
    """The filters."""
    return {
        **{key: getattr(self.config, key)
           for key in filtered_pool.FILTERS},
        'drop_answers': list(self.config.drop_answers),
        'answer_rule': self.task.answer_rule,
        'judge': pool_verdicts.settings(self.config),
    }

  @property
  def verdicts(self) -> pool_verdicts.PoolVerdicts | None:
    """On the candidates of the given pool."""
    return pool_verdicts.of(self.judge, self.task, {
        one.name: one for one in self._listed
    })

  def _candidates(self):
    return ({one.name: one.load()[0] for one in self._listed},
            self.given.load().halves)

  def _checkpoints(self) -> dict[str, str]:
    return self.given.load().manifest['checkpoints']

  @property
  def _listed(self) -> list[PooledCandidates]:
    return [PooledCandidates(self.given, number)
            for number in range(len(self.given.load().sources))]
