"""An audit of hard negatives: evidence and verdict, in a file."""

import dataclasses
import pathlib
from typing import Any

from neg_contrast.artifacts import artifact
from neg_contrast.mining import audit_evidence, audit_verdict, audited_pool
from neg_contrast.mining.strategies import model_negatives
from neg_contrast.models import by_name as model_lib
from neg_contrast.retrieval import corpus_vectors

FILE = 'audit.json'  # Of a workdir.


@dataclasses.dataclass(frozen=True)
class PoolAudit(artifact.Json):
  """Which hard negatives suit a data set, before any training.

  Attributes:
    pool: unfiltered candidates of all sources.
    scale: factor on scores in the loss.
    pool_size: negatives of a source that would be drawn from.
    workdir: has the file.
  """

  kind = 'an audit of negatives'
  format = 5  # 3 had other verdicts, 4 other words of some scripts.
  name = 'audit'
  pool: audited_pool.AuditedPool
  scale: float
  pool_size: int
  workdir: pathlib.Path

  @property
  def path(self) -> pathlib.Path:
    """Of the file."""
    return self.workdir / FILE

  def describe(self) -> str:
    """Where it lies."""
    return f'evidence and verdict in {self.path}'

  def needs(self) -> dict[str, artifact.Artifact]:
    """Candidates and judge."""
    return {'candidates': self.pool, 'vectors': self._vectors}

  def settings(self) -> dict[str, Any]:
    """What the verdict depends on."""
    return {'scale': self.scale, 'pool_size': self.pool_size}

  def compute(self) -> dict[str, Any]:
    """Looks at all candidates, and judges.

    Raises:
      UserError: the judge has several vectors for a text.
    """
    task, vectors = self.pool.task, self._vectors
    model_lib.check_one_vector(
        vectors.model.load(), 'the judge of an audit has'
    )
    gathered = audit_evidence.Gatherer(
        self.pool.dataset, task.split, self.pool.load(), vectors.load(),
        task.answer_rule,
    ).gather()
    return {
        'dataset': self.pool.dataset.name,
        'split': task.split,
        'checkpoint': task.checkpoint,
        **audit_verdict.judge(
            gathered, self.scale, task.depth, self.pool_size, task.checkpoint
        ),
    }

  @property
  def _vectors(self) -> corpus_vectors.Embeddings:
    """Of the judge, which the strategy `model` mines with too."""
    model = model_negatives.Model
    return model(self.pool.task.only(model.reads)).embeddings
