"""Several processes as one program, usually one a host, each with its devices.

Where there is one process, everything here is a plain call.
"""

import itertools
import os
import signal
from collections.abc import Callable, Mapping

import jax
import numpy as np
from jax.experimental import multihost_utils
from jaxtyping import Shaped

from neg_contrast import errors

# Notebook services: their TPU machines look like slices, and are one host.
_ONE_HOST = ('COLAB_RELEASE_TAG', 'KAGGLE_KERNEL_RUN_TYPE')
_LONG_SECONDS = 7 * 24 * 3600  # The first one's turn, such as reading a corpus.
_LEAVING_SECONDS = 60  # One that fails waits for the others, and ends them.
_turns = itertools.count()
_alone: list[bool] = []  # Turns of the first process that go on now.


def start(
    coordinator: str | None = None,
    processes: int | None = None,
    process: int | None = None,
) -> None:
  """Finds the other processes; comes before any computation.

  TPU slices, SLURM and Open MPI tell JAX what it has to know. Elsewhere the
  arguments do, and without any there is one process.

  Args:
    coordinator: `HOST:PORT` of process 0; default: JAX_COORDINATOR_ADDRESS.
    processes: how many; 1: one alone, whatever the cluster says.
    process: number of this one.

  Raises:
    UserError: they are incomplete, or don't fit together; or JAX has computed
      something.
  """
  if processes == 1 or jax.distributed.is_initialized():
    return
  is_told = 'JAX_COORDINATOR_ADDRESS' in os.environ or not (
      coordinator is processes is process is None
  )
  if not is_told and any(name in os.environ for name in _ONE_HOST):
    return
  try:
    jax.distributed.initialize(
        coordinator, processes, process,
        shutdown_timeout_seconds=_LEAVING_SECONDS,
        coordinator_bind_address=_bind_address(coordinator),
    )
  except ValueError as e:
    if not is_told:
      return  # No cluster that JAX knows.
    raise errors.UserError(
        f'{e}\nGive all of --coordinator=HOST:PORT (of process 0), '
        '--processes=N and --process=I, from 0 to N-1; or --processes=1'
    ) from None
  except RuntimeError as e:
    if 'must be called before' not in str(e):
      raise
    raise errors.UserError(
        'JAX has computed something before the processes found each other, '
        'such as an array of the config file; write it with numpy or math '
        'there, or give --processes=1 where there is no other'
    ) from None
  if jax.process_count() == 1:  # Else JAX would keep SIGTERM for itself.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _bind_address(coordinator: str | None) -> str | None:
  """Where process 0 listens: at the address it is given, and nowhere else.

  JAX would listen at all addresses of the machine, as it does where the cluster
  gives the address. JAX_COORDINATOR_BIND_ADDRESS names another, where the given
  one is of a gateway.
  """
  if 'JAX_COORDINATOR_BIND_ADDRESS' in os.environ:
    return None
  return coordinator or os.environ.get('JAX_COORDINATOR_ADDRESS')


def count() -> int:
  """How many processes; starts no device where this is the only one."""
  return jax.process_count() if jax.distributed.is_initialized() else 1


def are_several() -> bool:
  """Whether there are other processes."""
  return count() > 1


def is_first() -> bool:
  """Whether this is the process that writes and prints."""
  return not are_several() or jax.process_index() == 0


def are_together() -> bool:
  """Whether all processes are where this is called, of which there are several.

  While the first has its turn, see `on_first`, they are not.
  """
  return are_several() and not _alone


def on_first(call: Callable[[], object]) -> bool:
  """Lets the first process call, while the others wait.

  All processes have to come here, and leave together.

  Args:
    call: made by the first alone.

  Returns:
    Whether the result is true, to all.

  Raises:
    Exception: to the first, whatever `call` raised.
    UserError: to the others, when it did.
  """
  if not are_several():
    return bool(call())
  failure: BaseException | None = None
  said = np.zeros(2, np.int32)
  if is_first():
    _alone.append(True)
    try:
      said[0] = bool(call())
    except BaseException as e:  # The others hear of it first.
      failure, said[1] = e, 1
    finally:
      _alone.pop()
  _wait()
  result, has_failed = multihost_utils.broadcast_one_to_all(said)
  if failure is not None:
    raise failure
  if has_failed:
    raise errors.UserError('process 0 failed and says why')
  return bool(result)


def from_first(values: Mapping[str, float]) -> dict[str, float]:
  """What the first process has under the same names, to the last bit."""
  if not are_several():
    return dict(values)
  bits = np.array(list(values.values()), np.float64).view(np.uint32)
  told = np.asarray(multihost_utils.broadcast_one_to_all(bits))
  return dict(zip(values, told.view(np.float64).tolist(), strict=True))


def from_all(text: str) -> list[str]:
  """The text of each process, in their order; all processes come here."""
  if not are_several():
    return [text]
  rows = gather(np.frombuffer(f'{text}\0'.encode(), np.uint8))
  return rows.tobytes().decode().split('\0')[:-1]


def share_of(parts: int) -> range:
  """The parts of `0 .. parts - 1` that this process does; neighbours."""
  if not are_several():
    return range(parts)
  index, among = jax.process_index(), jax.process_count()
  return range(parts * index // among, parts * (index + 1) // among)


def gather(
    rows: Shaped[np.ndarray, 'rows *shape']
) -> Shaped[np.ndarray, 'all_rows *shape']:
  """The rows of all processes, in their order; all processes come here.

  Args:
    rows: `[rows, ...]` of this process, which may have other `rows` than
      another.
  """
  if not are_several():
    return rows
  counts = multihost_utils.process_allgather(np.int32(len(rows)))
  padded = np.zeros((max(1, counts.max()), *rows.shape[1:]), rows.dtype)
  padded[: len(rows)] = rows
  everything = multihost_utils.process_allgather(padded)
  return np.concatenate([
      part[:size] for part, size in zip(everything, counts, strict=True)
  ])


def meet() -> None:
  """Returns when all processes are here; the first in its turn is alone."""
  if are_together():
    _wait()


def _wait() -> None:
  """Returns when all processes are here, however long that takes.

  A collective of devices would give up.
  """
  from orbax.checkpoint import multihost  # Slow to import.

  multihost.sync_global_processes(
      f'neg_contrast turn {next(_turns)}', timeout=_LONG_SECONDS,
      processes=set(range(jax.process_count())),
  )


def usable_cores() -> int:
  """Cores of this host that this process may use."""
  if hasattr(os, 'sched_getaffinity'):
    return len(os.sched_getaffinity(0))
  return os.cpu_count() or 1
