"""What makes programs quick on the cores of a machine without accelerators."""

import collections
import contextlib
import ctypes
import functools
import glob
import math
import os
import pathlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from neg_contrast import errors, progress, terminal

# Sums by YNNPACK, but products by Eigen: launch/benchmarks/RESULTS.md.
_BY_EIGEN = {
    'xla_cpu_experimental_ynn_fusion_type': 'LIBRARY_FUSION_TYPE_REDUCE'
}
_ACCELERATORS = ('accel[0-9]*', 'vfio/[0-9]*', 'nvidia[0-9]*', 'kfd')
_ASKING = ('JAX_PLATFORMS', 'JAX_PLATFORM_NAME')
_ARENA_MAX, _MMAP_MAX, _TRIM_THRESHOLD = -8, -4, -1  # Of malloc.h.
_HUGE_PAGE, _USE_HUGE_PAGES = 2**21, 14  # Bytes; MADV_HUGEPAGE of mman.h.
_GAP = 2**26  # Bytes of a free block that matters.
_ALIGNED = 64  # Bytes, as XLA's blocks are.
_SECONDS = 2.0  # That a step may take to free its memory.
_closed: dict[int, int] = {}  # Address -> bytes, see `_close_gaps`.


def compiler_options(mesh: Mesh, dtype: Any) -> dict[str, Any]:
  """For `jax.jit` of a program of large products.

  Args:
    mesh: devices that it runs on.
    dtype: of the operands.
  """
  is_cpu = mesh.devices.flat[0].platform == 'cpu'
  if is_cpu and np.dtype(dtype) == np.float32 and _are_known():
    return dict(_BY_EIGEN)
  return {}


@functools.cache
def _are_known() -> bool:
  """Whether this compiler takes the options; they are experimental."""
  try:
    with jax.default_device(jax.local_devices(backend='cpu')[0]):
      jax.jit(abs, compiler_options=_BY_EIGEN).lower(0).compile()
  except Exception:  # Of any kind; it is only slower then.
    return False
  return True


def keep_memory() -> None:
  """Has freed memory kept for what comes next, if CPUs compute; with glibc.

  The arrays of a training step are new memory otherwise at every step, which
  the system fills with zeros, a page at a time. Pages are of 2 MiB where the
  system has such: a processor finds few of the small ones at once. Threads that
  JAX has started do not follow: this comes before its first array.
  """
  platforms = os.environ.get('JAX_PLATFORMS')
  if platforms != 'cpu' and (platforms or _has_accelerator()):
    return
  set_option = getattr(ctypes.CDLL(None), 'mallopt', None)
  if set_option is not None:
    set_option(_ARENA_MAX, 1)
    set_option(_MMAP_MAX, 0)
    set_option(_TRIM_THRESHOLD, -1)
    _use_huge_pages()


def _use_huge_pages() -> None:
  """Has the memory that is taken next, up to half of the machine's, in them.

  It is asked for and given back, so that the heap has these addresses; none of
  it is used. Where the system lacks huge pages nothing changes.
  """
  libc = ctypes.CDLL(None)
  libc.malloc.restype = ctypes.c_void_p
  size = os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') // 2
  address = libc.malloc(ctypes.c_size_t(size))
  if address:
    start = -(-address // _HUGE_PAGE) * _HUGE_PAGE
    libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(
        address + size - start
    ), _USE_HUGE_PAGES)
    libc.free(ctypes.c_void_p(address))


def fit_memory(step: Callable[..., Any]) -> Callable[..., Any]:
  """A step of training that does not hold what other steps have used.

  `keep_memory` keeps what they have freed, in blocks that a larger step can't
  use. Before the first step of each shape the system gets it back; and where
  that one is the largest so far, its block is to serve all others too: blocks
  that are too small for it are taken, and never used. What is taken between two
  steps, such as a copy of the state that is saved, may lie in that block, so
  that the next step needs another: where more is in use than before, or much
  more would lie idle after the next step than a step leaves behind, the system
  gets it back, too; and after a step that is compiled, which leaves what the
  compiler used. On CPUs no step begins before the last one has freed what it
  computed in, for it would take as much again. Other libraries than glibc
  decide for themselves.

  Args:
    step: of a state and a batch, as `jax.jit` makes it.
  """
  return _Fitted(step)


