"""Data sets of the Hugging Face hub, or a folder of their Parquet files.

    hf:sentence-transformers/natural-questions?text=answer
    hf:mteb/scifact
    hf:downloads/gooaq?text=answer&answer=

Either rows hold a question and what answers it, or there are three tables:
`corpus`, `queries`, and judgements (`qrels` or `default`), as BEIR, MTEB and
NanoBEIR have them.
"""

import dataclasses
import functools
import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from neg_contrast import errors
from neg_contrast.data import hub_snapshots, records
from neg_contrast.data.formats import column_tables, files
from neg_contrast.data.formats import given_pairs as pairs

_COLUMNS: Mapping[str, tuple[str, ...]] = {
    'question': ('question', 'query', 'anchor'),
    'text': ('text', 'passage', 'positive', 'positives', 'context', 'content'),
    'negative': ('negative', 'negatives'),
    'title': ('title',),
    'answer': ('answer', 'answers'),
    'id': ('_id', 'id'),
    'query_id': ('query-id', 'query_id', 'qid'),
    'passage_id': ('corpus-id', 'corpus_id', 'passage_id', 'doc_id', 'pid'),
    'grade': ('score', 'grade', 'relevance', 'label'),
}
"""What a column holds -> names that it is known by."""
Splits = dict[str, list[pathlib.Path]]  # Name -> files.
_CONFIG = 'config'
_CORPUS, _QUERIES, _JUDGEMENTS = 'corpus', 'queries', ('qrels', 'default')
_NUMBERED = re.compile(r'(?:hard_)?negatives?_\d+')
_CONVERTED = 'refs/convert/parquet'  # Where the hub keeps them of any data set.
_NAME = re.compile(r'[\w.-]+(/[\w.-]+)?')
_FILES = ('*.parquet',)


def open_hf(place: str, invalid: records.InvalidRecords) -> records.Source:
  """The reader of a data set.

  Args:
    place: its name on the hub or a folder, with options after a `?`.
    invalid: hears of records that can't be used.

  Raises:
    UserError: it can't be had, or its columns are not known.
  """
  name, _, asked = place.partition('?')
  options = _parse(place, asked)
  tables = _tables(locate(name), place)
  config = options.pop(_CONFIG, '')
  judged = next((one for one in _JUDGEMENTS if one in tables), '')
  if {_CORPUS, _QUERIES} <= tables.keys() and judged and not config:
    return _ThreeTables(place, tables, judged, options, invalid)
  if not config and len(tables) == 1:
    [config] = tables
  if config not in tables:
    raise errors.UserError(
        f'hf:{place}: has the configurations {", ".join(sorted(tables))}; '
        f'name one of them: hf:{name}?{_CONFIG}={min(tables)}'
    )
  return _Pairs(place, tables[config], options, invalid)


def locate(name: str) -> pathlib.Path:
  """The folder of a data set; what is no folder here is downloaded.

  Of a data set that is not stored as Parquet, the hub's own copy is taken that
  is.

  Raises:
    UserError: it can't be downloaded.
  """
  folder = pathlib.Path(name)
  if folder.is_dir():
    return folder
  if _NAME.fullmatch(name) is None:
    raise errors.UserError(
        f'hf:{name}: neither a folder here nor a name of the hub, such as '
        'hf:sentence-transformers/natural-questions'
    )
  return _cached(name) or _download(name)


def _cached(name: str) -> pathlib.Path | None:
  """The folder of an earlier download; None: there is none."""
  for revision in (None, _CONVERTED):
    found = hub_snapshots.cached(name, 'dataset', _FILES, revision)
    if found is not None and _has_tables(found):
      return found
  return None


def _download(name: str) -> pathlib.Path:
  """The folder of a download; raises as `locate`."""
  found = hub_snapshots.download(name, 'dataset', _FILES, scheme='hf:')
  return found if _has_tables(found) else hub_snapshots.download(
      name, 'dataset', _FILES, _CONVERTED, scheme='hf:'
  )


def _has_tables(folder: pathlib.Path) -> bool:
  return next(folder.rglob('*.parquet'), None) is not None


def is_here(place: str) -> bool:
  """Whether reading a place downloads nothing."""
  name = place.partition('?')[0]
  return (pathlib.Path(name).is_dir() or _NAME.fullmatch(name) is None
          or _cached(name) is not None)


def fetch(place: str) -> None:
  """Downloads a place; raises as `locate`."""
  locate(place.partition('?')[0])


def problem(place: str) -> str | None:
  """Why a place can't be downloaded now; None: the hub has it."""
  return hub_snapshots.problem(place.partition('?')[0], 'dataset', 'hf:')


