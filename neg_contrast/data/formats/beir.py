"""BEIR folders: corpus.jsonl, queries.jsonl, qrels/<split>.tsv."""

import pathlib
import re
from collections.abc import Iterator
from typing import Any

from neg_contrast import errors
from neg_contrast.data import records
from neg_contrast.data.formats import files

# Nine digits fit the int32 that grades are stored in.
_SCORE = re.compile(r'[+-]?[0-9]{1,9}')


class Beir:
  """A folder in BEIR's layout, or its corpus alone; any file may be gzipped.

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
    self._corpus = files.plain_or_gzip(folder / 'corpus.jsonl')
    self._queries = files.plain_or_gzip(folder / 'queries.jsonl')
    qrels = sorted([*(folder / 'qrels').glob('*.tsv'),
                    *(folder / 'qrels').glob('*.tsv.gz')])
    self._qrels = {path.name.partition('.tsv')[0]: path for path in qrels}
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
    for number, line in files.numbered_lines(path):
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
