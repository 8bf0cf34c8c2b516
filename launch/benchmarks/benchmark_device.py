"""What a device can do at most: matrix products and memory, measured.

    .venv/bin/python launch/benchmarks/benchmark_device.py [--size 8192]
        [--mib 2048] [--products 20] [--rounds 7] [--rows FILE]

Prints a markdown table for the first device of this machine. Each number is the
median of the rounds; a round before them compiles. Numbers are random: devices
are quicker with zeros.

* bf16 product: bfloat16 matrices of size x size, results in bfloat16, sums in
  float32, each product of the result of the one before. What MFU is compared
  with: the rates of data sheets are not reached by any program.
* float32 product: the same in full float32 precision, which scores of searches
  have.
* reading: the largest of the numbers of an array, counting its bytes once.
* copying: an array is read and written: its bytes count twice.
"""

import argparse
import importlib.util
import os
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import device_timing

_MIB = 2**20
_PEERS = {'sentence-transformers': ('sentence_transformers', 'torch'),
          'transformers': ('transformers', 'torch')}


def main() -> None:
  """Measures and prints the table."""
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawTextHelpFormatter
  )
  parser.add_argument('--size', type=int, default=8192)
  parser.add_argument('--mib', type=int, default=2048)
  parser.add_argument('--products', type=int, default=20)
  parser.add_argument('--rounds', type=int, default=7)
  device_timing.add_rows_argument(parser)
  args = parser.parse_args()
  sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))
  import jax

  device_timing.write_row(args.rows, 'machine', machine())
  print(f'| {jax.devices()[0].device_kind} | median | least | most |\n'
        '|---|---:|---:|---:|', flush=True)
  for name, measure in _MEASURES.items():
    values = measure(args)
    device_timing.write_row(args.rows, '', {
        name: device_timing.median(values)
    })
    print(f'| {name} | {device_timing.median(values):,.4g} '
          f'| {min(values):,.4g} | {max(values):,.4g} |', flush=True)


def machine() -> dict[str, Any]:
  """What is here: devices, memory of one, libraries."""
  import jax

  devices = jax.devices()
  stats = devices[0].memory_stats() or {}
  cores = (len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity')
           else os.cpu_count())
  return {
      'platform': devices[0].platform, 'kind': devices[0].device_kind,
      'devices': len(devices), 'memory_bytes': stats.get('bytes_limit', 0),
      'cores': cores, 'jax': jax.__version__,
      'peers': [name for name, modules in _PEERS.items()
                if all(map(importlib.util.find_spec, modules))],
  }


def product_flops(args: argparse.Namespace, dtype: Any) -> list[float]:
  """TFLOP/s of products of square matrices, by round."""
  import jax
  import jax.numpy as jnp

  size = args.size
  # Entries of a result are as large as those of the operands.
  left = jax.random.normal(jax.random.key(0), (size, size), dtype)
  right = jax.random.normal(jax.random.key(1), (size, size), dtype)
  right *= jnp.asarray(size**-0.5, dtype)
  precision = 'highest' if dtype == 'float32' else 'default'

  @jax.jit
  def multiply(left, right):
    product = lambda _, x: jnp.matmul(x, right, precision=precision)
    return jax.lax.fori_loop(0, args.products, product, left)

  seconds = device_timing.seconds_of(lambda: multiply(left, right), args.rounds)
  return [2 * size**3 * args.products / one / 1e12 for one in seconds]


def bytes_read(args: argparse.Namespace) -> list[float]:
  """GB/s of reading, by round."""
  import jax
  import jax.numpy as jnp

  array = _array(args)

  @jax.jit
  def read(array):
    # Each pass needs the result of the one before; all results are 1.
    return jax.lax.fori_loop(
        0, args.products, lambda _, most: (array * most).max(), jnp.float32(1)
    )

  seconds = device_timing.seconds_of(lambda: read(array), args.rounds)
  return [array.nbytes * args.products / one / 1e9 for one in seconds]


def bytes_copied(args: argparse.Namespace) -> list[float]:
  """GB/s of reading and writing, by round."""
  import jax

  array = _array(args)

  @jax.jit
  def write(array):
    return jax.lax.fori_loop(0, args.products, lambda _, x: x + 1, array)

  seconds = device_timing.seconds_of(lambda: write(array), args.rounds)
  return [2 * array.nbytes * args.products / one / 1e9 for one in seconds]


def _array(args: argparse.Namespace) -> Any:
  """Numbers of at most 1, which one of them is."""
  import jax
  import jax.numpy as jnp

  count = args.mib * _MIB // 4
  return jax.random.uniform(
      jax.random.key(0), (count,), jnp.float32
  ).at[0].set(1)


_MEASURES: dict[str, Callable[[argparse.Namespace], list[float]]] = {
    'bf16 product, TFLOP/s': lambda args: product_flops(args, 'bfloat16'),
    'float32 product, TFLOP/s': lambda args: product_flops(args, 'float32'),
    'reading, GB/s': bytes_read,
    'copying, GB/s': bytes_copied,
}

if __name__ == '__main__':
  main()
