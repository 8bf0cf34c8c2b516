"""What accelerators can do at most, by their makers' data sheets."""

import dataclasses

_GIB = 2**30


@dataclasses.dataclass(frozen=True)
class Accelerator:
  """A device, as JAX counts them.

  Attributes:
    flops: operations a second of products of bfloat16 numbers.
    memory_bytes: of its own memory.
  """

  flops: float
  memory_bytes: int


# By `device_kind`. A TPU v2 or v3 chip is two devices.
_KNOWN = {
    'TPU v2': Accelerator(22.5e12, 8 * _GIB),
    'TPU v3': Accelerator(61.5e12, 16 * _GIB),
    'TPU v4': Accelerator(275e12, 32 * _GIB),
    'TPU v5 lite': Accelerator(197e12, 16 * _GIB),
    'TPU v5e': Accelerator(197e12, 16 * _GIB),
    'TPU v5': Accelerator(459e12, 95 * _GIB),
    'TPU v5p': Accelerator(459e12, 95 * _GIB),
    'TPU v6 lite': Accelerator(918e12, 32 * _GIB),
    'TPU v6e': Accelerator(918e12, 32 * _GIB),
    'NVIDIA T4': Accelerator(65e12, 16 * _GIB),  # float16
    'NVIDIA L4': Accelerator(121e12, 24 * _GIB),
    'NVIDIA A100-SXM4-40GB': Accelerator(312e12, 40 * _GIB),
    'NVIDIA A100-SXM4-80GB': Accelerator(312e12, 80 * _GIB),
    'NVIDIA H100 80GB HBM3': Accelerator(989e12, 80 * _GIB),
    'NVIDIA H200': Accelerator(989e12, 141 * 10**9),
}


def find(kind: str) -> Accelerator | None:
  """What is known of a device.

  Args:
    kind: its `device_kind`.
  """
  return _KNOWN.get(kind)
