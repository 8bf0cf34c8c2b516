"""Measures a training step with and without the gradient cache.

    .venv/bin/python launch/benchmarks/benchmark_gradient_cache.py
        [--batches 64 128 256 512 1024 2048] [--steps 1] [--most_gib 8]

A dual encoder of BERT-tiny's size (2 layers of 128 features, random weights,
dropout 0.1), with 2 hard negatives a query and random tokens: queries of 12 on
average, passages of 140, in rows of 256. A group holds 16 queries with their 48
passages, and a chunk is one group whatever the batch, on one device.

"temp" is what the compiler says that a step takes beside its arguments,
"formula" what `gradient_cache.loss_bytes` allows of it for embeddings and
scores. Products are the operations of all matrix products in the traced
step, loops by their trip counts; the compiler's own count has a loop's body
once. Seconds are the mean of `--steps` steps after a first; a step whose
temporaries exceed `--most_gib` is compiled only.
"""

import argparse
import pathlib
import sys
import time
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

import jax
import numpy as np
import optax

from neg_contrast.batches import batcher, packing
from neg_contrast.data import sequences
from neg_contrast.losses import (
  dual_encoder_loss,
  gradient_cache,
  softmax,
)
from neg_contrast.models import bert, dual_encoder
from neg_contrast.training import costs
from neg_contrast.training import state as state_lib
from neg_contrast.training import step as step_lib

_NEGATIVES, _QUERIES_IN_GROUP, _ROW_LENGTH = 2, 16, 256
_MIB, _GIB = 2**20, 2**30


def main() -> None:
  """Measures all sizes; prints a row as it comes."""
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawTextHelpFormatter
  )
  parser.add_argument('--batches', type=int, nargs='+',
                      default=[64, 128, 256, 512, 1024, 2048])
  parser.add_argument('--steps', type=int, default=1)
  parser.add_argument('--most_gib', type=float, default=8.0)
  args = parser.parse_args()
  print('| batch | plain: temp MiB | s a step | cached: temp MiB | of it '
        'formula MiB | s a step | products, cached : plain |\n'
        '|---:|---:|---:|---:|---:|---:|---:|', flush=True)
  for size in args.batches:
    batch = make_batch(size)
    plain, cached = (
        measure(batch, chunks, args.steps, args.most_gib * _GIB)
        for chunks in (None, gradient_cache.Chunks(1))
    )
    formula = sum(gradient_cache.loss_bytes(
        size, _NEGATIVES, _SPEC.dim
    )) / _MIB
    print(f'| {size:,} | {plain[0] / _MIB:,.0f} | {plain[1]} '
          f'| {cached[0] / _MIB:,.0f} | {formula:,.0f} | {cached[1]} '
          f'| {cached[2] / plain[2]:.3f} |', flush=True)


_SPEC = dual_encoder.EncoderSpec(bert.BERT_SIZES['bert-tiny'])


def make_batch(size: int) -> batcher.Batch:
  """Random tokens in sequences of a common length."""
  rng = np.random.default_rng(0)
  queries = rng.normal(12, 3, size)
  passages = rng.normal(140, 25, size * (1 + _NEGATIVES))
  lengths = np.append(queries.clip(5, 32), passages.clip(20, 192)).astype(int)
  layout = packing.plan(lengths, size // _QUERIES_IN_GROUP, _ROW_LENGTH)
  slots = layout.flat_slot
  return batcher.Batch(
      sequences={'shared': packing.fill(layout, sequences.listed(
          rng.integers(1000, _SPEC.transformer.vocab_size, length)
          for length in lengths
      ))},
      query_slots=slots[:size],
      positive_slots=slots[size : 2 * size],
      negative_slots=slots[2 * size :].reshape(size, _NEGATIVES),
      negative_sources=np.zeros((size, _NEGATIVES), np.int32),
      forward_mask=np.ones((size, size * (1 + _NEGATIVES)), bool),
      backward_mask=np.ones((size, size), bool),
  )


def measure(
    batch: batcher.Batch,
    chunks: gradient_cache.Chunks | None,
    steps: int,
    most_bytes: float,
) -> tuple[int, str, float]:
  """Temporary bytes, seconds a step (or why there are none), products."""
  optimizer = optax.adam(1e-5)
  step = step_lib.make_train_step(dual_encoder_loss.make_loss(
      softmax.SoftmaxLoss(True), dual_encoder.Encoder(_SPEC), 20.0,
      ('bm25',), chunks,
  ), optimizer, 0)

  def init():
    params = dual_encoder.init_params(_SPEC, jax.random.key(0))
    return state_lib.init_state(
        state_lib.dual_encoder_params(params, None), optimizer
    )

  shapes = jax.eval_shape(init)
  multiplied = costs.product_flops(jax.make_jaxpr(step)(shapes, batch))
  compiled = jax.jit(step, donate_argnums=0).lower(shapes, batch).compile()
  memory: Any = compiled.memory_analysis()
  used = memory.temp_size_in_bytes
  if used > most_bytes:
    return used, 'not run', multiplied
  state, batch = jax.jit(init)(), jax.device_put(batch)
  state, metrics = compiled(state, batch)
  jax.block_until_ready(metrics)
  began = time.monotonic()
  for _ in range(steps):
    state, metrics = compiled(state, batch)
  jax.block_until_ready(metrics)
  return used, f'{(time.monotonic() - began) / steps:,.2f}', multiplied


if __name__ == '__main__':
  main()
