"""`--compile_only`: what a training step takes, on devices that are not here.

The TPU compiler needs no TPU. It gets the step that training runs, with shapes
in place of arrays: no data, weights or network are needed.
"""

import collections
import dataclasses
import importlib.util
import math
import os
import pathlib
import re
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.experimental import topologies
from jax.sharding import Mesh

from neg_contrast import accelerators, device_memory, errors, sharding
from neg_contrast.models import by_name as model_lib
from neg_contrast.training import (
  chunking,
  costs,
  encoder_run,
  generator_run,
  recipe,
  reranker_run,
  run_settings,
  sharded_step,
)
from neg_contrast.training import outline as outline_lib

_EXAMPLES = 'v3:4x4, v4:2x2x4, v5e:4x4, v5p:2x2x4 or v6e:4x4'
_STEPS = 1000  # Of the schedule, which takes no time.
_GIB, _MIB = 2**30, 2**20
# Of the compiler's words when a program is too large.
_OUT_OF_MEMORY = re.compile(
    r'Used ([\d.]+[MG]) of ([\d.]+[MG]) hbm'
    r'|total memory required .*?\(([\d.]+[MG])\) .*?\(([\d.]+[MG])\)'
)


_TRAININGS: dict[str, Callable[..., recipe.Recipe]] = {
    'train': encoder_run.DualEncoderTraining,
    'train_reranker': reranker_run.RerankerTraining,
    'train_generator': generator_run.GeneratorTraining,
}


def report(
    job: str, config: run_settings.RunSettings, topology: str
) -> str:
  """Compiles the training step of a config, and tells what it takes.

  Args:
    job: `train`, `train_reranker` or `train_generator`.
    config: settings of the run.
    topology: a slice, such as v3:4x4; empty: the devices of this machine.

  Raises:
    UserError: there is no such slice, the job trains nothing, its batch does
      not fit the mesh, or the step does not fit the memory; says what to
      change.
  """
  devices = devices_of(topology)
  config = _resolved(config, devices[0].platform)
  mesh = sharding.make_mesh(config.mesh, devices)
  training = _training(job, config, mesh)
  work = training.outline()
  sharded_step.check(config, mesh)
  steps = sharded_step.Steps(
      config, mesh, training.sharding_rules, work.params, work.loss, _STEPS,
      run_settings.memory_of(config, work.features),
  )
  state, batch = steps.like, steps.batch_like(work.batch)
  chip = accelerators.find(devices[0].device_kind)
  chunk_groups, trials, began = config.model.chunk_groups, '', time.monotonic()
  if chunk_groups == chunking.AUTOMATIC:
    trials = ', trials of model.chunk_groups included'
    chunk_groups = steps.choose_groups(
        work.batch, chip.memory_bytes if chip else device_memory.limit()
    )
  step = steps.make(chunk_groups)
  traced = step.trace(state, batch)
  flops = costs.product_flops(traced.jaxpr, work.local_layers)
  lowered = traced.lower()
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
      f'traced and compiled in {seconds:.0f} s{trials}',
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


def devices_of(topology: str) -> list[Any]:
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


def _resolved(
    config: run_settings.RunSettings, platform: str
) -> run_settings.RunSettings:
  """The settings with what depends on the platform decided."""
  dtype = np.dtype(model_lib.compute_dtype(config.model, platform)).name
  return dataclasses.replace(
      config, model=dataclasses.replace(config.model, dtype=dtype)
  )


def _training(
    job: str, config: run_settings.RunSettings, mesh: Mesh
) -> recipe.Recipe:
  """The training of a job, of which the outline alone will be asked.

  Raises:
    UserError: the job trains nothing.
  """
  if job not in _TRAININGS:
    *names, last = _TRAININGS
    raise errors.UserError(
        f'config.job={job}: --compile_only is for trainings; choose a config '
        f'of job={", ".join(names)} or {last}, such as configs/nq_stage2.py or '
        'configs/nq_generator.py'
    )
  return _TRAININGS[job](config, workdir=pathlib.Path(), mesh=mesh)


def _batch_lines(
    config: run_settings.RunSettings, work: outline_lib.Outline
) -> list[str]:
  shape = jax.tree.leaves(work.batch)[0].shape
  stats = work.stats
  return [
      f'batch: {config.data.batch_size:,} queries of '
      f'{config.data.expected_query_tokens} tokens, passages of '
      f'{config.data.expected_passage_tokens} '
      f'({errors.key("data.expected_*")}), in '
      f'{shape[0]} groups of {shape[1]} rows of {shape[2]} tokens',
      f'  {stats.useful_tokens:,} of {stats.processed_tokens:,} tokens are no '
      f'padding ({stats.useful_tokens / stats.processed_tokens:.1%}); filling '
      'up every sequence would take '
      f'{work.padded_tokens / stats.processed_tokens:.2f} times as many',
  ]


def _memory_line(compiled: Any, chip: Any) -> str:
  limit = f' of {chip.memory_bytes / _GIB:.1f}' if chip else ''
  state = compiled.memory_analysis().argument_size_in_bytes
  taken = device_memory.taken_by(compiled)
  return (f'memory of a device: {taken / _GIB:.2f} GiB{limit} at the peak, '
          f'of which state and batch {state / _GIB:.2f}')


def _flops_line(work: outline_lib.Outline, flops: float, devices: int) -> str:
  return (
      f'matrix products of a step: {flops / 1e12:,.1f} TFLOP, '
      f'{flops / devices / 1e12:,.2f} a device; useful '
      f'{work.useful_flops / 1e12:,.1f} ({work.useful_flops / flops:.1%}): no '
      'padding, no other sequences of the row, nothing twice'
  )


def _time_lines(
    compiled: Any, work: outline_lib.Outline, flops: float, mesh: Mesh,
    chip: Any,
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
                 f'--{errors.key("model.scan_unroll")}=LAYERS, which takes '
                 'minutes)')
  else:
    lines.append(f"the compiler's estimate: {estimate:.3f} s a step")
  return lines


def _communication_lines(compiled: Any, work: outline_lib.Outline) -> list[str]:
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


def _subject(array: costs.Array, work: outline_lib.Outline) -> str:
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
    error: Exception, config: run_settings.RunSettings
) -> errors.UserError:
  """The error of a step that the compiler refuses."""
  match = _OUT_OF_MEMORY.search(str(error))
  if match is None:
    raise error
  used, limit = filter(None, match.groups())
  advice = {
      'none': f'--{errors.key("model.remat")}=attention, which keeps no '
              'attention matrices',
      'attention': f'--{errors.key("model.remat")}=full, which keeps the '
                   'inputs of layers only',
      'full': 'a larger slice',
  }[config.model.remat]
  return errors.UserError(
      f'the step does not fit: it needs {used}iB of {limit}iB on a device. Try '
      f'{advice}; or more {errors.key("data.groups")} than devices and '
      f'--{errors.key("model.chunk_groups")}=1, a gradient cache; or a smaller '
      f'{errors.key("data.batch_size")}'
  )
