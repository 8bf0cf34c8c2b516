"""BEIR folders: corpus.jsonl, queries.jsonl, qrels/<split>.tsv."""

import json
import pathlib
import re
import zlib
from collections.abc import Iterator
from typing import Any

from neg_contrast import errors
from neg_contrast.data import records

# Nine digits fit the int32 that grades are stored in.
_SCORE = re.compile(r'[+-]?[0-9]{1,9}')


class Beir:
  """A folder in BEIR's layout; any file may be gzipped.

  `metadata.document_id` of a passage says which document it is from, and
  `answers` of a query (at the top or in `metadata`) which answers it has.
  """

  def __init__(self, place: str, invalid: records.InvalidRecords):
    """Lists the files.

    Raises:
      UserError: one is missing.
    """
    folder = pathlib.Path(place)
    self._invalid = invalid
    self._corpus = records.plain_or_gzip(folder / 'corpus.jsonl')
    self._queries = records.plain_or_gzip(folder / 'queries.jsonl')
    qrels = sorted([*(folder / 'qrels').glob('*.tsv'),
                    *(folder / 'qrels').glob('*.tsv.gz')])
    self._qrels = {path.name.partition('.tsv')[0]: path for path in qrels}
    self.files = (self._corpus, self._queries, *self._qrels.values())
    lacking = [str(path) for path in (self._corpus, self._queries)
               if not path.is_file()]
    lacking += [] if qrels else [str(folder / 'qrels' / '<split>.tsv')]
    if lacking:
      raise errors.UserError(
          f'beir:{place}: no such file: {", ".join(lacking)}. A BEIR folder '
          'holds corpus.jsonl, queries.jsonl and qrels/<split>.tsv'
      )

  @property
  def splits(self) -> tuple[str, ...]:
    """Names of the qrels files."""
    return tuple(self._qrels)

  def passages(self) -> Iterator[records.Passage]:
    """The corpus, in file order."""
    for where, row in self._rows(self._corpus):
      document_id = _metadata(row).get('document_id')
      yield records.Passage(
          str(row['_id']), row.get('title') or '', row['text'],
          '' if document_id is None else str(document_id), where,
      )

  def queries(self) -> Iterator[records.Query]:
    """All queries, in file order."""
    for where, row in self._rows(self._queries):
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
    for number, line in _lines(path):
      where = f'{path}:{number}'
      fields = line.split('\t')
      is_data = len(fields) == 3 and _SCORE.fullmatch(fields[2].strip())
      if number == 1:
        if is_data:
          raise errors.UserError(
              f'{where}: the header line is missing (it would be skipped with '
              'its judgement); put "query-id<TAB>corpus-id<TAB>score" first'
          )
        continue
      if not is_data:
        self._invalid.report(
            'broken_record', where,
            f'expected query-id, corpus-id and a whole-number score between '
            f'tabs, found {line[:80]!r}',
        )
        continue
      yield records.Judgement(fields[0], fields[1], int(fields[2]), where)

  def _rows(self, path: pathlib.Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, line in _lines(path):
      where = f'{path}:{number}'
      try:
        row = json.loads(line)
      except json.JSONDecodeError as e:
        self._invalid.report('broken_record', where, f'not valid json: {e.msg} '
                             f'at column {e.colno}')
        continue
      problem = _problem(row)
      if problem:
        self._invalid.report('broken_record', where, problem)
      else:
        yield where, row


def _problem(row: Any) -> str:
  """What is wrong with a row; empty if nothing is."""
  if not isinstance(row, dict):
    return f'a json object was expected, found {type(row).__name__}'
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


def _lines(path: pathlib.Path) -> Iterator[tuple[int, str]]:
  """Numbered lines, cut at newline characters only; blank ones are left out."""
  with records.open_text(path) as f:
    number = 0
    try:
      for line in f:
        text = line.decode('utf-8').rstrip('\r\n')
        number += 1
        if text:
          yield number, text
    except UnicodeDecodeError as e:
      raise errors.UserError(
          f'{path}:{number + 1}: not UTF-8 ({e.reason}); convert the file'
      ) from None
    except (EOFError, OSError, zlib.error) as e:
      raise errors.UserError(
          f'{path}: broken after line {number}: {e}. Get the file again'
      ) from None
