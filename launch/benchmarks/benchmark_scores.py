"""Measures search and hard draws by score functions of several vectors.

    .venv/bin/pip install psutil
    .venv/bin/python launch/benchmarks/benchmark_scores.py [--passages 11915]
        [--queries 500] [--scores dual som]

Random vectors of 384 features, queries of 64 tokens and passages of 48; as many
passages as the NCBI disease corpus has concepts. "search" finds the 64 best of
all passages for every query, "draw" gives every query 63 hard negatives of
theirs, as `negatives.strategy=sampled` does before an epoch; encoding is not
measured. Each is a process of its own. "own" is the peak of anonymous memory
above that of the imports, "mapped" the peak of file pages, which the system can
drop. CPU time is that of all threads, compilation included.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np
import peak_memory

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

from neg_contrast import scoring

_FEATURES, _QUERY_LENGTH, _PASSAGE_LENGTH = 384, 64, 48
_DEPTH, _NEGATIVES = 64, 63


def main() -> None:
  """Runs all steps, or the one that is asked for."""
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawTextHelpFormatter
  )
  parser.add_argument('--passages', type=int, default=11_915)
  parser.add_argument('--queries', type=int, default=500)
  parser.add_argument('--scores', nargs='+',
                      default=['dual', 'poly-16', 'multi-8', 'som'])
  parser.add_argument('--workdir', type=pathlib.Path, help=argparse.SUPPRESS)
  parser.add_argument('--step', help=argparse.SUPPRESS)
  args = parser.parse_args()
  if args.step:
    _run_step(args)
    return
  print(f'{args.passages:,} passages, {args.queries:,} queries\n\n'
        '| score | vectors MiB | step | seconds | CPU seconds | own MiB | '
        'mapped MiB |\n|---|---:|---|---:|---:|---:|---:|', flush=True)
  for name in args.scores:
    with tempfile.TemporaryDirectory() as scratch:
      folder = pathlib.Path(scratch)
      size = _make_vectors(folder, name, args)
      for step in ('search', 'draw'):
        subprocess.run(
            [sys.executable, __file__, '--step', step, '--workdir', folder,
             '--scores', name],
            check=True,
            env={**os.environ, 'JAX_PLATFORMS': 'cpu', 'XLA_FLAGS': ''},
        )
        made = json.loads((folder / f'{step}.json').read_text())
        print(f'| {name} | {size / 2**20:,.0f} | {step} | {made["wall"]:.1f} | '
              f'{made["cpu"]:.1f} | {made["own"] / 2**20:,.0f} | '
              f'{made["mapped"] / 2**20:,.0f} |', flush=True)


def _score(name: str) -> scoring.ScoreFunction:
  return scoring.named(name, _QUERY_LENGTH, _PASSAGE_LENGTH)


def _make_vectors(
    folder: pathlib.Path, name: str, args: argparse.Namespace
) -> int:
  """Writes those of queries and passages. Returns the bytes of the latter."""
  rng = np.random.default_rng(0)
  for role, count in (('query', args.queries), ('passage', args.passages)):
    vecs = rng.standard_normal(
        (count, _score(name).vectors(role) * _FEATURES), np.float32
    )
    np.save(folder / f'{role}.npy', vecs / np.float32(np.sqrt(_FEATURES)))
  return vecs.nbytes


def _run_step(args: argparse.Namespace) -> None:
  """One step, measured from after the imports."""
  import jax

  from neg_contrast import sharding
  from neg_contrast.negatives import sampled, sampling
  from neg_contrast.retrieval import mesh_search
  from neg_contrast.settings import config as config_lib

  jax.devices()
  score, mesh = _score(args.scores[0]), sharding.make_mesh(
      config_lib.MeshConfig())
  queries, passages = (np.load(args.workdir / f'{role}.npy', mmap_mode='r')
                       for role in ('query', 'passage'))
  places = np.arange(len(passages), dtype=np.int32)
  memory = peak_memory.Memory()
  began, cpu = time.monotonic(), time.process_time()
  if args.step == 'search':
    mesh_search.MeshSearch(passages, places, mesh, score=score).search(
        queries, _DEPTH
    )
  else:
    sampled.draw(
        mesh_search.MeshSearch(passages, places, mesh, score=score),
        places, places,
        sampling.mixed(_NEGATIVES, 100), sampling.draw_key(0, 0), queries,
        np.zeros((len(queries), 1), np.int32),
    )
  made = {'wall': time.monotonic() - began, 'cpu': time.process_time() - cpu}
  (args.workdir / f'{args.step}.json').write_text(
      json.dumps({**made, **memory.end()})
  )


if __name__ == '__main__':
  main()
