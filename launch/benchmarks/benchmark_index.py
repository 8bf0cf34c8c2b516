"""Measures our indexes against faiss: memory, build, recall, throughput.

    .venv/bin/pip install faiss-cpu matplotlib psutil
    .venv/bin/python launch/benchmarks/benchmark_index.py
        [--passages 10000 100000 1000000] [--threads 1] [--workdir DIR]
        [--svg FILE]

Prints markdown tables and draws benchmark_index.svg beside this file. Each
measurement runs in a fresh process; with --workdir they are kept there, and the
same command goes on where it was interrupted. 1,000,000 passages take about 15
minutes of one core, 5 GiB of memory and 7 GiB of disk.

The vectors are SYNTHETIC, see synthetic_vectors.py. What comes out is a
comparison of systems, not a promise for other data.

What is compared, with the same threads and vectors from the same memory map:

* exact: neg_contrast.retrieval.mesh_search, on one CPU device.
* scann: neg_contrast.retrieval.quantized_index, target 0.95, tuned on 500
  queries that are not measured. It builds on two threads at least.
* binary: the same by one bit a feature; what is swept are its candidates.
* flat: faiss IndexFlatIP.
* ivf_flat: faiss IndexIVFFlat, sqrt(n) lists.
* ivf_pq: faiss IVF of sqrt(n) lists, PQ of 192 x 4 bits by residual with fast
  scan (what ScaNN does, without anisotropy), best candidates scored again with
  full vectors (RFlat), as many of them as scann takes.

Time is CPU time, of all threads, since benchmarks share machines with other
things: queries/s are those of one core that does nothing else. With more
threads it says what they cost together, not what they gain.

"own MiB" is the peak of anonymous memory above that of the imports, "mapped
MiB" the peak of file pages, which the system can drop. Search is measured in a
process of its own, which loads the index. One at a time: one query a call.
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

import index_report
import index_systems
import numpy as np
import peak_memory
import synthetic_vectors


def main() -> None:
  """Measures what is not measured yet, then prints and draws all."""
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawTextHelpFormatter
  )
  parser.add_argument(
      '--passages', type=int, nargs='+', default=[10_000, 100_000, 1_000_000]
  )
  parser.add_argument('--threads', type=int, default=1)
  parser.add_argument('--seed', type=int, default=0)
  parser.add_argument('--workdir', type=pathlib.Path)
  parser.add_argument(
      '--svg', type=pathlib.Path,
      default=pathlib.Path(__file__).with_name('benchmark_index.svg'),
  )
  parser.add_argument('--step', nargs=2, help=argparse.SUPPRESS)
  args = parser.parse_args()
  if args.step:
    _run_step(args, *args.step)
  elif args.workdir:
    _run_all(args)
  else:
    with tempfile.TemporaryDirectory() as folder:
      args.workdir = pathlib.Path(folder)
      _run_all(args)


def _run_all(args: argparse.Namespace) -> None:
  """Every step of every size, a process each."""
  results: dict[int, dict[str, Any]] = {}
  for passages in args.passages:
    folder = args.workdir / f'{passages}-{args.seed}'
    folder.mkdir(parents=True, exist_ok=True)
    synthetic_vectors.make_vectors(folder, passages, args.seed)
    results[passages] = {}
    for system in index_systems.SYSTEMS:
      result = {}
      for step in ('build', 'search'):
        path = folder / f'{system}-{step}.json'
        if not path.exists():
          print(f'{passages:,} {system} {step}', file=sys.stderr)
          threads = str(args.threads)
          subprocess.run(
              [sys.executable, __file__, '--step', step, system,
               '--passages', str(passages), '--threads', threads,
               '--seed', str(args.seed), '--workdir', args.workdir],
              check=True,
              env={**os.environ, 'OMP_NUM_THREADS': threads,
                   'PYTHONPATH': str(pathlib.Path(__file__).parents[2]),
                   'OPENBLAS_NUM_THREADS': threads, 'NPROC': threads,
                   'OMP_WAIT_POLICY': 'passive',  # Spinning is no work.
                   'JAX_PLATFORMS': 'cpu', 'XLA_FLAGS': ''},
          )
        result[step] = json.loads(path.read_text())
      results[passages][system] = result
  print(index_report.tables(results, args.threads))
  index_report.draw(results, args.threads, args.svg)


def _run_step(args: argparse.Namespace, step: str, system: str) -> None:
  """Builds or searches one index, and writes what it measured."""
  passages = args.passages[0]
  folder = args.workdir / f'{passages}-{args.seed}'
  vecs = np.load(folder / 'passages.npy', mmap_mode='r')
  measured = index_systems.of_name(system)(
      system, folder, vecs, args.threads
  )
  if step == 'build':
    memory = peak_memory.Memory()
    begun = time.process_time()
    disk = measured.build()
    result: dict[str, Any] = {
        'seconds': time.process_time() - begun, 'disk': disk, **memory.end(),
    }
  else:
    result = _measure_search(measured, system, folder, passages)
  path = folder / f'{system}-{step}.json'
  path.with_suffix('.partial').write_text(json.dumps(result))
  path.with_suffix('.partial').replace(path)


def _measure_search(measured, system, folder, passages) -> dict[str, Any]:
  queries = np.load(folder / 'queries.npy')
  memory = peak_memory.Memory()
  search = measured.load()
  middle = measured.widths[len(measured.widths) // 2]
  search(queries[:1], measured.chosen or middle)  # The exact index compiles.
  rows, _ = _timed(search, queries, measured.chosen or middle)
  peaks = memory.end()
  if system == 'exact':
    np.save(folder / 'truth.npy', rows)
  truth = np.load(folder / 'truth.npy')
  curve = []
  for width in measured.widths:
    rows, seconds = _timed(search, queries, width)
    recall = np.mean(
        [np.isin(*pair).mean() for pair in zip(truth, rows, strict=True)]
    )
    curve.append({'width': width, 'recall': float(recall),
                  'rate': len(queries) / seconds})
    if recall > 0.99:  # Wider ones are out of the picture.
      break
  width = measured.chosen
  if width is None and system in index_systems.SWEPT:
    # The narrowest with the target.
    reach = [p['width'] for p in curve if p['recall'] >= index_systems.TARGET]
    width = reach[0] if reach else curve[-1]['width']
  at = next(p for p in curve if p['width'] == width)
  count = 5 if system in ('exact', 'flat') and passages > 200_000 else 200
  begun = time.process_time()
  for query in queries[:count]:
    search(query[None], width)
  return {
      **peaks, **measured.notes(), 'chosen': at, 'curve': curve,
      'single_rate': count / (time.process_time() - begun),
  }


def _timed(search, queries, width) -> tuple[np.ndarray, float]:
  """What is found, and the CPU seconds: the least of a few runs, if short."""
  times: list[float] = []
  while not times or (len(times) < 3 and sum(times) < 1):
    begun = time.process_time()
    rows = search(queries, width)
    times.append(time.process_time() - begun)
  return rows, min(times)


if __name__ == '__main__':
  main()
