"""An emulator of Google Cloud Storage on the loopback, as a bucket for tests.

It serves from memory, in this process, one request at a time. Conditions on the
generation of an object, which the emulator ignores, are added. `trouble` makes
it refuse, or break connections in the middle. `s3_bucket.py` has that of S3.
"""

import asyncio
import contextlib
import functools
import http.server
import importlib
import io
import json
import logging
import os
import pathlib
import re
import socket
import time
import types
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from neg_contrast.artifacts import buckets

BUCKET = 'gs://bucket'
_LAST_LINE = re.compile(rb'\n(--[^\n]*--)\Z')  # Of a multipart body.
_QUIET = ('gcp_storage_emulator', 'gcsfs')

Trouble = Callable[[str, str], str]
"""(method, path with query) -> '' (none), 'refuse' or 'break'."""


def free_port() -> int:
  with socket.socket() as s:
    s.bind(('127.0.0.1', 0))
    return s.getsockname()[1]


class StandIn:
  """A service on the loopback.

  Attributes:
    address: of its one bucket.
    variable: names its URL to programs.
    needs: packages, without which it is skipped.
    package: that fsspec reaches it with; `retries` is the module that waits
      before it tries again.
    unreached: begins the name of the error where nobody listens.
    url: of its API.
    trouble: what goes wrong with a request, by default nothing.
    asked: (method, path) of all requests.
    written: names of objects, as often as they were put.
  """

  address: str
  variable: str
  needs: tuple[str, ...]
  package: str
  retries: str
  unreached: str
  url: str

  def __init__(self):
    self.trouble: Trouble = lambda method, path: ''
    self.asked: list[tuple[str, str]] = []
    self.written: list[str] = []

  def environment(self, cache: pathlib.Path) -> dict[str, str]:
    """What lets programs find it."""
    return {self.variable: self.url, **self.credentials(),
            'NEG_CONTRAST_CACHE': str(cache)}

  def credentials(self) -> dict[str, str]:
    """What programs need beside its URL."""
    raise NotImplementedError

  def reads(self, method: str, path: str) -> bool:
    """Whether a request asks for the bytes of an object."""
    raise NotImplementedError

  def writes(self, method: str, path: str) -> bool:
    """Whether a request brings bytes of an object."""
    raise NotImplementedError

  def leave_out_pauses(self, patch: pytest.MonkeyPatch) -> None:
    """Lets this process give up, or try again, at once."""
    async def no_pause(_):
      await asyncio.sleep(0)

    patch.setattr(
        importlib.import_module(self.retries), 'asyncio',
        types.SimpleNamespace(**{**vars(asyncio), 'sleep': no_pause}))

  def stop(self) -> None:
    """Listens no more."""
    raise NotImplementedError

  def forget(self) -> None:
    """Lets this process read the environment again."""
    import fsspec

    fsspec.get_filesystem_class(
        self.address.partition(':')[0]).clear_instance_cache()


class Emulator(StandIn):
  """A running one of Google Cloud Storage."""

  address, variable = BUCKET, 'STORAGE_EMULATOR_HOST'
  needs = 'gcp_storage_emulator', 'gcsfs'
  package, retries = 'gcsfs', 'gcsfs.retry'
  unreached = 'ClientConnector'

  def __init__(self):
    from gcp_storage_emulator import server

    super().__init__()
    for name in _QUIET:
      logging.getLogger(name).setLevel(logging.CRITICAL)
    port = free_port()
    self.url = f'http://127.0.0.1:{port}'
    self._theirs = server.RequestHandler  # The server takes it by its name.
    server.RequestHandler = type(
        'Handler', (_Handler, self._theirs), {'emulator': self})
    self._server = server.create_server(
        '127.0.0.1', port, in_memory=True, default_bucket='bucket')
    storage = self._server._storage
    # It would write a list of all objects after each change, for a next start.
    storage._write_config_to_file = lambda: None
    create = storage.create_file
    storage.create_file = lambda bucket, name, *rest: (
        self.written.append(name), create(bucket, name, *rest))[1]
    self._server.start()
    time.sleep(0.05)

  def stop(self) -> None:
    from gcp_storage_emulator import server

    server.RequestHandler = self._theirs
    self._server.stop()

  def credentials(self) -> dict[str, str]:
    return {'TENSORSTORE_GCS_HTTP_URL': self.url,
            'GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT': 'false'}

  def reads(self, method: str, path: str) -> bool:
    return 'alt=media' in path

  def writes(self, method: str, path: str) -> bool:
    return method == 'POST' and '/upload/' in path


