"""What writing questions takes on TPU slices, by their compiler; no TPU needed.

    .venv/bin/pip install libtpu
    .venv/bin/python launch/benchmarks/benchmark_questions_on_tpus.py
        [--topologies v3:4x4 v5e:4x4] [--passages 21015324] [--length 160]
        [--tokens 32] [--at_once 0]

Compiles for one device, as each decodes its own passages, the program of
`models/question_writer.py`: T5 1.1 base in bfloat16, three questions a passage,
drawn with top-p .95. Prints a markdown table, a row for each slice.

* at once: passages that a device decodes together: what fits beside sources of
  384 tokens and questions of 64, by the writer's own rule; at most its part of
  a shard of 2,048; or `--at_once`. Peak: GiB of that, and what the device has.
* products: floor of a batch of sources of `--length` tokens and questions of
  `--tokens`, by the peak of the matrix units, s.
* reading: floor of the same by the bandwidth of the memory, s: each token reads
  the decoder's weights, and keys and values of all sources.
* hours: of all passages on the whole slice, by both floors together. Sampling,
  which sorts a vocabulary for each token, is in neither.
"""

import argparse
import functools
import pathlib
import sys
from typing import Any

import numpy as np
import tpu_slices

_GIB = 2**30
_SHARD = 2048
_SOURCE, _TARGET = 384, 64  # Tokens.


def main() -> None:
  """Compiles and prints."""
  sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))
  args = tpu_slices.parse(
      __doc__, passages=21_015_324, length=160, tokens=32, at_once=0
  )
  print('| slice | at once | peak, GiB | of | products, s | reading, s '
        '| hours |')
  print('|---|' + '---:|' * 6, flush=True)
  for topology in args.topologies:
    print(_row(args, topology), flush=True)


def _row(args: argparse.Namespace, topology: str) -> str:
  from neg_contrast import accelerators, device_memory
  from neg_contrast.models import question_writer, t5_config
  from neg_contrast.training import compile_report

  devices = compile_report.devices_of(topology)
  hosts = len({device.process_index for device in devices})
  kind = devices[0].device_kind
  chip = accelerators.find(kind)
  assert chip is not None
  bytes_of = functools.cache(functools.partial(_bytes, devices[0]))
  at_once = args.at_once or min(
      question_writer.that_fit(
          device_memory.limit_of(chip.memory_bytes), bytes_of
      ), _SHARD * hosts // len(devices),
  )
  peak = bytes_of(at_once)
  products, reading = _floors(
      t5_config.T5_SIZES['t5-v1_1-base'], at_once, args.length, args.tokens
  )
  floors = products / chip.flops, reading / tpu_slices.BANDWIDTH[kind]
  batches = args.passages / len(devices) / at_once
  return (
      f'| {topology} | {at_once} | {(peak or 0) / _GIB:.1f} '
      f'| {chip.memory_bytes / _GIB:.0f} | {floors[0]:.3f} | {floors[1]:.3f} '
      f'| {batches * sum(floors) / 3600:.2f} |'
  )


def _bytes(device: Any, sources: int) -> int | None:
  """Of decoding so many sources at once; None: it needs more than there is."""
  import jax
  import jax.numpy as jnp

  from neg_contrast import device_memory
  from neg_contrast.models import decoding, t5, t5_config

  place = jax.sharding.SingleDeviceSharding(device)
  module = t5.T5(t5_config.T5_SIZES['t5-v1_1-base'], jnp.bfloat16)
  like = lambda dtype, *shape: jax.ShapeDtypeStruct(
      shape, dtype, sharding=place)
  params = jax.tree.map(
      lambda leaf: like(leaf.dtype, *leaf.shape),
      jax.eval_shape(lambda: t5.init_params(module.config, jax.random.key(0))),
  )
  how = decoding.Decoding(
      method='sample', samples=3, max_tokens=_TARGET, top_p=0.95)

  def run(params: Any, ids: Any, is_source: Any, seeds: Any) -> Any:
    keys = jax.vmap(jax.random.key)(seeds)
    return decoding.generate(
        module, params, ids, is_source, keys, how).token_ids

  texts = like(np.int32, sources, _SOURCE)
  return device_memory.bytes_of_step(
      jax.jit(run), params, texts, texts, like(np.uint32, sources)
  )


def _floors(shape: Any, sources: int, length: int, tokens: int) -> Any:
  """Operations, and bytes that are read, of a batch of sources."""
  inner = shape.num_heads * shape.d_kv
  attention = 4 * shape.d_model * inner
  dense = (3 if shape.gated else 2) * shape.d_model * shape.d_ff
  encoder = shape.num_layers * (attention + dense)
  of_source = shape.num_decoder_layers * 2 * shape.d_model * inner
  of_token = shape.num_decoder_layers * (attention + attention // 2 + dense)
  head = shape.vocab_size * shape.d_model
  products = 2 * sources * (
      length * (encoder + of_source) + 3 * tokens * (of_token + head)
      + shape.num_layers * 2 * length**2 * inner
      + 3 * tokens * shape.num_decoder_layers * 2 * length * inner
  )
  cached = 2 * shape.num_decoder_layers * sources * length * inner
  reading = tokens * 2 * (of_token + head + cached)
  return products, reading


if __name__ == '__main__':
  main()
