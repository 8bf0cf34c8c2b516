"""Measures decoding: time per token with and without a cache, and passages/s.

    .venv/bin/python launch/benchmarks/benchmark_generate.py [--size t5-tiny]
        [--lengths 8 16 32 64 128] [--rows 8] [--batches 1 16 64]
        [--method sample] [--top_k 0] [--top_p 0.95] [--beams 4]
        [--samples 1] [--source 128] [--tokens 32] [--dtype float32]

Prints two markdown tables. Weights are random and no target ends before it is
cut, so every row takes as many steps as its table says; trained models stop
sooner. Compiling is not measured; of a few runs the quickest counts.

* Time per token against the length of the targets, greedy, `--rows` sources at
  once: by `decoding.generate`, whose step runs one token, and by a loop that
  runs decoder and output matrix over the whole target for every token. Both
  choose the same tokens, which is checked. What the encoder and the first token
  take is measured apart and left out.
* Passages per second of `decoding.generate`, encoder included, by batch size.

CPU time is that of all threads, and steadier where other programs run too.
"""

import argparse
import dataclasses
import pathlib
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

_SECONDS = 2.0  # Of repetitions, for every number.


def main() -> None:
  """Measures and prints both tables."""
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawTextHelpFormatter
  )
  parser.add_argument('--size', default='t5-tiny')
  parser.add_argument(
      '--lengths', type=int, nargs='+', default=[8, 16, 32, 64, 128]
  )
  parser.add_argument('--rows', type=int, default=8)
  parser.add_argument('--batches', type=int, nargs='+', default=[1, 16, 64])
  parser.add_argument('--method', default='sample')
  parser.add_argument('--top_k', type=int, default=0)
  parser.add_argument('--top_p', type=float, default=0.95)
  parser.add_argument('--beams', type=int, default=4)
  parser.add_argument('--samples', type=int, default=1)
  parser.add_argument('--source', type=int, default=128)
  parser.add_argument('--tokens', type=int, default=32)
  parser.add_argument('--dtype', default='float32')
  args = parser.parse_args()
  sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))
  _measure(args)


def _measure(args: argparse.Namespace) -> None:
  """After the imports, which take seconds."""
  import jax
  import jax.numpy as jnp

  from neg_contrast.models import decoding, t5, t5_config

  config = t5_config.T5_SIZES[args.size]
  module = t5.T5(config, jnp.dtype(args.dtype))
  params = _endless(
      jax.jit(t5.init_params, static_argnums=0)(config, jax.random.key(0)),
      config.eos_id,
  )
  device = jax.devices()[0]
  print(f'{args.size}, {args.dtype}, random weights, on {len(jax.devices())} x '
        f'{device.device_kind}; sources of {args.source} tokens')

  def batch(rows: int) -> tuple[Any, Any, Any]:
    ids = np.random.default_rng(rows).integers(
        3, config.vocab_size, (rows, args.source), np.int32
    )
    return ids, np.ones_like(ids), jax.random.split(jax.random.key(1), rows)

  def cached(rows: int, settings: Any) -> Callable[[], Any]:
    run = jax.jit(decoding.generate, static_argnums=(0, 5))
    return lambda: run(module, params, *batch(rows), settings).token_ids

  def uncached(rows: int, length: int) -> Callable[[], Any]:
    run = jax.jit(_decode_without_cache, static_argnums=(0, 3))
    return lambda: run(module, params, batch(rows)[0], length)[:, None]

  greedy = lambda length: decoding.Decoding(max_tokens=length)
  print(f'\nGreedy, {args.rows} sources at once; ms per token after the '
        'first\n\n| tokens | cached | CPU | uncached | CPU | times |\n'
        '|---:|---:|---:|---:|---:|---:|', flush=True)
  first = [_time(cached(args.rows, greedy(1))), _time(uncached(args.rows, 1))]
  for length in args.lengths:
    ways = [cached(args.rows, greedy(length)), uncached(args.rows, length)]
    np.testing.assert_array_equal(*(way() for way in ways))
    (wall, cpu), (slow_wall, slow_cpu) = (
        (_time(way) - start) * 1e3 / (length - 1)
        for way, start in zip(ways, first, strict=True)
    )
    print(f'| {length} | {wall:.2f} | {cpu:.2f} | {slow_wall:.2f} | '
          f'{slow_cpu:.2f} | {slow_wall / wall:.1f} |', flush=True)
  settings = decoding.Decoding(
      args.method, args.samples, args.tokens, top_k=args.top_k,
      top_p=args.top_p, beams=args.beams if args.method == 'beam' else 1,
  )
  shown = {name: value for name, value in dataclasses.asdict(settings).items()
           if value != getattr(decoding.Decoding, name)}
  print(f'\n{shown}\n\n| batch | passages/s | per CPU second | tokens/s |\n'
        '|---:|---:|---:|---:|', flush=True)
  for rows in args.batches:
    wall, cpu = _time(cached(rows, settings))
    tokens = rows * args.samples * args.tokens
    print(f'| {rows} | {rows / wall:.1f} | {rows / cpu:.1f} | '
          f'{tokens / wall:,.0f} |', flush=True)


def _endless(params: dict[str, Any], eos_id: int) -> dict[str, Any]:
  """Makes the logit of the end 0: there is always a greater one."""
  if 'head' in params:
    kernel = params['head']['kernel'].at[:, eos_id].set(0)
    return {**params, 'head': {'kernel': kernel}}
  embedding = params['embeddings']['word']['embedding'].at[eos_id].set(0)
  return {**params, 'embeddings': {'word': {'embedding': embedding}}}


def _decode_without_cache(
    module: Any, params: Any, token_ids: Any, length: int
) -> Any:
  """Greedy tokens `[rows, length]`, by a whole pass for every token."""
  import jax
  import jax.numpy as jnp

  def apply(*inputs, method):
    return module.apply({'params': params}, *inputs, True, method=method)

  segment_ids = jnp.ones_like(token_ids)
  hidden = apply(token_ids, segment_ids, method='encode')
  first = jnp.full((len(token_ids), 1), module.config.decoder_start_id)

  def advance(index, tokens):
    inputs = jnp.concatenate([first, tokens[:, :-1]], axis=1)
    logits = apply(hidden, segment_ids, inputs, jnp.ones_like(inputs),
                   method='decode')
    best = jnp.take(logits, index, axis=1).argmax(-1).astype(jnp.int32)
    return tokens.at[:, index].set(best)

  empty = jnp.zeros((len(token_ids), length), jnp.int32)
  return jax.lax.fori_loop(0, length, advance, empty)


def _time(run: Callable[[], Any]) -> np.ndarray:
  """Wall and CPU seconds of the quickest run, each; the first compiles."""
  run().block_until_ready()
  times: list[tuple[float, float]] = []
  while len(times) < 3 or sum(wall for wall, _ in times) < _SECONDS:
    began, cpu = time.perf_counter(), time.process_time()
    run().block_until_ready()
    times.append((time.perf_counter() - began, time.process_time() - cpu))
  return np.array(times).min(0)


if __name__ == '__main__':
  main()
