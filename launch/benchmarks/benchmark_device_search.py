"""Exact search on the devices of this machine, of a table that stays there.

    .venv/bin/python launch/benchmarks/benchmark_device_search.py
        [--passages 1000000] [--features 768] [--queries 1 64 1024 8192]
        [--depth 100] [--rounds 5] [--recall 0.95] [--rows FILE]

Prints a markdown table, a row for each number of queries of a search; on TPUs
the same again for approximate search (`jax.lax.approx_max_k`), which has to
find that part of the best of a block, and which TPUs alone have. The
vectors are made up (`data.random_texts.vectors`), float32, and searched by
`retrieval.mesh_search` as the program searches; queries lie near passages.

* ms: median of the rounds, from queries on the host to hits on the host.
* queries/s: of that.
* table, GB/s: bytes of the table, once for each 1,024 queries, which are scored
  together, by the time. Few queries cost what reading the table costs; compare
  with the reading of `benchmark_device.py`.
* useful, TFLOP/s: of the scores.
* same: part of the hits of up to 16 of the queries that numpy finds, too, with
  sums in another order; of approximate search that is its recall.

The first search, which puts the table on the devices and compiles, is told
below.
"""

import argparse
import pathlib
import sys
import time
from typing import Any

import device_timing
import numpy as np

_TOGETHER = 1024  # Queries, as retrieval/device_scan.py takes them.
_CHECKED = 16  # Queries.


def main() -> None:
  """Measures and prints the table."""
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawTextHelpFormatter
  )
  parser.add_argument('--passages', type=int, default=1_000_000)
  parser.add_argument('--features', type=int, default=768)
  parser.add_argument(
      '--queries', type=int, nargs='+', default=[1, 64, 1024, 8192]
  )
  parser.add_argument('--depth', type=int, default=100)
  parser.add_argument('--rounds', type=int, default=5)
  parser.add_argument('--recall', type=float, default=0.95)
  device_timing.add_rows_argument(parser)
  args = parser.parse_args()
  sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))
  import jax

  from neg_contrast.data import random_texts

  table = random_texts.vectors(args.passages, args.features)
  queries = make_queries(table, max(args.queries))
  print('| queries | ms | queries/s | table, GB/s | useful, TFLOP/s | same |\n|'
        + '---:|' * 6, flush=True)
  first = 0.0
  for how, recall in kinds_of(jax.devices()[0].platform, args.recall).items():
    index = make_index(table, recall)
    began = time.perf_counter()
    index.search(queries[: args.queries[0]], args.depth)
    first = first or time.perf_counter() - began
    for count in args.queries:
      measured = measure(args, index, table, queries[:count])
      device_timing.write_row(
          args.rows, f'{count:,} queries at once{how}', measured)
      print(f'| {count:,}{how} | '
            + ' | '.join(f'{value:,.4g}' for value in measured.values()) + ' |',
            flush=True)
  device_timing.write_row(args.rows, 'first search', {
      'first search, s': first, 'passages': args.passages,
      'features': args.features, 'depth': args.depth,
  })
  print(f'\n{args.passages:,} x {args.features}, depth {args.depth}; the first '
        f'search took {first:.1f} s')


def kinds_of(platform: str, recall: float) -> dict[str, float | None]:
  """Searches of a platform: what is said of each -> its recall; None: exact."""
  return {'': None} | (
      {f', approximate, {recall:g}': recall} if platform == 'tpu' else {})


def make_queries(table: np.ndarray, count: int) -> np.ndarray:
  """`[count, features] float32` unit vectors near random rows."""
  rng = np.random.default_rng(1)
  near = table[rng.integers(0, len(table), count)]
  noise = rng.standard_normal(near.shape, np.float32)
  made = 0.6 * near + 0.8 * noise / np.linalg.norm(noise, axis=1, keepdims=True)
  return made / np.linalg.norm(made, axis=1, keepdims=True)


def make_index(table: np.ndarray, recall: float | None = None) -> Any:
  """The index, on the devices, CPUs too; `recall` is as of `MeshSearch`."""
  from neg_contrast import sharding
  from neg_contrast.retrieval import mesh_search
  from neg_contrast.settings import config

  return mesh_search.MeshSearch(
      table, np.arange(len(table), dtype=np.int32),
      sharding.make_mesh(config.MeshConfig()), recall=recall, on_devices=True,
  )


def measure(
    args: argparse.Namespace, index: Any, table: np.ndarray, queries: np.ndarray
) -> dict[str, float]:
  """Cells of a row."""
  found: list[Any] = []
  seconds = device_timing.median(device_timing.seconds_of(
      lambda: found.append(index.search(queries, args.depth)), args.rounds
  ))
  passes = -(-len(queries) // _TOGETHER)
  some = queries[:_CHECKED]
  best = np.argsort(-(some @ table.T), axis=1)[:, : args.depth]
  same = [np.isin(rows, own).mean()
          for rows, own in zip(found[-1].rows, best, strict=False)]
  return {
      'ms': 1e3 * seconds,
      'queries/s': len(queries) / seconds,
      'table, GB/s': passes * table.nbytes / seconds / 1e9,
      'useful, TFLOP/s': 2 * len(queries) * table.size / seconds / 1e12,
      'same': float(np.mean(same)),
  }


if __name__ == '__main__':
  main()
