"""Around the application: who may ask by which name, and what is measured."""

import time
from collections.abc import Callable, Collection

from starlette import datastructures, responses, types

_LOOPBACK = ('127.0.0.1', 'localhost', '[::1]')
_HEADERS = ((b'x-content-type-options', b'nosniff'),
            (b'referrer-policy', b'no-referrer'),
            (b'cache-control', b'no-store'))


def is_loopback(host: str) -> bool:
  """Whether only this machine reaches a host."""
  return host == '::1' or host == 'localhost' or host.startswith('127.')


class HttpGuard:
  """Refuses strange names of this machine, adds headers, and measures.

  A server at the loopback answers to the loopback's names alone: else a page
  of anybody could read it by a name of its own that leads here (DNS
  rebinding).
  """

  def __init__(
      self,
      app: types.ASGIApp,
      paths: Collection[str],
      host: str,
      on_request: Callable[[str, int, float], None],
  ):
    """Wraps an application.

    Args:
      app: the application.
      paths: that are measured by their names.
      host: that the server listens at.
      on_request: called with path, status and seconds of each request.
    """
    self._app, self._paths, self._on_request = app, paths, on_request
    self._names = {*_LOOPBACK, host} if is_loopback(host) else None

  async def __call__(
      self, scope: types.Scope, receive: types.Receive, send: types.Send
  ) -> None:
    """Serves a request."""
    if scope['type'] != 'http':
      await self._app(scope, receive, send)
      return
    began, status = time.monotonic(), 500

    async def send_with_headers(message: types.Message) -> None:
      nonlocal status
      if message['type'] == 'http.response.start':
        status = message['status']
        message['headers'] = [*message.get('headers', ()), *_HEADERS]
      await send(message)

    path = scope['path'] if scope['path'] in self._paths else 'other'
    try:
      await self._of(scope)(scope, receive, send_with_headers)
    finally:
      self._on_request(path, status, time.monotonic() - began)

  def _of(self, scope: types.Scope) -> types.ASGIApp:
    """What serves a request: the application, or a refusal."""
    host = datastructures.Headers(scope=scope).get('host', '')
    name = host.rpartition(':')[0] if not host.endswith(']') and (
        ':' in host) else host
    if self._names is None or name.lower() in self._names:
      return self._app
    return responses.JSONResponse(
        {'error': 'this server answers to the names of its own machine alone, '
         'such as 127.0.0.1; config.serve.host makes it reachable by others'},
        421,
    )
