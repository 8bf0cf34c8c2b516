"""Passages to vectors, and queries."""

import time
from collections.abc import Callable

import numpy as np

from neg_contrast import sharding
from neg_contrast.benchmarks import material as material_lib
from neg_contrast.benchmarks import task
from neg_contrast.training import costs


class Encode(task.Task):
  """Passages to vectors, and queries."""

  def __init__(self, material: material_lib.Material):
    """Reads the texts.

    In turns with another library texts are tokenised anew, and queries are left
    out.
    """
    super().__init__()
    self._material = material
    self._takes_turns = bool(material.settings.versus)
    rows = material.passage_rows()
    self._lengths = material.lengths('passage')[rows]
    self._texts = [material.dataset.prepared.passages[int(row)]
                   for row in rows] if self._takes_turns else []
    self.vecs = np.zeros((0, 0), np.float32)
    if self._takes_turns:
      self.reasons[task.HOST_WAIT] = 'tokenising is not told apart'

  def round(self) -> dict[str, float]:
    """All of them."""
    encoder = self._material.encoder
    before, began = encoder.work('passage'), time.monotonic()
    if self._takes_turns:
      self.vecs = encoder.encode_passages(self._texts)
    else:
      self._encode('passage', self._material.passage_rows())
    seconds = time.monotonic() - began
    work = encoder.work('passage')
    useful = int(self._lengths.sum())
    flops = costs.encoder_flops(self._material.model.spec, self._lengths)
    mesh = sharding.make_local_mesh(self._material.search.mesh)
    measured = {
        task.PASSAGES: len(self._lengths) / seconds,
        task.TOKENS: useful / seconds,
        task.PADDING: 1 - useful / (
            work.processed_tokens - before.processed_tokens
        ),
        **self.utilisation(flops, seconds, mesh),
    }
    if not self._takes_turns:
      packing = work.packing_seconds - before.packing_seconds
      measured[task.HOST_WAIT] = packing / seconds
      rows, began = self._material.query_rows(), time.monotonic()
      self._encode('query', rows)
      measured[task.QUERIES] = len(rows) / (time.monotonic() - began)
    return measured

  def agreement(
      self, peer: str, losses: list[float], vecs: Callable[[], np.ndarray]
  ) -> dict[str, list[float]]:
    """How far apart vectors are."""
    del losses
    apart = np.abs(self.vecs - vecs()).max()
    return {f'most that a feature differs from {peer}': [float(apart)]}

  def _encode(self, role: str, rows: np.ndarray) -> None:
    texts = self._material.dataset.tokenize(self._material.model, role)
    self._material.encoder.encode(role, texts, rows)
