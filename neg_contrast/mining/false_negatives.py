"""Estimates how many candidates are false negatives.

A false negative is a candidate that answers the query and is not judged. How
many there are is estimated, by source and rank, from one of three kinds of
evidence (`Judging`). `recommendation.py` chooses by these estimates.
"""

import dataclasses

import numpy as np
from jaxtyping import Bool, Float, Shaped

from neg_contrast.evaluation import confidence

BUCKETS = ((1, 5), (6, 10), (11, 20), (21, 50), (51, 100), (101, 200))
"""First and last rank of each line of the table."""

LEAST_QUERIES = 30
"""With fewer, a share is not estimated, see `report/workdir_report.py`."""

LEAST_SENSITIVITY = 0.3
"""Answers found in fewer of the passages that answer say nothing."""

_BIN = 0.02  # Of score differences; cosines span about 1.
_BINS = 50
_FIRST = 20  # Ranks that are looked at for false ones first.


@dataclasses.dataclass(frozen=True)
class Evidence:
  """What is known of candidates: `[queries, depth]`, best rank first.

  Attributes:
    exists: bool; False for padding, positives, repeats and half passages.
    answer: bool, holds an answer of its query.
    chance: bool, holds an answer of another question about the same passage or
      one much like it.
    compared: bool, both were looked for: the query has answers and such a
      question, whose positive this is not.
    copy: bool, a near-copy of a positive.
    twin: bool, a positive of a question with the same words.
    difference: float32, the judge's score less its score of the positive.
    relative: float32, the source's score less its score of the positive, as a
      part of that; nan where the source has none.
    believed: float64, `label_share.Labelling.believed`; nan where nobody judged
      it. None: no cross-encoder is at hand.
  """

  exists: Bool[np.ndarray, 'queries depth']
  answer: Bool[np.ndarray, 'queries depth']
  chance: Bool[np.ndarray, 'queries depth']
  compared: Bool[np.ndarray, 'queries depth']
  copy: Bool[np.ndarray, 'queries depth']
  twin: Bool[np.ndarray, 'queries depth']
  difference: Float[np.ndarray, 'queries depth']
  relative: Float[np.ndarray, 'queries depth']
  believed: Float[np.ndarray, 'queries depth'] | None = None

  @property
  def is_below(self) -> Bool[np.ndarray, 'queries depth']:
    """Those that the judge does not prefer to the positive."""
    return self.difference <= 0

  def within(self, first: int, last: int) -> Bool[np.ndarray, 'queries depth']:
    """The candidates of these ranks."""
    ranks = np.arange(1, self.exists.shape[1] + 1)
    return self.exists & (ranks >= first) & (ranks <= last)

  def below(self, margin: float | None) -> Bool[np.ndarray, 'queries depth']:
    """Those that `negatives.relative_margin` keeps."""
    if margin is None:
      return self.exists
    return self.exists & ~(self.relative > -margin)

  def push(self, scale: float) -> Float[np.ndarray, 'queries depth']:
    """The softmax share of each, alone against the positive."""
    logits = np.clip(scale * self.difference.astype(np.float64), -500, 500)
    return 1 / (1 + np.exp(-logits))


@dataclasses.dataclass(frozen=True)
class Judging:
  """How a candidate is told to be false.

  By `answers`: Rogan and Gladen's estimate of a prevalence from an imperfect
  test, (hits - chance) / (sensitivity - chance). (Rogan and Gladen 1978,
  Estimating prevalence from the results of a screening test.)

  By the `judge`: one that it scores above the positive is false with
  probability `trust`. A passage that answers as well as the positive is as
  often a little below it as it is above, so that those at distance -d are as
  many as those at d.

  By `verdicts` of a cross-encoder (`negatives.judge`): see `label_share.py`.

  Attributes:
    kind: `answers`, `judge` or `verdicts`.
    sensitivity: share of passages that answer which hold the answer string.
    trust: the judge's accuracy@1. It counts as wrong what is right but not
      judged, so it is the least that the judge deserves on that account; it is
      a convention and no measured probability.
    mirror: `[bins] float`, probability by distance below the positive.
  """

  kind: str
  sensitivity: float = 1.0
  trust: float = 0.0
  mirror: Float[np.ndarray, ' bins'] = dataclasses.field(
      default_factory=lambda: np.zeros(_BINS)
  )

  def weights(
      self, difference: Float[np.ndarray, 'queries depth']
  ) -> Float[np.ndarray, 'queries depth']:
    """The judge's probability that a candidate is false."""
    bins = np.clip(-difference / _BIN, 0, _BINS - 1).astype(int)
    return np.where(difference > 0, self.trust, self.mirror[bins])