class _Fitted:
  """See `fit_memory`."""

  def __init__(self, step: Callable[..., Any]):
    """Nothing has run yet."""
    self._step, self._library = step, ctypes.CDLL(None)
    self._is_cpu = jax.default_backend() == 'cpu'
    self._shapes: set[tuple[tuple[int, ...], ...]] = set()
    self._largest = 0  # Elements of a batch.
    self._quiet = sys.maxsize  # Bytes in use before a step.
    self._has_grown = False  # Much more is in use than before the last step.
    self._base = 0  # Resident bytes beside those in use, after a trim.
    self._fitted = 0  # Elements of the last step, if a trim was before it.
    self._idle = 0  # Resident bytes beside those in use and `_base`.
    self._left: dict[int, int] = {}  # Elements -> bytes idle after such a step.
    self._scratch = 0  # Bytes that the largest program computes in.
    self._was_compiled = False  # By the last step.

  def __call__(self, state: Any, batch: Any) -> Any:
    """A step."""
    shapes = tuple(np.shape(leaf) for leaf in jax.tree.leaves(batch))
    size = sum(map(math.prod, shapes))
    is_new = shapes not in self._shapes
    if self._is_cpu or is_new:
      jax.block_until_ready(state)  # A step that runs has not freed its own.
    if self._is_cpu:
      self._measure()
    is_scattered = self._is_cpu and not is_new and self._is_scattered()
    self._fitted, self._was_compiled = 0, False
    if not is_new and not is_scattered:
      return self._step(state, batch)
    self._give_back(is_scattered or size > self._largest)
    self._shapes.add(shapes)
    self._largest, self._fitted = max(self._largest, size), size
    self._base = _resident() - self._quiet
    return (self._compiled if is_new else self._placed)(state, batch)

  def _measure(self) -> None:
    """Waits until the last step has freed its memory, and looks at the heap."""
    before, self._quiet = self._quiet, _settled(self._library, self._quiet)
    self._has_grown = self._quiet > before + _GAP
    self._idle = max(0, _resident() - self._quiet - self._base)
    if self._fitted and not self._was_compiled:
      self._left[self._fitted] = self._idle

  def _is_scattered(self) -> bool:
    """Whether the next step would take another block than the last one."""
    if self._quiet == sys.maxsize:  # The library says nothing.
      return False
    return self._has_grown or self._was_compiled or (
        self._idle + _missing(self._library, self._scratch)
        > 1.25 * max(self._left.values(), default=sys.maxsize) + _GAP
    )

  def _give_back(self, is_closing: bool) -> None:
    """Gives the system what is idle."""
    trim = getattr(self._library, 'malloc_trim', None)
    if trim is None:
      return
    if not self._shapes:
      _open_gaps(self._library)  # Of another training.
    trim(0)
    if self._is_cpu and is_closing and self._shapes:
      _close_gaps(self._library)
      trim(0)
    _use_huge_pages()  # What the heap gave back had them.

  def _compiled(self, state, batch):
    """The first step of a shape."""
    known = collections.Counter(one.fingerprint for one in self._programs())
    with progress.busy('compiling the training step',
                       is_logged=len(self._shapes) == 1):
      made = self._step(state, batch)
    self._was_compiled = True
    for one in self._programs():
      if known[one.fingerprint]:  # The same may have been there before.
        known[one.fingerprint] -= 1
      else:
        memory = one.get_compiled_memory_stats()
        self._scratch = max(self._scratch, memory.temp_size_in_bytes)
    return made

  def _programs(self) -> list[Any]:
    """All that CPUs compute in this process."""
    if not self._is_cpu:
      return []
    made: list[Any] = jax.local_devices()[0].client.live_executables()
    return made

  def _placed(self, state, batch):
    """A step whose block is to stay as it is for those that come.

    An aligned block is cut from one that is a little larger, and what is left
    of that may stay in use: such a block, free again, holds no second one of
    its size. So a free block of 32 MiB is left before it, and the two become
    one when the step is done. Small things come from another before that.
    """
    self._library.malloc.restype = ctypes.c_void_p
    small, before = (self._library.malloc(ctypes.c_size_t(_GAP // 2))
                     for _ in range(2))
    self._library.free(ctypes.c_void_p(small))
    try:
      return jax.block_until_ready(self._step(state, batch))
    finally:
      self._library.free(ctypes.c_void_p(before))


def _missing(library: Any, size: int) -> int:
  """Bytes that the system would have to give for a block of this size.

  Args:
    library: of C.
    size: bytes; below 64 MiB the answer is 0.
  """
  if size < _GAP:
    return 0
  # What an aligned block is cut from; to cut one would leave its rest in use.
  library.malloc.restype = ctypes.c_void_p
  block = library.malloc(ctypes.c_size_t(size + 2 * _ALIGNED))
  if not block:
    return 0
  page = os.sysconf('SC_PAGE_SIZE')
  is_there = np.ones(size // page - 1, np.uint8)
  library.mincore(
      ctypes.c_void_p(-(-block // page) * page),
      ctypes.c_size_t(len(is_there) * page),
      is_there.ctypes.data_as(ctypes.c_void_p),
  )
  library.free(ctypes.c_void_p(block))
  return page * int(np.sum(is_there & 1 == 0))


class _Heap(ctypes.Structure):
  """`struct mallinfo2` of glibc."""

  _fields_ = tuple((name, ctypes.c_size_t) for name in (
      'arena', 'ordblks', 'smblks', 'hblks', 'hblkhd', 'usmblks', 'fsmblks',
      'uordblks', 'fordblks', 'keepcost',
  ))

  @property
  def size(self) -> int:
    """Bytes of the heap, and of blocks that have a mapping of their own."""
    return int(self.arena + self.hblkhd)

  @property
  def in_use(self) -> int:
    """Bytes that were taken, but for gaps that are closed."""
    return int(self.uordblks) - sum(_closed.values())


def _heap(library: Any) -> _Heap | None:
  """What is said of the heap; None: the library says nothing."""
  ask = getattr(library, 'mallinfo2', None)
  if ask is None:
    return None
  ask.restype = _Heap
  found: _Heap = ask()
  return found


def _settled(library: Any, quiet: int) -> int:
  """Waits until the last step has freed what it computed in.

  It does so a little after its results are there.

  Args:
    library: of C.
    quiet: bytes that were in use before that step.

  Returns:
    Bytes in use.
  """
  end = time.monotonic() + _SECONDS
  while (heap := _heap(library)) is not None:
    if heap.in_use < quiet + _GAP or time.monotonic() > end:
      return heap.in_use
    time.sleep(0.001)
  return quiet


def _resident() -> int:
  """Bytes of memory that this process has, files that are mapped left out."""
  try:
    pages = pathlib.Path('/proc/self/statm').read_text('ascii').split()
  except OSError:
    return 0
  return (int(pages[1]) - int(pages[2])) * os.sysconf('SC_PAGE_SIZE')


def _close_gaps(library: Any) -> None:
  """Takes the large free blocks of the heap, and touches none.

  Whatever is taken next lies above. The system has their memory: after a trim
  they are addresses and no more.
  """
  before = _heap(library)
  if before is None:
    return
  library.malloc.restype = ctypes.c_void_p
  size = before.fordblks
  while size >= _GAP:
    block = library.malloc(ctypes.c_size_t(size))
    after = _heap(library)
    if block and after is not None and after.size == before.size:
      _closed[block] = size
    else:  # There was no such gap: the block is new, or none.
      library.free(ctypes.c_void_p(block))
      library.malloc_trim(0)  # Else the end of the heap looks like a gap.
      size //= 2
    before = _heap(library) or before


def _open_gaps(library: Any) -> None:
  """Gives back what `_close_gaps` has taken."""
  while _closed:
    library.free(ctypes.c_void_p(_closed.popitem()[0]))


@contextlib.contextmanager
def plain_memory_errors(what: str, remedy: str) -> Iterator[None]:
  """Turns JAX's errors about memory, of any device, into a line.

  Args:
    what: what runs inside, such as `encoding`.
    remedy: a sentence on what takes less.

  Raises:
    UserError: what runs inside takes more memory than there is.
  """
  try:
    yield
  except jax.errors.JaxRuntimeError as e:
    if 'RESOURCE_EXHAUSTED' not in str(e):
      raise
    reason = str(e).splitlines()[0].rstrip('.')
    raise errors.UserError(
        f'{what} takes more memory than there is ({reason}). {remedy}'
    ) from None


def check_platforms() -> None:
  """Starts the devices, those that the environment asks for if it asks.

  Raises:
    UserError: there are none, or what drives them is not installed.
  """
  asked = ' '.join(
      f'{name}={os.environ[name]}' for name in _ASKING if os.environ.get(name)
  )
  if asked == 'JAX_PLATFORMS=cpu':
    return
  try:
    with terminal.quiet_libraries():
      jax.devices()
  except Exception as e:  # Of any kind, an AssertionError among them.
    if not asked:
      raise
    said = str(e).strip().splitlines()
    raise errors.UserError(
        f'{asked}: there is no such device here, or what drives it is not '
        f'installed{f" ({said[0]})" if said else ""}. Unset it, or install '
        'jax[cuda12] or jax[tpu]'
    ) from None


def _has_accelerator() -> bool:
  """Whether this machine has one, without starting JAX."""
  return any(glob.glob(f'/dev/{name}') for name in _ACCELERATORS)
