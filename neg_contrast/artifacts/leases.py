"""One program at a time in a workdir of a bucket, which has no locks.

A program writes `lease.json` when it begins, with its name and the time, writes
it again every `RENEW_SECONDS`, and removes it at its end. A program that finds
the lease of another watches it for `EXPIRES_SECONDS`: one that is written again
meanwhile is alive, and the second program is refused; one that is not was
killed, and the second goes on in its place; at once, where it was a process of
the same machine. In a workdir on a disk, processes take turns by locks of
files, see `folders.only_one`.
"""

import contextlib
import json
import os
import pathlib
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any

from absl import logging

from neg_contrast import errors, hosts
from neg_contrast.artifacts import buckets, folders, places

FILE = 'lease.json'
RENEW_SECONDS, EXPIRES_SECONDS = 15.0, 60.0
_held: set[str] = set()  # Addresses of the leases of this process.
_program = uuid.uuid4().hex


@contextlib.contextmanager
def program(workdir: pathlib.Path) -> Iterator[None]:
  """Makes a workdir, and has it for this program while the block runs.

  All processes of the program come here; the first one has the lease, until the
  others are done too.

  Raises:
    UserError: it can't be written to, or another program works there.
  """
  with contextlib.ExitStack() as stack:

    def begin() -> None:
      folders.make_folder(workdir)
      stack.enter_context(held(workdir))

    hosts.on_first(begin)
    yield
    if places.is_remote(workdir):
      hosts.meet()


@contextlib.contextmanager
def held(workdir: pathlib.Path) -> Iterator[None]:
  """This program alone works in a workdir while the block runs.

  A workdir on a disk has no lease; nor does one that this process has already.

  Args:
    workdir: to be written to.

  Raises:
    UserError: another program works there.
  """
  address = str(workdir / FILE)
  if not places.is_remote(workdir) or address in _held:
    yield
    return
  _take(address, workdir)
  ended = threading.Event()
  renewing = threading.Thread(target=_renew, args=(address, ended), daemon=True)
  renewing.start()
  _held.add(address)
  try:
    yield
  finally:
    _held.remove(address)
    ended.set()
    renewing.join()
    _give_back(address)


def _take(address: str, workdir: pathlib.Path) -> None:
  """Writes the lease, when that of another is not written any more."""
  began, first = time.monotonic(), _read(address)
  if first:
    logging.info('%s: by %s; waiting whether it is alive', address,
                 first.get('host'))
  while there := _read(address):
    if there != first:
      raise errors.UserError(
          f'{workdir}: another program works there ({there.get("host")}, '
          f'process {there.get("process")}, {address}). Wait for its end, or '
          f'name another {errors.flag("workdir")}'
      )
    if time.monotonic() - began > EXPIRES_SECONDS or _has_ended(there):
      logging.warning('%s: its program was killed; going on', address)
      buckets.remove(address)
      break
    time.sleep(RENEW_SECONDS / 4)
  # Of two that write at the same time one is first; the other reads its name.
  # So does one whose answer was lost, and that was told "there is one" then.
  buckets.put_bytes(_lease(), address, is_new=True)
  if _read(address).get('program') != _program:
    raise errors.UserError(
        f'{workdir}: another program began there at the same moment '
        f'({address})')


def _has_ended(lease: dict[str, Any]) -> bool:
  """Whether it is of a process of this machine that is no more."""
  number, machine = lease.get('process'), _machine()
  if {key: lease.get(key) for key in machine} != machine or (
      not isinstance(number, int)):
    return False
  try:
    os.kill(number, 0)
  except ProcessLookupError:
    return True
  except (PermissionError, OverflowError):
    return False  # Alive, of another user; or no number of a process.
  return False


def _machine() -> dict[str, str]:
  """What processes have in common that see each other's numbers."""
  try:
    namespace = os.readlink('/proc/self/ns/pid')  # One for each container.
  except OSError:  # Not Linux.
    namespace = ''
  return {'host': socket.gethostname(), 'namespace': namespace}


def _renew(address: str, ended: threading.Event) -> None:
  while not ended.wait(RENEW_SECONDS):
    try:
      there = _read(address)
      if there and there.get('program') != _program:
        logging.error('%s: another program works here too, because this one '
                      'was silent for long; end one of them', address)
        return
      buckets.put_bytes(_lease(), address)
    except errors.UserError as e:
      logging.warning('%s', e)


def _give_back(address: str) -> None:
  """Removes the lease at the end of a program, unless another has it."""
  try:
    if _read(address).get('program') == _program:
      buckets.remove(address)
  except errors.UserError as e:
    logging.warning('%s. The lease stays, and counts for %d seconds', e,
                    EXPIRES_SECONDS)


def _lease() -> bytes:
  return json.dumps({
      'program': _program, **_machine(), 'process': os.getpid(),
      'seconds': time.time(),
  }).encode()


def _read(address: str) -> dict[str, Any]:
  """The lease, or nothing."""
  try:
    read = json.loads(buckets.get_bytes(address))
  except FileNotFoundError:
    return {}
  except ValueError:
    return {'program': 'unknown'}
  return read if isinstance(read, dict) else {'program': 'unknown'}
