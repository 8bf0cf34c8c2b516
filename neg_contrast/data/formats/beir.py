"""BEIR folders: corpus.jsonl, queries.jsonl, qrels/<split>.tsv."""

import pathlib
from collections.abc import Callable, Iterator
from typing import Any

from neg_contrast import errors
from neg_contrast.data import records
from neg_contrast.data.formats import files

_QRELS = ('.tsv', '.trec')


class Beir:
  """A folder in BEIR's layout, or its corpus alone; any file may be gzipped.

  `metadata.document_id` of a passage says which document it is from, and
  `answers` of a query (at the top or in `metadata`) which answers it has. Qrels
  in TREC's form (four columns, no header) are read too, called `<split>.tsv` or
  `<split>.trec`.
  """

  def __init__(self, place: str, invalid: records.InvalidRecords):
    """Lists the files.

    Raises:
      UserError: one is missing.
    """
    folder = pathlib.Path(place)
    self._invalid = invalid
    self._corpus = files.plain_or_gzip(folder / 'corpus.jsonl')
    self._queries = files.plain_or_gzip(folder / 'queries.jsonl')
    qrels = files.listing(folder / 'qrels', *_QRELS)
    self._qrels = {files.plain_name(path).rpartition('.')[0]: path
                   for path in qrels}
    if len(self._qrels) < len(qrels):
      raise errors.UserError(
          f'beir:{place}: qrels/ holds a split both as .tsv and as .trec; '
          'remove one of each pair'
      )
    self._has_queries = self._queries.is_file()
    self.files = (self._corpus,
                  *((self._queries,) if self._has_queries else ()),
                  *self._qrels.values())
    lacking = [] if self._corpus.is_file() else [self._corpus]
    if qrels and not self._has_queries:
      lacking.append(self._queries)
    if self._has_queries and not qrels:
      lacking.append(folder / 'qrels' / '<split>.tsv')
    if lacking:
      raise errors.UserError(
          f'beir:{place}: no such file: {", ".join(map(str, lacking))}. A BEIR '
          'folder holds corpus.jsonl, queries.jsonl and qrels/<split>.tsv, or '
          'corpus.jsonl alone'
      )

  @property
  def splits(self) -> tuple[str, ...]:
    """Names of the qrels files."""
    return tuple(self._qrels)

  def passages(self) -> Iterator[records.Passage]:
    """The corpus, in file order."""
    for where, row in files.json_rows(
        self._corpus, self._invalid, _problem
    ):
      document_id = _metadata(row).get('document_id')
      yield records.Passage(
          str(row['_id']), row.get('title') or '', row['text'],
          '' if document_id is None else str(document_id), where,
      )

  def queries(self) -> Iterator[records.Query]:
    """All queries, in file order; none in a folder with a corpus alone."""
    if not self._has_queries:
      return
    for where, row in files.json_rows(
        self._queries, self._invalid, _problem
    ):
      answers = row.get('answers') or _metadata(row).get('answers') or []
      if isinstance(answers, list):
        yield records.Query(
            str(row['_id']), row['text'], tuple(map(str, answers)), where
        )
      else:
        self._invalid.report(
            'broken_record', where,
            f'query "{row["_id"]}": key "answers" holds '
            f'{type(answers).__name__}, not a list',
        )

  def judgements(self, split: str) -> Iterator[records.Judgement]:
    """The lines of a qrels file."""
    path = self._qrels[split]
    parse: Callable[[str], tuple[str, str, int] | None] = _judgement
    for place, (number, line) in enumerate(files.numbered_lines(path)):
      where = f'{path}:{number}'
      if not place and files.trec_judgement(line):
        parse = files.trec_judgement
      elif not place:
        _check_header(line, where)
        continue
      found = parse(line)
      if found is None:
        columns = ('query-id, corpus-id and a whole-number score between tabs'
                   if parse is _judgement else
                   'query, 0, passage and a whole-number grade')
        self._invalid.report('broken_record', where,
                             f'expected {columns}, found {line[:80]!r}')
        continue
      yield records.Judgement(*found, where)


def _judgement(line: str) -> tuple[str, str, int] | None:
  """(query id, passage id, grade) of a line; None if it is none."""
  fields = line.split('\t')
  grade = files.parse_grade(fields[2]) if len(fields) == 3 else None
  return None if grade is None else (fields[0], fields[1], grade)


def _check_header(line: str, where: str) -> None:
  """Refuses a first line that may be a judgement: it would be skipped."""
  if _judgement(line) or (fields := line.split()) and (
      len(fields) == 3 and files.parse_grade(fields[2]) is not None
  ):
    raise errors.UserError(
        f'{where}: the header line is missing (it would be skipped with its '
        'judgement); put "query-id<TAB>corpus-id<TAB>score" first'
    )


def _problem(row: dict[str, Any]) -> str:
  """What is wrong with a row; empty if nothing is."""
  for key, kinds in (('_id', (str, int)), ('text', str)):
    if key not in row:
      return f'key "{key}" is missing; keys are {sorted(row)}'
    if not isinstance(row[key], kinds):
      return f'key "{key}" holds {type(row[key]).__name__}, not text'
  for key, kind in (('title', str), ('metadata', dict)):
    if not isinstance(row.get(key) or kind(), kind):
      return (f'"{row["_id"]}": key "{key}" holds {type(row[key]).__name__}, '
              f'not {kind.__name__}')
  return ''


def _metadata(row: dict[str, Any]) -> dict[str, Any]:
  return row.get('metadata') or {}
