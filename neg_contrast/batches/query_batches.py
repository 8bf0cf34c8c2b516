"""Batches of queries alone, whose passages a step finds in a table."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from neg_contrast.batches import batcher


@dataclasses.dataclass(frozen=True)
class QueryBatcher(batcher.Batcher):
  """Makes the batch of any step by random access; encodes no passage.

  Attributes:
    table: a `table_search.Table` on the devices.
    found: passages that a step finds for each query.
    hidden: query rows -> `[queries, some]` groups that it does not find.
  """

  table: Any = None
  found: int = 0
  hidden: Callable[[np.ndarray], np.ndarray] = lambda rows: rows[:, :0]

  def __call__(self, step: int) -> tuple[batcher.Batch, batcher.BatchStats]:
    """The batch of a step, as numpy arrays, with the table."""
    numbers = self.example_numbers(step)
    query_rows = self.examples.query_rows[numbers]
    queries = self._queries(step, numbers)
    layout, sequences = self._pack_tower('query', len(queries), queries)
    batch = batcher.Batch(
        sequences={'query': sequences},
        query_slots=layout.flat_slot,
        positive_slots=None,
        negative_slots=None,
        negative_sources=np.full((len(queries), self.found), -1, np.int32),
        forward_mask=None,
        backward_mask=None,
        table=self.table,
        positive_rows=self.examples.positive_rows[numbers],
        excluded=self._padded(self.hidden(query_rows)),
        weights=self.examples.weights_of(numbers),
    )
    return batch, batcher.BatchStats(
        useful_tokens=int(queries.lengths.sum()),
        processed_tokens=layout.tokens,
    )

  def _padded(self, groups):
    """As many columns at every step: known positives, and one's own passage."""
    missing = self.examples.positive_groups.most + 1 - groups.shape[1]
    return np.pad(groups, ((0, 0), (0, missing)), constant_values=-1)