def _parse(place: str, asked: str) -> dict[str, str]:
  """Column, or `config`, -> name.

  Raises:
    UserError: an option is not known.
  """
  options = {}
  for one in filter(None, asked.split('&')):
    key, equals, value = one.partition('=')
    if key not in (*_COLUMNS, _CONFIG) or not equals:
      raise errors.UserError(
          f'hf:{place}: "{one}" is none of {_CONFIG}=NAME, '
          + ', '.join(f'{name}=COLUMN' for name in _COLUMNS)
      )
    options[key] = value
  return options


def _tables(folder: pathlib.Path, place: str) -> dict[str, Splits]:
  """Configuration -> its splits.

  Files lie as `data/train-00000-of-00001.parquet`, with a folder for each
  configuration, or with folders of configuration and split.

  Raises:
    UserError: there are none.
  """
  found: dict[str, Splits] = {}
  for path in sorted(folder.rglob('*.parquet')):
    parts = path.relative_to(folder).parts
    split = files.split_of(path)
    if split == 'all' and len(parts) > 1:
      split = files.split_of(pathlib.Path(parts[-2]))
    is_split = len(parts) == 2 and files.split_of(
        pathlib.Path(parts[0])) != 'all'
    named = '' if len(parts) == 1 or parts[0] == 'data' or is_split else (
        parts[0])
    found.setdefault(named, {}).setdefault(split, []).append(path)
  if not found:
    raise errors.UserError(
        f'hf:{place}: {folder} holds no .parquet files; tables of other kinds '
        'are csv:FILE, tsv:FILE and jsonl:FILE'
    )
  return found


def _columns(
    place: str, path: pathlib.Path, options: Mapping[str, str],
    *needed: str,
) -> dict[str, str]:
  """What columns of a file hold -> their names there.

  Raises:
    UserError: a needed one is not known; says which there are.
  """
  names = column_tables.columns(path, 'parquet')
  found = {}
  for holds, known in _COLUMNS.items():
    asked = options.get(holds)
    if asked and asked.partition('/')[0] in names:
      found[holds] = asked
    elif asked is None and (some := [
        one for one in known if one in names and one not in options.values()
    ]):
      found[holds] = some[0]
  for holds in needed:
    if holds not in found:
      raise errors.UserError(
          f'hf:{place}: {path} has no column {options.get(holds) or holds}; '
          f'its columns are {", ".join(names)}. Say which holds the {holds}: '
          f'hf:{place}{"&" if "?" in place else "?"}{holds}=COLUMN'
      )
  return found


@dataclasses.dataclass(frozen=True)
class _Row:
  """A row of questions.

  Attributes:
    query: the question.
    positives: passages that answer it.
    negatives: passages that do not.
  """

  query: records.Query
  positives: list[records.Passage]
  negatives: list[records.Passage]


class _Pairs:
  """Rows of a question and texts; equal texts are one passage."""

  def __init__(
      self, place: str, splits: Splits, options: Mapping[str, str],
      invalid: records.InvalidRecords,
  ):
    """Looks at the columns; raises as `_columns`."""
    self._splits, self._invalid = splits, invalid
    self.splits = tuple(splits)
    self.files = tuple(path for some in splits.values() for path in some)
    self._columns = _columns(place, self.files[0], options, 'question', 'text')
    numbered = [] if 'negative' in options else [
        name for name in column_tables.columns(self.files[0], 'parquet')
        if _NUMBERED.fullmatch(name)]
    self._negatives = [*filter(None, [self._columns.get('negative')]),
                       *numbered]

  def passages(self) -> Iterator[records.Passage]:
    """Those of all rows."""
    for row in self._rows(*self.splits):
      yield from (*row.positives, *row.negatives)

  def queries(self) -> Iterator[records.Query]:
    """Each question once, with the answers of all its rows."""
    found: dict[str, records.Query] = {}
    for row in self._rows(*self.splits, is_first=True):
      known = found.get(row.query.id, row.query)
      answers = tuple(dict.fromkeys((*known.answers, *row.query.answers)))
      found[row.query.id] = dataclasses.replace(known, answers=answers)
    yield from found.values()

  def judgements(self, split: str) -> Iterator[records.Judgement]:
    """Of the questions of a split; what answers one is never its negative."""
    known: dict[tuple[str, str], records.Judgement] = {}
    for row in self._rows(split):
      for grade, some in ((0, row.negatives), (1, row.positives)):
        for passage in some:
          key = row.query.id, passage.id
          if grade or key not in known:
            known[key] = records.Judgement(*key, grade, row.query.where)
    yield from known.values()

  def _rows(self, *splits: str, is_first: bool = False) -> Iterator[_Row]:
    """Rows of some splits.

    Args:
      *splits: names.
      is_first: whether faults are reported.
    """
    invalid = self._invalid if is_first else files.unheard()
    for split in splits:
      for path in self._splits[split]:
        yield from pairs.read_each(
            column_tables.rows(path, 'parquet', invalid), self._row, invalid
        )

  def _row(self, row: dict[str, Any], where: str) -> _Row:
    get = functools.partial(_get, row, self._columns)
    question = _one_text(get('question'), self._columns['question'])
    title = get('title')
    title = title if isinstance(title, str) else ''
    passages = [
        records.Passage(files.content_id(title, text), title, text, where=where)
        for text in _texts(get('text'), self._columns['text'])
    ]
    if not passages:
      raise pairs.Unusable(f'column "{self._columns["text"]}" is empty')
    others = [
        records.Passage(files.content_id('', text), '', text, where=where)
        for name in self._negatives for text in _texts(
            _value(row, name), name)
    ]
    answers = _texts(get('answer'), self._columns.get('answer', ''))
    name = str(get('query_id') or get('id') or files.content_id(question))
    return _Row(records.Query(name, question, tuple(answers), where), passages,
                others)


