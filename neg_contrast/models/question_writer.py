"""Decodes questions for sources of any lengths, in batches of like lengths."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from absl import logging
from jax.sharding import Mesh

from neg_contrast import device_memory, sharding
from neg_contrast.batches import packing
from neg_contrast.data import sequences
from neg_contrast.models import by_name as model_lib
from neg_contrast.models import decoding, generator
from neg_contrast.settings import config as config_lib

_LENGTH_STEP = 16  # Source lengths are multiples: few shapes to compile.
_ON_CPU = 64  # More take as long for each: launch/benchmarks/RESULTS.md.
_TRIED = 8  # Of a device, to see what one takes.


@dataclasses.dataclass(frozen=True)
class Written:
  """Questions of a batch of sources.

  Attributes:
    numbers: which sources, as numbered in the call.
    questions: of each, as many as were asked for; may be empty or equal.
    useful_tokens: tokens of the sources.
    processed_tokens: with padding.
  """

  numbers: list[int]
  questions: list[list[str]]
  useful_tokens: int
  processed_tokens: int


class QuestionWriter:
  """Writes questions with a generator, on all devices of this process."""

  def __init__(
      self,
      model: generator.Generator,
      config: config_lib.ModelConfig,
      settings: decoding.Decoding,
      batch_passages: int,
      seed: int,
  ):
    """Compiles nothing yet.

    Args:
      model: the generator.
      config: how its T5 is computed.
      settings: of decoding.
      batch_passages: sources that are decoded at once, at most; 0: as many as
        the devices hold.
      seed: of sampling.
    """
    self._model, self._settings = model, settings
    self._batch = batch_passages
    self._a_device = 0  # Sources that one holds, once that is known.
    self._key = jax.random.key(seed)
    self._mesh: Mesh = sharding.make_mesh(
        config_lib.MeshConfig(), jax.local_devices()
    )
    module = model_lib.make_t5(model.config, config)

    def run(params, token_ids, is_source, seeds):
      keys = jax.vmap(lambda seed: jax.random.fold_in(self._key, seed))(seeds)
      return decoding.generate(
          module, params, token_ids, is_source, keys, settings
      ).token_ids

    self._split = jax.sharding.NamedSharding(
        self._mesh, jax.sharding.PartitionSpec('data')
    )
    self._run = jax.jit(run)

  def put(self, params: Any) -> Any:
    """Parameters, on every device."""
    return jax.device_put(params, sharding.replicated(self._mesh))

  def __call__(
      self,
      params: Any,
      sources: sequences.AnySequences,
      seeds: Sequence[int],
  ) -> Iterator[Written]:
    """Writes questions, batch by batch, the longest sources first.

    What is written for a source depends on its seed and on nothing but the
    rounding of its batch, which is a function of `sources`, and of the devices'
    memory where that decides how many are decoded at once.

    Args:
      params: of the generator, as `put` gives them.
      sources: token ids, as `Generator.sources` makes them.
      seeds: of each, below 2**32.
    """
    lengths = sources.lengths
    order = np.argsort(-lengths, kind='stable')
    at_once = self._at_once(params, len(lengths))
    for first in range(0, len(order), at_once):
      numbers = order[first : first + at_once].tolist()
      shape = (self._rows(len(numbers), at_once),
               _round_up(lengths[numbers].max()))
      token_ids, is_source = np.zeros((2, *shape), np.int32)
      for row, number in enumerate(numbers):
        token_ids[row, : lengths[number]] = sources[number]
        is_source[row, : lengths[number]] = 1
      keys = np.zeros(shape[0], np.uint32)
      keys[: len(numbers)] = [seeds[number] for number in numbers]
      batch = sharding.put((token_ids, is_source, keys), (self._split,) * 3)
      made = np.asarray(self._run(params, *batch))
      count = made.shape[1]
      texts = self._model.tokenizer.decode_batch(
          made[: len(numbers)].reshape(-1, made.shape[-1]).tolist()
      )
      yield Written(
          numbers,
          [texts[row * count : (row + 1) * count]
           for row in range(len(numbers))],
          int(lengths[numbers].sum()), shape[0] * shape[1],
      )

  def _rows(self, count: int, at_once: int) -> int:
    """Sources of a batch, rounded up to few sizes that devices can share."""
    devices = self._mesh.size
    if count == at_once and count % devices == 0:
      return count
    return packing.round_up_rows(-(-count // devices)) * devices

  def _at_once(self, params: Any, count: int) -> int:
    """Sources of a batch, at most: what the key says, or what fits."""
    if self._batch:
      return self._batch
    if _is_cpu(self._mesh):
      return _ON_CPU
    if count <= _TRIED * self._mesh.size:  # Of a training that shows a few.
      return count
    if not self._a_device:
      self._a_device = that_fit(
          device_memory.limit(),
          lambda sources: self._bytes_of(params, sources),
      )
      logging.info('synthetic.batch_passages=0: %d passages at once on each of '
                   '%d devices', self._a_device, self._mesh.size)
    return min(self._a_device * self._mesh.size, count)

  def _bytes_of(self, params: Any, sources: int) -> int | None:
    """Of decoding some sources of full length on each device."""
    length = _round_up(self._model.text.passage_length)
    of = lambda dtype, *shape: jax.ShapeDtypeStruct(
        (sources * self._mesh.size, *shape), dtype, sharding=self._split
    )
    return device_memory.bytes_of_step(
        self._run, params, of(np.int32, length), of(np.int32, length),
        of(np.uint32),
    )


def that_fit(limit: int, taken: Callable[[int], int | None]) -> int:
  """The most sources that a device decodes at once.

  What they take grows by the same number of bytes for each: two are tried.

  Args:
    limit: bytes that the program may take.
    taken: sources -> bytes that it takes; None: the compiler refused.

  Returns:
    At least 1; a size of the ladder of `packing.round_up_rows`, of which few
    have to be compiled.
  """
  few, more = taken(_TRIED), taken(2 * _TRIED)
  if few is None or more is None:
    fits = lambda used: used is not None and used <= limit
    return next((n for n in (_TRIED, 4, 2) if fits(taken(n))), 1)
  a_source = max((more - few) / _TRIED, 1)
  fitting = max(int(_TRIED + (limit - few) / a_source), 1)
  return next(sources for sources in range(fitting, 0, -1)
              if packing.round_up_rows(sources) == sources)


def _is_cpu(mesh: Mesh) -> bool:
  return mesh.devices.flat[0].platform == 'cpu'


def _round_up(length: int) -> int:
  return -(-int(length) // _LENGTH_STEP) * _LENGTH_STEP


def settings_of(
    config: config_lib.SyntheticConfig, max_tokens: int
) -> decoding.Decoding:
  """How a config wants questions decoded."""
  return decoding.Decoding(
      method=config.method,
      samples=config.per_passage,
      max_tokens=max_tokens,
      temperature=config.temperature,
      top_k=config.top_k,
      top_p=config.top_p,
      beams=config.beams if config.method == 'beam' else 1,
      length_penalty=config.length_penalty,
  )
