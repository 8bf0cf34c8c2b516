"""Tables of questions, as people have them: with passages, or with documents.

    csv:faq.csv
    csv:faq.csv?documents=handbook&question=Frage&document=Datei&test=0.1

A row is a question and what answers it: a text of its own, or the name of a
document. Documents are a folder of text files, or a table.
"""

import contextlib
import dataclasses
import functools
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from neg_contrast import errors
from neg_contrast.artifacts import places
from neg_contrast.data import records
from neg_contrast.data.formats import (
  column_tables,
  document_names,
  files,
  own_columns,
  text,
)
from neg_contrast.data.formats import given_pairs as pairs


class OwnData:
  """A table of (question, document) or (question, text).

  Columns are known by the names of `own_columns.USUAL`, or by those that the
  place gives (`?question=Frage`). A question that stands in several rows has
  several positives; `grade` 0 is a known negative. Without a column `split` a
  fifth of the questions, by a hash of their words, is the split `test`
  (`?test=0.1` for a tenth), and the others are `train`.
  """

  def __init__(self, kind: str, place: str, invalid: records.InvalidRecords):
    """Looks at the columns.

    Raises:
      UserError: a file or a column is missing.
    """
    spec = f'{kind}:{place}'
    table, _, asked = place.partition('?')
    self._spec, self._kind, self._invalid = spec, kind, invalid
    self._table = places.path(table)
    self._options = own_columns.parse(spec, asked)
    documents = places.path(self._options.documents)
    is_folder = bool(self._options.documents) and documents.is_dir()
    self._of_questions = set(own_columns.USUAL)
    if self._options.documents:
      self._of_questions -= set(own_columns.OF_DOCUMENTS)
    for holds in own_columns.OF_DOCUMENTS:
      if is_folder and self._options.columns.get(holds):
        raise errors.UserError(f'{spec}: {holds}= names a column of a table '
                               f'of documents, and {documents} is a folder')
    self._columns = own_columns.find(
        self._table, kind, self._options.columns, self._of_questions)
    self._need('question')
    self._need('document' if self._options.documents else 'text')
    self._documents: text.Text | None = None
    self._listed: tuple[pathlib.Path, str] | None = None
    own: tuple[pathlib.Path, ...] = ()
    if is_folder:
      self._documents = text.Text(str(documents), invalid)
      own = self._documents.files
    elif self._options.documents:
      listed = column_tables.kind_of(documents)
      if listed is None:
        raise errors.UserError(
            f'{spec}: {documents} is neither a folder nor a table '
            f'({", ".join("." + name for name in column_tables.KINDS)})'
        )
      self._listed = documents, listed
      for name in ('id', 'text'):
        if name not in self._of_documents:
          raise self._lack(documents, listed, name)
      own = (documents,)
    self.files = (*own, self._table)

  @functools.cached_property
  def splits(self) -> tuple[str, ...]:
    """Those that some question is of, in the order of the first ones."""
    found = dict[str, None]()
    for _, row in self._rows(files.unheard()):
      with contextlib.suppress(pairs.Unusable):
        name = files.content_id(_text(row, self._columns['question']))
        found[self._split_of(name, row)] = None
    return tuple(found)

  def passages(self) -> Iterator[records.Passage]:
    """The documents, or the texts of the rows."""
    if self._documents is not None:
      yield from self._documents.passages()
    elif self._listed is not None:
      columns = self._of_documents
      yield from pairs.read_each(
          column_tables.rows(*self._listed, self._invalid),
          lambda row, where: _document_of(
              row, columns, where, self._options.columns),
          self._invalid,
      )
    else:
      yield from pairs.read_each(
          self._rows(files.unheard()),
          lambda row, where: _passage(row, self._columns, where),
          files.unheard(),
      )

  def queries(self) -> Iterator[records.Query]:
    """Each question once, with the answers of all its rows."""
    if self._options.documents:
      self._names.check(self._rows(files.unheard()),
                        self._columns['document'], self._invalid)
    found: dict[str, records.Query] = {}
    for query in pairs.read_each(self._rows(self._invalid), self._query,
                                 self._invalid):
      known = found.get(query.id, query)
      answers = tuple(dict.fromkeys((*known.answers, *query.answers)))
      found[query.id] = dataclasses.replace(known, answers=answers)
    if not found:
      why = f'skipped: {self._invalid}' if self._invalid.counts else 'no rows'
      raise errors.UserError(f'{self._table}: no question can be used; {why}')
    yield from found.values()

  def judgements(self, split: str) -> Iterator[records.Judgement]:
    """A row each, of the questions of a split."""
    known: dict[tuple[str, str], int] = {}
    for where, row in self._rows(files.unheard()):
      try:
        name = files.content_id(_text(row, self._columns['question']))
        if self._split_of(name, row) != split:
          continue
        passage = (_document(row, self._columns['document'])
                   if self._options.documents
                   else _passage(row, self._columns, where).id)
        passage = self._names.id_of(passage)
        grade, weight = self._grade(row), _weight(row, self._columns)
      except pairs.Unusable:
        continue  # Told by `queries`.
      if known.setdefault((name, passage), grade) != grade:
        self._invalid.report('broken_record', where, 'the question and its '
                             f'document stand here with grade {grade}, and '
                             f'before with {known[name, passage]}')
      else:
        yield records.Judgement(name, passage, grade, where, weight=weight)

  def _rows(self, invalid: records.InvalidRecords) -> column_tables.Rows:
    return column_tables.rows(self._table, self._kind, invalid)

  def _query(self, row: dict[str, Any], where: str) -> records.Query:
    """Reads all of a row, so that its faults are told once.

    Raises:
      Unusable: it can't be read.
    """
    question = _text(row, self._columns['question'])
    if self._options.documents:
      _document(row, self._columns['document'])
    else:
      _passage(row, self._columns, where)
    self._grade(row)
    _weight(row, self._columns)
    name = files.content_id(question)
    self._split_of(name, row)
    own_columns.check_late(row, self._columns, self._options.columns, [
        one for one in own_columns.OPTIONAL if one in self._of_questions])
    return records.Query(name, question, tuple(column_tables.texts_of(
        own_columns.given(row, self._columns, 'answer'), 'answer')), where)

  def _grade(self, row: dict[str, Any]) -> int:
    """1, or what the column says; else `Unusable`."""
    return column_tables.grade_of(
        own_columns.given(row, self._columns, 'grade'),
        self._columns.get('grade', ''))

  def _split_of(self, name: str, row: dict[str, Any]) -> str:
    if 'split' in self._columns:
      return pairs.get_split(row, self._columns['split'])
    is_apart = files.place_of_id(name) < self._options.test
    return 'test' if is_apart else 'train'

  @functools.cached_property
  def _names(self) -> document_names.DocumentNames:
    if self._listed is not None:
      return document_names.DocumentNames(functools.partial(
          _ids, *self._listed, self._of_documents['id']))
    found = self._documents.files if self._documents is not None else ()
    folder = places.path(self._options.documents)
    names = [one.relative_to(folder).as_posix() for one in found]
    return document_names.DocumentNames(
        names.__iter__, folder.name if found else None)

  @functools.cached_property
  def _of_documents(self) -> dict[str, str]:
    """What columns of a table of documents hold -> their names there."""
    return {} if self._listed is None else own_columns.find(
        *self._listed, self._options.columns, own_columns.OF_DOCUMENTS)

  def _need(self, holds: str) -> None:
    if holds not in self._columns:
      raise self._lack(self._table, self._kind, holds)

  def _lack(self, path, kind, holds) -> errors.UserError:
    names = column_tables.columns(path, kind)
    other = ('; or name the documents: ?documents=FOLDER'
             if holds == 'text' and not self._options.documents else '')
    return errors.UserError(
        f'{path}: no column called {" or ".join(own_columns.USUAL[holds])}; '
        f'its columns are {", ".join(names) or "not to be read"}. Name the '
        f'one: "{self._spec}{"&" if "?" in self._spec else "?"}{holds}=COLUMN"'
        f'{other}'
    )


