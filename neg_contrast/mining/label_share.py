"""How many positives have a label, by what a judge believes."""

import dataclasses

import numpy as np
from jaxtyping import Bool, Float

from neg_contrast.evaluation import calibration

_Z = 1.96  # 95%.


@dataclasses.dataclass(frozen=True)
class Labelling:
  """What a judge's score says of a label, and of a positive without one.

  Attributes:
    calibration: of the probability that a candidate has a label.
    share: c, which part of the positives has one, at least; above 0.
  """

  calibration: calibration.Calibration
  share: float

  def believed(
      self, scores: Float[np.ndarray, '*shape']
  ) -> Float[np.ndarray, '*shape']:
    """The probability that a candidate without a label is a positive, at most.

    Where a part c of the positives has a label, whatever they are, a
    probability p of a label makes one of (1 - c) / c * p / (1 - p). (Elkan and
    Noto, 2008, Learning classifiers from only positive and unlabeled data,
    section 3.)

    Args:
      scores: `[...] float32`; nan: not judged.

    Returns:
      `[...] float64`, nan likewise.
    """
    logits = (np.asarray(scores, np.float64) / self.calibration.temperature
              + self.calibration.bias)
    with np.errstate(over='ignore'):
      return np.minimum(1, (1 - self.share) / self.share * np.exp(logits))


def fit(
    scores: Float[np.ndarray, ' candidates'],
    is_labelled: Bool[np.ndarray, ' candidates'],
) -> Labelling | None:
  """What the candidates of a pool say.

  Args:
    scores: `[candidates] float32` of the judge.
    is_labelled: `[candidates] bool`, known positives.

  Returns:
    None where none or all are labelled, or these do not score higher.
  """
  try:
    fitted = calibration.fit(scores, is_labelled)
  except ValueError:
    return None
  return Labelling(fitted, least_share(scores, is_labelled))


def least_share(
    scores: Float[np.ndarray, ' candidates'],
    is_labelled: Bool[np.ndarray, ' candidates'],
) -> float:
  """The part of the positives that is labelled, at least.

  However sure a judge is of candidates, at most all of them are positives. So
  the labelled part of those that it believes most bounds c from below, however
  many they are, and the best of these bounds counts: the highest lower end of
  Wilson's 95% interval. (After best bin estimation: Garg et al., 2021, Mixture
  proportion estimation and PU learning.) A judge that confuses many negatives
  with positives bounds it badly: then it is too small.

  Args:
    scores: `[candidates] float32`.
    is_labelled: `[candidates] bool`, of some.

  Returns:
    c, above 0 and below 1.
  """
  order = np.argsort(-scores, kind='stable')
  is_last = np.append(np.diff(scores[order]) != 0, True)  # Of equal scores.
  number = 1 + np.flatnonzero(is_last)
  part = np.cumsum(is_labelled[order])[is_last] / number
  spread = np.sqrt(part * (1 - part) / number + (_Z / number) ** 2 / 4)
  low = (part + _Z**2 / (2 * number) - _Z * spread) / (1 + _Z**2 / number)
  return float(low[part > 0].max())
