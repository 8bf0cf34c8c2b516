"""Attention kernels against XLA's attention: values, gradients, time, memory.

    .venv/bin/python launch/benchmarks/benchmark_attention.py
        [--rows_at_once 64] [--lengths 384 512] [--heads 12] [--features 64]
        [--tokens 140] [--window 64 | --causal] [--dropout 0.1] [--rounds 7]
        [--calls 5] [--rows FILE] [--interpret]

Prints a markdown table: of every row length, XLA and each implementation that
`models.attention.KERNELS` has for the platform of this machine, in bfloat16, on
one device. Rows are packed with sequences of about `--tokens` tokens.

* values, gradients: the largest difference from XLA in float32, divided by that
  of XLA in bfloat16. XLA itself has 1; `auto` takes a kernel up to 4.
* forward, both: ms of a forward pass, and of one with its backward pass.
* memory: MiB that the compiler sets aside for temporary arrays of both passes.
* useful: TFLOP/s of both passes, by products within sequences alone.

`--window` is of ModernBERT's local layers, `--causal` of a Qwen3. Above 1,024
tokens a row, XLA takes rows in blocks, as models do.

XLA with dropout is what trains where `model.attention_dropout` is not 0;
kernels have none. `--interpret` is for CPUs, which have no kernel: Pallas is
run step by step there, XLA takes the place of cuDNN, and times mean nothing.
"""

import argparse
import functools
import pathlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import device_timing
import numpy as np

_MIB = 2**20
_COLUMNS = ('values', 'gradients', 'forward, ms', 'both, ms', 'memory, MiB',
            'useful, TFLOP/s')


def main() -> None:
  """Measures and prints the table."""
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawTextHelpFormatter
  )
  parser.add_argument('--rows_at_once', type=int, default=64)
  parser.add_argument('--lengths', type=int, nargs='+', default=[384, 512])
  parser.add_argument('--heads', type=int, default=12)
  parser.add_argument('--features', type=int, default=64)
  parser.add_argument('--tokens', type=int, default=140)
  parser.add_argument('--window', type=int)
  parser.add_argument('--causal', action='store_true')
  parser.add_argument('--dropout', type=float, default=0.1)
  parser.add_argument('--rounds', type=int, default=7)
  parser.add_argument('--calls', type=int, default=5)
  parser.add_argument('--interpret', action='store_true')
  device_timing.add_rows_argument(parser)
  args = parser.parse_args()
  sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))
  print(f'| tokens of a row | attention | {" | ".join(_COLUMNS)} |\n|'
        + '---:|' * (2 + len(_COLUMNS)))
  for length in args.lengths:
    for line in _lines(args, length):
      print(line, flush=True)


def implementations(args: argparse.Namespace) -> dict[str, Callable[..., Any]]:
  """Name -> `(query, key, value, segment_ids) -> mixed`; the first is XLA's."""
  import jax

  from neg_contrast.models import (
      attention,
      flash_attention,
      triton_attention,
  )

  named: dict[str, Any] = {
      'XLA': by_xla(args),
      'XLA, dropout': by_xla(args, args.dropout),
  }
  kernels: dict[str, Any]
  if args.interpret:
    kernels = {
        'Pallas, interpreted': functools.partial(
            attention.tpu_kernel, interpret=True
        ),
        'Triton, interpreted': functools.partial(
            triton_attention.kernel, interpret=True
        ),
        'cuDNN, by XLA': functools.partial(
            flash_attention.cudnn_kernel, implementation='xla'
        ),
    }
  else:
    made = attention.KERNELS.get(jax.default_backend(), {})
    kernels = dict(made)
  attend = lambda make: functools.partial(
      flash_attention.make_attention(functools.partial(make, args.features)),
      pattern=_pattern(args),
  )
  return named | {name: attend(make) for name, make in kernels.items()}


def _pattern(args: argparse.Namespace) -> Any:
  from neg_contrast.models import pattern

  return pattern.Pattern(window=args.window, causal=args.causal)


def by_xla(args: argparse.Namespace, rate: float = 0.0) -> Callable[..., Any]:
  """The attention of `models.layers`, or of `models.blockwise` for long rows.

  Args:
    args: heads and pattern.
    rate: of dropout of attention probabilities.
  """
  import jax
  import jax.numpy as jnp

  from neg_contrast.models import blockwise, layers

  drop = layers.Dropped(rate, jax.random.bits(jax.random.key(0), (2,)))
  pattern = _pattern(args)

  def attend(query, key, value, segment_ids):
    split = lambda a: a.reshape(*a.shape[:2], args.heads, -1)
    if blockwise.is_long(query.shape[1]):
      return blockwise.attend(
          split(query), split(key), split(value), segment_ids, pattern, drop
      ).reshape(query.shape)
    places = jnp.arange(query.shape[1])
    bias = jnp.where(pattern.allows(places[:, None], places), 0.0, -1e30)
    biases = layers.segment_bias(segment_ids) + bias,
    heads = lambda a: split(a).swapaxes(1, 2)
    mixed = layers.attend(
        heads(query), heads(key), heads(value), biases, drop
    )
    return mixed.swapaxes(1, 2).reshape(query.shape)

  return attend


