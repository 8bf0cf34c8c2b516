"""The web application: paths, and what is answered there."""

import asyncio
import contextlib
import functools
import http
import time
from collections.abc import Callable, Sequence
from typing import Any

from absl import logging
from starlette import applications, exceptions, middleware, routing
from starlette import requests as starlette_requests
from starlette.responses import HTMLResponse, JSONResponse, Response

from neg_contrast.retrieval import finding
from neg_contrast.serving import (
  batching,
  client_requests,
  http_guard,
  search_page,
  server_metrics,
)
from neg_contrast.settings import serve_settings

_MOST_UNUSED_BYTES = 1 << 26  # Of a body that is refused.
_LEFT = 499  # As nginx has it: nobody reads the answer.
_Web = starlette_requests.Request


class WebApp:
  """Answers requests of HTTP in batches.

  Attributes:
    app: the ASGI application.
  """

  def __init__(
      self,
      answer: Callable[[Sequence[client_requests.Request]], Sequence[Any]],
      about: search_page.About,
      settings: serve_settings.ServeConfig,
      metrics: server_metrics.ServerMetrics,
  ):
    """Answers nothing yet.

    Args:
      answer: as `answering.Answerer`.
      about: what is served.
      settings: limits, and how batches are made.
      metrics: counted in.
    """
    self._about, self._settings, self._metrics = about, settings, metrics
    self._reader = client_requests.Reader(settings, about.depth)
    self._batcher = batching.Batcher(
        answer, settings.wait_seconds, settings.batch_texts,
        settings.waiting_texts, metrics.on_batch,
    )
    metrics.waiting.set_function(self._batcher.count_waiting)
    routes = [
        routing.Route('/', self._page, methods=['GET']),
        routing.Route('/search', self._search, methods=['GET', 'POST']),
        routing.Route('/encode', self._encode, methods=['POST']),
        routing.Route('/health', self._health, methods=['GET']),
        routing.Route('/metrics', self._show_metrics, methods=['GET']),
    ]
    self.app = applications.Starlette(
        routes=routes,
        lifespan=self._lifespan,
        exception_handlers={
            client_requests.Refused: _refuse,
            exceptions.HTTPException: _refuse,
            starlette_requests.ClientDisconnect: self._let_go,
            Exception: _fail,
        },
        middleware=[middleware.Middleware(
            http_guard.HttpGuard, paths={route.path for route in routes},
            host=settings.host, on_request=metrics.on_request,
        )],
    )

  @contextlib.asynccontextmanager
  async def _lifespan(self, app: applications.Starlette):
    del app
    async with self._batcher.running():
      yield

  async def _page(self, web: _Web) -> Response:
    query = web.query_params.get('query', '')
    show = functools.partial(search_page.render, self._about, query)
    status, began = 200, time.monotonic()
    try:
      if not web.query_params:
        text = show()
      else:
        given = [(name, value) for name, value
                 in web.query_params.multi_items() if name != 'match']
        asked = self._reader.search_from_query_string(
            [*given, ('match', '1')]  # The page shows it to everybody.
        )
        if len(asked.queries) > 1:
          raise client_requests.Refused(400, 'one query at a time, here')
        found = await self._answer(web, asked)
        text = show(depth=asked.depth, hits=found[0],
                    seconds=time.monotonic() - began)
    except client_requests.Refused as e:
      status, text = e.status, show(error=e.message)
    return HTMLResponse(text, status, {
        'Content-Security-Policy': search_page.policy(),
    })

  async def _search(self, web: _Web) -> Response:
    asked = (
        self._reader.search_from_json(await self._body(web))
        if web.method == 'POST' else
        self._reader.search_from_query_string(web.query_params.multi_items())
    )
    found = await self._answer(web, asked)
    return JSONResponse({'results': [
        {'query': query,
         'hits': [_to_json(rank, hit, asked.with_match)
                  for rank, hit in enumerate(hits, 1)]}
        for query, hits in zip(asked.queries, found, strict=True)
    ]})

  async def _encode(self, web: _Web) -> Response:
    asked = self._reader.encode_from_json(await self._body(web))
    vecs = await self._answer(web, asked)
    return JSONResponse({'role': asked.role, 'vectors': vecs.tolist()})

  async def _health(self, web: _Web) -> Response:
    del web
    about = self._about
    return JSONResponse({
        'status': 'ok', 'model': about.model, 'corpus': about.corpus,
        'passages': about.passages,
    })

  async def _show_metrics(self, web: _Web) -> Response:
    del web
    return Response(self._metrics.text(),
                    media_type=server_metrics.CONTENT_TYPE)

  async def _body(self, web: _Web) -> bytes:
    """The body of a request, read within the limits.

    Raises:
      Refused: it is too large, or comes too slowly.
    """
    most, seconds = self._settings.body_bytes, self._settings.read_seconds
    too_large = client_requests.Refused(
        413, f'the body may have {most} bytes, and not more'
    )
    length = web.headers.get('content-length', '')
    said = int(length[:19]) if length.isdigit() else 0
    if said > _MOST_UNUSED_BYTES or said > most and 'expect' in web.headers:
      raise too_large
    # A client that still sends when the connection is closed sees no answer.
    parts, size = [], 0
    try:
      async with asyncio.timeout(seconds):
        async for part in web.stream():
          size += len(part)
          if size <= most:
            parts.append(part)
          elif size > _MOST_UNUSED_BYTES:
            raise too_large
    except TimeoutError:
      if size <= most:
        raise client_requests.Refused(
            408, f'the body did not arrive within {seconds:g} seconds'
        ) from None
    if size > most:
      raise too_large
    return b''.join(parts)

  async def _answer(self, web: _Web, asked: client_requests.Request) -> Any:
    """The answer of a batch, while the client waits for it.

    Raises:
      ClientDisconnect: it does not.
      Refused: too many do, or it takes too long.
    """
    seconds = self._settings.answer_seconds
    answer = asyncio.ensure_future(self._batcher.submit(asked))
    left = asyncio.ensure_future(_until_left(web))
    try:
      done, _ = await asyncio.wait(
          (answer, left), timeout=seconds,
          return_when=asyncio.FIRST_COMPLETED,
      )
      if answer in done:
        return answer.result()
      if left in done:
        raise starlette_requests.ClientDisconnect
      raise client_requests.Refused(
          503, f'no answer within {seconds:g} seconds; try again later'
      )
    finally:
      answer.cancel()
      left.cancel()

  async def _let_go(self, web: _Web, error: Exception) -> Response:
    del web, error
    self._metrics.on_disconnect()
    return Response(status_code=_LEFT)


