"""Batches of training, made on the host and put on the devices."""

import dataclasses
import functools
import time
from collections.abc import Callable

import jax

from neg_contrast.batches import batcher
from neg_contrast.benchmarks import material as material_lib
from neg_contrast.benchmarks import task


class Input(task.Task):
  """Batches of training, made on the host and put on the devices."""

  def __init__(self, material: material_lib.Material):
    """Opens the data."""
    super().__init__()
    self._steps = material.settings.steps
    self._size = material.data.batch_size
    ready = material.ready
    assert isinstance(ready.make_batch, batcher.Batcher)
    self._spent: dict[str, float] = {}
    self._ready = dataclasses.replace(ready, make_batch=dataclasses.replace(
        ready.make_batch,
        draw=self._timed('hard negatives', ready.make_batch.draw),
        query_tokens=self._timed('token ids', ready.make_batch.query_tokens),
        passage_tokens=self._timed(
            'token ids', ready.make_batch.passage_tokens
        ),
    ))
    self.reasons[task.UTILISATION] = 'no model runs'
    self.reasons[task.HOST_WAIT] = 'no model runs'

  def round(self) -> dict[str, float]:
    """The same batches in every round."""
    self._spent.clear()
    steps, size = self._steps, self._size
    useful = processed = 0
    began, cpu = time.monotonic(), time.process_time()
    for step in range(steps):
      batch, stats = self._ready.put(step)
      jax.block_until_ready(batch)
      useful += stats.useful_tokens
      processed += stats.processed_tokens
    seconds, cpu = time.monotonic() - began, time.process_time() - cpu
    stages = {**self._spent,
              'order, packing, masks, devices': cpu - sum(self._spent.values())}
    return {
        task.QUERIES: steps * size / seconds,
        f'{task.QUERIES} of CPU time': steps * size / cpu,
        task.TOKENS: useful / seconds,
        task.PADDING: 1 - useful / processed,
        **{f'{name}, CPU ms a batch': 1000 * spent / steps
           for name, spent in stages.items()},
    }

  def _timed(self, stage: str, function: Callable) -> Callable:
    """The same function, with its CPU time counted as that of a stage."""
    @functools.wraps(function)
    def call(*args):
      began = time.process_time()
      result = function(*args)
      took = time.process_time() - began
      self._spent[stage] = self._spent.get(stage, 0.0) + took
      return result
    return call
