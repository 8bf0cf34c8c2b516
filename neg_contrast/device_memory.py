"""Memory of the devices of this machine."""

import os
from typing import Any

import jax

_PART = 0.9  # Of the memory; prefetched batches and small things take the rest.
_PART_ON_CPU = 0.5


def limit() -> int:
  """Bytes that a program may take on a device of this machine.

  0.9 of what the device has; on CPU, half of the machine's memory, shared by
  its devices.
  """
  devices = jax.local_devices()
  stats = devices[0].memory_stats() or {}
  if 'bytes_limit' in stats:
    return limit_of(stats['bytes_limit'])
  pages = os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE')
  return int(_PART_ON_CPU * pages / len(devices))


def limit_of(memory_bytes: int) -> int:
  """Bytes that a program may take of an accelerator's memory."""
  return int(_PART * memory_bytes)


def free() -> int:
  """Bytes of a device of this process that nothing takes."""
  stats = jax.local_devices()[0].memory_stats() or {}
  return stats.get('bytes_limit', 2**30) - stats.get('bytes_in_use', 0)


def taken_by(compiled: Any) -> int:
  """Bytes that a compiled program takes on a device, arguments included.

  Args:
    compiled: as `jax.jit(f).lower(...).compile()`.
  """
  memory = compiled.memory_analysis()
  total = (memory.argument_size_in_bytes + memory.temp_size_in_bytes
           + memory.output_size_in_bytes - memory.alias_size_in_bytes)
  # The TPU compiler knows the peak, which is less: not all temporaries are
  # there at once. Of others, that figure has no temporaries at all.
  devices = jax.tree.leaves(compiled.input_shardings)[0].device_set
  is_tpu = next(iter(devices)).platform == 'tpu'
  return memory.peak_memory_in_bytes if is_tpu else total


def bytes_of_step(step: Any, *arguments: Any) -> int | None:
  """Bytes that a jitted program takes on a device, arguments included.

  A call with such arguments later on does not compile it again.

  Args:
    step: a jitted function.
    *arguments: trees of arrays, or of ShapeDtypeStructs with shardings.

  Returns:
    What the compiler says; None: it needs more than there is.
  """
  try:
    return taken_by(step.lower(*arguments).compile())
  except jax.errors.JaxRuntimeError as e:
    if 'RESOURCE_EXHAUSTED' in str(e):
      return None
    raise
