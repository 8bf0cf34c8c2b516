"""Probabilities of a cross-encoder's scores, and how far they can be trusted.

Pure.
"""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

_STEPS = 100
_TOLERANCE = 1e-10  # Of the gradient, in nats a pair.
_BINS = 10


@dataclasses.dataclass(frozen=True)
class Calibration:
  """p = σ(s / T + b).

  Temperature scaling (Guo et al., "On Calibration of Modern Neural Networks",
  2017) with a bias (Platt, 1999): a judge that is trained on one positive
  beside few negatives meets far fewer positives among candidates.

  Attributes:
    temperature: T, above 0.
    bias: b, in nats.
  """

  temperature: float = 1.0
  bias: float = 0.0

  def probabilities(
      self, scores: Float[np.ndarray, '*shape']
  ) -> Float[np.ndarray, '*shape']:
    """`[...] float32` of scores; nan for nan."""
    return sigmoid(
        np.asarray(scores, np.float64) / self.temperature + self.bias
    ).astype(np.float32)


def sigmoid(logits: Float[np.ndarray, '*shape']) -> np.ndarray:
  """The logistic function, without overflow."""
  with np.errstate(invalid='ignore'):  # Of nan.
    return np.exp(-np.logaddexp(0, -logits))


def fit(
    scores: Float[np.ndarray, ' pairs'], is_positive: Bool[np.ndarray, ' pairs']
) -> Calibration:
  """The calibration with the least cross-entropy, by Newton's method.

  Targets are Platt's, (n+ + 1) / (n+ + 2) and 1 / (n- + 2), so that the
  temperature stays above 0 where scores separate the two without an error.

  Args:
    scores: `[pairs] float32`.
    is_positive: `[pairs] bool`, both values occur.

  Raises:
    ValueError: only one value occurs, or positives do not score higher.
  """
  positives = int(is_positive.sum())
  negatives = len(is_positive) - positives
  if not (positives and negatives):
    raise ValueError(f'{positives} of {len(is_positive)} pairs are positive')
  scores = np.asarray(scores, np.float64)
  mean, spread = scores.mean(), scores.std() or 1.0
  design = np.stack([(scores - mean) / spread, np.ones_like(scores)], axis=1)
  targets = np.where(
      is_positive, (positives + 1) / (positives + 2), 1 / (negatives + 2)
  )
  base = (positives + 1) / (len(scores) + 2)
  weights = np.array([0.0, np.log(base / (1 - base))])

  def entropy(weights: np.ndarray) -> float:
    logits = design @ weights
    return float(np.mean(np.logaddexp(0, logits) - targets * logits))

  for _ in range(_STEPS):
    chances = sigmoid(design @ weights)
    slope = design.T @ (chances - targets) / len(scores)
    if np.abs(slope).max() < _TOLERANCE:
      break
    curvature = (design.T * (chances * (1 - chances))) @ design / len(scores)
    step = np.linalg.solve(curvature + 1e-12 * np.eye(2), slope)
    size, before = 1.0, entropy(weights)
    while entropy(weights - size * step) > before and size > 1e-6:
      size /= 2  # Far from the minimum a whole step may go beyond it.
    weights = weights - size * step
  if weights[0] <= 0:
    raise ValueError('positives do not score higher than other candidates')
  temperature = spread / weights[0]
  return Calibration(float(temperature),
                     float(weights[1] - mean / temperature))


def cross_entropy(
    probabilities: Float[np.ndarray, ' pairs'],
    is_positive: Bool[np.ndarray, ' pairs'],
) -> float:
  """Mean of -log of the probability of what is true, in nats."""
  least = np.finfo(np.float32).tiny
  true = np.where(is_positive, probabilities, 1 - probabilities)
  return float(-np.log(np.maximum(true, least)).mean())


def reliability(
    probabilities: Float[np.ndarray, ' pairs'],
    is_positive: Bool[np.ndarray, ' pairs'],
    bins: int = _BINS,
) -> dict[str, Any]:
  """Expected calibration error, and the bins it is made of.

    ECE = Σ_b (n_b / n) |part of b that is positive - mean probability of b|

  Guo et al. (2017), equation 3, for the probability of the positive class.

  Args:
    probabilities: `[pairs] float32`.
    is_positive: `[pairs] bool`.
    bins: of equal width, in [0, 1]; 1 belongs to the last.

  Returns:
    `ece`, `cross_entropy` in nats, and `bins`, those that are not empty: each
    with `low`, `high`, `pairs`, mean `probability` and part `positive`.
  """
  places = np.minimum((probabilities * bins).astype(int), bins - 1)
  counts = np.bincount(places, minlength=bins)
  means, parts = (
      np.bincount(places, weights, bins) / np.maximum(1, counts)
      for weights in (probabilities, is_positive)
  )
  gaps = counts * np.abs(parts - means)
  return {
      'ece': float(gaps.sum() / max(1, len(places))),
      'cross_entropy': cross_entropy(probabilities, is_positive),
      'bins': [{
          'low': bin / bins, 'high': (bin + 1) / bins,
          'pairs': int(counts[bin]), 'probability': float(means[bin]),
          'positive': float(parts[bin]),
      } for bin in np.flatnonzero(counts).tolist()],
  }
