"""Queries, passages and judgements in memory, as a folder that jobs read.

There is one reader: objects are written once, in BEIR's layout, into a folder
that is named by what they hold. What follows (preparing, training, resuming,
errors) is that of any `beir:` source, and the same objects are the same source.
"""

import hashlib
import json
import math
import numbers
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from neg_contrast import errors
from neg_contrast.api import judged_objects
from neg_contrast.artifacts import folders
from neg_contrast.data import records
from neg_contrast.data.formats import files, qrels

Row = dict[str, Any]
FOLDER = 'objects'
"""Of a workdir."""
_FORMAT = folders.Format('objects as a BEIR folder', 1)
_PASSAGE_KEYS = ('title', 'text', 'document_id')
_QUERY_KEYS = ('text', 'answers', 'left', 'right')
_ID_KEYS = ('id', '_id')


def write(
    root: pathlib.Path,
    passages: Any,
    queries: Any = (),
    splits: Mapping[str, Any] | None = None,
) -> str:
  """Writes objects below a folder, unless they are there already.

  Args:
    root: the folder.
    passages: id -> passage, or passages, whose ids are their places in the list
      unless they have some. A passage is a text, (title, text), a mapping with
      `title`, `text`, `document_id`, or a `records.Passage`. Of a DataFrame
      rows are such mappings; without a column `id` its index has the ids, as
      that of a Series.
    queries: id -> query, or queries. A query is a text, a mapping with `text`,
      `answers`, and `left` and `right` of a mention, or a `records.Query`.
    splits: name -> judgements: query id -> passage id, ids, or a mapping
      passage id -> grade; or (query id, passage id) or (query id, passage id,
      grade) each, with ids for one; or a table of these: columns are known by
      their names, such as `query-id`, `corpus-id` and `score`, or by their
      order if none is.

  Returns:
    `beir:FOLDER`.

  Raises:
    UserError: an object is none of these; says which one.
  """
  corpus = _rows('passages', passages, _passage)
  asked = _rows('queries', queries, _query)
  judged = {name: _judgements(name, some, asked, corpus)
           for name, some in (splits or {}).items()}
  texts = {'corpus.jsonl': _json_lines(corpus)}
  if asked:
    texts['queries.jsonl'] = _json_lines(asked)
  for name, lines in judged.items():
    texts[f'qrels/{name}.tsv'] = [qrels.header(), *lines]
  digest = hashlib.sha256()
  for name, lines in texts.items():
    digest.update(f'{name}\0'.encode())
    for line in lines:
      digest.update(line.encode('utf-8', 'surrogatepass'))
  folder = root / digest.hexdigest()[:16]
  if folders.read_manifest(folder, _FORMAT) is None:
    with folders.only_one(folder):
      if folders.read_manifest(folder, _FORMAT) is None:
        _write(folder, texts)
  return f'beir:{folder}'


def _write(folder: pathlib.Path, texts: Mapping[str, list[str]]) -> None:
  """Writes the lines of files, all of them or none."""
  counts = {name: len(lines) for name, lines in texts.items()}
  with folders.writing(folder, {'lines': counts}, format=_FORMAT) as scratch:
    for name, lines in texts.items():
      (scratch / name).parent.mkdir(exist_ok=True)
      with open(scratch / name, 'w', encoding='utf-8', newline='') as f:
        f.writelines(lines)


def held(given: Any) -> Any:
  """Objects that can be read twice: what an iterator gives, as a list."""
  return list(given) if isinstance(given, Iterator) else given