def make_rows(
    args: argparse.Namespace, length: int
) -> tuple[np.ndarray, np.ndarray, float]:
  """Query, key, value and gradient; segment ids; useful operations.

  Returns:
    `[4, rows, length, features] float32`, `[rows, length] int32`, and the
    operations of both passes within sequences.
  """
  rng = np.random.default_rng(0)
  shape = 4, args.rows_at_once, length, args.heads * args.features
  arrays = rng.standard_normal(shape, np.float32)
  arrays[0] *= args.features**-0.5
  segment_ids = np.zeros(shape[1:3], np.int32)
  pairs = 0
  for row in segment_ids:
    start, number = 0, 0
    while start + args.tokens // 2 <= length:
      size = min(length - start, int(rng.normal(args.tokens, args.tokens / 6)))
      number += 1
      row[start : start + max(1, size)] = number
      pairs += _pairs(_pattern(args), size)
      start += max(1, size)
  # Scores and mixed values, and twice as much for their gradients.
  return arrays, segment_ids, 3 * 4 * pairs * shape[-1]


def _pairs(pattern: Any, size: int) -> int:
  """Pairs of tokens of a segment that attend to each other."""
  places = np.arange(size)
  allowed = pattern.allows(places[:, None], places)
  return int(np.broadcast_to(allowed, (size, size)).sum())


def values_and_gradients(attend: Callable[..., Any]) -> Any:
  """`(arrays, segment_ids) -> (mixed, gradients)`, jitted."""
  import jax

  def both(arrays, segment_ids):
    *inputs, gradient = arrays
    mixed, back = jax.vjp(lambda *x: attend(*x, segment_ids), *inputs)
    return mixed, back(gradient)

  return jax.jit(both)


def _lines(args: argparse.Namespace, length: int) -> Iterator[str]:
  """Rows of the table; one that fails says why, and the others go on."""
  import jax
  import jax.numpy as jnp

  arrays, segment_ids, flops = make_rows(args, length)
  placed = jax.device_put(segment_ids)
  exactly = [jnp.asarray(array) for array in arrays]
  rounded = [array.astype(jnp.bfloat16) for array in exactly]
  with jax.default_matmul_precision('highest'):
    exact = values_and_gradients(by_xla(args))(
        [array.astype(jnp.float32) for array in rounded], placed
    )
  plain: dict[str, float] = {}
  for name, attend in implementations(args).items():
    row = f'{name}, rows of {length}'
    try:
      measured = _measure(args, attend, rounded, placed, flops)
      off = _errors(measured.pop('results'), exact)
    except Exception as e:  # Of drivers, libraries and compilers.
      reason = (str(e).strip() or repr(e)).splitlines()[0]
      device_timing.write_row(args.rows, row, {'failed': reason})
      yield f'| {length} | {name} | failed: {reason} | | | | | |'
      continue
    plain = plain or off
    if name != 'XLA, dropout':  # It computes something else.
      measured |= {part: off[part] / plain[part] for part in off}
    device_timing.write_row(args.rows, row, measured)
    cells = (f'{measured[key]:,.3g}' if key in measured else ''
             for key in _COLUMNS)
    yield f'| {length} | {name} | {" | ".join(cells)} |'


def _measure(
    args: argparse.Namespace, attend: Callable[..., Any], arrays: Any,
    segment_ids: Any, flops: float,
) -> dict[str, Any]:
  """Times and memory of both passes, and their `results`."""
  import jax

  both, forward = values_and_gradients(attend), jax.jit(attend)
  compiled = both.lower(arrays, segment_ids).compile()
  time = lambda run: device_timing.median(
      device_timing.seconds_of(run, args.rounds, args.calls)
  )
  seconds = time(lambda: compiled(arrays, segment_ids))
  memory = compiled.memory_analysis()
  return {
      'results': compiled(arrays, segment_ids),
      'forward, ms': 1e3 * time(lambda: forward(*arrays[:3], segment_ids)),
      'both, ms': 1e3 * seconds,
      'memory, MiB': memory.temp_size_in_bytes / _MIB,
      'useful, TFLOP/s': flops / seconds / 1e12,
  }


def _errors(results: Any, exact: Any) -> dict[str, float]:
  """The largest differences of values, and of gradients."""
  import jax
  import jax.numpy as jnp

  far = lambda a, b: float(jnp.abs(a.astype(jnp.float32) - b).max())
  return {
      part: max(jax.tree.leaves(jax.tree.map(far, result, want)))
      for part, result, want in zip(
          ('values', 'gradients'), results, exact, strict=True
      )
  }


if __name__ == '__main__':
  main()
