"""A stand-in for Amazon S3 on the loopback: moto, which holds it in memory."""

import logging
import socket
import threading
from typing import Any

from tests import bucket

_VARIABLE = 'AWS_ENDPOINT_URL'


class Server(bucket.StandIn):
  """A running one, with one bucket; it answers one request at a time."""

  address, variable = 's3://bucket', _VARIABLE
  needs = 'moto', 'flask_cors', 's3fs'
  package, retries = 's3fs', 's3fs.core'
  unreached = 'EndpointConnection'

  def __init__(self):
    from moto import backends
    from moto.moto_server import werkzeug_app
    from werkzeug import serving

    super().__init__()
    logging.getLogger('werkzeug').setLevel(logging.CRITICAL)
    backends.get_backend('s3').reset()
    self._app = werkzeug_app.DomainDispatcherApplication(
        werkzeug_app.create_backend_app)
    self._one = threading.Lock()
    self._server = serving.make_server(
        '127.0.0.1', 0, self._answer, threaded=True)
    self.url = f'http://127.0.0.1:{self._server.server_port}'
    self._thread = threading.Thread(target=self._server.serve_forever,
                                    args=(0.05,))
    self._thread.start()
    backends.get_backend('s3')['123456789012']['aws'].create_bucket(
        'bucket', 'us-east-1')

  def stop(self) -> None:
    self._server.shutdown()
    self._thread.join()
    self._server.server_close()

  def reads(self, method: str, path: str) -> bool:
    return method == 'GET' and 'list-type=' not in path

  def writes(self, method: str, path: str) -> bool:
    return method == 'PUT'

  def credentials(self) -> dict[str, str]:
    return {
        'AWS_ACCESS_KEY_ID': 'a', 'AWS_SECRET_ACCESS_KEY': 'test',
        'AWS_DEFAULT_REGION': 'us-east-1', 'AWS_MAX_ATTEMPTS': '1',
        'AWS_EC2_METADATA_DISABLED': 'true',
    }

  def _answer(self, environ: dict[str, Any], start: Any) -> Any:
    method, path = environ['REQUEST_METHOD'], environ['PATH_INFO']
    whole = f'{path}?{environ["QUERY_STRING"]}'
    self.asked.append((method, whole))
    trouble = self.trouble(method, whole)
    if trouble == 'refuse':
      start('403 Forbidden', [('Content-Type', 'application/xml')])
      return [] if method == 'HEAD' else [
          b'<Error><Code>AccessDenied</Code>'
          b'<Message>Access Denied</Message></Error>']
    is_half = trouble == 'break' and self.reads(method, whole)
    if trouble == 'break' and not is_half:
      environ['werkzeug.socket'].shutdown(socket.SHUT_RDWR)
      return []
    with self._one:
      body = b''.join(self._app(environ, start))
    if self.writes(method, whole):
      self.written.append(path.removeprefix('/bucket/'))
    return _half(body, environ['werkzeug.socket']) if is_half else [body]


def _half(body: bytes, connection: socket.socket) -> Any:
  yield body[:len(body) // 2]
  connection.shutdown(socket.SHUT_RDWR)
