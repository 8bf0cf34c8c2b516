"""TREC runs and judgements (qrels): reading, writing, and the order of a run.

A run has six fields a line, `query Q0 passage rank score tag`; judgements four,
`query 0 passage grade`. Fields are split at ASCII white space only. Paths that
end in .gz are compressed.
"""

import codecs
import gzip
import io
import pathlib
import zlib
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from neg_contrast import errors
from neg_contrast.artifacts import atomic
from neg_contrast.data.formats import files

Ranking = list[tuple[str, float]]
"""(passage id, score) pairs, best first."""

Run = dict[str, Ranking]
"""The ranking of each query id."""

Qrels = dict[str, dict[str, int]]
"""The grade of each judged passage id, by query id; above 0 is a positive."""


def ranked(scored: Iterable[tuple[str, float]]) -> Ranking:
  """Pairs by (float32 score descending, id bytes descending).

  Args:
    scored: (passage id, score) pairs in any order.

  Returns:
    The pairs, best first, with their scores rounded to float32.

  Raises:
    ValueError: a passage occurs twice, or a score is NaN.
  """
  pairs = list(scored)
  passages = [passage for passage, _ in pairs]
  scores = np.array([score for _, score in pairs], np.float32)
  if len(set(passages)) < len(passages):
    raise ValueError('a passage is ranked twice')
  if np.isnan(scores).any():
    raise ValueError('a score is NaN')
  # Strings compare by code point, which is the order of their UTF-8 bytes.
  return sorted(
      zip(passages, scores.tolist(), strict=True),
      key=lambda pair: (pair[1], pair[0]),
      reverse=True,
  )


def read_run(path: pathlib.Path) -> Run:
  """Reads a run, ranking it anew: BEIR writes 0 as every rank.

  Fields beyond six are ignored, and so are blank lines.

  Args:
    path: the file, gzip if it ends in .gz.

  Returns:
    The ranking of each query, queries in the order of the file.

  Raises:
    UserError: fewer than six fields, a score that is no finite float32, or the
      same passage twice for a query, naming file and line; or no such file.
  """
  scores: dict[str, dict[str, float]] = {}
  for where, fields in _lines(path):
    if len(fields) < 6:
      raise errors.UserError(
          f'{where}: {len(fields)} fields where a run has six: '
          'query Q0 passage rank score tag'
      )
    query, _, passage, _, score = fields[:5]
    found = scores.setdefault(query, {})
    if passage in found:
      raise errors.UserError(
          f'{where}: passage {passage!r} occurs twice for query {query!r}'
      )
    found[passage] = _parse_score(score, where)
  return {query: ranked(found.items()) for query, found in scores.items()}


def write_run(
    path: pathlib.Path,
    run: Mapping[str, Iterable[tuple[str, float]]],
    tag: str,
) -> None:
  """Writes a run atomically, with true ranks from 1 and scores that read back.

  Args:
    path: the file to write, gzip if it ends in .gz.
    run: (passage id, score) pairs of each query; they are ranked here, queries
      stay in their order.
    tag: names the system.

  Raises:
    UserError: the tag or an id is empty or holds white space.
    ValueError: a passage occurs twice for a query, or a score is not finite.
  """
  _check_field('tag', tag)
  with atomic.writing(path) as f:
    for query, scored in run.items():
      _check_field('query id', query)
      for rank, (passage, score) in enumerate(ranked(scored), start=1):
        _check_field('passage id', passage)
        if not np.isfinite(score):
          raise ValueError(f'query {query!r}: passage {passage!r} has {score}')
        # str of a float32 is the shortest text that reads back as itself.
        line = f'{query} Q0 {passage} {rank} {np.float32(score)!s} {tag}\n'
        f.write(line)


def read_qrels(path: pathlib.Path) -> Qrels:
  """Reads judgements; blank lines and lines that begin with # are skipped.

  Args:
    path: the file, gzip if it ends in .gz.

  Returns:
    Grades by query and passage, in the order of the file.

  Raises:
    UserError: not four fields, a grade that is no integer, or a passage judged
      twice for a query, naming file and line; or no such file.
  """
  qrels: Qrels = {}
  for where, fields in _lines(path):
    if fields[0].startswith('#'):
      continue
    if len(fields) != 4:
      raise errors.UserError(
          f'{where}: {len(fields)} fields where judgements have four: '
          'query 0 passage grade'
      )
    query, _, passage, grade = fields
    judged = qrels.setdefault(query, {})
    if passage in judged:
      raise errors.UserError(
          f'{where}: passage {passage!r} is judged twice for query {query!r}'
      )
    judged[passage] = _parse_grade(grade, where)
  return qrels


def write_qrels(
    path: pathlib.Path, qrels: Mapping[str, Mapping[str, int]]
) -> None:
  """Writes judgements atomically, in their order.

  Queries without any judgement leave no line.

  Raises:
    UserError: an id is empty or holds white space, or a query id begins with #.
  """
  with atomic.writing(path) as f:
    for query, judged in qrels.items():
      _check_field('query id', query)
      if query.startswith('#'):
        raise errors.UserError(
            f'query id {query!r} would read as a comment in a TREC file'
        )
      for passage, grade in judged.items():
        _check_field('passage id', passage)
        f.write(f'{query} 0 {passage} {grade}\n')


def _lines(path: pathlib.Path) -> Iterator[tuple[str, list[str]]]:
  """Yields (`file:line`, fields) of all lines that are not blank."""
  try:
    with _open(path) as f:
      for number, line in enumerate(f, start=1):
        # bytes split at ASCII white space: an id may hold a U+00A0 or U+2028.
        if number == 1:
          line = line.removeprefix(codecs.BOM_UTF8)
        if fields := line.split():
          where = f'{path}:{number}'
          yield where, [_decode(field, where) for field in fields]
  except FileNotFoundError:
    raise errors.UserError(f'{path}: no such file') from None
  except (gzip.BadGzipFile, EOFError, zlib.error) as e:
    raise errors.UserError(f'{path}: not a whole gzip file: {e}') from None


def _open(path: pathlib.Path) -> io.BufferedIOBase:
  if path.suffix == '.gz':
    return gzip.open(path, 'rb')
  return open(path, 'rb')


def _decode(field: bytes, where: str) -> str:
  try:
    return field.decode()
  except UnicodeDecodeError:
    raise errors.UserError(f'{where}: {field!r} is not UTF-8') from None


def _parse_score(text: str, where: str) -> float:
  """The score as a float32; trec_eval and ties know no finer one."""
  try:
    with np.errstate(over='ignore'):
      score = float(np.float32(float(text)))
  except ValueError:
    score = np.nan
  if files.is_of_python(text):
    score = np.nan
  if not np.isfinite(score):
    raise errors.UserError(f'{where}: the score {text!r} is no finite float32')
  return score


def _parse_grade(text: str, where: str) -> int:
  try:
    if files.is_of_python(text):
      raise ValueError
    return int(text)
  except ValueError:
    raise errors.UserError(
        f'{where}: the grade {text!r} is not an integer'
    ) from None


def _check_field(name: str, value: str) -> None:
  """Refuses what would not read back as one field of a line."""
  if value.encode().split() != [value.encode()]:
    raise errors.UserError(
        f'{name} {value!r} is empty or holds white space, which a TREC file '
        'can not express: rename it'
    )
