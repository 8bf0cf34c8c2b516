"""Qrels, the judgements of a split: BEIR's three columns or TREC's four."""

import pathlib
from collections.abc import Callable, Iterable, Iterator, Sequence

from neg_contrast import errors
from neg_contrast.data import records
from neg_contrast.data.formats import files, line_blocks

_HEADER = ('query-id', 'corpus-id', 'score')
_SCORES = ('score', 'grade', 'relevance', 'rel', 'label')
_WEIGHT = 'weight'


def header(has_weights: bool = False) -> str:
  """The first line of a file as BEIR has it; weights are a column more."""
  return '\t'.join((*_HEADER, _WEIGHT) if has_weights else _HEADER) + '\n'


def line(
    query_id: str, passage_id: str, grade: int, weight: float | None = None
) -> str:
  """A judgement, with its weight in a file whose header has them."""
  end = '' if weight is None else f'\t{weight!s}'
  return f'{query_id}\t{passage_id}\t{grade}{end}\n'


def write(
    path: pathlib.Path, judgements: Iterable[records.Judgement]
) -> None:
  """Writes a file, with weights if one is not 1."""
  judged = list(judgements)
  has_weights = any(one.weight != 1 for one in judged)
  with open(path, 'w', encoding='utf-8') as f:
    f.write(header(has_weights))
    f.writelines(line(one.query_id, one.passage_id, one.grade,
                      one.weight if has_weights else None) for one in judged)


def read(
    path: pathlib.Path, invalid: records.InvalidRecords
) -> Iterator[records.Judgement]:
  """The lines of a qrels file: TREC's four columns, or after a header BEIR's.

  A header that ends in "weight" tells that each line ends in a weight.

  Raises:
    UserError: the file can't be read, or its first line is neither.
  """
  parse: _Parse = _trec
  columns = 'query, 0, passage and a whole-number grade'
  for place, (number, text) in enumerate(line_blocks.numbered_lines(path)):
    where, found = f'{path}:{number}', parse(text)
    if found:
      yield records.Judgement(*found[:3], where, weight=found[3])
    elif place:
      invalid.report('broken_record', where,
                     f'expected {columns}, found {text[:80]!r}')
    elif parsed := _parser_of(text.casefold().split()):
      parse, columns = parsed
    else:
      raise errors.UserError(
          f'{where}: the header line is missing, or {columns} between tabs. '
          f'Put "{"<TAB>".join(_HEADER)}" first'
      )


_Judged = tuple[str, str, int, float]
"""Query id, passage id, grade, weight."""
_Parse = Callable[[str], _Judged | None]


def _parser_of(names: Sequence[str]) -> tuple[_Parse, str] | None:
  """What reads the lines behind a header of BEIR, and what it expects."""
  if names and names[-1] in _SCORES:
    return _beir, 'query-id, corpus-id and a whole-number score between tabs'
  if names[-1:] == [_WEIGHT] and {*names[-2:-1]} & {*_SCORES}:
    return _weighted, ('query-id, corpus-id, a whole-number score and a weight '
                       'between tabs')
  return None


def _trec(text: str) -> _Judged | None:
  """Between tabs or, without them, spaces."""
  fields = text.split('\t')
  if len(fields) != 4:
    fields = text.split()
  if len(fields) != 4:
    return None
  grade = files.parse_grade(fields[3])
  return None if grade is None else (fields[0], fields[2], grade, 1.0)


def _beir(text: str) -> _Judged | None:
  """Query id, passage id and grade between tabs."""
  fields = text.split('\t')
  grade = files.parse_grade(fields[2]) if len(fields) == 3 else None
  return None if grade is None else (fields[0], fields[1], grade, 1.0)


def _weighted(text: str) -> _Judged | None:
  """As `_beir`, with a weight behind another tab."""
  rest, _, last = text.rpartition('\t')
  found, weight = _beir(rest), files.parse_weight(last)
  return None if found is None or weight is None else (*found[:3], weight)
