"""Measures mining: peak memory and time, by exact search and by ScaNN.

    .venv/bin/pip install psutil
    .venv/bin/python launch/benchmarks/benchmark_mine.py [--passages 200000]
        [--queries 5000] [--workdir DIR]

Vectors are those of synthetic_vectors.py; encoding is not measured.
A positive of a query is its nearest passage. Every step runs in a process of
its own: the search and the files of the top 200 (`candidates.py`), then filters
and the pool of 100 (`pool.py`). "own" is the peak of anonymous memory above
that of the imports, "mapped" the peak of file pages, which the system can drop.
CPU time is that of all threads.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np
import peak_memory
import synthetic_vectors

_DEPTH, _POOL, _QUERIES_AT_ONCE = 200, 100, 4096
_STEPS = ('build scann', 'exact', 'scann', 'pool exact', 'pool scann')


def main() -> None:
  """Runs every step, or the one that is asked for."""
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawTextHelpFormatter
  )
  parser.add_argument('--passages', type=int, default=200_000)
  parser.add_argument('--queries', type=int, default=5_000)
  parser.add_argument('--workdir', type=pathlib.Path)
  parser.add_argument('--step', help=argparse.SUPPRESS)
  args = parser.parse_args()
  if args.step:
    _run_step(args)
    return
  with tempfile.TemporaryDirectory() as scratch:
    args.workdir = args.workdir or pathlib.Path(scratch)
    _run_all(args)


def _run_all(args: argparse.Namespace) -> None:
  args.workdir.mkdir(parents=True, exist_ok=True)
  synthetic_vectors.make_vectors(args.workdir, args.passages, 0, args.queries)
  print(f'{args.passages:,} passages, {args.queries:,} queries; a matrix of '
        f'scores would take {args.passages * args.queries * 4 / 2**20:,.0f} '
        'MiB\n\n| step | seconds | CPU seconds | own MiB | mapped MiB |\n'
        '|---|---:|---:|---:|---:|', flush=True)
  for step in _STEPS:
    subprocess.run(
        [sys.executable, __file__, '--step', step, '--workdir', args.workdir],
        check=True,
        env={**os.environ, 'JAX_PLATFORMS': 'cpu', 'XLA_FLAGS': ''},
    )
    made = json.loads((args.workdir / f'{step}.json').read_text())
    print(f'| {step} | {made["wall"]:.1f} | {made["cpu"]:.1f} | '
          f'{made["own"] / 2**20:,.0f} | {made["mapped"] / 2**20:,.0f} |',
          flush=True)
  exact, found = (np.load(args.workdir / f'pool {kind}' / 'rows.npy')
                  for kind in ('exact', 'scann'))
  is_in = [np.load(args.workdir / f'pool {kind}' / 'dropped_by.npy') == 0
           for kind in ('exact', 'scann')]
  recall = np.mean([
      len(np.intersect1d(ours[a], theirs[b])) / a.sum()
      for ours, theirs, a, b in zip(exact, found, *is_in, strict=True)
  ])
  print(f'\nThe ScaNN pool holds {recall:.4f} of the exact pool.')


def _run_step(args: argparse.Namespace) -> None:
  """One step, measured from after the imports."""
  sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))
  import jax

  from neg_contrast.retrieval import (
    hits,
    quantized_files,
    quantized_index,
    scann_shards,
  )

  jax.devices()
  scann_shards.load_library()
  steps = {'exact': _mine, 'scann': _mine, 'pool exact': _make_pool,
           'pool scann': _make_pool}
  folder, step = args.workdir, args.step
  vecs = np.load(folder / 'passages.npy', mmap_mode='r')
  ranks = hits.tie_ranks([f'{n:08d}' for n in range(len(vecs))])
  memory = peak_memory.Memory()
  began, cpu = time.monotonic(), time.process_time()
  if step == 'build scann':
    quantized_files.make(
        folder / 'index', vecs, ranks,
        quantized_index.Settings(recall_k=_DEPTH),
        np.load(folder / 'samples.npy'),
    )
  else:
    steps[step](folder, step, vecs, ranks)
  made = {'wall': time.monotonic() - began, 'cpu': time.process_time() - cpu}
  (folder / f'{step}.json').write_text(json.dumps({**made, **memory.end()}))


def _mine(
    folder: pathlib.Path, kind: str, vecs: np.ndarray, ranks: np.ndarray
) -> None:
  """The nearest passages of every query, by an index of some kind."""
  from neg_contrast import sharding
  from neg_contrast.artifacts import folders
  from neg_contrast.mining import candidates
  from neg_contrast.retrieval import mesh_search, quantized_files
  from neg_contrast.settings import config as config_lib

  queries = np.load(folder / 'queries.npy', mmap_mode='r')
  index = (quantized_files.load(folder / 'index', vecs) if kind == 'scann' else
           mesh_search.MeshSearch(vecs, ranks, sharding.make_mesh(
               config_lib.MeshConfig())))

  def search(query_rows, others):
    found = index.search(queries[query_rows], _DEPTH)
    return found, np.einsum('qd,qsd->qs', queries[query_rows], vecs[others])

  # Some passage to be scored too, as a positive is.
  known = _positives(np.zeros(len(queries), np.int32))
  miner = candidates.SearchMiner(search, known)
  rows = np.arange(len(queries), dtype=np.int32)
  manifest: dict[str, Any] = {}
  with folders.writing(folder / kind, manifest,
                       format=candidates.FORMAT) as scratch:
    candidates.write(
        scratch, manifest, len(rows), _DEPTH, candidates.mine(
            miner, rows, candidates.divide(len(rows), _QUERIES_AT_ONCE)
        ),
    )


def _make_pool(
    folder: pathlib.Path, step: str, vecs: np.ndarray, ranks: np.ndarray
) -> None:
  """The pool of what was mined."""
  from neg_contrast.artifacts import folders
  from neg_contrast.mining import candidates, pool_files
  from neg_contrast.negatives import pool as pool_lib
  from neg_contrast.settings import config as config_lib

  del ranks
  mined, halves = candidates.read(folder / step.removeprefix('pool '))
  corpus = pool_files.Corpus(
      np.arange(len(vecs), dtype=np.int32),
      _positives(np.asarray(mined.rows[:, 0])),
      lambda queries, rows, where: np.zeros_like(where),
  )
  queries, found = np.arange(len(mined.rows), dtype=np.int32), {'model': mined}
  manifest: dict[str, Any] = {}
  with folders.writing(folder / step, manifest,
                       format=pool_lib.FORMAT) as scratch:
    pool_files.write(
        scratch, manifest, queries, found, halves, len(corpus.groups),
        pool_files.drop_all(queries, found, corpus, config_lib.NegativesConfig(
            sources=('model:2',), pool_size=_POOL
        )),
    )


def _positives(passages: np.ndarray):
  """One of each query."""
  from neg_contrast.data import examples

  rows = np.arange(len(passages), dtype=np.int32)
  return examples.Positives(np.stack([rows, passages], axis=1), len(rows))


if __name__ == '__main__':
  main()
