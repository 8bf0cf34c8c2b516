"""Click logs: which passages a search showed, and which were clicked.

    clicks:logs
    clicks:log.tsv?documents=pages.jsonl&failed=0.5&negatives=above

A row is a passage that was shown for a query. Clicked ones are positives, the
others known negatives.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Iterator
from typing import Any

from neg_contrast import errors
from neg_contrast.artifacts import places
from neg_contrast.data import records
from neg_contrast.data.formats import (
  click_rows,
  column_tables,
  files,
  line_blocks,
)
from neg_contrast.data.formats import given_pairs as pairs

_KINDS = ('jsonl', 'tsv')
_CORPUS = 'corpus.jsonl'
_NEEDED = ('query', 'passage_id', 'rank', 'clicked')
_NEGATIVES = _SHOWN, _ABOVE = 'shown', 'above'


@dataclasses.dataclass(frozen=True)
class _Options:
  """What stands after the ? of a place.

  Attributes:
    documents: a table of passages; empty: `corpus.jsonl` beside the logs.
    test: share of the queries that become the split `test`, in logs whose names
      tell no split.
    failed: weight of a click in the search that satisfied a failed one, as a
      positive of the failed one; 0: it is none.
    negatives: `shown`: all that were shown and not clicked; `above`: those
      alone that stood above a click (Joachims et al., 2005).
  """

  documents: str = ''
  test: float = 0.2
  failed: float = 1.0
  negatives: str = _SHOWN


@dataclasses.dataclass
class _Asked:
  """What is known of a query.

  Attributes:
    text: its words.
    where: it stands first.
    clicked: passage -> weight of all its clicks.
    seen: passage -> where it was shown first.
  """

  text: str
  where: str
  clicked: dict[str, float] = dataclasses.field(default_factory=dict)
  seen: dict[str, str] = dataclasses.field(default_factory=dict)

  def click(self, row: click_rows.Row, factor: float = 1.0) -> None:
    """Adds a click, and its passage to those that were seen."""
    self.seen.setdefault(row.passage, row.where)
    self.clicked[row.passage] = (self.clicked.get(row.passage, 0.0)
                                 + factor * row.weight)


class Clicks:
  """A log, or a folder of logs, of searches; see `_Options`.

  Columns of a `.tsv`, or keys of a `.jsonl`: `query`, its words; `passage_id`;
  `rank` on the page of results, from 1; `clicked`, true, false, 1 or 0. There
  may be `weight` of a click (1), `session`, and `time`, in seconds or as ISO
  8601.

  A passage that was ever clicked for a query is a positive, whose weight is the
  sum over its clicks; what was only shown is a known negative. Rows of a
  session with equal query and time are one page. Without a session or a time
  they have to follow each other, and without a time a rank that repeats begins
  another one. In a session (of one file), ordered by time or else by line, a
  search without a click has failed; what is clicked at the next search with
  one, in other words, is a positive of the failed query too. Queries without
  positives are left out.

  The split is in a log's name (`clicks-train.jsonl`); in others a fifth of the
  queries, by a hash of their words, is `test`, and the rest `train`. Passages
  are the rows of `documents=TABLE` (`id`, `title`, `text`), or of
  `corpus.jsonl`. What is asked and clicked is in memory, passages are not.
  """

  def __init__(self, place: str, invalid: records.InvalidRecords):
    """Looks at the columns.

    Raises:
      UserError: a file or a column is missing, or an option unknown.
    """
    path, _, asked = place.partition('?')
    spec, folder = f'clicks:{place}', places.path(path)
    self._invalid, self._options = invalid, _parse(spec, asked)
    beside = folder if folder.is_dir() else folder.parent
    self._corpus = (
        places.path(self._options.documents) if self._options.documents
        else files.plain_or_gzip(beside / _CORPUS)
    )
    kind = column_tables.kind_of(self._corpus)
    if kind is None or not self._corpus.is_file():
      raise errors.UserError(
          f'{spec}: {self._corpus}: no such table of passages; put {_CORPUS} '
          '(id, title, text) beside the logs, or name one: ?documents=TABLE'
      )
    self._kind = kind
    self._logs = tuple(
        file for file in files.listing(folder, *('.' + one for one in _KINDS))
        if file != self._corpus
    )
    if not self._logs:
      raise errors.UserError(
          f'{spec}: no such file, or a folder without logs '
          f'({" or ".join("." + one for one in _KINDS)})'
      )
    for log in self._logs:
      _check_columns(log)
    self.files = (self._corpus, *self._logs)

  @property
  def splits(self) -> tuple[str, ...]:
    """Those that some query with a positive is of."""
    return tuple(self._known)

  @property
  def passage_files(self) -> tuple[pathlib.Path, ...]:
    """The corpus, if it holds lines of json."""
    return (self._corpus,) if self._kind == 'jsonl' else ()

  def passages(self) -> Iterator[records.Passage]:
    """The rows of the table of passages."""
    yield from pairs.read_each(
        column_tables.rows(self._corpus, self._kind, self._invalid), _passage,
        self._invalid,
    )

  def passages_of(self, lines: line_blocks.Lines) -> Iterator[records.Passage]:
    """Those of some lines of a corpus of json."""
    yield from pairs.read_each(
        files.json_lines(lines, self._invalid), _passage, self._invalid
    )

  def queries(self) -> Iterator[records.Query]:
    """Each query that has a positive once; faults of rows are reported here."""
    told = set[str]()
    for asked in self._read(self._invalid).values():
      for name, one in asked.items():
        if name not in told:
          told.add(name)
          yield records.Query(name, one.text, where=one.where)

  def judgements(self, split: str) -> Iterator[records.Judgement]:
    """Of each query what was clicked, and what was only shown."""
    for name, one in self._known[split].items():
      for passage, where in one.seen.items():
        weight = one.clicked.get(passage)
        yield records.Judgement(
            name, passage, int(weight is not None), where,
            weight=1.0 if weight is None else weight,
        )

  @functools.cached_property
  def _known(self) -> dict[str, dict[str, _Asked]]:
    return self._read(files.unheard())

  def _read(
      self, invalid: records.InvalidRecords
  ) -> dict[str, dict[str, _Asked]]:
    """Split -> id -> query, of those that have a positive."""
    found: dict[str, dict[str, _Asked]] = {}
    for log in self._logs:
      sessions: dict[str, list[list[click_rows.Row]]] = {}
      for page in click_rows.pages(log, invalid):
        asked = self._asked(found, log, page[0])
        self._add(asked, page)
        if page[0].session:
          sessions.setdefault(page[0].session, []).append(page)
      if self._options.failed:
        for searches in sessions.values():
          self._add_failed(found, log, searches)
    kept = {
        split: {name: one for name, one in asked.items() if one.clicked}
        for split, asked in found.items()
    }
    return {split: asked for split, asked in kept.items() if asked}

  def _asked(
      self, found: dict[str, dict[str, _Asked]], log: pathlib.Path,
      row: click_rows.Row,
  ) -> _Asked:
    """What is known of the query of a row, up to now."""
    name = files.content_id(row.query)
    split = files.split_of(log)
    if split == 'all':
      is_apart = files.place_of_id(name) < self._options.test
      split = 'test' if is_apart else 'train'
    return found.setdefault(split, {}).setdefault(
        name, _Asked(row.query, row.where)
    )

  def _add(self, asked: _Asked, page: list[click_rows.Row]) -> None:
    """Adds a page of results."""
    last = max((row.rank for row in page if row.clicked), default=0)
    for row in page:
      if row.clicked:
        asked.click(row)
      elif self._options.negatives == _SHOWN or row.rank < last:
        asked.seen.setdefault(row.passage, row.where)

  def _add_failed(
      self, found: dict[str, dict[str, _Asked]], log: pathlib.Path,
      searches: list[list[click_rows.Row]],
  ) -> None:
    """Adds positives of failed searches that were satisfied later."""
    failed: dict[str, click_rows.Row] = {}
    for page in sorted(searches, key=lambda page: page[0].time or 0.0):
      clicks = [row for row in page if row.clicked]
      if not clicks:
        failed.setdefault(page[0].query, page[0])
        continue
      failed.pop(page[0].query, None)
      for first in failed.values():
        for row in clicks:
          self._asked(found, log, first).click(row, self._options.failed)
      failed.clear()


def _passage(row: Any, where: str) -> records.Passage:
  """Reads a row of the table of passages; raises as `_row`."""
  row = pairs.get_object(row)
  name = pairs.get_id(row, 'id', '_id', 'passage_id')
  if not name:
    raise pairs.Unusable(f'"id" is missing or empty; there are {sorted(row)}')
  return records.Passage(name, pairs.get_title(row),
                         pairs.get_text(row, 'text'), where=where)


def _check_columns(log: pathlib.Path) -> None:
  """Refuses a log without a needed column.

  Raises:
    UserError: one is missing.
  """
  kind = column_tables.kind_of(log)
  if kind not in _KINDS:
    raise errors.UserError(f'{log}: a log is called *.jsonl or *.tsv')
  found = column_tables.columns(log, kind)
  missing = [name for name in _NEEDED if name not in found]
  if missing:
    raise errors.UserError(
        f'{log}: a row has no {" and no ".join(missing)}; it has '
        f'{", ".join(found) or "nothing"}, and a log of clicks has '
        f'{", ".join(_NEEDED)}'
    )


def _parse(spec: str, asked: str) -> _Options:
  """The options after the ?.

  Raises:
    UserError: one is unknown, or out of its range.
  """
  options: dict[str, Any] = {}
  for one in filter(None, asked.split('&')):
    key, _, value = one.partition('=')
    number = files.parse_weight(value)
    is_text = {'documents': bool(value), 'negatives': value in _NEGATIVES}
    is_number = number is not None and {
        'test': 0 <= number < 1, 'failed': records.is_weight(number)
    }.get(key, False)
    if is_number or is_text.get(key):
      options[key] = number if is_number else value
    else:
      raise errors.UserError(
          f'{spec}: "{one}" is none of documents=TABLE, test=SHARE (from 0 to '
          f'below 1), failed=WEIGHT (from 0), negatives={_SHOWN} or {_ABOVE}'
      )
  return _Options(**options)


FORMAT = records.SourceFormat(
    'clicks:data/logs', Clicks, names=('clicks*.jsonl', 'clicks*.tsv'),
    keys=('clicked',), reading=2,  # 2: pages of sessions may be in pieces.
)
