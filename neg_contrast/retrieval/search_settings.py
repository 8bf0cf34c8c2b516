"""Settings of a search, and which index they mean for a corpus.

By `config.index.kind="auto"` a corpus below 50,000 passages is searched
exactly, and a larger one by ScaNN where that costs less than exact search,
building included. The costs are CPU seconds of vectors of 768 features, see
launch/benchmarks/RESULTS.md ("Exact search against faiss", "Indexes against
faiss", "Embeddings on disk"). All grow with the features, which therefore do
not count:

* exact: 16.5 ns for each query and passage. 1,024 queries took 1.81 s in
  100,000 passages (17.7 ns), and 16.8 s in a million (16.4 ns).
* building: 22 s for each shard, to train with 100,000 of its rows, and 222 us
  for each passage. 100,000 passages took 44 s, a million 244.
* ScaNN: 0.4 ms for each query and 4.5 ns for each query and passage. Of 384
  features, a query took 0.43 ms in 100,000 passages and 2.3 ms in a million;
  that is doubled.

So ScaNN pays from about 165,000 queries on for 50,000 passages, 55,000 for
100,000, and 21,000 for a million or more. 3,610 queries in 21 million passages
take 0.35 CPU hours exactly, and building 1.4. A service answers one query after
another, without end: ScaNN, whatever building takes. Accelerators take less
than a minute for 58,880 queries in 21 million passages, and the CPUs beside
them hours to build: exact, but for services, each query of which would read a
table that their memory may not hold.
"""

import dataclasses
from typing import Any

import jax
import numpy as np

from neg_contrast import errors, scoring
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.retrieval import quantized_index
from neg_contrast.settings import config as config_lib
from neg_contrast.settings.index_settings import KINDS

_EXACT_BELOW = 50_000
_LEAST_RECALL_DEPTH = 100  # One index serves searches of any depth.
# CPU seconds, see above.
_EXACT_PAIR = 16.5e-9  # A query and a passage.
_SCANN_SHARD, _SCANN_PASSAGE = 22.0, 222e-6  # To build.
_SCANN_QUERY, _SCANN_PAIR = 0.4e-3, 4.5e-9


@dataclasses.dataclass(frozen=True)
class SearchSettings:
  """Settings of a search.

  Attributes:
    index: kind, recall and block sizes.
    mesh: devices that exact search uses.
    depth: passages wanted of each query.
    queries: how many vectors of queries are searched in all; None: no end is
      known, as of a service.
  """

  index: config_lib.IndexConfig
  mesh: config_lib.MeshConfig
  depth: int
  queries: int | None = None

  def of_queries(
      self, count: int, score: scoring.ScoreFunction = scoring.DUAL
  ) -> 'SearchSettings':
    """The same for so many queries, whose index `auto` chooses by that.

    Args:
      count: of queries.
      score: of a query and a passage.
    """
    return dataclasses.replace(self, queries=count * score.query_vectors)

  @property
  def recall(self) -> float | None:
    """What approximate search on TPUs has to find; None: search is not that."""
    return self.index.target_recall if self.index.kind == 'approx' else None

  def quantized(
      self,
      prepared: prepared_lib.Prepared,
      rows: np.ndarray | None = None,
  ) -> quantized_index.Settings | None:
    """Settings of the quantized index of a corpus; None where there is none.

    Args:
      prepared: the corpus. Worlds are parts of it, and searched exactly.
      rows: `[n] int32`, the passages of it that are searched; None: all.

    Raises:
      UserError: one is asked for, and there are worlds.
    """
    if prepared.worlds:
      if self.index.kind in quantized_index.QUANTIZERS:
        raise errors.UserError(
            f'{errors.key("index.kind")}="{self.index.kind}": '
            f'{prepared.manifest["spec"]} has worlds, each of which is '
            'searched exactly; leave it at "auto"'
        )
      return None
    passages = len(prepared.passages) if rows is None else len(rows)
    kind = index_kind(
        passages, self.index.kind, self.queries, self.index.shard_rows
    )
    if kind not in quantized_index.QUANTIZERS:
      return None
    return quantized_index.Settings(
        target_recall=self.index.target_recall,
        recall_k=max(self.depth, _LEAST_RECALL_DEPTH),
        shard_rows=self.index.shard_rows,
        kind=kind,
    )

  def index_identity(self, prepared: prepared_lib.Prepared) -> Any:
    """What hits depend on beside the vectors, as json."""
    quantized = self.quantized(prepared)
    if quantized is None:
      return 'exact' if self.recall is None else {
          'approx': self.recall, 'block_rows': self.index.block_rows}
    return quantized.to_json()


def index_kind(
    passages: int,
    wanted: str,
    queries: int | None = None,
    shard_rows: int = config_lib.IndexConfig.shard_rows,
) -> str:
  """Which index a corpus gets: one of `KINDS`, but `auto`.

  Args:
    passages: of the corpus.
    wanted: one of `KINDS`.
    queries: that are searched in all; None: no end is known.
    shard_rows: passages of a shard of ScaNN's.

  Raises:
    ValueError: `wanted` is something else.
  """
  if wanted not in KINDS:
    raise ValueError(f'index kind {wanted!r}: not one of {KINDS}')
  if wanted != 'auto':
    return wanted
  if passages < _EXACT_BELOW:
    return 'exact'
  if queries is None:
    return 'scann'
  if jax.default_backend() != 'cpu':
    return 'exact'
  exact = queries * passages * _EXACT_PAIR
  building = (-(-passages // shard_rows) * _SCANN_SHARD
              + passages * _SCANN_PASSAGE)
  searching = queries * (_SCANN_QUERY + passages * _SCANN_PAIR)
  return 'scann' if building + searching < exact else 'exact'
