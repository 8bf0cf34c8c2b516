"""`--compile_only`: what a training step takes, on devices that are not here.

The TPU compiler needs no TPU. It gets the step that training runs, with shapes
in place of arrays: no data, weights or network are needed.
"""

import collections
import dataclasses
import importlib.util
import math
import os
import re
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.experimental import topologies
from jax.sharding import Mesh

from neg_contrast import accelerators, errors, sharding
from neg_contrast.batches import (
  batcher,
  pair_batches,
  question_batches,
  text_pairs,
)
from neg_contrast.data import examples, random_texts, sequences
from neg_contrast.models import (
  attention,
  cross_encoder,
  generator,
  loading,
  model_names,
  reranker,
  t5,
  text_spec,
)
from neg_contrast.models import by_name as model_lib
from neg_contrast.settings import config as config_lib
from neg_contrast.training import (
  chunking,
  costs,
  encoder_run,
  generator_run,
  optimizer,
  reranker_run,
  run,
)
from neg_contrast.training import state as state_lib
from neg_contrast.training import step as step_lib

_EXAMPLES = 'v3:4x4, v4:2x2x4, v5e:4x4, v5p:2x2x4 or v6e:4x4'
_STEPS = 1000  # Of the schedule, which takes no time.
_GIB, _MIB = 2**30, 2**20
# Of the compiler's words when a program is too large.
_OUT_OF_MEMORY = re.compile(
    r'Used ([\d.]+[MG]) of ([\d.]+[MG]) hbm'
    r'|total memory required .*?\(([\d.]+[MG])\) .*?\(([\d.]+[MG])\)'
)


@dataclasses.dataclass(frozen=True)
class Workload:
  """A training step without its arrays.

  Attributes:
    what: of what model, in words.
    params: ShapeDtypeStructs.
    rules: how they lie on a mesh.
    loss: what is minimised, by the groups that a device encodes at once.
    batch: arrays; their values mean nothing.
    stats: of the batch.
    padded_tokens: what it would be without packing, every sequence filled up to
      the longest allowed.
    features: of an embedding; 0: there are none.
    useful_flops: operations of the step on tokens that are no padding, each
      with its own sequence only, nothing computed twice.
  """

  what: str
  params: Any
  rules: Any
  loss: Callable[[int], step_lib.Loss]
  batch: Any
  stats: batcher.BatchStats
  padded_tokens: int
  features: int
  useful_flops: float


def report(config: config_lib.Config, topology: str) -> str:
  """Compiles the training step of a config, and tells what it takes.

  Args:
    config: of `job=train`, `train_reranker` or `train_generator`.
    topology: a slice, such as v3:4x4; empty: the devices of this machine.

  Raises:
    UserError: there is no such slice, the config trains nothing, its batch does
      not fit the mesh, or the step does not fit the memory; says what to
      change.
  """
  devices = _devices(topology)
  config = _resolved(config, devices[0].platform)
  mesh = sharding.make_mesh(config.mesh, devices)
  work = _workload(config, mesh)
  sharding.check_batch(config.data.batch_size, config.data.groups, mesh)
  chunking.check(config, mesh)
  transform = optimizer.make_optimizer(config.optim, _STEPS)
  state = run.abstract_state(
      work.params, transform, mesh, work.rules, config.mesh.fsdp
  )
  batch = run.with_shardings(
      work.batch, sharding.batch_shardings(work.batch, mesh)
  )
  chip = accelerators.find(devices[0].device_kind)
  make = lambda groups: run.jit_step(
      config, work.loss(groups), transform, mesh, work.rules, state
  )
  chunk_groups = config.model.chunk_groups
  if chunk_groups == chunking.AUTOMATIC:
    chunk_groups = chunking.choose(
        config, mesh,
        lambda groups: chunking.bytes_of_step(make(groups), state, batch),
        chip.memory_bytes if chip else chunking.memory_limit(),
    )
  step = make(chunk_groups)
  traced = step.trace(state, batch)
  flops = costs.product_flops(traced.jaxpr)
  lowered = traced.lower()
  began = time.monotonic()
  try:
    compiled = lowered.compile()
  except jax.errors.JaxRuntimeError as e:
    raise _explained(e, config) from None
  seconds = time.monotonic() - began
  lines = [
      f'{topology or "this machine"}: {len(devices)} x '
      f'{devices[0].device_kind}, mesh {dict(mesh.shape)}',
      f'model: {work.what}, {config.model.dtype}, remat {config.model.remat}, '
      + (f'{chunk_groups} groups at once' if chunk_groups
         else 'the batch at once'),
      *_batch_lines(config, work),
      f'compiled in {seconds:.0f} s',
      _memory_line(compiled, chip),
      _flops_line(work, flops, math.prod(mesh.shape.values())),
      *_time_lines(compiled, work, flops, mesh, chip),
      'communication of a step, MiB that a device has afterwards:',
      *_communication_lines(compiled, work),
  ]
  return '\n'.join(lines)