class OwnDataWithFeatures(OwnData):
  """The same, with columns beside text."""

  def side_feature(
      self, role: str, name: str
  ) -> Iterator[tuple[str, str, Any]]:
    """The column `query_NAME` of questions, or `passage_NAME` of their texts.

    Of documents in a table of their own, its column NAME.
    """
    read = self._name_of_query if role == 'query' else self._name_of_passage
    rows, column = self._rows(files.unheard()), f'{role}_{name}'
    if role == 'passage' and self._listed is not None:
      path, kind = self._listed
      rows, column = column_tables.rows(path, kind, files.unheard()), name
    elif role == 'passage' and self._documents is not None:
      return  # Text files have no columns.
    yield from pairs.read_each(
        rows, lambda row, where: (read(row), where, row.get(column)),
        files.unheard(),
    )

  def _name_of_query(self, row: dict[str, Any]) -> str:
    return files.content_id(_text(row, self._columns['question']))

  def _name_of_passage(self, row: dict[str, Any]) -> str:
    if self._listed is None:
      return _passage(row, self._columns, '').id
    return _document(row, self._of_documents['id'])


def _ids(path: pathlib.Path, kind: str, column: str) -> Iterator[str]:
  rows = column_tables.rows(path, kind, files.unheard())
  return (name for _, name in document_names.named(rows, column))


