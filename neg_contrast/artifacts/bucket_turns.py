"""Turns of one program's processes at a place in a bucket, which has no locks.

JAX's own service of the program, which all its processes talk to, says whose
turn it is, and wakes who waits; so nobody asks again and again. A process that
dies takes the program with it, and no turn is left behind. Other programs are
kept out by a lease, see `leases.py`; on a disk, files are locked, see
`folders.only_one`.
"""

import contextlib
import pathlib
from collections.abc import Iterator
from typing import Any

from neg_contrast.artifacts import places

_LONG_MILLISECONDS = 7 * 24 * 3600 * 1000  # A turn, such as reading a corpus.
_ended: dict[str, int] = {}  # Place -> turns that have ended, as known here.


def are_told(place: pathlib.Path) -> bool:
  """Whether processes of a program, of which there are several, take turns.

  Args:
    place: what they take turns at; those at a place on a disk do without.
  """
  if not places.is_remote(place):
    return False
  from neg_contrast import hosts  # It imports JAX, which workers do without.

  return hosts.are_several()


@contextlib.contextmanager
def turn(place: pathlib.Path, wait: bool = True) -> Iterator[bool]:
  """Lets one thread of all processes of this program at a time be here.

  Args:
    place: its own; elsewhere than in a bucket everybody may be here.
    wait: for another that is here.

  Yields:
    Whether it is this one's turn; without `wait` it may not be.
  """
  if not are_told(place):
    yield True
    return
  service, key = _service(), f'neg_contrast/{place}'
  number = _ended.get(key, 0)
  while not _begin(service, f'{key}#{number}'):
    if not wait and not _has_ended(service, f'{key}#{number}'):
      yield False
      return
    service.blocking_key_value_get(f'{key}#{number} end', _LONG_MILLISECONDS)
    number += 1
    _ended[key] = number
  try:
    yield True
  finally:
    service.key_value_set(f'{key}#{number} end', 'ended')


def _begin(service: Any, key: str) -> bool:
  """Takes a turn, unless somebody has; of two that try at once one does."""
  import jax

  try:
    service.key_value_set(key, 'taken')
  except jax.errors.JaxRuntimeError as e:
    if 'ALREADY_EXISTS' not in str(e):
      raise
    return False
  return True


def _has_ended(service: Any, key: str) -> bool:
  import jax

  try:
    service.key_value_try_get(f'{key} end')
  except jax.errors.JaxRuntimeError as e:
    if 'NOT_FOUND' not in str(e):
      raise
    return False
  return True


def _service() -> Any:
  from orbax.checkpoint import multihost  # Slow to import.

  return multihost.get_jax_distributed_client()
