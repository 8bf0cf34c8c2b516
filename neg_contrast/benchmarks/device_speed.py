"""How fast this machine computes, by a short measurement."""

import dataclasses
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from neg_contrast import accelerators
from neg_contrast.models import by_name
from neg_contrast.settings import config as config_lib

_ROWS = 2048  # Tokens at once.
_SECONDS = 0.3
_PART_OF_PRODUCT = 0.5
"""Of a lone matrix product's speed, what a training step reaches on a CPU."""
_PART_OF_PEAK = 0.35
"""Of the data sheet's peak, what a training step reaches on an accelerator."""


@dataclasses.dataclass(frozen=True)
class Speed:
  """Speed of all devices together.

  Attributes:
    flops: useful operations a second.
    how: where the number comes from, and how sure it is.
  """

  flops: float
  how: str


def measure(config: config_lib.ModelConfig, hidden: int) -> Speed | None:
  """The speed of this machine's devices for a model.

  An accelerator whose peak is known is not measured.

  Args:
    config: names the dtype.
    hidden: features of a token.

  Returns:
    None: the devices can't be used now.
  """
  try:
    devices = jax.devices()
    chip = accelerators.find(devices[0].device_kind)
    if chip is not None:
      return Speed(
          len(devices) * _PART_OF_PEAK * chip.flops,
          f'{_PART_OF_PEAK:.0%} of the peak of {len(devices)} x '
          f'{devices[0].device_kind}; may be off by a factor of 3',
      )
    rate = _product_rate(hidden, by_name.compute_dtype(config))
  except RuntimeError:  # Another program has them.
    return None
  count = len(devices) if devices[0].platform != 'cpu' else 1
  return Speed(
      count * _PART_OF_PRODUCT * rate,
      f'half of {rate / 1e9:,.0f} GFLOP/s, measured just now on '
      f'{devices[0].device_kind} by a product of {_ROWS} x {hidden} x '
      f'{4 * hidden}; may be off by a factor of 2 to 3',
  )


def _product_rate(hidden: int, dtype: Any) -> float:
  """Operations a second of a layer's largest product, at its best."""
  left = jnp.ones((_ROWS, hidden), dtype)
  right = jnp.ones((hidden, 4 * hidden), dtype)
  product = jax.jit(jnp.matmul)
  product(left, right).block_until_ready()
  best, until = np.inf, time.monotonic() + _SECONDS
  while time.monotonic() < until:
    began = time.monotonic()
    product(left, right).block_until_ready()
    best = min(best, time.monotonic() - began)
  return 2.0 * _ROWS * hidden * 4 * hidden / best
