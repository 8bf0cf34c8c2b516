"""Something to be measured, and the names of what is counted."""

import abc
from collections.abc import Callable
from typing import Any

import numpy as np

from neg_contrast import accelerators

QUERIES, PASSAGES = 'queries/s', 'passages/s'
TOKENS, PADDING = 'useful tokens/s', 'padding'
FLOPS = 'useful TFLOP/s'
UTILISATION = 'model FLOPs utilisation'
HOST_WAIT = 'host wait'


class Task(abc.ABC):
  """Something to be measured.

  Attributes:
    reasons: measure -> why it is not to be had.
    facts: measure -> what is told of it once, and does not vary.
  """

  def __init__(self):
    """Nothing to tell yet."""
    self.reasons: dict[str, str] = {}
    self.facts: dict[str, float] = {}

  @abc.abstractmethod
  def round(self) -> dict[str, float]:
    """Does it once: measure -> value."""

  def agreement(
      self, peer: str, losses: list[float], vecs: Callable[[], np.ndarray]
  ) -> dict[str, list[float]]:
    """Measure -> values that show whether another library did the same work.

    Args:
      peer: its name.
      losses: of the training steps of its first round.
      vecs: reads `[passages, features] float32` that it encoded last.
    """
    del peer, losses, vecs
    return {}

  def close(self) -> None:  # noqa: B027 - most have nothing to end.
    """Ends what was begun."""

  def utilisation(
      self, flops: float, seconds: float, mesh: Any
  ) -> dict[str, float]:
    """Useful operations: of all devices, and as a part of their peak.

    Args:
      flops: that the work needs, without any padding.
      seconds: that it took.
      mesh: of the devices.
    """
    measured = {FLOPS: flops / seconds / 1e12}
    kind = mesh.devices.flat[0].device_kind
    chip = accelerators.find(kind)
    if chip is None:
      self.reasons[UTILISATION] = f'the peak of {kind} is not known here'
      return measured
    part = flops / seconds / (chip.flops * mesh.size)
    return {**measured, UTILISATION: part}
