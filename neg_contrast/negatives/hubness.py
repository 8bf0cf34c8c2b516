"""Pure. How unevenly passages are found: hubs are near to many queries.

Radovanović, Nanopoulos and Ivanović, "Hubs in Space: Popular Nearest Neighbors
in High-Dimensional Data", 2010: N_k of a passage is the number of queries that
have it among their k nearest; its skewness tells how much hubs there are.
"""

import numpy as np
from jaxtyping import Int

K = 10


def measure(
    rows: Int[np.ndarray, 'queries depth'], passages: int
) -> dict[str, float]:
  """Hubness of what was found.

  Args:
    rows: `[queries, depth] int32`, the nearest passages of each query, best
      first; -1 pads.
    passages: how many were searched; those that no query found count too.

  Returns:
    `top1_most`: queries that share the most frequent first passage.
    `top1_distinct`: different first passages, as a part of the queries that
    have one. `skewness`: third standardised moment of N_10 over all passages;
    0: no hubs; 0 as well where all have the same N_10.
  """
  first = rows[:, :1][rows[:, :1] >= 0]
  _, shared = np.unique(first, return_counts=True)
  return {
      'top1_most': float(shared.max(initial=0)),
      'top1_distinct': len(shared) / max(1, len(first)),
      'skewness': skewness(rows[:, :K], passages),
  }


def of_draws(rows: Int[np.ndarray, 'examples draws']) -> dict[str, float]:
  """Hubness of negatives that were drawn.

  Args:
    rows: `[examples, draws] int32`; -1: none.

  Returns:
    `most_drawn`: part of the draws that the most frequent passage has.
    `distinct`: different passages, as a part of the draws.
  """
  drawn = rows[rows >= 0]
  _, often = np.unique(drawn, return_counts=True)
  return {'most_drawn': float(often.max(initial=0)) / max(1, len(drawn)),
          'distinct': len(often) / max(1, len(drawn))}


def skewness(rows: Int[np.ndarray, 'queries k'], passages: int) -> float:
  """E[(N_k - mean)³] / std³ over passages; 0 where all are alike.

  Args:
    rows: `[queries, k] int32`; -1 pads.
    passages: how many were searched.
  """
  _, found = np.unique(rows[rows >= 0], return_counts=True)
  if not passages:
    return 0.0
  mean = found.sum() / passages
  rest = passages - len(found)  # Found by none.
  moment = lambda power: float(
      (((found - mean) ** power).sum() + rest * (-mean) ** power) / passages
  )
  variance = moment(2)
  return moment(3) / variance ** 1.5 if variance > 0 else 0.0
