"""Objects of a bucket: looked at, fetched, put and removed, each as a whole.

fsspec talks to the bucket, as etils' epath does for Orbax; it needs one more
package for each service. An object appears whole or not at all. What goes wrong
is one line that names the object.
"""

import contextlib
import dataclasses
import datetime
import errno
import io
import logging
import pathlib
import time
from collections.abc import Iterator
from typing import Any

from neg_contrast import errors

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_REFUSED = (401, 403)
# Errors of aiohttp, botocore and httpx, where nobody answers.
_NOBODY = 'ClientConnector', 'ConnectTimeout', 'ConnectError'
_UPLOADS = 3  # Of a file, until one is whole.
_TRUSTED_SECONDS = 10.0
_RANGE_BYTES = 1 << 22
_seen: dict[str, tuple[float, 'Found']] = {}  # Objects, and when.
# Who can't be reached, since when, and why: each try takes most of a minute.
_unreached: dict[str, tuple[float, Exception]] = {}
logging.getLogger('gcsfs').setLevel(logging.CRITICAL)  # All it says is raised.


@dataclasses.dataclass(frozen=True)
class _Service:
  """What users need to reach a service.

  Attributes:
    package: that knows it.
    install: what pip installs for it.
    log_in: the command that leaves credentials.
  """

  package: str
  install: str
  log_in: str


_SERVICES = {
    'gs': _Service('gcsfs', '-r launch/requirements-gcs.txt, or '
                   '"neg_contrast[gcs]"',
                   'gcloud auth application-default login'),
    's3': _Service('s3fs', '-r launch/requirements-s3.txt, or '
                   '"neg_contrast[s3]"', 'aws configure'),
    'hf': _Service('huggingface_hub', 'huggingface_hub', 'hf auth login'),
}


@dataclasses.dataclass(frozen=True)
class Found:
  """What lies at an address.

  Attributes:
    is_folder: whether it is only the beginning of other names.
    size: bytes of an object.
    version: changes when an object is written again.
    seconds: when it was written, since 1970.
    digest: what the bucket says of the bytes, by the name of what it says.
  """

  is_folder: bool
  size: int = 0
  version: str = ''
  seconds: float = 0.0
  digest: tuple[str, str] | None = None


@contextlib.contextmanager
def talking(address: str) -> Iterator[None]:
  """Says in one line what goes wrong with an object.

  Args:
    address: of the object.

  Raises:
    FileNotFoundError: there is no such object.
    UserError: the bucket refuses, the connection fails, or a package is
      missing.
  """
  scheme = address.partition('://')[0]
  since, why = _unreached.get(scheme, (-_TRUSTED_SECONDS, OSError()))
  if time.monotonic() - since < _TRUSTED_SECONDS:
    raise _failure(address, why)
  try:
    yield
  except (FileNotFoundError, errors.UserError):
    raise
  except ImportError as e:
    service = _SERVICES[scheme]
    raise errors.UserError(
        f'{address}: needs the package {service.package}: pip install '
        f'{service.install} ({e})') from None
  except Exception as e:  # Libraries of the network raise anything.
    if isinstance(e, OSError) and e.errno in _NO_SPACE:
      raise
    if any(type(one).__name__.startswith(_NOBODY) for one in (
        e, e.__context__)):  # Botocore's own says the same of other troubles.
      _unreached[scheme] = time.monotonic(), e
    raise _failure(address, e) from None


def look(address: str) -> Found | None:
  """What lies at an address; None: nothing. Raises as `talking`.

  An object that this process saw or wrote within `_TRUSTED_SECONDS` is taken
  for unchanged, where it is the only process of its program; that something is
  missing never is.
  """
  from neg_contrast import hosts  # It imports JAX, which workers do without.

  seen = _seen.get(address)
  if seen and time.monotonic() - seen[0] < _TRUSTED_SECONDS and (
      not hosts.are_several()):
    return seen[1]
  with talking(address):
    try:
      found = _look(address)
    except FileNotFoundError:
      found = None
  if found is None:
    _seen.pop(address, None)
    return None
  if not found.is_folder:
    _seen[address] = time.monotonic(), found
  return found


