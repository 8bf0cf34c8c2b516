"""What a judge says of a pool, as a table for the terminal."""

from collections.abc import Sequence

import numpy as np

from neg_contrast.negatives import pool as pool_lib
from neg_contrast.negatives import verdicts as verdicts_lib

_QUERIES_AT_ONCE = 4096


def format_verdicts(
    pool: pool_lib.Pool, verdicts: verdicts_lib.Verdicts
) -> str:
  """Candidates of each source by probability, known positives apart.

  A positive that several sources propose to a query counts once.
  """
  below, above = verdicts.facts['below'], verdicts.facts['above']
  rows: list[Sequence[str]] = [('source', 'judged', f'below {below:g}',
                                'between', f'above {above:g}', 'mean')]
  known = np.zeros(4)
  for number, name in enumerate(pool.sources):
    counts = np.zeros(4)
    for begin in range(0, len(pool), _QUERIES_AT_ONCE):
      lines = slice(begin, begin + _QUERIES_AT_ONCE)
      ours = pool.source[lines] == number
      is_positive = pool.dropped_by[lines] == pool_lib.code('positive')
      values = verdicts.probability[lines]
      counts += _counts(values[ours & ~is_positive], below, above)
    rows.append((name, *_cells(counts)))
  for begin in range(0, len(pool), _QUERIES_AT_ONCE):
    part = slice(begin, begin + _QUERIES_AT_ONCE)
    at, columns = np.nonzero(
        pool.dropped_by[part] == pool_lib.code('positive'))
    pairs = np.stack([at, pool.rows[part][at, columns]], axis=1)
    _, once = np.unique(pairs, axis=0, return_index=True)
    values = verdicts.probability[part][at[once], columns[once]]
    known += _counts(values, below, above)
  rows.append(('known positives', *_cells(known)))
  widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
  return '\n'.join('  '.join([row[0].ljust(widths[0]), *(
      cell.rjust(width) for cell, width in zip(row[1:], widths[1:],
                                               strict=True)
  )]) for row in rows)


def _counts(values: np.ndarray, below: float, above: float) -> np.ndarray:
  """Judged, below, above, and the sum of probabilities."""
  values = values[np.isfinite(values)]
  return np.array([len(values), (values < below).sum(), (values > above).sum(),
                   values.sum(dtype=np.float64)])


def _cells(counts: np.ndarray) -> list[str]:
  judged, less, more, total = counts.tolist()
  mean = f'{total / judged:.3f}' if judged else '-'
  return [*(f'{int(value):,}' for value in (
      judged, less, judged - less - more, more
  )), mean]