def prepare(topology: str) -> None:
  """Makes JAX leave accelerators alone; before it has looked for any."""
  if topology:
    jax.config.update('jax_platforms', 'cpu')
    # The TPU compiler asks the cloud where it runs, and warns about it.
    for name, value in (('TPU_SKIP_MDS_QUERY', '1'),
                        ('TPU_ACCELERATOR_TYPE', topology),
                        ('TPU_WORKER_HOSTNAMES', 'localhost'),
                        ('ALLOW_MULTIPLE_LIBTPU_LOAD', '1')):
      os.environ.setdefault(name, value)


def _devices(topology: str) -> list[Any]:
  """The devices of a slice, or of this machine.

  Raises:
    UserError: there is no such topology, or no TPU compiler.
  """
  if not topology:
    return list(jax.devices())
  if importlib.util.find_spec('libtpu') is None:
    raise errors.UserError(
        f'--topology={topology}: the TPU compiler is not installed here; it '
        'is in the package libtpu, and needs no TPU: pip install libtpu'
    )
  # The two cores of a v4 chip work as one device, unless told otherwise.
  cores = {'chip_config_name': 'megacore'} if topology.startswith('v4') else {}
  try:
    return list(
        topologies.get_topology_desc(topology, 'tpu', **cores).devices
    )
  except (jax.errors.JaxRuntimeError, RuntimeError, ValueError) as e:
    raise errors.UserError(
        f'--topology={topology}: no slice that the TPU compiler knows; such as '
        f'{_EXAMPLES} ({str(e).splitlines()[0]})'
    ) from None


def _resolved(config: config_lib.Config, platform: str) -> config_lib.Config:
  """The config with what depends on the platform decided."""
  dtype = np.dtype(model_lib.compute_dtype(config.model, platform)).name
  return dataclasses.replace(
      config, model=dataclasses.replace(config.model, dtype=dtype)
  )


def _workload(config: config_lib.Config, mesh: Mesh) -> Workload:
  """The step of a config.

  Raises:
    UserError: it trains nothing, or its model is not known.
  """
  if config.job == 'train':
    return _retriever(config, mesh)
  if config.job == 'train_reranker':
    return _reranker(config, mesh)
  if config.job == 'train_generator':
    return _generator(config)
  raise errors.UserError(
      f'config.job={config.job}: --compile_only is for trainings; choose a '
      'config of job=train, train_reranker or train_generator, such as '
      'configs/nq_stage2.py or configs/nq_generator.py'
  )


def _retriever(config: config_lib.Config, mesh: Mesh) -> Workload:
  spec, text = loading.shape_by_name(config.model.init, config.model)
  queries, passages, made = _made_up(config, text)
  size = len(queries)
  batch, stats = batcher.Batcher(
      **made,
      negatives=config.negatives.per_query,
      row_lengths=encoder_run.row_lengths(config, text),
      passage_groups=np.arange(len(passages), dtype=np.int32),
      mask_known_positives=config.loss.mask_known_positives,
  )(0)
  scale = config.loss.scale if config.loss.learn_scale else None
  params = jax.eval_shape(
      lambda towers: state_lib.dual_encoder_params(towers, scale),
      loading.shape_of(spec),
  )
  sources = (('corpus',) if config.negatives.strategy == 'corpus'
             else config.negatives.sources)
  chosen = attention.choose(
      spec.bert, config.model.attention, config.data.row_length,
      config.model.dtype, mesh, is_training=True,
  )
  return Workload(
      what=f'{_described(config, params)}, attention {chosen}',
      params=params,
      rules=sharding.PARAMETER_RULES,
      loss=lambda groups: encoder_run.make_loss(
          spec, config, sources, mesh,
          chunking.make_chunks(config, groups, mesh),
      ),
      batch=batch,
      stats=stats,
      padded_tokens=(size * text.query_length
                     + len(passages) * text.passage_length),
      features=spec.features('passage'),
      useful_flops=3 * (
          costs.encoder_flops(spec, np.concatenate([queries, passages]))
          + costs.score_flops(
              size, len(passages), spec.dim * spec.score.query_vectors
              * spec.score.passage_vectors,
          )
      ),
  )