class _ThreeTables:
  """A corpus, queries and judgements."""

  def __init__(
      self, place: str, tables: Mapping[str, Splits], judged: str,
      options: Mapping[str, str], invalid: records.InvalidRecords,
  ):
    """Looks at the columns; raises as `_columns`."""
    self._invalid, self._judged = invalid, tables[judged]
    self.splits = tuple(self._judged)
    self._corpus, self._queries = (
        [path for some in tables[name].values() for path in some]
        for name in (_CORPUS, _QUERIES)
    )
    self.files = (*self._corpus, *self._queries,
                  *(path for some in self._judged.values() for path in some))
    self._passage = _columns(place, self._corpus[0], options, 'id', 'text')
    self._query = _columns(place, self._queries[0], options, 'id', 'text')
    self._pair = _columns(place, self.files[-1], options, 'query_id',
                          'passage_id')

  def passages(self) -> Iterator[records.Passage]:
    """The corpus."""
    columns = self._passage
    for path in self._corpus:
      for where, row in column_tables.rows(path, 'parquet', self._invalid):
        get = functools.partial(_get, row, columns)
        yield records.Passage(
            str(get('id')), str(get('title') or ''), str(get('text') or ''),
            where=where,
        )

  def queries(self) -> Iterator[records.Query]:
    """All queries."""
    for path in self._queries:
      for where, row in column_tables.rows(path, 'parquet', self._invalid):
        yield records.Query(
            str(_get(row, self._query, 'id')),
            str(_get(row, self._query, 'text') or ''), where=where,
        )

  def judgements(self, split: str) -> Iterator[records.Judgement]:
    """Rows of the table of a split; without a grade they are positives."""
    for path in self._judged[split]:
      for where, row in column_tables.rows(path, 'parquet', self._invalid):
        get = functools.partial(_get, row, self._pair)
        value = get('grade')
        if isinstance(value, float) and value.is_integer():
          value = int(value)
        grade = 1 if value is None else files.parse_grade(str(value))
        if grade is None:
          self._invalid.report('broken_record', where, 'the grade is '
                               f'{value!r:.40}, not a whole number')
          continue
        yield records.Judgement(str(get('query_id')), str(get('passage_id')),
                                grade, where)


def _get(row: dict[str, Any], columns: Mapping[str, str], holds: str) -> Any:
  """The value of a column; None: there is no such column, or it is null."""
  return _value(row, columns[holds]) if holds in columns else None


def _value(row: Any, name: str) -> Any:
  """The value under `name`, or of `name/inner`."""
  for key in name.split('/'):
    row = row.get(key) if isinstance(row, dict) else None
  return row


def _texts(value: Any, column: str) -> list[str]:
  """One text or several; blank ones and null are none; else `Unusable`."""
  values = value if isinstance(value, list) else (
      [] if value is None else [value])
  return [text for text in pairs.as_texts(values, column) if text.strip()]


def _one_text(value: Any, column: str) -> str:
  if not isinstance(value, str) or not value.strip():
    raise pairs.Unusable(f'column "{column}" is empty' if not value else
                         f'column "{column}" holds {pairs.kind_of(value)}, not '
                         'text')
  return value


FORMAT = records.SourceFormat(
    'hf:mteb/scifact', open_hf, is_here=is_here, fetch=fetch, problem=problem
)
