"""The best passages of queries, which are encoded for it."""

import dataclasses
import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from neg_contrast import sharding
from neg_contrast.benchmarks import material as material_lib
from neg_contrast.benchmarks import task
from neg_contrast.data import random_texts
from neg_contrast.retrieval import embedder
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.training import costs

_ASKED_ALONE = 20


class Search(task.Task):
  """The best passages of queries, which are encoded for it."""

  def __init__(self, material: material_lib.Material):
    """Makes the index, and the vectors of the passages."""
    super().__init__()
    self._material = material
    self._rows, self._depth = material.query_rows(), self._depth_of(material)
    vectors = MadeUpVectors if material.is_made_up else embedder.Embedder
    self._vectors = vectors(
        material.dataset, material.encoder, None if material.is_made_up else
        material.workdir / retriever_lib.FOLDER,
    )
    self._retriever = retriever_lib.Retriever(
        dataclasses.replace(material.search, depth=self._depth),
        material.dataset, self._vectors,
    )
    passages = len(self._vectors.passage_vecs)
    began = time.monotonic()
    self._retriever.make()
    self.facts = {'passages': passages}
    if not self._retriever.is_exact:
      self.facts['index, built in s'] = time.monotonic() - began
      self.reasons[task.UTILISATION] = 'an index leaves most products out'

  def round(self) -> dict[str, float]:
    """All queries at once, then some of them one at a time."""
    measured = self.counted(
        lambda: self._retriever.search_rows(self._rows, self._depth)
    )
    queries = self._material.dataset.prepared.queries
    texts = [queries[int(row)].text for row in self._rows[:_ASKED_ALONE]]
    began = time.monotonic()
    for text in texts:
      self._retriever.search([text], self._depth)
    seconds = time.monotonic() - began
    return {**measured, f'{task.QUERIES}, one at a time': len(texts) / seconds}

  def _depth_of(self, material: material_lib.Material) -> int:
    return material.search.depth

  def counted(self, do: Callable[[], Any]) -> dict[str, float]:
    """What it takes to encode all queries and search for them."""
    material = self._material
    before, began = material.encoder.work('query'), time.monotonic()
    do()
    seconds = time.monotonic() - began
    work = material.encoder.work('query')
    lengths = material.lengths('query')[self._rows]
    measured = {
        task.QUERIES: len(lengths) / seconds,
        task.TOKENS: lengths.sum() / seconds,
        task.PADDING: 1 - lengths.sum() / (
            work.processed_tokens - before.processed_tokens
        ),
        task.HOST_WAIT: (
            work.packing_seconds - before.packing_seconds
        ) / seconds,
    }
    if self._retriever.is_exact:
      spec = material.model.spec
      flops = costs.encoder_flops(spec, lengths) + costs.score_flops(
          len(lengths), len(self._vectors.passage_vecs), spec.dim
      )
      measured |= self.utilisation(
          flops, seconds, sharding.make_local_mesh(material.search.mesh)
      )
    return measured


class MadeUpVectors(embedder.Embedder):
  """Vectors of passages that were not encoded; queries are."""

  @functools.cached_property
  def passage_vecs(self) -> np.ndarray:
    """`[passages, features] float32` of the corpus."""
    return random_texts.vectors(len(self._dataset.prepared.passages),
                                self.encoder.dim)