def _reranker(config: config_lib.Config, mesh: Mesh) -> Workload:
  init = config.model.init
  found, text = loading.shape_by_name(init, config.model)
  spec = cross_encoder.CrossEncoderSpec(
      found.bert,
      pooler=model_names.has_folder(init) and reranker.is_classifier(init),
  )
  longest = text.query_length + text.passage_length - 1
  queries, passages, made = _made_up(config, text)
  batch, stats = pair_batches.PairBatcher(
      **made, row_length=reranker_run.row_length(config, longest),
  )(0)
  pairs = text_pairs.pair_lengths(
      np.resize(queries, len(passages)), passages
  )
  params = {'reranker': jax.eval_shape(
      lambda: cross_encoder.init_params(spec, jax.random.key(0))
  )}
  head = 1 + spec.pooler * found.bert.hidden_size
  return Workload(
      what=_described(config, params),
      params=params,
      rules=sharding.PARAMETER_RULES,
      loss=lambda groups: step_lib.rerank_loss(
          model_lib.make_cross_encoder(spec, config.model),
          config.negatives.sources,
          chunking.make_chunks(config, groups, mesh),
      ),
      batch=batch,
      stats=stats,
      padded_tokens=len(pairs) * longest,
      features=0,
      useful_flops=3 * costs.encoder_flops(
          dataclasses.replace(found, projection_dim=head), pairs
      ),
  )


def _made_up(
    config: config_lib.Config, text: text_spec.TextSpec
) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
  """Lengths of queries and passages, and what all batchers of them take.

  The first passages are the queries' positives, and the others negatives.
  """
  size, count = config.data.batch_size, config.negatives.per_query
  queries = random_texts.lengths(
      size, config.data.expected_query_tokens, text.query_length
  )
  passages = random_texts.lengths(
      size * (1 + count), config.data.expected_passage_tokens,
      text.passage_length,
  )
  rows = np.arange(size, dtype=np.int32)
  negatives = np.arange(size, size * (1 + count), dtype=np.int32)
  return queries, passages, {
      'examples': examples.Examples(
          rows, rows, examples.Positives(np.stack([rows, rows], 1), size)
      ),
      'batch_size': size,
      'groups': config.data.groups,
      'seed': config.seed,
      'draw': lambda *_: batcher.Drawn(
          negatives.reshape(size, count),
          np.zeros((size, count), np.int32),
      ),
      'query_tokens': lambda rows: _blank(queries[rows]),
      'passage_tokens': lambda rows, numbers: _blank(passages[rows]),
  }


def _generator(config: config_lib.Config) -> Workload:
  shape, text = generator.shape_by_name(config.model.init, config.model)
  size = config.data.batch_size
  sources = random_texts.lengths(
      size, config.data.expected_passage_tokens, text.passage_length
  )
  targets = random_texts.lengths(
      size, config.data.expected_query_tokens, text.question_length
  )
  batch, stats = question_batches.QuestionBatcher(
      count=size,
      source_tokens=lambda numbers: _blank(sources[numbers]),
      question_tokens=lambda numbers: _blank(targets[numbers] - 1),
      batch_size=size,
      groups=config.data.groups,
      row_lengths=generator_run.row_lengths(config, text),
      start_id=shape.decoder_start_id,
      end_id=shape.eos_id,
      seed=config.seed,
  )(0)
  params = {'generator': t5.shape_of(shape)}
  return Workload(
      what=_described(config, params),
      params=params,
      rules=sharding.GENERATOR_RULES,
      loss=lambda _: step_lib.question_loss(
          model_lib.make_t5(shape, config.model), config.loss.label_smoothing
      ),
      batch=batch,
      stats=stats,
      padded_tokens=size * (text.passage_length + text.question_length),
      features=0,
      useful_flops=3 * costs.question_flops(shape, sources, targets),
  )


def _blank(lengths: np.ndarray) -> sequences.Sequences:
  """Sequences of given lengths."""
  return sequences.Sequences(
      np.zeros(max(lengths), np.int32), np.zeros_like(lengths), lengths
  )


def _described(config: config_lib.Config, params: Any) -> str:
  count = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(params))
  return f'{config.model.init}, {count:,} parameters'


def _batch_lines(config: config_lib.Config, work: Workload) -> list[str]:
  shape = jax.tree.leaves(work.batch)[0].shape
  stats = work.stats
  return [
      f'batch: {config.data.batch_size:,} queries of '
      f'{config.data.expected_query_tokens} tokens, passages of '
      f'{config.data.expected_passage_tokens} (config.data.expected_*), in '
      f'{shape[0]} groups of {shape[1]} rows of {shape[2]} tokens',
      f'  {stats.useful_tokens:,} of {stats.processed_tokens:,} tokens are no '
      f'padding ({stats.useful_tokens / stats.processed_tokens:.1%}); filling '
      'up every sequence would take '
      f'{work.padded_tokens / stats.processed_tokens:.2f} times as many',
  ]


