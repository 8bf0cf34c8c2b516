"""Settings of a search, and which index they mean for a corpus."""

import dataclasses
from typing import Any

import numpy as np

from neg_contrast import errors
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.retrieval import scann_index
from neg_contrast.settings import config as config_lib
from neg_contrast.settings.index_settings import KINDS

_EXACT_BELOW = 50_000
_LEAST_RECALL_DEPTH = 100  # One index serves searches of any depth.


@dataclasses.dataclass(frozen=True)
class SearchSettings:
  """Settings of a search.

  Attributes:
    index: kind, recall and block sizes.
    mesh: devices that exact search uses.
    depth: passages wanted of each query.
  """

  index: config_lib.IndexConfig
  mesh: config_lib.MeshConfig
  depth: int

  @property
  def recall(self) -> float | None:
    """What approximate search on TPUs has to find; None: search is not that."""
    return self.index.target_recall if self.index.kind == 'approx' else None

  def scann(
      self,
      prepared: prepared_lib.Prepared,
      rows: np.ndarray | None = None,
  ) -> scann_index.Settings | None:
    """Settings of the ScaNN index of a corpus; None where search is exact.

    Args:
      prepared: the corpus. Worlds are parts of it, and searched exactly.
      rows: `[n] int32`, the passages of it that are searched; None: all.

    Raises:
      UserError: ScaNN is asked for, and there are worlds.
    """
    if prepared.worlds:
      if self.index.kind == 'scann':
        raise errors.UserError(
            f'{errors.key("index.kind")}="scann": '
            f'{prepared.manifest["spec"]} has worlds, each of which is '
            'searched exactly; leave it at "auto"'
        )
      return None
    passages = len(prepared.passages) if rows is None else len(rows)
    if index_kind(passages, self.index.kind) != 'scann':
      return None
    return scann_index.Settings(
        target_recall=self.index.target_recall,
        recall_k=max(self.depth, _LEAST_RECALL_DEPTH),
        shard_rows=self.index.shard_rows,
    )

  def index_identity(self, prepared: prepared_lib.Prepared) -> Any:
    """What hits depend on beside the vectors, as json."""
    scann = self.scann(prepared)
    if scann is None:
      return 'exact' if self.recall is None else {
          'approx': self.recall, 'block_rows': self.index.block_rows}
    return dataclasses.asdict(scann)


def index_kind(passages: int, wanted: str) -> str:
  """Which index a corpus gets: `exact`, `approx` or `scann`.

  Below 50,000 passages exact search is fast enough, and exact.

  Args:
    passages: of the corpus.
    wanted: `auto`, or one of the three.

  Raises:
    ValueError: `wanted` is something else.
  """
  if wanted not in KINDS:
    raise ValueError(f'index kind {wanted!r}: not one of {KINDS}')
  if wanted == 'auto':
    return 'exact' if passages < _EXACT_BELOW else 'scann'
  return wanted