def by_judge(ranked: Evidence, trust: float) -> Judging:
  """Judging by the judge, from the candidates that it found itself."""
  found = ranked.difference[ranked.exists]
  bins = np.clip(np.abs(found) / _BIN, 0, _BINS - 1).astype(int)
  above, below = (np.bincount(bins[side], minlength=_BINS)
                  for side in (found > 0, found <= 0))
  ratio = np.minimum(1, above / np.maximum(below, 1))
  return Judging('judge', trust=trust, mirror=trust * ratio)


@dataclasses.dataclass(frozen=True)
class Estimate:
  """A mean over queries and its 95% interval; nan where nothing is known."""

  mean: float
  low: float
  high: float
  queries: int


def by_query(
    values: Shaped[np.ndarray, 'queries depth'],
    keep: Bool[np.ndarray, 'queries depth'],
) -> Float[np.ndarray, ' some_queries']:
  """The mean of the kept values of each query that has some."""
  counts = keep.sum(axis=1)
  sums = np.where(keep, values, 0).sum(axis=1, dtype=np.float64)
  return sums[counts > 0] / counts[counts > 0]


def mean(values, keep) -> float:
  """The mean over queries of `by_query`; nan where there are none."""
  means = by_query(values, keep)
  return float(means.mean()) if len(means) else float('nan')


def false_share(
    evidence: Evidence,
    keep: Bool[np.ndarray, 'queries depth'],
    judging: Judging,
    drop_answers: bool = False,
) -> Estimate:
  """Estimates which part of some candidates is false.

  Copies and twins are; of the others, as many as `judging` says.

  Args:
    evidence: of the source.
    keep: `[queries, depth] bool`, the candidates in question.
    judging: by answers, by the judge or by verdicts.
    drop_answers: those with an answer are dropped: the estimate is of the rest.
  """
  known = evidence.copy | evidence.twin
  if judging.kind != 'answers':
    keep = keep & ~evidence.answer if drop_answers else keep
    values = (judging.weights(evidence.difference)
              if judging.kind == 'judge' else evidence.believed)
    assert values is not None, 'evidence without verdicts'
    keep = keep & (known | np.isfinite(values))
    values = np.where(known, 1.0, values)
  else:
    keep = keep & evidence.compared
    chance = mean(evidence.chance, keep)
    unknown = (evidence.answer.astype(float) - evidence.chance) / (
        judging.sensitivity - min(chance, judging.sensitivity / 2)
    )
    if drop_answers:  # Of the false ones, 1 - sensitivity stay.
      unknown = unknown * (1 - judging.sensitivity)
      known = known & ~evidence.answer
      unknown = np.where(evidence.copy | evidence.twin, 0, unknown)
    values = np.where(known, 1.0, unknown)
    if drop_answers:
      values = values / max(1 - mean(evidence.answer, keep), 1e-9)
  means = by_query(values, keep)
  if not len(means):
    return Estimate(np.nan, np.nan, np.nan, 0)
  low, high = confidence.interval(means)
  clip = lambda share: float(np.clip(share, 0, 1))
  return Estimate(clip(means.mean()), clip(low), clip(high), len(means))


def summary(
    evidence: Evidence, first: int, last: int, judging: Judging, scale: float
) -> dict[str, float | int]:
  """A line of the table: means over queries, for some ranks of a source."""
  keep = evidence.within(first, last)
  compared, difference = keep & evidence.compared, evidence.difference
  false = false_share(evidence, keep, judging)
  return {
      'candidates': int(keep.sum()),
      'queries': int(keep.any(axis=1).sum()),
      'answer': mean(evidence.answer, compared),
      'chance': mean(evidence.chance, compared),
      'copy': mean(evidence.copy, keep),
      'twin': mean(evidence.twin, keep),
      'above': mean(difference > 0, keep),
      'above_less_0.05': mean(difference > -0.05, keep),
      'above_less_0.1': mean(difference > -0.1, keep),
      'difference': mean(difference, keep),
      'push': mean(evidence.push(scale), keep),
      'false': false.mean, 'false_low': false.low, 'false_high': false.high,
  }


def agreement(ranked: Evidence) -> dict[str, dict[str, float]]:
  """Whether the judge prefers what holds an answer, among its first ones.

  Returns:
    `above` and `below` the positive -> shares with `answer` and `chance`.
  """
  keep = ranked.within(1, _FIRST) & ranked.compared
  return {
      name: {'answer': mean(ranked.answer, keep & side),
             'chance': mean(ranked.chance, keep & side)}
      for name, side in (('above', ranked.difference > 0),
                         ('below', ranked.difference <= 0))
  }


def hits_beyond_chance(evidence: Evidence) -> float:
  """The part of the answer hits that chance does not explain; nan if none.

  Of the first ranks, where false negatives would be.
  """
  keep = evidence.within(1, _FIRST) & evidence.compared
  hits = mean(evidence.answer, keep)
  return (hits - mean(evidence.chance, keep)) / hits if hits else float('nan')
