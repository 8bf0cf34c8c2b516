"""Training steps, each with its own batch."""

import concurrent.futures
import itertools
import time
from collections.abc import Callable, Generator
from typing import Any

import jax
import numpy as np

from neg_contrast.batches import prefetch
from neg_contrast.benchmarks import material as material_lib
from neg_contrast.benchmarks import task
from neg_contrast.models import dual_encoder
from neg_contrast.training import costs

_STEPS_IN_FLIGHT = 2  # As in training.


class Train(task.Task):
  """Training steps, each with its own batch, as training takes them."""

  def __init__(self, material: material_lib.Material):
    """Takes the data and the step of a training.

    In turns with another library every round makes its batches itself, instead
    of beginning with those that are there, and no more of them.
    """
    super().__init__()
    self._ready = material.ready
    self._takes_turns = bool(material.settings.versus)
    self._state = material.trainer.first_state(self._ready)
    self._steps = material.settings.steps
    self._size = material.data.batch_size
    lengths = {role: material.lengths(role) for role in ('query', 'passage')}
    self._flops, self._passages = 0.0, 0
    for step in range(self._steps):
      queries, positives, negatives = material.batch_rows(step)
      rows = np.concatenate([positives, negatives[negatives >= 0]])
      self._passages += len(rows)
      self._flops += 3 * _step_flops(
          material.model.spec, lengths['query'][queries],
          lengths['passage'][rows],
      )
    self._batches: Generator | None = None
    self._watch = concurrent.futures.ThreadPoolExecutor(1)
    self.losses: list[float] = []

  def round(self) -> dict[str, float]:
    """The same batches in every round; the parameters go on."""
    began = time.monotonic()
    if self._batches is None:
      steps = range(self._steps)
      self._batches = prefetch.prefetch(
          self._ready.put,
          steps if self._takes_turns else itertools.cycle(steps),
      )
    starts: list[float] = []
    ends: list[concurrent.futures.Future] = []
    useful = processed = 0
    losses = []
    for (batch, stats), _ in itertools.islice(self._batches, self._steps):
      if len(ends) >= _STEPS_IN_FLIGHT:
        ends[-_STEPS_IN_FLIGHT].result()
      starts.append(time.monotonic())
      self._state, metrics = self._ready.step(self._state, batch)
      ends.append(self._watch.submit(_when_there, metrics))
      losses.append(metrics['loss'])
      useful += stats.useful_tokens
      processed += stats.processed_tokens
    ended = [end.result() for end in ends]
    seconds = ended[-1] - began
    if self._takes_turns:
      self.close()
    self.losses = self.losses or [float(loss) for loss in losses]
    idle = sum(max(0.0, start - before) for start, before in
               zip(starts, [began, *ended], strict=False))
    return {
        task.QUERIES: self._steps * self._size / seconds,
        task.PASSAGES: self._passages / seconds,
        task.TOKENS: useful / seconds,
        task.PADDING: 1 - useful / processed,
        **self.utilisation(self._flops, seconds, self._ready.mesh),
        task.HOST_WAIT: idle / seconds,
    }

  def agreement(
      self, peer: str, losses: list[float], vecs: Callable[[], np.ndarray]
  ) -> dict[str, list[float]]:
    """Losses of the first round of both; without dropout they are the same."""
    del vecs
    off = np.abs(np.array(self.losses) - losses)
    return {
        'first loss': self.losses[:1], f'first loss of {peer}': losses[:1],
        'last loss': self.losses[-1:], f'last loss of {peer}': losses[-1:],
        f'most that a loss differs from {peer}': [float(off.max())],
        'losses differ by': [float((off / np.abs(losses)).max())],
    }

  def close(self) -> None:
    """Makes no more batches."""
    if self._batches is not None:
      self._batches.close()
      self._batches = None


def _step_flops(
    spec: dual_encoder.EncoderSpec, queries: np.ndarray, passages: np.ndarray
) -> float:
  """Of a forward pass over sequences of these lengths."""
  return costs.encoder_flops(
      spec, np.concatenate([queries, passages])
  ) + costs.score_flops(len(queries), len(passages), spec.dim)


def _when_there(arrays: Any) -> float:
  """The time when a device has made them."""
  jax.block_until_ready(arrays)
  return time.monotonic()