def _memory_line(compiled: Any, chip: Any) -> str:
  limit = f' of {chip.memory_bytes / _GIB:.1f}' if chip else ''
  state = compiled.memory_analysis().argument_size_in_bytes
  return (f'memory of a device: {costs.memory_bytes(compiled) / _GIB:.2f} GiB'
          f'{limit} at the peak, of which state and batch {state / _GIB:.2f}')


def _flops_line(work: Workload, flops: float, devices: int) -> str:
  return (
      f'matrix products of a step: {flops / 1e12:,.1f} TFLOP, '
      f'{flops / devices / 1e12:,.2f} a device; useful '
      f'{work.useful_flops / 1e12:,.1f} ({work.useful_flops / flops:.1%}): no '
      'padding, no other sequences of the row, nothing twice'
  )


def _time_lines(
    compiled: Any, work: Workload, flops: float, mesh: Mesh, chip: Any
) -> list[str]:
  """The floor, and the compiler's estimate where it can be one."""
  if chip is None:
    return ['floor: the peak of this device is not known here']
  devices = math.prod(mesh.shape.values())
  floor = work.useful_flops / devices / chip.flops
  lines = [
      f'floor: {work.useful_flops / devices / 1e12:,.2f} useful TFLOP / '
      f'{chip.flops / 1e12:g} TFLOP/s = {floor:.3f} s a step; all products '
      f'{flops / devices / chip.flops:.3f} s'
  ]
  analysis = compiled.cost_analysis() or {}
  if isinstance(analysis, list):
    analysis = analysis[0]
  estimate = analysis.get('optimal_seconds', -1.0)
  if estimate < floor:  # It counts a loop's body once, or makes no sense.
    lines.append('the compiler gives no estimate of the time of a step: its '
                 f'figure, {estimate:.3f} s, counts loops once (none with '
                 '--config.model.scan_unroll=LAYERS, which takes minutes)')
  else:
    lines.append(f"the compiler's estimate: {estimate:.3f} s a step")
  return lines


def _communication_lines(compiled: Any, work: Workload) -> list[str]:
  sums: dict[tuple[str, str], list[int]] = collections.defaultdict(
      lambda: [0, 0]
  )
  for one in costs.collectives(compiled.as_text()):
    subjects = [_subject(array, work) for array in one.arrays]
    for what, array in zip(subjects, one.arrays, strict=True):
      sums[what, one.kind][0] += one.times * costs.array_bytes(array)
    for what in set(subjects):
      sums[what, one.kind][1] += one.times
  total = sum(size for size, _ in sums.values())
  if not total:
    return ['  none']
  return [
      f'  {what}, {kind}: {size / _MIB:,.2f} in {times} '
      f'({size / total:.2%})'
      for (what, kind), (size, times) in sorted(
          sums.items(), key=lambda item: -item[1][0]
      )
  ]


def _subject(array: costs.Array, work: Workload) -> str:
  """What a communication moves, by dtype and shape.

  `hidden states` have an axis of the rows of a group and one of the tokens of a
  row; `embeddings`, or their gradients, are float32 and end with the features
  of a vector; `gradients` are shaped as parameters, or as those of a layer.
  """
  dtype, shape = array
  rows = {leaf.shape[-2:] for leaf in jax.tree.leaves(work.batch)
          if leaf.ndim == 3}
  if any(shape[at : at + 2] in rows for at in range(len(shape) - 2)):
    return 'hidden states'
  params = [leaf.shape for leaf in jax.tree.leaves(work.params)]
  known = {_plain(shape) for shape in params}
  known |= {_plain(shape[1:]) for shape in params}
  if _plain(shape) in known - {()}:
    return 'gradients'
  is_embedding = dtype == 'f32' and len(shape) > 1
  if is_embedding and shape[-1] == work.features:
    return 'embeddings'
  return 'other'


def _plain(shape: tuple[int, ...]) -> tuple[int, ...]:
  return tuple(size for size in shape if size > 1)


def _explained(
    error: Exception, config: config_lib.Config
) -> errors.UserError:
  """The error of a step that the compiler refuses."""
  match = _OUT_OF_MEMORY.search(str(error))
  if match is None:
    raise error
  used, limit = filter(None, match.groups())
  advice = {
      'none': '--config.model.remat=attention, which keeps no attention '
              'matrices',
      'attention': '--config.model.remat=full, which keeps the inputs of '
                   'layers only',
      'full': 'a larger slice',
  }[config.model.remat]
  return errors.UserError(
      f'the step does not fit: it needs {used}iB of {limit}iB on a device. Try '
      f'{advice}; or more config.data.groups than devices and '
      '--config.model.chunk_groups=1, a gradient cache; or a smaller '
      'config.data.batch_size'
  )
