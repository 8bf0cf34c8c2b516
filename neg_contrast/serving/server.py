"""Serves an application until a signal ends it."""

import asyncio
import signal
import socket
from collections.abc import Callable
from typing import Any

import uvicorn
from absl import logging
from starlette import types
from uvicorn.protocols.http import h11_impl

from neg_contrast import errors
from neg_contrast.serving import http_guard
from neg_contrast.settings import serve_settings


def bind(settings: serve_settings.ServeConfig) -> socket.socket:
  """A socket at the server's address.

  Raises:
    UserError: the address is none of this machine's, or is taken.
  """
  host, port = settings.host, settings.port
  try:
    family, _, _, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM
    )[0]
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
      made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
      # Its connections have it too. Head and body of an answer are two writes;
      # the second would wait 40 ms for the client's word that it has the first.
      made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
      made.bind(address)
    except OSError:
      made.close()
      raise
  except OSError as e:
    raise errors.UserError(
        f'{errors.key("serve.host")}={host!r}, {errors.key("serve.port")}='
        f'{port}: can\'t be listened at ({e.strerror}); name another port, or '
        '0 for any that is free'
    ) from e
  return made


def url_of(bound: socket.socket) -> str:
  """What to type into a browser."""
  host, port = bound.getsockname()[:2]
  return f'http://[{host}]:{port}' if ':' in host else f'http://{host}:{port}'


def serve(
    app: types.ASGIApp,
    bound: socket.socket,
    settings: serve_settings.ServeConfig,
    on_ready: Callable[[], None],
) -> None:
  """Serves until SIGTERM or SIGINT, then lets requests end.

  Args:
    app: the application.
    bound: what it listens at.
    settings: limits of connections and times.
    on_ready: called when clients can connect.
  """
  if not http_guard.is_loopback(settings.host):
    logging.warning('%s is reachable by other machines, and asks nobody for a '
                    'password', url_of(bound))
  server = _Server(uvicorn.Config(
      app, http=_protocol(settings), ws='none', lifespan='on',
      log_level='warning', access_log=False, server_header=False,
      limit_concurrency=settings.connections + 1,
      timeout_graceful_shutdown=max(1, round(settings.stop_seconds)),
  ), on_ready)
  # Uvicorn raises the signal again when it has stopped: that is a good end.
  before = {number: signal.signal(number, _ignore)
            for number in (signal.SIGTERM, signal.SIGINT)}
  try:
    asyncio.run(server.serve([bound]))
  finally:
    for number, handler in before.items():
      signal.signal(number, handler)


def _ignore(number: int, frame: Any) -> None:
  del number, frame


class _Server(uvicorn.Server):
  """Says when it is ready."""

  def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]):
    super().__init__(config)
    self._on_ready = on_ready

  async def startup(self, sockets: list[socket.socket] | None = None) -> None:
    """Listens."""
    await super().startup(sockets)
    if self.started:
      self._on_ready()


def _protocol(
    settings: serve_settings.ServeConfig
) -> type[h11_impl.H11Protocol]:
  """HTTP whose clients may not take for ever.

  Uvicorn limits how long a connection is idle, but neither how long the head
  of a request takes to arrive nor how long the answer takes to be read.
  """
  read_seconds = settings.read_seconds
  all_seconds = 2 * read_seconds + settings.answer_seconds

  class Protocol(h11_impl.H11Protocol):
    """Ends a connection whose client takes too long."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
      """Waits for the head of the first request."""
      super().connection_made(transport)
      self._limit(read_seconds)

    def data_received(self, data: bytes) -> None:
      """Once the head is there, waits for the rest of the exchange."""
      before = self.cycle
      super().data_received(data)
      if self.cycle is not before:
        self._limit(all_seconds)

    def on_response_complete(self) -> None:
      """Waits until the answer is read, and for the next request."""
      before = self.cycle
      super().on_response_complete()
      self._limit(
          read_seconds if self.cycle is before else all_seconds
      )

    def connection_lost(self, exc: Exception | None) -> None:
      """Waits for nothing."""
      if self._timer is not None:
        self._timer.cancel()
      super().connection_lost(exc)

    def _limit(self, seconds: float) -> None:
      if self._timer is not None:
        self._timer.cancel()
      self._timer = self.loop.call_later(seconds, self.transport.abort)

  return Protocol
