"""The verdicts on all candidates of a pool: thresholds by them, and files."""

import dataclasses
import functools
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from absl import logging

from neg_contrast import errors
from neg_contrast.artifacts import arrays, artifact
from neg_contrast.evaluation import calibrated, calibration
from neg_contrast.mining import filters, verdict_folder
from neg_contrast.mining import judge_model as judge_lib
from neg_contrast.mining import mining_task as task_lib
from neg_contrast.negatives import verdicts
from neg_contrast.settings import config as config_lib

_COMMON = 'verdicts'  # Roles.
_QUERIES_AT_ONCE = 4096


@dataclasses.dataclass(frozen=True)
class PoolVerdicts:
  """A judge, and what it says of candidates and positives.

  Attributes:
    judge: who.
    by_source: (source, verdicts on its candidates).
    positives: verdicts on the queries' positives.
  """

  judge: judge_lib.Judge
  by_source: tuple[tuple[str, verdict_folder.VerdictFolder], ...]
  positives: verdict_folder.VerdictFolder

  def needs(self) -> dict[str, artifact.Artifact]:
    """What the pool needs too, by role."""
    return {
        'calibration': self.judge.calibration,
        **{f'{_COMMON} {name}': one for name, one in self.by_source},
        f'{_COMMON} {self.positives.candidates.name}': self.positives,
    }

  def beliefs(self, lines: slice) -> dict[str, filters.Beliefs]:
    """Source -> what the judge says of some queries."""
    of_positives = self._calibration.probabilities(self.positives.load()[lines])
    best = np.fmax.reduce(of_positives, axis=1, initial=np.nan)
    return {name: filters.Beliefs(
        self._calibration.probabilities(one.load()[lines]), best
    ) for name, one in self.by_source}

  def write(
      self, scratch: pathlib.Path, manifest: dict[str, Any],
      config: config_lib.NegativesConfig,
  ) -> None:
    """Writes the files that `verdicts.read` reads.

    Says so where the judge believes no candidate as much as it would have to.

    Args:
      scratch: the folder of a pool that is being made.
      manifest: of that folder, with what `pool_files.write` adds.
      config: the thresholds.
    """
    shape = manifest['queries'], manifest['depth']
    probability, logit = (
        arrays.create_array(scratch / f'{name}.npy', np.float32, shape)
        for name in verdicts.ARRAYS
    )
    by_source = dict(self.by_source)
    for begin in range(0, shape[0], _QUERIES_AT_ONCE):
      lines = slice(begin, begin + _QUERIES_AT_ONCE)
      logit[lines] = np.concatenate(
          [by_source[name].load()[lines] for name in manifest['sources']],
          axis=1,
      )
      probability[lines] = self._calibration.probabilities(logit[lines])
    highest = np.fmax.reduce(probability, axis=None, initial=0)
    if highest <= config.judge_above < 1:
      logging.warning(
          '%s=%g: the judge believes no candidate more than %.3f; a lower '
          'threshold would find positives, see its calibration',
          errors.key('negatives.judge_above'), config.judge_above, highest)
    found, _ = self.positives.candidates.load()
    np.save(scratch / f'{verdicts.POSITIVE_ROWS}.npy', found.rows)
    np.save(scratch / f'{verdicts.POSITIVE_LOGITS}.npy', self.positives.load())
    manifest[verdicts.KEY] = {
        'model': self.judge.model.checkpoint,
        'fingerprint': self.judge.model.load().fingerprint,
        **dataclasses.asdict(self._calibration),
        **settings(config),
    }

  @functools.cached_property
  def _calibration(self) -> calibration.Calibration:
    return calibrated.of(self.judge.calibration.load())


def of(
    judge: judge_lib.Judge | None,
    task: task_lib.Task,
    candidates: Mapping[str, artifact.Artifact],
) -> PoolVerdicts | None:
  """The verdicts on candidates by source; None: there is no judge."""
  if judge is None:
    return None
  plain = task.only(())
  judged = lambda one: verdict_folder.VerdictFolder(one, plain, judge)
  return PoolVerdicts(
      judge, tuple((name, judged(one)) for name, one in candidates.items()),
      judged(verdict_folder.Positives(plain)),
  )


def settings(config: config_lib.NegativesConfig) -> dict[str, Any]:
  """The thresholds, which a pool depends on."""
  values: dict[str, Any] = {
      'below': config.judge_below, 'above': config.judge_above,
      'relabel': config.judge_relabel,
  }
  if config.margin_by == 'judge':
    values['margin_by'] = config.margin_by
  return values