def _passage(
    row: dict[str, Any], columns: Mapping[str, str], where: str,
    name_column: str = '',
) -> records.Passage:
  title = _text(row, columns['title'], False) if 'title' in columns else ''
  content = _text(row, columns['text'], False)
  name = (_document(row, name_column) if name_column
          else files.content_id(title, content))
  return records.Passage(name, title, content, where=where)


def _document_of(
    row: dict[str, Any], columns: Mapping[str, str], where: str,
    asked: Mapping[str, str],
) -> records.Passage:
  """A row of a table of documents; else `Unusable`."""
  own_columns.check_late(row, columns, asked, ('title',))
  return _passage(row, columns, where, columns['id'])


def _weight(row: dict[str, Any], columns: Mapping[str, str]) -> float:
  """1, or what the column says.

  Raises:
    Unusable: that is no number.
  """
  value = own_columns.given(row, columns, 'weight')
  weight = 1.0 if value is None else files.parse_weight(str(value))
  if weight is None:
    raise pairs.Unusable(f'column "{columns["weight"]}" holds {value!r:.40}, '
                         'not a number')
  return weight


def _document(row: dict[str, Any], column: str) -> str:
  name = pairs.get_id(row, column)
  if not name:
    raise pairs.Unusable(f'column "{column}" is empty')
  return name


def _text(row: dict[str, Any], column: str, needed: bool = True) -> str:
  value = row.get(column)
  if value is not None and not isinstance(value, str):
    raise pairs.Unusable(f'column "{column}" holds {pairs.kind_of(value)}, not '
                         'text')
  if needed and not (value or '').strip():
    raise pairs.Unusable(f'column "{column}" is empty')
  return value or ''


def _format(kind: str, place: str) -> records.SourceFormat:
  opened: Callable[[str, records.InvalidRecords], records.Source] = (
      functools.partial(OwnDataWithFeatures, kind)
  )
  return records.SourceFormat(  # Documents may be a folder of text files.
      f'{kind}:{place}', opened, has_features=True,
      # 1: keys of later lines, empty cells. 2: answers are no passages.
      reading=text.READING + 2,
  )


FORMATS = tuple(_format(kind, f'faq.{kind}') for kind in column_tables.KINDS)