def _look(address: str) -> Found | None:
  """What lies there; by one request of gs://, where `info` makes two or three.

  Raises:
    FileNotFoundError: nothing does.
  """
  system = _system(address)
  scheme, _, key = address.rstrip('/').partition('://')
  bucket, _, name = key.partition('/')
  if scheme != 'gs' or not name:
    return _found(system.info(address))
  page = system.call('GET', 'b/{}/o', bucket, prefix=name, delimiter='/',
                     json_out=True)
  for facts in page.get('items', ()):
    if facts['name'] == name:
      return _found({'type': 'file', **facts})
  if f'{name}/' in page.get('prefixes', ()):
    return Found(True)
  # A page is full of others whose names begin in the same way.
  return _found(system.info(address)) if page.get('nextPageToken') else None


def names(address: str) -> list[str]:
  """Names in a folder, sorted; empty: no such folder. Raises as `talking`."""
  with talking(address):
    try:
      listed = _system(address).ls(address, detail=False)
    except (FileNotFoundError, NotADirectoryError):
      return []
  own = address.partition('://')[2].rstrip('/')
  return sorted({one.rstrip('/').rpartition('/')[2] for one in listed
                 if one.rstrip('/') != own})


def objects(address: str) -> dict[str, Found]:
  """Objects below a folder, by their paths in it. Raises as `talking`."""
  with talking(address):
    try:
      listed = _system(address).find(address, detail=True)
    except FileNotFoundError:
      return {}
  start = address.partition('://')[2].rstrip('/') + '/'
  return {name.lstrip('/').removeprefix(start): _found(facts)
          for name, facts in sorted(listed.items())
          if name.lstrip('/').startswith(start)
          and not name.endswith('/')}  # Consoles make those for folders.


def fetch(address: str, path: pathlib.Path) -> None:
  """Copies an object to a file, as a whole or with an error.

  Raises:
    FileNotFoundError: there is no such object.
    UserError: as `talking`, or fewer bytes came than the object has.
  """
  with talking(address):
    system = _system(address)
    size = system.info(address)['size']
    system.get_file(address, str(path))
    came = path.stat().st_size
    if came != size:
      raise errors.UserError(
          f'{address}: {came:,} of {size:,} bytes came before the connection '
          'broke; the same command goes on'
      )


def put(path: pathlib.Path, address: str) -> Found:
  """Copies a file to an object, which appears when it is whole.

  Of a file that another thread writes to, as TensorBoard's, it has at least
  what the file had before. One that came in part is put again.

  Raises:
    UserError: as `talking`, there is no such bucket, or it came in part
      whenever it was put.
  """
  for _ in range(_UPLOADS):
    least = path.stat().st_size
    with talking(address):
      try:
        _writable(address).put_file(str(path), address)
      except FileNotFoundError:
        raise _no_bucket(address) from None
      finally:
        _seen.pop(address, None)
    there = look(address)
    if there is not None and least <= there.size <= path.stat().st_size:
      return there
  raise errors.UserError(
      f'{address}: not whole after it was written; the same command goes on')


def put_bytes(content: bytes, address: str, is_new: bool = False) -> bool:
  """Writes an object.

  Args:
    content: of the object.
    address: where.
    is_new: only if there is none.

  Returns:
    Whether it was written.

  Raises:
    UserError: as `talking`, or there is no such bucket.
  """
  if is_new and look(address) is not None:
    return False
  with talking(address):
    try:
      _writable(address).pipe_file(
          address, content, mode='create' if is_new else 'overwrite')
    except FileExistsError:
      return False
    except FileNotFoundError:
      raise _no_bucket(address) from None
    finally:
      _seen.pop(address, None)
  return True


def get_bytes(address: str) -> bytes:
  """The content of an object; raises as `talking`."""
  with talking(address):
    return _system(address).cat_file(address)


