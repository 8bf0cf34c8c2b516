"""What a search takes on TPU slices, by their compiler; no TPU is needed.

    .venv/bin/pip install libtpu
    .venv/bin/python launch/benchmarks/benchmark_search_on_tpus.py
        [--topologies v3:4x4 v5e:4x4] [--passages 21015324] [--features 768]
        [--queries 58880] [--depth 100] [--recall 0.95]

Prints a markdown table, a row for each slice, type of the table, and exact or
approximate search (`approx_max_k`), of the programs of
`retrieval/device_scan.py`. The whole table lies in the memory of the devices.

* table: of one device, GiB. All: at the peak of the program, with the table,
  the queries and the best so far, GiB; and what the device has.
* products: floor by the peak of the matrix units, s. A product of float32 takes
  6 passes of bfloat16, one of float32 and bfloat16 takes 3.
* reading: floor by the bandwidth of the memory, s: every 1,024 queries read the
  table once.
* compiler: its own estimate, s, sorting included: that of one block and 1,024
  queries, times as many as there are, since it counts loops once. Nothing
  where that is below the floor, and makes no sense.
* joining: bytes that a device receives when the best of all are joined, MiB.
"""

import argparse
import pathlib
import sys
from typing import Any

import numpy as np
import tpu_slices

_GIB, _MIB = 2**30, 2**20
_TILE = 1024


def main() -> None:
  """Compiles and prints."""
  sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))
  args = tpu_slices.parse(
      __doc__, passages=21_015_324, features=768, queries=58_880, depth=100,
      recall=0.95,
  )
  print('| slice | table | search | table, GiB | all, GiB | of | products, s '
        '| reading, s | compiler, s | joining, MiB |')
  print('|---|---|---|' + '---:|' * 7, flush=True)
  for topology in args.topologies:
    for dtype in ('float32', 'bfloat16'):
      for recall in (None, args.recall):
        print(_row(args, topology, dtype, recall), flush=True)


def _row(
    args: argparse.Namespace, topology: str, dtype: str, recall: float | None
) -> str:
  import jax

  from neg_contrast import accelerators
  from neg_contrast.retrieval import (
    corpus_blocks,
    device_best,
    device_scan,
    mesh_search,
  )
  from neg_contrast.training import compile_report

  devices = compile_report.devices_of(topology)
  mesh, item = device_scan.table_mesh(devices), 4 if dtype == 'float32' else 2
  blocks = corpus_blocks.Blocks(args.passages, mesh_search.rows_of_block(
      4096, args.passages, args.features, recall is not None
  ), len(devices))
  shape = device_scan.part_shape(blocks, args.features, item, 2**50)
  step = device_scan.make_step(mesh)
  tiles = -(-args.queries // _TILE)

  def compiled(tiles: int, shape: tuple[int, ...]) -> Any:
    return jax.jit(step, donate_argnums=1).lower(
        device_best.Best(args.depth, recall=recall),
        *_arguments(mesh, tiles, args.depth, shape, dtype),
    ).compile()

  whole = compiled(tiles, shape).memory_analysis()
  peak = (whole.argument_size_in_bytes + whole.temp_size_in_bytes
          + whole.output_size_in_bytes - whole.alias_size_in_bytes)
  analysis = compiled(1, (shape[0], 1, *shape[2:])).cost_analysis() or {}
  estimate = tiles * shape[1] * analysis.get('optimal_seconds', -1.0)
  kind = devices[0].device_kind
  chip = accelerators.find(kind)
  assert chip is not None
  table = item * np.prod(shape[1:], dtype=np.float64)
  flops = 2.0 * args.queries * np.prod(shape[1:], dtype=np.float64)
  passes = 6 if dtype == 'float32' else 3
  floor = passes * flops / chip.flops
  return (
      f'| {topology} | {dtype} | {"exact" if recall is None else "approximate"}'
      f' | {table / _GIB:.2f} | {peak / _GIB:.2f} '
      f'| {chip.memory_bytes / _GIB:.0f} '
      f'| {floor:.1f} '
      f'| {tiles * table / tpu_slices.BANDWIDTH[kind]:.2f} '
      f'| {"" if estimate < floor else format(estimate, ".1f")} '
      f'| {8 * args.queries * args.depth * len(devices) / _MIB:,.0f} |'
  )


def _arguments(
    mesh: Any, tiles: int, depth: int, shape: tuple[int, ...], dtype: str
) -> tuple[Any, ...]:
  """Shapes in place of arrays: the best so far, queries, a part."""
  import jax
  import jax.numpy as jnp
  from jax.sharding import NamedSharding, PartitionSpec

  split = NamedSharding(mesh, PartitionSpec(mesh.axis_names[0]))
  whole = NamedSharding(mesh, PartitionSpec())
  like = lambda shape, dtype, place: jax.ShapeDtypeStruct(
      shape, jnp.dtype(dtype), sharding=place
  )
  best = (shape[0], tiles, _TILE, depth)
  return (
      (like(best, 'float32', split), like(best, 'int32', split)),
      like((tiles, _TILE, shape[3]), 'float32', whole),
      (like(shape, dtype, split), (like(shape[:3], 'int32', split),)),
  )


if __name__ == '__main__':
  main()
