"""Passages that have the id of a query, which that query never retrieves.

BEIR's rule, which ArguAna and Quora need: their queries are passages of the
corpus. Elsewhere ids of queries and passages may meet by chance, as MS MARCO's
numbers do.
"""

import numpy as np
from jaxtyping import Int

from neg_contrast.data import prepared as prepared_lib
from neg_contrast.data import sources
from neg_contrast.settings import config as config_lib


def has_rule(config: config_lib.DataConfig) -> bool:
  """Whether queries don't retrieve their own passages."""
  if config.drop_own_passage is not None:
    return config.drop_own_passage
  scheme = config.source.partition(':')[0]
  return scheme in sources.FORMATS and sources.FORMATS[scheme].drops_own_passage


def find(
    prepared: prepared_lib.Prepared,
) -> Int[np.ndarray, ' queries'] | None:
  """`[queries] int32`: the passage with the query's id, -1 where there is none.

  None: no query has one.
  """
  found = np.full(len(prepared.query_ids), -1, np.int32)
  for query, name in enumerate(prepared.query_ids):
    row = prepared.passage_ids.row_of(name.decode())
    if row is not None:
      found[query] = row
  return found if (found >= 0).any() else None
