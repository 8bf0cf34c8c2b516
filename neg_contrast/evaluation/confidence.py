"""How far a mean over queries may be off, had other queries been asked."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

LEAST_QUERIES = 30
"""With fewer the bootstrap's interval is too narrow (at 10 values of mean 0.85,
the one of 95% holds the truth 80 times in a hundred)."""
_BLOCK_DRAWS = 4_000_000  # Numbers drawn at once: 32 MB of int64.
_COST = 10  # Of drawing a count, compared to that of drawing a query.
_SLACK = 1e-12  # Sums this near, as a part of all magnitudes, are equal.


def interval(
    values: Float[np.ndarray, ' queries'],
    level: float = 0.95,
    samples: int = 1000,
    seed: int = 0,
) -> tuple[float, float]:
  """The bootstrap percentile interval of a mean over queries.

  Queries are drawn anew with replacement, as many as there are, `samples`
  times; the interval holds the middle `level` of the means. It covers the
  choice of queries only, not that of training seeds or of passages. Given the
  differences of two systems by query, it is the interval of their paired
  difference.

  Args:
    values: [queries] float, one metric of each query, in any order.
    level: part of the means inside, above 0 and below 1.
    samples: how often the queries are drawn anew.
    seed: of the drawing; equal arguments give equal intervals.

  Returns:
    (low, high), in the unit of the values; both are the value itself where all
    values are the same.

  Raises:
    ValueError: there are no values, or one is not finite.

  Efron and Tibshirani 1993, An Introduction to the Bootstrap, section 13.3; for
  retrieval metrics Sakai 2006, Evaluating Evaluation Metrics Based on the
  Bootstrap.
  """
  _check(values)
  distinct, counts = np.unique(values, return_counts=True)
  if len(distinct) == 1:  # Sums of rounded shares would miss it by a bit.
    return float(distinct[0]), float(distinct[0])
  means = resampled_means(distinct, counts, samples, seed)
  low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
  return float(low), float(high)


def resampled_means(distinct, counts, samples, seed):
  """`[samples] float64` means of values drawn anew with replacement.

  How often each distinct value is drawn follows a multinomial distribution.
  Accuracies have two values, so that counts cost the same for a million queries
  as for ten; where most values differ, drawing them one by one is cheaper.

  Args:
    distinct: `[values] float`, sorted.
    counts: `[values] int`, how many queries have them.
    samples: how many means.
    seed: of the drawing.
  """
  rng = np.random.default_rng(seed)
  queries = int(counts.sum())
  by_count = len(distinct) * _COST <= queries
  block = max(1, _BLOCK_DRAWS // (len(distinct) if by_count else queries))
  values = distinct if by_count else np.repeat(distinct, counts)
  means = []
  for begin in range(0, samples, block):
    rows = min(block, samples - begin)
    if by_count:
      drawn = rng.multinomial(queries, counts / queries, rows)
      means.append(drawn @ values / queries)
    else:
      means.append(values[rng.integers(queries, size=(rows, queries))].mean(1))
  return np.concatenate(means)


def p_value(
    differences: Float[np.ndarray, ' queries'],
    samples: int = 10_000,
    seed: int = 0,
) -> float:
  """How often chance alone moves a mean difference as far from 0: two-sided.

  The paired randomisation test: were two systems alike, each difference could
  as well have the other sign. All ways to give signs are counted where no more
  than `samples` of them can be told apart (2^n for n magnitudes; n + 1 for n
  accuracies that changed, where this is the exact test of McNemar), else
  `samples` of them are drawn.

  Args:
    differences: [queries] float, one metric of one system minus that of the
      other, in any order.
    samples: how often signs are drawn, and the most outcomes that are counted.
    seed: of the drawing; equal arguments give equal values.

  Returns:
    The share of all sums that are at least as far from 0; where they are drawn
    (count + 1) / (samples + 1), the observed one being one of them.

  Raises:
    ValueError: there are no values, or one is not finite.

  Smucker, Allan and Carterette 2007, A Comparison of Statistical Significance
  Tests for Information Retrieval Evaluation; the correction is that of Phipson
  and Smyth 2010, Permutation P-values Should Never Be Zero.
  """
  _check(differences)
  sizes = np.abs(differences[differences != 0]).astype(np.float64)
  least = abs(differences.sum(dtype=np.float64)) - _SLACK * sizes.sum()
  distinct, counts = np.unique(sizes, return_counts=True)
  # Logarithms: the product of many counts is beyond any number.
  if np.log2(counts + 1).sum() <= np.log2(min(samples, _BLOCK_DRAWS)):
    sums, shares = _signed_sums(distinct, counts)
    return min(1.0, float(shares[np.abs(sums) >= least].sum()))
  far = _count_far(distinct, counts, least, samples, seed)
  return (far + 1) / (samples + 1)


def _signed_sums(distinct, counts):
  """`[outcomes]` sums that signs can lead to, and their probabilities."""
  sums, shares = np.zeros(1), np.ones(1)
  for size, count in zip(distinct, counts, strict=True):
    positive = np.arange(count + 1)
    sums = np.add.outer(sums, size * (2 * positive - count)).ravel()
    # count! / positive! / (count - positive)! / 2^count
    logs = np.cumsum(np.log(np.maximum(positive, 1)))
    ways = logs[-1] - logs - logs[::-1] - count * np.log(2)
    shares = np.multiply.outer(shares, np.exp(ways)).ravel()
  return sums, shares


def _count_far(distinct, counts, least, samples, seed):
  """How many of the drawn sums are at least `least` away from 0.

  As in `resampled_means`, how many of each size are positive is drawn where
  few sizes differ, else a bit for every query.
  """
  rng = np.random.default_rng(seed)
  queries = int(counts.sum())
  by_count = len(distinct) * _COST <= queries
  block = max(1, _BLOCK_DRAWS // (len(distinct) if by_count else queries))
  sizes = distinct if by_count else np.repeat(distinct, counts)
  words = -(-queries // 32)  # Whole ones, so that blocks change nothing.
  far = 0
  for begin in range(0, samples, block):
    rows = min(block, samples - begin)
    if by_count:
      positive = rng.binomial(counts, 0.5, (rows, len(counts)))
      sums = (2 * positive - counts) @ sizes
    else:
      drawn = rng.integers(256, size=(rows, 4 * words), dtype=np.uint8)
      bits = np.unpackbits(drawn, axis=1, count=queries)
      sums = 2 * (bits @ sizes) - sizes.sum()
    far += int((np.abs(sums) >= least).sum())
  return far


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
  """P-values adjusted for having made several tests.

  Those at most alpha are significant, and with probability 1 - alpha none of
  them is so by chance, however the tests depend on each other.

  Args:
    p_values: of each test, by a name.

  Returns:
    The adjusted ones under the same names, in the same order.

  Raises:
    ValueError: one is not between 0 and 1.

  Holm 1979, A Simple Sequentially Rejective Multiple Test Procedure.
  """
  adjusted, largest = {}, 0.0
  rising = sorted(p_values.items(), key=lambda item: item[1])
  for rank, (name, value) in enumerate(rising):
    if not 0 <= value <= 1:
      raise ValueError(f'{name!r}: {value} is no probability')
    largest = max(largest, min(1.0, value * (len(p_values) - rank)))
    adjusted[name] = largest
  return {name: adjusted[name] for name in p_values}


def _check(values):
  if not len(values) or not np.isfinite(values).all():
    raise ValueError('there must be at least one value, all of them finite')
