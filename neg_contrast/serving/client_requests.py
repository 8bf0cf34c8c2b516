"""What clients ask for: read from JSON or a query string, and checked."""

import dataclasses
import json
from collections.abc import Iterable
from typing import Any

from neg_contrast.settings import serve_settings

_TRUE, _FALSE = ('1', 'true', 'on'), ('', '0', 'false', 'off')


class Refused(Exception):
  """A request that is not answered.

  Attributes:
    status: of HTTP.
    message: one line, for the client.
  """

  def __init__(self, status: int, message: str):
    """Keeps both."""
    super().__init__(message)
    self.status, self.message = status, message


@dataclasses.dataclass(frozen=True)
class SearchRequest:
  """Passages are wanted.

  Attributes:
    queries: none is blank.
    depth: passages for each.
    with_match: whether the matching part of each passage is wanted, too.
  """

  queries: tuple[str, ...]
  depth: int
  with_match: bool = False

  @property
  def size(self) -> int:
    """Texts to encode."""
    return len(self.queries)


@dataclasses.dataclass(frozen=True)
class EncodeRequest:
  """Vectors are wanted.

  Attributes:
    role: `query` or `passage`.
    texts: (title, text) of each; queries have no title.
  """

  role: str
  texts: tuple[tuple[str, str], ...]

  @property
  def size(self) -> int:
    """Texts to encode."""
    return len(self.texts)


Request = SearchRequest | EncodeRequest


@dataclasses.dataclass(frozen=True)
class Reader:
  """Reads requests.

  Attributes:
    limits: what a request may ask for.
    depth: passages for a query, unless the request says otherwise.
  """

  limits: serve_settings.ServeConfig
  depth: int

  def search_from_query_string(
      self, values: Iterable[tuple[str, str]]
  ) -> SearchRequest:
    """The request of `?query=a&query=b&depth=5&match=1`.

    Raises:
      Refused: a name or a value is not understood, or exceeds a limit.
    """
    read: dict[str, Any] = {}
    queries = []
    for name, value in values:
      _refuse_others({name: value}, ('query', 'depth', 'match'))
      if name == 'query':
        queries.append(value)
      elif name in read:
        raise Refused(400, f'{name}: is given twice')
      elif name == 'match':
        if value.lower() not in (*_TRUE, *_FALSE):
          raise Refused(400, f'match: must be 0 or 1, not {_short(value)}')
        read[name] = value.lower() in _TRUE
      elif name == 'depth' and value.isascii() and value.isdigit() and (
          len(value) < 10
      ):
        read[name] = int(value)
      else:
        read[name] = value
    return self._search({**read, 'queries': queries})

  def search_from_json(self, body: bytes) -> SearchRequest:
    """The request of `{"queries": ["a", "b"], "depth": 5, "match": true}`.

    `{"query": "a"}` stands for a list of one.

    Raises:
      Refused: it is no such JSON, or exceeds a limit.
    """
    return self._search(_one_or_more(_object(body), 'query', 'queries'))

  def encode_from_json(self, body: bytes) -> EncodeRequest:
    """The request of `{"queries": [...]}` or `{"passages": [...]}`.

    A passage is a text, or `{"title": "...", "text": "..."}`.

    Raises:
      Refused: it is no such JSON, or exceeds a limit.
    """
    values = _one_or_more(_object(body), 'query', 'queries')
    _refuse_others(values, ('queries', 'passages'))
    if len(values) != 1:
      raise Refused(400, 'one of "queries" and "passages" is needed')
    if 'queries' in values:
      queries = self._queries(values['queries'])
      return EncodeRequest('query', tuple(('', text) for text in queries))
    passages = self._list('passages', values['passages'])
    return EncodeRequest('passage', tuple(map(_passage, passages)))

  def _search(self, values: dict[str, Any]) -> SearchRequest:
    _refuse_others(values, ('queries', 'depth', 'match'))
    depth = values.get('depth', min(self.depth, self.limits.most_depth))
    if type(depth) is not int or not 1 <= depth <= self.limits.most_depth:
      raise Refused(400, 'depth: must be a whole number from 1 to '
                    f'{self.limits.most_depth}, not {_short(depth)}')
    with_match = values.get('match', False)
    if type(with_match) is not bool:
      raise Refused(400, f'match: must be true or false, not '
                    f'{_short(with_match)}')
    queries = self._queries(values.get('queries', []))
    return SearchRequest(queries, depth, with_match)

  def _queries(self, values: Any) -> tuple[str, ...]:
    queries = self._list('queries', values)
    most = self.limits.most_characters
    for number, query in enumerate(queries, 1):
      _check_text(f'query {number}', query)
      if not query.strip():
        raise Refused(400, f'query {number}: is blank; ask something')
      if len(query) > most:
        raise Refused(400, f'query {number}: has {len(query)} characters, and '
                      f'at most {most} are read')
    return tuple(queries)

  def _list(self, name: str, values: Any) -> list[Any]:
    if not isinstance(values, list) or not values:
      raise Refused(400, f'{name}: one text or more are needed')
    if len(values) > self.limits.most_texts:
      raise Refused(400, f'{name}: {len(values)} texts, and at most '
                    f'{self.limits.most_texts} are taken at once')
    return values


def _object(body: bytes) -> dict[str, Any]:
  try:
    values = json.loads(body)
  except (ValueError, RecursionError):
    raise Refused(400, 'the body is not JSON in UTF-8') from None
  if not isinstance(values, dict):
    raise Refused(400, 'the body must be a JSON object, {...}')
  return values


def _one_or_more(
    values: dict[str, Any], one: str, several: str
) -> dict[str, Any]:
  """The same, a single text as a list."""
  if one not in values:
    return values
  if several in values:
    raise Refused(400, f'"{one}" and "{several}" are both given')
  others = {name: value for name, value in values.items() if name != one}
  return {**others, several: [values[one]]}


def _refuse_others(values: dict[str, Any], known: tuple[str, ...]) -> None:
  for name in values:
    if name not in known:
      raise Refused(400, f'unknown key {_short(name)}; known are '
                    f'{", ".join(known)}')


def _passage(value: Any) -> tuple[str, str]:
  if isinstance(value, dict):
    _refuse_others(value, ('title', 'text'))
    if not value:
      raise Refused(400, 'passage: has neither "title" nor "text"')
    title, text = value.get('title', ''), value.get('text', '')
    _check_text('title', title)
  else:
    title, text = '', value
  _check_text('passage', text)
  return title, text


def _check_text(name: str, value: Any) -> None:
  if not isinstance(value, str):
    raise Refused(400, f'{name}: must be a text, not {_short(value)}')
  try:
    value.encode()
  except UnicodeEncodeError:  # Half of a pair, which JSON can write.
    raise Refused(400, f'{name}: holds half a character (a lone surrogate)'
                  ) from None


def _short(value: Any) -> str:
  """A value as it may stand in one line of ASCII."""
  return f'{ascii(value):.60}'
