"""Candidates by search, filters, and the pool: files and all."""

import dataclasses
from typing import Any

import numpy as np

from neg_contrast.artifacts import folders
from neg_contrast.benchmarks import material as material_lib
from neg_contrast.benchmarks import search_task
from neg_contrast.data import examples
from neg_contrast.mining import candidates, pool_files
from neg_contrast.negatives import pool as pool_lib

_QUERIES_AT_ONCE = 4096


class Mine(search_task.Search):
  """Candidates by search, filters, and the pool: files and all."""

  def __init__(self, material: material_lib.Material):
    """Makes the index for the depth of mining."""
    super().__init__(material)
    self._positives = examples.known_positives(material.dataset.prepared)

  def round(self) -> dict[str, float]:
    """The pool is made anew."""
    return self.counted(self._mine)

  def _depth_of(self, material: material_lib.Material) -> int:
    return material.negatives.depth

  def _mine(self) -> None:
    material, folder = self._material, self._material.workdir / 'mined'
    prepared = material.dataset.prepared
    manifest: dict[str, Any] = {}
    miner = candidates.SearchMiner(
        lambda rows, others: self._retriever.search_and_score(
            rows, self._depth, others
        ), self._positives,
    )
    with folders.writing(folder / 'candidates', manifest,
                         format=candidates.FORMAT) as scratch:
      candidates.write(
          scratch, manifest, len(self._rows), self._depth,
          candidates.mine(miner, self._rows, candidates.divide(
              len(self._rows), _QUERIES_AT_ONCE
          )),
      )
    mined, halves = candidates.read(folder / 'candidates')
    manifest, found = {}, {'model': mined}
    corpus = pool_files.Corpus(
        prepared.passage_groups, self._positives,
        lambda queries, rows, where: np.zeros_like(where),
    )
    with folders.writing(folder / pool_lib.FOLDER, manifest,
                         format=pool_lib.FORMAT) as scratch:
      pool_files.write(
          scratch, manifest, self._rows, found, halves, len(corpus.groups),
          pool_files.drop_all(
              self._rows, found, corpus,
              dataclasses.replace(
                  material.negatives, sources=('model:2',)
              ),
          ),
      )