class _Handler(http.server.BaseHTTPRequestHandler):
  """Stands before the emulator's handler of requests; logs nothing.

  Attributes:
    emulator: says which requests get into trouble.
    storage: of the emulator, with all objects.
  """

  emulator: Emulator
  storage: Any

  def _handle(self, method: str) -> None:
    self.emulator.asked.append((method, self.path))
    trouble = self.emulator.trouble(method, self.path)
    if trouble == 'refuse':
      self._say(403, b'{"error": {"code": 403, "message": "Forbidden"}}')
    elif trouble == 'break':
      self.send_response(200)
      self.send_header('Content-Length', '1000000')
      self.end_headers()
      self.wfile.write(b'half')
      self.wfile.flush()
      self.connection.shutdown(socket.SHUT_RDWR)
    else:
      with contextlib.suppress(ConnectionError):  # Of a client that left.
        self._answer(method)

  def _answer(self, method: str) -> None:
    """With generations of objects, which TensorStore relies on."""
    from gcp_storage_emulator import server

    url = urllib.parse.urlsplit(self.path)
    query = dict(urllib.parse.parse_qsl(url.query))
    name = urllib.parse.unquote(url.path.partition('/o/')[2])
    if method == 'POST':
      name = query.get('name') or self._name_in_body()
    there = self._generation_of(name) if name else '0'
    self._generation = there if query.get('alt') == 'media' else '0'
    wanted, known = (query.get(f'ifGeneration{kind}', there)
                     for kind in ('Match', 'NotMatch'))
    if wanted != there:
      self._skip(412)
    elif 'ifGenerationNotMatch' in query and known == there != '0':
      self._skip(304)
    else:
      server.Router(self).handle(method)

  def _name_in_body(self) -> str:
    """Of what is uploaded with what is said of it; leaves the body."""
    body = self.rfile.read(int(self.headers.get('Content-Length') or 0))
    # The emulator takes a last CR of an object for a part of the line's end.
    body = _LAST_LINE.sub(rb'\r\n\1', body)
    self.headers.replace_header('Content-Length', str(len(body)))
    self.rfile = io.BytesIO(body)
    name = re.search(rb'"name": *("(?:[^"\\]|\\.)*")', body)
    return json.loads(name[1]) if name else ''

  def _generation_of(self, name: str) -> str:
    from gcp_storage_emulator import exceptions

    with contextlib.suppress(exceptions.NotFound):
      return self.storage.get_file_obj('bucket', name)['generation']
    return '0'

  def _skip(self, status: int) -> None:
    """Leaves a request's body unused."""
    self.rfile.read(int(self.headers.get('Content-Length') or 0))
    self._say(status)

  def _say(self, status: int, body: bytes = b'') -> None:
    self.send_response(status)
    self.send_header('Content-Type', 'application/json')
    self.send_header('Content-Length', str(len(body)))
    self.end_headers()
    self.wfile.write(body)

  def end_headers(self) -> None:
    if getattr(self, '_generation', '0') != '0':
      self.send_header('x-goog-generation', self._generation)
    super().end_headers()

  do_GET = functools.partialmethod(_handle, 'GET')
  do_POST = functools.partialmethod(_handle, 'POST')
  do_DELETE = functools.partialmethod(_handle, 'DELETE')
  do_PUT = functools.partialmethod(_handle, 'PUT')
  do_PATCH = functools.partialmethod(_handle, 'PATCH')

  def log_message(self, *_) -> None:
    pass


@contextlib.contextmanager
def running(
    cache: pathlib.Path, kind: type[StandIn] = Emulator
) -> Iterator[StandIn]:
  """A bucket, and the environment that leads to it."""
  for name in kind.needs:
    pytest.importorskip(name)
  emulator = kind()
  try:
    with pytest.MonkeyPatch.context() as patch:
      for name, value in emulator.environment(cache).items():
        patch.setenv(name, value)
      emulator.forget()
      buckets._seen.clear()
      buckets._unreached.clear()
      yield emulator
  finally:
    emulator.stop()
    emulator.forget()


def upload(folder: pathlib.Path, address: str) -> None:
  """Copies a folder into the bucket."""
  import fsspec

  system = fsspec.core.url_to_fs(address, use_listings_cache=False)[0]
  for file in sorted(folder.rglob('*')):
    if file.is_file():
      system.put_file(str(file), f'{address}/{os.path.relpath(file, folder)}')


def names(address: str) -> list[str]:
  """Objects below a folder."""
  import fsspec

  system = fsspec.core.url_to_fs(address, use_listings_cache=False)[0]
  start = address.partition('://')[2] + '/'
  return sorted(name.removeprefix(start) for name in system.find(address))
