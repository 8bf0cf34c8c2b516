"""Judges the candidates of a pool, and makes the pool that is left."""

import pathlib

from neg_contrast.artifacts import artifact
from neg_contrast.evaluation import calibrated
from neg_contrast.jobs import mine
from neg_contrast.mining import verdict_table
from neg_contrast.settings import config as config_lib


def check(config: config_lib.Config) -> None:
  """Refuses a config that does not suit `job=judge`."""
  mine.check(config)
  if not config.negatives.judge:
    raise config.error('negatives.judge', 'is needed: the workdir of a trained '
                       'reranker (configs/judge_reranker.py), or a '
                       'cross-encoder of one label')


class JudgeJob:
  """`job=judge`: candidates, or a given pool, in; a pool without positives out.
  """

  def __init__(self, config: config_lib.Config, workdir: pathlib.Path):
    """Reads nothing yet."""
    self._mining = mine.MineJob(config, workdir)

  def targets(self) -> list[artifact.Artifact]:
    """The pool, which needs the verdicts, and its files."""
    return self._mining.targets()

  def finish(self) -> None:
    """Says how far the judge can be trusted, and what it found."""
    self._mining.finish()
    pool, judged = self._mining.pool.load(), self._mining.pool.verdicts
    assert judged is not None and pool.verdicts is not None
    print(f'\n{calibrated.describe(judged.judge.calibration.load())}\n\n'
          f'{verdict_table.format_verdicts(pool, pool.verdicts)}')
