"""Exact search on CPU against faiss's flat index, alternated.

    .venv/bin/pip install faiss-cpu
    .venv/bin/python launch/benchmarks/benchmark_search.py
        [--passages 100000 1000000] [--features 384 768] [--queries 1 64 1024]
        [--depth 100] [--threads 2] [--rounds 5] [--workdir DIR]

Prints a markdown table, a row for each number of passages, features and queries
of a search. The vectors are SYNTHETIC, those of `synthetic_vectors.py`.

* ours: `retrieval.mesh_search` over a float32 table on disk, which is mapped.
* faiss: `IndexFlatIP`, which holds a copy of the vectors in memory.
* reading: the largest number of the table, for what its bytes cost. It is done
  with as many threads.

The three take turns, with the same threads, and each search has queries of its
own. `ms` is the median of the rounds, of the clock and (CPU) of all cores; the
ratio is ours : faiss, below 1 where ours is faster: the median of the ratios of
neighbours, since the machine may be busy with other things. `same` is the part
of faiss's hits that ours are, which differ where scores round to a tie. faiss
needs its index in memory: 3 GiB for 1,000,000 x 768; the table is read once
before anything is timed.
"""

import argparse
import concurrent.futures
import os
import pathlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

_LEAST_QUERIES = 16  # A turn of fewer is a search for each of some queries.


def main() -> None:
  """Makes tables, and lets both search them."""
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawTextHelpFormatter
  )
  parser.add_argument(
      '--passages', type=int, nargs='+', default=[100_000, 1_000_000]
  )
  parser.add_argument('--features', type=int, nargs='+', default=[384, 768])
  parser.add_argument('--queries', type=int, nargs='+', default=[1, 64, 1024])
  parser.add_argument('--depth', type=int, default=100)
  parser.add_argument('--threads', type=int, default=os.cpu_count())
  parser.add_argument('--rounds', type=int, default=5)
  parser.add_argument('--workdir', type=pathlib.Path)
  args = parser.parse_args()
  # Before libraries are loaded; spinning is no work.
  os.environ.update(OMP_WAIT_POLICY='passive', JAX_PLATFORMS='cpu',
                    OMP_NUM_THREADS=str(args.threads))
  with tempfile.TemporaryDirectory() as folder:
    print('| passages | features | queries | ours, ms | CPU | faiss, ms | CPU '
          '| reading, ms | ratio | of CPU | same |')
    print('|' + '---:|' * 11, flush=True)
    for line in _lines(args, args.workdir or pathlib.Path(folder)):
      print(line, flush=True)


def _lines(args: argparse.Namespace, folder: pathlib.Path) -> Iterator[str]:
  for passages in args.passages:
    for features in args.features:
      table, queries = make_table(
          folder / f'{passages}-{features}', passages, features,
          2 * max(args.queries),
      )
      systems = {
          'ours': _ours(table, args.threads, args.depth),
          'faiss': _faiss(table, args.threads, args.depth),
          'reading': _reading(table, args.threads),
      }
      for count in args.queries:
        yield (f'| {passages:,} | {features} | {count:,} '
               + measure(systems, queries, count, args.rounds))


def make_table(
    folder: pathlib.Path, passages: int, features: int, queries: int
) -> tuple[Any, np.ndarray]:
  """A table of vectors on disk, read once; and queries."""
  sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))
  import synthetic_vectors

  from neg_contrast.retrieval import embeddings, vector_table

  folder.mkdir(parents=True, exist_ok=True)
  synthetic_vectors.make_vectors(folder, passages, 0, queries, features)
  path = folder / 'passages.npy'

  def copy(rows: range, out: Any, on_progress: Any) -> None:
    del on_progress
    vecs = np.load(path, mmap_mode='r')
    out[: len(rows)] = vecs[rows.start : rows.stop]

  table = embeddings.make_table(
      folder / 'table', {'of': str((passages, features))},
      vector_table.Layout(passages, features), copy,
  )
  path.unlink(missing_ok=True)
  for start in range(0, passages, 16_384):
    table[start : min(start + 16_384, passages)].max()
  return table, np.load(folder / 'queries.npy')


def measure(
    systems: dict[str, Callable[[np.ndarray], Any]], queries: np.ndarray,
    count: int, rounds: int,
) -> str:
  """The rest of a row of the table."""
  seconds: dict[str, list[tuple[float, float]]] = {one: [] for one in systems}
  same = []
  for number in range(rounds + 1):
    turns = 1 if count >= _LEAST_QUERIES else _LEAST_QUERIES // count
    rows: dict[str, Any] = {}
    for name, search in systems.items():
      clock, cpu = time.perf_counter(), time.process_time()
      for turn in range(turns):
        start = (number * turns + turn) * count % (len(queries) - count + 1)
        rows[name] = search(queries[start : start + count])
      seconds[name].append(((time.perf_counter() - clock) / turns,
                            (time.process_time() - cpu) / turns))
    same.append(np.mean([
        np.isin(*pair).mean()
        for pair in zip(rows['ours'], rows['faiss'], strict=True)
    ]))
  times = {name: np.array(values[1:]) for name, values in seconds.items()}
  middle = {name: 1000 * np.median(values, axis=0)
            for name, values in times.items()}
  ratio = np.median(times['ours'] / times['faiss'], axis=0)
  return (
      f'| {middle["ours"][0]:,.1f} | {middle["ours"][1]:,.1f} '
      f'| {middle["faiss"][0]:,.1f} | {middle["faiss"][1]:,.1f} '
      f'| {middle["reading"][0]:,.1f} | {ratio[0]:.2f} | {ratio[1]:.2f} '
      f'| {np.mean(same):.4f} |'
  )


def _ours(table: Any, threads: int, depth: int) -> Callable[..., Any]:
  from neg_contrast import hosts, sharding
  from neg_contrast.retrieval import hits, mesh_search
  from neg_contrast.settings import config

  hosts.usable_cores = lambda: threads
  ranks = hits.tie_ranks([f'{n:08d}' for n in range(len(table))])
  index = mesh_search.MeshSearch(
      table, ranks, sharding.make_mesh(config.MeshConfig())
  )
  return lambda queries: index.search(queries, depth).rows


def _faiss(table: Any, threads: int, depth: int) -> Callable[..., Any]:
  import faiss

  faiss.omp_set_num_threads(threads)
  index = faiss.IndexFlatIP(table.shape[1])
  for start in range(0, len(table), 16_384):
    index.add(np.ascontiguousarray(
        table[start : min(start + 16_384, len(table))]
    ))
  return lambda queries: index.search(queries, depth)[1]


def _reading(table: Any, threads: int) -> Callable[..., Any]:
  pool = concurrent.futures.ThreadPoolExecutor(threads)
  starts = range(0, len(table), 16_384)

  def read(queries: np.ndarray) -> float:
    del queries
    return max(pool.map(lambda start: float(
        table[start : min(start + 16_384, len(table))].max()
    ), starts))

  return read


if __name__ == '__main__':
  main()
