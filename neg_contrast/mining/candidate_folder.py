"""The candidates of one strategy, in a folder that their identity names."""

import pathlib
from typing import Any

import numpy as np

from neg_contrast import errors, hosts, progress
from neg_contrast.artifacts import folders, plan
from neg_contrast.mining import candidates, strategies
from neg_contrast.mining import mining_task as task_lib

FOLDER = 'candidates'  # Of `negatives.mined_dir`.


class CandidateFolder:
  """Mines what a strategy proposes for the queries of a task, once."""

  def __init__(self, strategy: strategies.Strategy, task: task_lib.Task):
    """Reads nothing yet."""
    self.strategy, self._task = strategy, task

  def steps(self) -> list[plan.Step]:
    """Training the miner, if there is one, and mining."""
    strategy, task = self.strategy, self._task
    steps = []
    if strategy.trains_miner:
      steps.append(plan.Step(
          f'{strategy.name} miner', strategy.describes_miner,
          lambda: strategy.training.is_trained(), missing=strategy.lacks,
          share=lambda: strategy.training.train_once(),
      ))
    return [*steps, plan.Step(
        strategy.name, f'top {task.negatives.depth} of {strategy.name} for '
        f'every query of {task.split} in {task.mined_dir / FOLDER}',
        self.is_mined,
        run=plan.nothing if strategy.is_ranked else self._mine,
        missing=strategy.lacks,
        share=self._mine if strategy.is_ranked else plan.nothing,
    )]

  @property
  def identity(self) -> dict[str, Any]:
    """What the candidates depend on."""
    manifest, task = self._task.dataset.prepared.manifest, self._task
    return {
        'corpus': manifest['corpus_fingerprint'],
        'queries': manifest['queries_fingerprint'],
        'data': manifest['fingerprint'],  # Judgements too.
        'split': task.split,
        'depth': task.negatives.depth,
        **({'max_queries': task.max_queries} if task.max_queries else {}),
        **self.strategy.settings(),
    }

  @property
  def folder(self) -> pathlib.Path:
    """Its name holds the identity."""
    code = folders.sha256_json(self.identity)[:12]
    name = f'{self._task.dataset.name}-{self.strategy.name}-{code}'
    return self._task.mined_dir / FOLDER / name

  def is_mined(self) -> bool:
    """Whether the candidates are there."""
    strategy = self.strategy
    if strategy.trains_miner and not strategy.training.is_trained():
      return False
    return folders.read_manifest(self.folder, candidates.FORMAT) is not None

  def read(self) -> tuple[candidates.Candidates, np.ndarray]:
    """The candidates and their half passages; raises if there are none."""
    return candidates.read(
        self.folder, len(self._task.dataset.prepared.passages)
    )

  def _mine(self) -> None:
    task = self._task
    if not len(task.query_rows):
      raise errors.UserError(
          f'{task.data.source}: no query of the split "{task.split}" has a '
          'positive passage, so there is nothing to mine negatives for'
      )
    if hosts.are_several():  # They may mine together, and none may wait.
      self._write()
      return
    with folders.only_one(self.folder):
      if not self.is_mined():  # Not mined while waiting.
        self._write()

  def _write(self) -> None:
    task, name = self._task, self.strategy.name
    proposer = self.strategy.proposer()
    candidates.write(
        self.folder, self.identity, task.query_rows, task.negatives.depth,
        proposer.miner, progress.Ticker(f'mining {name}', len(task.query_rows)),
        dict(proposer.facts), proposer.halves,
        divide=self.strategy.is_ranked,
    )


def make_all(task: task_lib.Task) -> dict[str, CandidateFolder]:
  """Of the strategies that a task's pool is made of, in their order."""
  return {
      name: CandidateFolder(strategies.STRATEGIES[name](task), task)
      for name in task.negatives.sources
  }
