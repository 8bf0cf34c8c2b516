"""What `benchmark_index.py` compares: our indexes and those of faiss.

Each is built from a table of vectors, and loads as a search.
"""

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import numpy as np
from synthetic_vectors import FEATURES

DEPTH = 100
TARGET = 0.95
SYSTEMS = ('exact', 'flat', 'scann', 'binary', 'ivf_flat', 'ivf_pq')
SWEPT = ('scann', 'binary', 'ivf_flat', 'ivf_pq')


def of_name(name: str) -> Any:
  """The class of a system."""
  return {
      'exact': _Exact, 'scann': _Quantized, 'binary': _Quantized
  }.get(name, _Faiss)


def _powers(most: int) -> list[int]:
  """From a 256th of the leaves on, where recall is about a half, to all."""
  powers = [2**n for n in range(most.bit_length()) if 2**n < most]
  return [n for n in powers if n >= most / 256] + [most]


class _Exact:
  """neg_contrast.retrieval.mesh_search."""

  widths: tuple[Any, ...] = (None,)
  chosen = None

  def __init__(self, system, folder, vecs, threads):
    from neg_contrast import sharding
    from neg_contrast.retrieval import hits, mesh_search
    from neg_contrast.settings import config

    self._vecs = vecs
    ranks = hits.tie_ranks([f'{n:08d}' for n in range(len(vecs))])
    mesh = sharding.make_mesh(config.MeshConfig())
    self._make = lambda: mesh_search.MeshSearch(vecs, ranks, mesh)

  def build(self) -> int:
    self._make()
    return 0

  def load(self) -> Callable[..., np.ndarray]:
    index = self._make()
    return lambda queries, _: index.search(queries, DEPTH).rows

  def notes(self) -> dict[str, Any]:
    return {}


class _Quantized:
  """neg_contrast.retrieval.quantized_index."""

  def __init__(self, system, folder, vecs, threads):
    from neg_contrast.retrieval import (
      hits,
      quantized_files,
      quantized_index,
    )

    self._kind = system
    # Imports are no part of what is measured.
    quantized_index.QUANTIZERS[system].library()
    self._library, self._files = quantized_index, quantized_files
    self._folder, self._vecs, self._threads = folder, vecs, threads
    self._ranks = hits.tie_ranks([f'{n:08d}' for n in range(len(vecs))])
    path = folder / system / 'manifest.json'
    self._width = 'leaves' if system == 'scann' else 'candidates'
    if path.exists():
      manifest = json.loads(path.read_text())
      self._measured = manifest['measured']
      self.chosen = self._measured[self._width]
      widths = [DEPTH * 2**n for n in range(7)]
      if system == 'scann':
        shards = path.parent.glob('shard-*/manifest.json')
        widths = _powers(max(
            json.loads(shard.read_text())['leaves'] for shard in shards
        ))
      self.widths = sorted({*widths, self.chosen})

  def build(self) -> int:
    settings = self._library.Settings(
        target_recall=TARGET, recall_k=DEPTH, threads=self._threads,
        kind=self._kind,
    )
    samples = np.load(self._folder / 'samples.npy')
    self._files.make(
        self._folder / self._kind, self._vecs, self._ranks, settings, samples
    )
    return sum(path.stat().st_size
               for path in (self._folder / self._kind).rglob('*')
               if path.is_file())

  def load(self) -> Callable[..., np.ndarray]:
    index = self._files.load(
        self._folder / self._kind, self._vecs, self._threads
    )
    tuned = index.measured

    def search(queries, width):
      index.measured = dataclasses.replace(tuned, **{self._width: width})
      return index.search(queries, DEPTH).rows

    return search

  def notes(self) -> dict[str, Any]:
    return {'note': f'{self._measured["leaves"]} leaves, '
                    f'{self._measured["candidates"]} candidates, '
                    f'{self._measured["recall"]:.4f} on held-out samples'}


class _Faiss:
  """faiss, the same way."""

  chosen = None

  def __init__(self, system, folder, vecs, threads):
    import faiss

    faiss.omp_set_num_threads(threads)
    self._faiss, self._system, self._vecs = faiss, system, vecs
    self._path = folder / f'{system}.faiss'
    self._lists = round(len(vecs) ** 0.5)
    self.widths = (None,) if system == 'flat' else _powers(self._lists)
    path = folder / 'scann' / 'manifest.json'
    self._candidates = (
        json.loads(path.read_text())['measured']['candidates']
        if path.exists() else 4 * DEPTH
    )

  def build(self) -> int:
    recipe = {
        'flat': 'Flat', 'ivf_flat': f'IVF{self._lists},Flat',
        'ivf_pq': f'IVF{self._lists},PQ{FEATURES // 2}x4fsr,RFlat',
    }[self._system]
    index = self._faiss.index_factory(
        FEATURES, recipe, self._faiss.METRIC_INNER_PRODUCT
    )
    rng = np.random.default_rng(0)
    some = rng.permutation(len(self._vecs))[:100_000]  # As ScaNN trains.
    index.train(self._vecs[np.sort(some)])
    for start in range(0, len(self._vecs), 50_000):
      index.add(np.ascontiguousarray(self._vecs[start : start + 50_000]))
    self._faiss.write_index(index, str(self._path))
    return self._path.stat().st_size

  def load(self) -> Callable[..., np.ndarray]:
    index = self._faiss.read_index(str(self._path))

    def search(queries, lists):
      params = None
      if self._system == 'ivf_flat':
        params = self._faiss.SearchParametersIVF(nprobe=lists)
      elif self._system == 'ivf_pq':
        params = self._faiss.IndexRefineSearchParameters(
            k_factor=self._candidates / DEPTH,
            base_index_params=self._faiss.SearchParametersIVF(nprobe=lists),
        )
      return index.search(queries, DEPTH, params=params)[1]

    return search

  def notes(self) -> dict[str, Any]:
    if self._system == 'ivf_pq':
      return {'note': f'{self._candidates} candidates'}
    return {}