def blocks(address: str, size: int) -> Iterator[bytes]:
  """An object in blocks of so many bytes, that no file keeps.

  Raises as `talking`; what is done with a block raises by itself.
  """
  with talking(address):
    stream = _system(address).open(address, 'rb')
  with stream:
    while True:
      with talking(address):
        block = stream.read(size)
      if not block:
        return
      yield block


def opened(address: str) -> io.BufferedReader:
  """An object, of which what is read comes in ranges and no file keeps it.

  Raises as `talking`, while it is read too.
  """
  with talking(address):
    return io.BufferedReader(_Ranges(address), _RANGE_BYTES)


class _Ranges(io.RawIOBase):
  """The bytes of an object."""

  def __init__(self, address: str):
    """Asks how long it is."""
    self._address = address
    self._stream = _system(address).open(
        address, 'rb', block_size=_RANGE_BYTES, cache_type='readahead')

  def readable(self) -> bool:
    """It is."""
    return True

  def seekable(self) -> bool:
    """It is."""
    return True

  def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
    """Moves to a byte."""
    return self._stream.seek(offset, whence)

  def tell(self) -> int:
    """The byte that comes next."""
    return self._stream.tell()

  def readinto(self, buffer: Any) -> int:
    """Reads what comes next; raises as `talking`."""
    with talking(self._address):
      data = self._stream.read(len(buffer))
    buffer[: len(data)] = data
    return len(data)


def remove(address: str) -> None:
  """Removes an object, if it is there; raises as `talking`."""
  _seen.pop(address, None)
  with talking(address), contextlib.suppress(FileNotFoundError):
    _writable(address).rm_file(address)


def _system(address: str) -> Any:
  """The file system of an address; it keeps no listings."""
  import fsspec

  return fsspec.core.url_to_fs(address, use_listings_cache=False)[0]


def _writable(address: str) -> Any:
  """The file system of an address that is written to.

  Raises:
    UserError: it is read only.
  """
  problem = errors.bucket_problem(address, is_written=True)
  if problem:
    raise errors.UserError(f'{address}: {problem}')
  return _system(address)


def _found(facts: dict[str, Any]) -> Found:
  if facts['type'] == 'directory':
    return Found(True)
  versions = 'generation', 'etag', 'ETag', 'md5Hash', 'blob_id', 'xet_hash'
  version = next((str(facts[key]) for key in versions if facts.get(key)), '')
  # Those of an upload in parts (S3's with a dash) change with the parts too.
  digest = next(((key, str(facts[key])) for key in (
      'md5Hash', 'crc32c', 'ETag', 'blob_id') if facts.get(key)), None)
  times = ('mtime', 'updated', 'LastModified')
  written: Any = next((facts[key] for key in times if facts.get(key)), None)
  if isinstance(written, str):
    written = datetime.datetime.fromisoformat(written)
  return Found(False, int(facts['size']), version,
               written.timestamp() if hasattr(written, 'timestamp') else 0.0,
               digest)


def _no_bucket(address: str) -> errors.UserError:
  bucket = '/'.join(address.split('/')[:3])
  return errors.UserError(f'{address}: there is no bucket {bucket}')


def _failure(address: str, e: Exception) -> errors.UserError:
  """One line about what a library of the network raised."""
  reason = ' '.join(str(e).split()) or type(e).__name__
  answer = getattr(e, 'response', None)  # Of the hub; botocore's is a dict.
  code = next((str(one) for one in (
      getattr(e, 'code', None), getattr(e, 'status', None),
      getattr(answer, 'status_code', None)) if one), '')
  is_refused = isinstance(e, PermissionError) or code in map(str, _REFUSED) or (
      any(word in reason.lower() for word in ('forbidden', 'credentials')))
  if is_refused:
    log_in = _SERVICES[address.partition('://')[0]].log_in
    return errors.UserError(
        f'{address}: the bucket refuses ({reason:.200}). Log in ({log_in}), or '
        'ask for the right to read and write objects'
    )
  return errors.Unreached(
      f'{address}: the connection failed ({type(e).__name__}: {reason:.200}); '
      'the same command goes on with what is finished'
  )