async def _until_left(web: _Web) -> None:
  """Returns when the client is gone; its body was read."""
  while not await web.is_disconnected():
    message = await web.receive()
    if message['type'] == 'http.disconnect':
      return


async def _refuse(web: _Web, error: Exception) -> Response:
  """One line of JSON for what a client did wrong."""
  del web
  assert isinstance(error, client_requests.Refused | exceptions.HTTPException)
  headers = dict(getattr(error, 'headers', None) or {})
  if isinstance(error, client_requests.Refused):
    status, message = error.status, error.message
    if status in (408, 413):  # What it still sends is no request.
      headers['Connection'] = 'close'
    if status == 503:
      headers['Retry-After'] = '1'
  else:
    status = error.status_code
    message = http.HTTPStatus(status).phrase.lower()
  return JSONResponse({'error': message}, status, headers)


async def _fail(web: _Web, error: Exception) -> Response:
  """What a client is told about our own mistake."""
  logging.error('%s %s: %s', web.method, web.url.path, error)
  return JSONResponse({'error': 'the server failed; its log says why'}, 500)


def _to_json(
    rank: int, hit: finding.Found, with_match: bool
) -> dict[str, Any]:
  passage = hit.passage
  made = {
      'rank': rank, 'score': hit.score, 'id': passage.id,
      'title': passage.title, 'text': passage.text,
  }
  if passage.document_id:
    made['document_id'] = passage.document_id
  if with_match:
    made['match'] = list(hit.match)
  return made
