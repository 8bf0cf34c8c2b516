"""What a judge says of the candidates of a pool, in files of its folder."""

import dataclasses
import pathlib
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from neg_contrast.artifacts import arrays

KEY = 'judge'  # Of the manifest of a pool.
ARRAYS = ('probability', 'logit')
"""Files `[queries, depth] float32` of a pool, beside its rows."""
POSITIVE_ROWS, POSITIVE_LOGITS = 'positive_rows', 'positive_logits'


@dataclasses.dataclass(frozen=True)
class Verdicts:
  """Calibrated probabilities, and the scores that they are made of.

  Attributes:
    probability: `[queries, depth] float32` that a candidate is a positive; nan:
      it was not judged, such as a half passage.
    logit: `[queries, depth] float32`, the judge's score; nan likewise.
    positive_rows: `[queries, positives] int32` the query's positives; -1 pads.
    positive_logits: `[queries, positives] float32`, their scores; nan pads.
    facts: of the manifest: `model`, `fingerprint`, `temperature`, `bias`,
      `below`, `above` and `relabel`.
  """

  probability: Float[np.ndarray, 'queries depth']
  logit: Float[np.ndarray, 'queries depth']
  positive_rows: Int[np.ndarray, 'queries positives']
  positive_logits: Float[np.ndarray, 'queries positives']
  facts: dict[str, Any]

  def scores_of(
      self,
      lines: Int[np.ndarray, ' batch'],
      rows: Int[np.ndarray, 'batch some'],
      candidates: Int[np.ndarray, 'batch depth'],
  ) -> Float[np.ndarray, 'batch some']:
    """The judge's scores of passages, positives or candidates, of each query.

    Args:
      lines: `[batch] int`, of the pool.
      rows: `[batch, some] int32`, passages; -1: none.
      candidates: `[batch, depth] int32`, rows of the pool at these lines.

    Returns:
      `[batch, some] float32`; nan where it has judged none of that row.
    """
    known = np.concatenate([self.positive_rows[lines], candidates], axis=1)
    scores = np.concatenate(
        [self.positive_logits[lines], self.logit[lines]], axis=1
    )
    result = np.full(rows.shape, np.nan, np.float32)
    for column, wanted in zip(result.T, rows.T, strict=True):
      is_it = (known == wanted[:, None]) & np.isfinite(scores)
      first = is_it.argmax(axis=1)[:, None]
      np.copyto(column, np.take_along_axis(scores, first, axis=1)[:, 0],
                where=is_it.any(axis=1) & (wanted >= 0))
    return result


def read(
    folder: pathlib.Path, manifest: dict[str, Any]
) -> Verdicts | None:
  """Maps those of a pool; None: nobody has judged it.

  Raises:
    UserError: a file is damaged.
  """
  facts = manifest.get(KEY)
  if facts is None:
    return None
  count, depth = manifest['queries'], manifest['depth']
  load = lambda name, dtype, *shape: arrays.load_array(
      folder / f'{name}.npy', shape, dtype
  )
  probability, logit = (
      load(name, np.float32, count, depth) for name in ARRAYS
  )
  return Verdicts(
      probability, logit, load(POSITIVE_ROWS, np.int32, count, None),
      load(POSITIVE_LOGITS, np.float32, count, None), facts,
  )