def set_apart(
    queries: Any, judgements: Any, share: Any
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
  """Judgements of some queries apart, by a hash of the words of each.

  It is the rule of `csv:` sources: it stays the same when queries are added.
  One query at least is apart, and one at least is not.

  Args:
    queries: as `write` takes them.
    judgements: likewise, of one split.
    share: of the queries.

  Returns:
    Judgements of the others, and those apart; query id -> as given.

  Raises:
    UserError: an object is not understood, fewer than two queries are judged,
      or the share is none.
  """
  if not isinstance(share, numbers.Real) or not 0 <= float(share) < 1:
    raise errors.UserError(f'test={share!r:.40}: is a share of the queries, '
                           'from 0 to below 1; `train` takes judgements, too')
  texts = {name: row.get('text', '') for name, row in
           _rows('queries', queries, _query).items()}
  by_query = judged_objects.by_query('judgements', judgements)
  if len(by_query) < 2:
    raise errors.UserError(
        f'judgements: {len(by_query)} queries have some; two are the fewest of '
        'which one can be set apart to test on. Give more, or test=JUDGEMENTS'
    )
  places = {
      name: files.place_of_id(files.content_id(texts.get(name, '')))
      for name in by_query
  }
  order = sorted(by_query, key=places.__getitem__)
  count = sum(place < float(share) for place in places.values())
  apart = set(order[: min(max(count, 1), len(order) - 1)])
  return ({name: judged for name, judged in by_query.items()
           if name not in apart},
          {name: by_query[name] for name in by_query if name in apart})


def _json_lines(rows: Mapping[str, Row]) -> list[str]:
  # ASCII: json can hold half of a surrogate pair, which the reader then tells.
  return [json.dumps({'_id': name, **row}) + '\n' for name, row in rows.items()]


def _rows(
    what: str, given: Any, parse: Callable[[str, Any], Row]
) -> dict[str, Row]:
  """Id -> row, in their order.

  Raises:
    UserError: one is not understood, or two have the same id.
  """
  if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
    raise errors.UserError(
        f'{what}: a dict or a list is needed, not {type(given).__name__}'
    )
  given = _of_frame(what, given)
  rows: dict[str, Row] = {}
  for where, name, one in _named(what, given):
    if name in rows:
      raise errors.UserError(f'{where}: the id {name!r} is there before; ids '
                             'are unique')
    rows[name] = parse(where, one)
  return rows


def _of_frame(what: str, given: Any) -> Any:
  """Rows of a DataFrame, or values of a Series, with the index as ids.

  A DataFrame with a column of ids has those, and one of polars has no index.

  Raises:
    UserError: the index has one twice.
  """
  if hasattr(given, 'to_dicts'):
    return given.to_dicts()
  if not (hasattr(given, 'to_dict') and hasattr(given, 'index')):
    return given
  columns = getattr(given, 'columns', None)
  rows = given if columns is None else given.to_dict('records')
  if columns is not None and any(key in columns for key in _ID_KEYS):
    return rows
  if not given.index.is_unique:
    raise errors.UserError(f'{what}: the index has an id twice; give a column '
                           '"id", or reset_index(drop=True)')
  return dict(zip(given.index, rows, strict=True))


def _named(what: str, given: Any) -> Iterator[tuple[str, str, Any]]:
  """(where, id, object) of each."""
  if isinstance(given, Mapping):
    for key, one in given.items():
      where = f'{what}[{key!r:.40}]'
      yield where, judged_objects.id_of(where, key), one
    return
  for number, one in enumerate(given):
    where, name = f'{what}[{number}]', str(number)
    if isinstance(one, Mapping):
      name = next((one[key] for key in _ID_KEYS if key in one), name)
    elif isinstance(one, (records.Passage, records.Query)):
      name = one.id
    yield where, judged_objects.id_of(where, name), one


def _passage(where: str, one: Any) -> Row:
  if isinstance(one, records.Passage):
    one = {key: getattr(one, key) for key in _PASSAGE_KEYS}
  elif isinstance(one, str):
    one = {'text': one}
  elif isinstance(one, (tuple, list)) and len(one) == 2:
    one = {'title': one[0], 'text': one[1]}
  elif not isinstance(one, Mapping):
    raise errors.UserError(
        f'{where}: a passage is a text, (title, text) or a dict with "title" '
        f'and "text", not {type(one).__name__}'
    )
  known = _known(where, one, _PASSAGE_KEYS)
  row = {key: known.get(key, '') for key in _PASSAGE_KEYS}
  if not isinstance(row['document_id'], str):
    row['document_id'] = judged_objects.id_of(
        f'{where}["document_id"]', row['document_id'])
  for key in _PASSAGE_KEYS:
    if not isinstance(row[key], str):
      raise errors.UserError(f'{where}: "{key}" is '
                             f'{type(row[key]).__name__}, not text')
  document = row.pop('document_id')
  return {**row, **({'metadata': {'document_id': document}} if document
                    else {})}


def _query(where: str, one: Any) -> Row:
  if isinstance(one, records.Query):
    left, right = one.context or (None, None)
    one = {'text': one.text, 'answers': list(one.answers), 'left': left,
           'right': right}
  elif isinstance(one, str):
    one = {'text': one}
  elif not isinstance(one, Mapping):
    raise errors.UserError(
        f'{where}: a query is a text or a dict with "text", not '
        f'{type(one).__name__}'
    )
  row = _known(where, one, _QUERY_KEYS)
  answers = _answers(where, row.get('answers', ()))
  for value in (row.get('text'), *answers):
    if not isinstance(value, str):
      raise errors.UserError(f'{where}: "text" and "answers" are text, not '
                             f'{type(value).__name__}')
  return {**row, **({'answers': answers} if answers else {})}


def _answers(where: str, given: Any) -> list[Any]:
  """One or several; SQuAD's, which have places beside `text`, too."""
  if isinstance(given, Mapping):
    given = given.get('text')
  if isinstance(given, str):
    return [given]
  if not isinstance(given, Iterable) or isinstance(given, Mapping):
    raise errors.UserError(f'{where}: "answers" is a text, texts, or a dict '
                           'with "text", which holds these')
  return list(given)


def _known(where: str, one: Mapping[str, Any], keys: tuple[str, ...]) -> Row:
  """The values of known keys, without those that are missing.

  Raises:
    UserError: there is another key, or none of them.
  """
  strange = [key for key in one if key not in keys and key not in _ID_KEYS]
  if strange or not any(key in one for key in keys):
    raise errors.UserError(
        f'{where}: has the keys {", ".join(map(str, one)) or "of nothing"}; '
        f'those of it are {", ".join(keys)}, and id'
    )
  return {key: one[key] for key in keys if not _is_missing(one.get(key))}


def _is_missing(value: Any) -> bool:
  """None, or NaN, which stands for it in columns of pandas."""
  return value is None or (isinstance(value, float) and math.isnan(value))


def _judgements(
    split: str, given: Any, queries: Mapping[str, Row],
    passages: Mapping[str, Row],
) -> list[str]:
  """The lines of a file of judgements.

  Raises:
    UserError: one is not understood, or judges what is not there.
  """
  lines = []
  what = f'judgements of the split "{split}"'
  for query, judged in judged_objects.by_query(what, given).items():
    where = f'judgements[{query!r:.40}]'
    if query not in queries:
      raise errors.UserError(
          f'{where}: no such query; queries are '
          f'{_some(queries) or "not given"}'
      )
    if isinstance(judged, str) or not isinstance(judged, Iterable):
      judged = [judged]
    if not isinstance(judged, Mapping):
      judged = dict.fromkeys(judged, 1)
    graded = judged_objects.by_id(where, judged)
    for passage, grade in sorted(graded.items()):  # Sets have no order.
      if passage not in passages:
        raise errors.UserError(f'{where}: no such passage as {passage!r:.40}; '
                               f'passages are {_some(passages) or "not given"}')
      lines.append(qrels.line(
          query, passage, judged_objects.grade_of(where, grade)))
  if not lines:
    raise errors.UserError(f'{what}: there are none')
  return lines


def _some(named: Mapping[str, Row]) -> str:
  """The first ids, for messages."""
  names = [repr(name)[:40] for _, name in zip(range(3), named, strict=False)]
  return ', '.join(names) + (' ...' if len(named) > 3 else '')
