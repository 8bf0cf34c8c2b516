"""Measures embeddings on disk by dtype: size, search, recall, memory.

    .venv/bin/pip install psutil
    .venv/bin/python launch/benchmarks/benchmark_encode.py
        [--passages 10000 100000] [--queries 200] [--workdir DIR]

Vectors are the synthetic ones of synthetic_vectors.py with 768 features; the
encoder itself is not measured. Each step runs in a process of its own: writing
the table, exact search, building a ScaNN index, ScaNN search (its loading
included). Recall is against exact search of the float32 vectors. "own" is the
peak of anonymous memory above that of the imports, "mapped" the peak of file
pages, which the system can drop. CPU seconds are those of all threads, with
compilation: of exact search in 10,000 passages that is the most of it.

At the end, what was measured at the largest size is projected to MS MARCO and
Wikipedia, in proportion to the passages. 1,000,000 passages take 10 GiB of disk
and 8 GiB of memory.
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

_FEATURES, _DEPTH = 768, 100
_DTYPES = ('float32', 'bfloat16', 'int8')
_STEPS = ('write', 'exact', 'build', 'scann')
_CORPORA = {'MS MARCO': 8_841_823, 'Wikipedia': 21_015_324}
_MIB, _GIB = 2**20, 2**30


def main() -> None:
  """Measures all sizes, or does the one step that is asked for."""
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawTextHelpFormatter
  )
  parser.add_argument('--passages', type=int, nargs='+',
                      default=[10_000, 100_000])
  parser.add_argument('--queries', type=int, default=200)
  parser.add_argument('--workdir', type=pathlib.Path)
  parser.add_argument('--step', help=argparse.SUPPRESS)
  parser.add_argument('--dtype', help=argparse.SUPPRESS)
  args = parser.parse_args()
  if args.step:
    _run_step(args)
    return
  with tempfile.TemporaryDirectory() as scratch:
    args.workdir = args.workdir or pathlib.Path(scratch)
    print('| passages | dtype | step | CPU s | own MiB | mapped MiB | on disk '
          f'MiB | bytes a passage | recall@{_DEPTH} |\n'
          '|---:|---|---|---:|---:|---:|---:|---:|---:|', flush=True)
    for passages in sorted(args.passages):
      made = _measure(args, passages)
  print(_projections(made, max(args.passages), args.queries))


def _measure(
    args: argparse.Namespace, passages: int
) -> dict[str, dict[str, Any]]:
  """`<dtype> <step>` -> what was measured; printed as it comes."""
  folder = args.workdir / str(passages)
  folder.mkdir(parents=True, exist_ok=True)
  synthetic_vectors.make_vectors(folder, passages, 0, args.queries, _FEATURES)
  made = {}
  for dtype in _DTYPES:
    for step in _STEPS:
      subprocess.run(
          [sys.executable, __file__, '--step', step, '--dtype', dtype,
           '--workdir', folder],
          check=True,
          env={**os.environ, 'JAX_PLATFORMS': 'cpu', 'XLA_FLAGS': ''},
      )
      name = f'{dtype} {step}'
      now = made[name] = json.loads((folder / f'{name}.json').read_text())
      now['recall'] = ''
      if step in ('exact', 'scann'):
        best, found = (np.load(folder / f'{file}.npy')
                       for file in ('float32 exact', name))
        now['recall'] = format(np.mean([
            np.isin(*pair).mean() for pair in zip(best, found, strict=True)
        ]), '.4f')
      size = ['', ''] if now['disk'] is None else [
          f'{now["disk"] / _MIB:,.1f}', f'{now["disk"] / passages:,.1f}'
      ]
      print(f'| {passages:,} | {dtype} | {step} | {now["cpu"]:,.1f} '
            f'| {now["own"] / _MIB:,.0f} | {now["mapped"] / _MIB:,.0f} '
            f'| {size[0]} | {size[1]} | {now["recall"]} |', flush=True)
  return made


def _run_step(args: argparse.Namespace) -> None:
  """One step, measured from after the imports."""
  sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))
  import jax

  from neg_contrast import sharding
  from neg_contrast.retrieval import (
    embeddings,
    mesh_search,
    quantized_files,
    quantized_index,
    scann_shards,
    vector_table,
  )
  from neg_contrast.settings import config as config_lib

  jax.devices()
  scann_shards.load_library()
  folder, step, dtype = args.workdir, args.step, args.dtype
  vecs = np.load(folder / 'passages.npy', mmap_mode='r')
  queries = np.load(folder / 'queries.npy')
  ranks = np.arange(len(vecs), dtype=np.int32)
  place, index = folder / f'{dtype} table', folder / f'{dtype} index'
  layout = vector_table.Layout(len(vecs), _FEATURES, dtype)

  def copy(rows, out, on_progress):
    for start in range(0, len(rows), 4096):  # As encoding has blocks.
      part = rows[start : start + 4096]
      out[start : start + len(part)] = vecs[part.start : part.stop]

  memory = peak_memory.Memory()
  began = time.process_time()
  disk = found = None
  if step == 'write':
    embeddings.make_table(place, {'dtype': dtype}, layout, copy)
  else:
    passage_vecs = vector_table.Table(place, layout)
  if step == 'exact':
    mesh = sharding.make_mesh(config_lib.MeshConfig())
    found = mesh_search.MeshSearch(passage_vecs, ranks, mesh).search(
        queries, _DEPTH
    )
  elif step == 'build':
    quantized_files.make(
        index, passage_vecs, ranks, quantized_index.Settings(recall_k=_DEPTH),
        np.load(folder / 'samples.npy'),
    )
  elif step == 'scann':
    found = quantized_files.load(index, passage_vecs).search(queries, _DEPTH)
  made = {'cpu': time.process_time() - began, **memory.end()}
  if step in ('write', 'build'):
    disk = sum(path.stat().st_size for path in
               (place if step == 'write' else index).rglob('*')
               if path.is_file())
  if found is not None:
    np.save(folder / f'{dtype} {step}.npy', found.rows)
  (folder / f'{dtype} {step}.json').write_text(
      json.dumps({**made, 'disk': disk})
  )


def _projections(
    made: dict[str, dict[str, Any]], passages: int, queries: int
) -> str:
  """What larger corpora would take, and how that is reckoned."""
  lines = []
  for name, total in _CORPORA.items():
    lines += ['', f'{name}, {total:,} passages = {total / passages:,.1f} times '
              f'{passages:,}:']
    for dtype in _DTYPES:
      table, index = (made[f'{dtype} {step}']['disk'] / passages
                      for step in ('write', 'build'))
      exact, build = (made[f'{dtype} {step}']['cpu'] * total / passages
                      for step in ('exact', 'build'))
      lines += [
          f'* {dtype}: table {total:,} x {table:,.1f} bytes = '
          f'{total * table / _GIB:,.1f} GiB; index {total:,} x {index:,.1f} '
          f'bytes = {total * index / _GIB:,.1f} GiB',
          f'  exact {made[f"{dtype} exact"]["cpu"]:,.1f} s x '
          f'{total / passages:,.1f} = {exact:,.0f} CPU s for {queries:,} '
          f'queries ({exact / queries:,.2f} a query); index '
          f'{made[f"{dtype} build"]["cpu"]:,.1f} s x {total / passages:,.1f} = '
          f'{build / 3600:,.1f} CPU h',
      ]
  own = max(made[f'{dtype} build']['own'] for dtype in _DTYPES)
  lines += ['', f'Building the index of {passages:,} held {own / _GIB:,.1f} '
            'GiB; an index has at most index.shard_rows = 1,000,000 passages, '
            'whatever the corpus.']
  return '\n'.join(lines)


if __name__ == '__main__':
  main()
