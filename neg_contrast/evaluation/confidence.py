"""How far a mean over queries may be off, had other queries been asked."""

import numpy as np
from jaxtyping import Float

_BLOCK_DRAWS = 4_000_000  # Numbers drawn at once: 32 MB of int64.
_COST = 10  # Of drawing a count, compared to that of drawing a query.


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
  if not len(values) or not np.isfinite(values).all():
    raise ValueError('an interval needs at least one value, all of them finite')
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
