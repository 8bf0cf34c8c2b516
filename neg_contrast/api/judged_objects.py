"""Judgements in memory, of a dict, a list or a table; and ids as text."""

import collections
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from neg_contrast import errors
from neg_contrast.data.formats import files

# Of query, passage and grade in a table of judgements.
_JUDGED = (('query_id', 'query', 'qid'),
           ('corpus_id', 'passage_id', 'passage', 'corpus', 'document_id',
            'document', 'doc_id', 'docid', 'pid'),
           ('score', 'grade', 'relevance', 'label'))


def by_query(where: str, given: Any) -> dict[str, Any]:
  """Query id -> passage ids, or passage id -> grade.

  Args:
    where: what to call them in messages.
    given: judgements of a split, as `objects.write` takes them.

  Raises:
    UserError: they are not understood, or contradict each other.
  """
  if isinstance(given, Mapping):
    return by_id(where, given)
  if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
    raise errors.UserError(f'{where}: a dict or a list of pairs is needed, not '
                           f'{type(given).__name__}')
  found: dict[str, dict[Any, Any]] = {}
  for number, one in enumerate(_judged_rows(where, given)):
    one = one.tolist() if hasattr(one, 'tolist') else one  # Of an array.
    if not isinstance(one, (tuple, list)) or len(one) not in (2, 3):
      raise errors.UserError(
          f'{where}[{number}]: (query id, passage id) or (query id, passage '
          f'id, grade) is needed, not {one!r:.60}'
      )
    query, some, grade = (*one, 1)[:3]
    judged = found.setdefault(id_of(f'{where}[{number}]', query), {})
    some = some.tolist() if hasattr(some, 'tolist') else some
    for passage in some if isinstance(some, (tuple, list, set)) else (some,):
      id_of(f'{where}[{number}]', passage)
      if grade_of(where, judged.setdefault(passage, grade)) != (
          grade_of(where, grade)):
        raise errors.UserError(
            f'{where}[{number}]: passage {passage!r:.40} of query '
            f'{query!r:.40} was judged before, with another grade '
            f'({judged[passage]})'
        )
  return found


def _judged_rows(where: str, given: Iterable[Any]) -> Iterator[Any]:
  """Query id, passage id and perhaps a grade each, of a table or a list."""
  frame: Any = given
  if hasattr(given, 'itertuples'):  # A DataFrame.
    take = _columns(where, list(frame.columns))
    yield from map(take, frame.itertuples(index=False, name=None))
  elif hasattr(given, 'rows'):  # The same of polars.
    yield from map(_columns(where, list(frame.columns)), frame.rows())
  elif hasattr(given, 'to_dict') and hasattr(given, 'index'):  # A Series.
    yield from frame.items()
  else:
    for number, one in enumerate(given):
      if isinstance(one, Mapping):
        take = _columns(f'{where}[{number}]', list(one), are_names_needed=True)
        one = take(tuple(one.values()))
      yield one


def _columns(
    where: str, names: list[Any], are_names_needed: bool = False
) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
  """Query, passage and grade of a row: by the columns' names, or their order.

  Raises:
    UserError: of query and passage one is known by its name, at the other's
      place, or names are needed and not known.
  """
  known = [str(name).lower().replace('-', '_') for name in names]
  places = [next((place for place, name in enumerate(known) if name in some),
                 None) for some in _JUDGED]
  if not are_names_needed and places[:2] in ([None] * 2, [0, None], [None, 1]):
    return lambda row: row
  if places[0] is None or places[1] is None:
    raise errors.UserError(
        f'{where}: has {", ".join(map(str, names))}; name the query '
        '"query-id", the passage "corpus-id" and its grade "score"'
    )
  return lambda row: tuple(row[place] for place in places if place is not None)


def by_id(where: str, given: Mapping[Any, Any]) -> dict[str, Any]:
  """The values of ids as text.

  Raises:
    UserError: two ids are one text.
  """
  found = {id_of(where, key): value for key, value in given.items()}
  if len(found) < len(given):
    (twice, _), = collections.Counter(
        id_of(where, key) for key in given).most_common(1)
    raise errors.UserError(f'{where}: the id {twice!r} is there twice, as text '
                           'and as number')
  return found


def grade_of(where: str, value: Any) -> int:
  """A grade; of numpy and pandas, too.

  Raises:
    UserError: it is no whole number.
  """
  if hasattr(value, 'item'):
    value = value.item()
  value = _whole(value)
  grade = None if isinstance(value, bool) else files.parse_grade(str(value))
  if grade is None:
    raise errors.UserError(f'{where}: the grade {value!r:.40} is no whole '
                           'number; 0 is a known negative')
  return grade


def id_of(where: str, value: Any) -> str:
  """An id as text; of numpy and pandas the numbers too.

  Raises:
    UserError: it is neither text nor a whole number, or no file can hold it.
  """
  if hasattr(value, 'item'):
    value = value.item()
  value = _whole(value)
  if isinstance(value, bool) or not isinstance(value, (str, int)):
    raise errors.UserError(f'{where}: an id is text or a whole number, not '
                           f'{type(value).__name__}')
  name = str(value)
  if not name.strip() or not name.isprintable() or name != name.strip():
    raise errors.UserError(
        f'{where}: the id {name!r:.60} is empty, begins or ends with a space, '
        'or holds a tab, a line break or another character that is not printed'
    )
  return name


def _whole(value: Any) -> Any:
  """3 for 3.0: a column of pandas with a missing value has floats."""
  is_whole = isinstance(value, float) and value.is_integer()
  return int(value) if is_whole else value
