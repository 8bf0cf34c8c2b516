"""Three tables of the hub: a corpus, queries, and judgements of pairs."""

import functools
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence

from neg_contrast.data import records
from neg_contrast.data.formats import given_pairs as pairs
from neg_contrast.data.formats import hf_columns


class ThreeTables:
  """A corpus, queries and judgements."""

  def __init__(
      self, place: str, corpus: Sequence[pathlib.Path],
      queries: Sequence[pathlib.Path],
      judged: Mapping[str, Sequence[pathlib.Path]],
      options: Mapping[str, str], invalid: records.InvalidRecords,
  ):
    """Looks at nothing yet.

    Args:
      place: of the data set, as the user says it.
      corpus: its files.
      queries: their files.
      judged: split -> files of its judgements.
      options: what a column holds -> the name that the user gives.
      invalid: hears of records that can't be used.
    """
    self._place, self._options = place, options
    self._corpus, self._queries = tuple(corpus), tuple(queries)
    self._judged, self._invalid = judged, invalid
    self.splits = tuple(judged)
    self.files = (*self._corpus, *self._queries,
                  *(path for some in judged.values() for path in some))

  @functools.cached_property
  def columns(self) -> dict[pathlib.Path, hf_columns.Columns]:
    """Those of each table, by its first file.

    Raises:
      UserError: a column is not known.
    """
    heads = {self._corpus[0]: ('id', 'text'), self._queries[0]: ('id', 'text'),
             **{some[0]: ('query_id', 'passage_id')
                for some in self._judged.values()}}
    found = hf_columns.find(heads, self._options)
    for path, needed in heads.items():
      hf_columns.check(self._place, {path: found[path]}, {}, needed)
    hf_columns.check(self._place, found, self._options, ())
    return found

  def passages(self) -> Iterator[records.Passage]:
    """The corpus."""
    return self._read(self._corpus, lambda row, where: records.Passage(
        row.need_id('id'), str(row.of('title') or ''),
        str(row.of('text') or ''), where=where,
    ))

  def queries(self) -> Iterator[records.Query]:
    """All queries."""
    return self._read(self._queries, lambda row, where: records.Query(
        row.need_id('id'), str(row.of('text') or ''), where=where))

  def judgements(self, split: str) -> Iterator[records.Judgement]:
    """Rows of the table of a split; without a grade they are positives."""
    return self._read(self._judged[split], lambda row, where: records.Judgement(
        row.need_id('query_id'), row.need_id('passage_id'), row.grade(), where))

  def _read(
      self, paths: Sequence[pathlib.Path],
      make: Callable[[hf_columns.Row, str], pairs.Record],
  ) -> Iterator[pairs.Record]:
    columns = self.columns[paths[0]].holds
    for path in paths:
      yield from hf_columns.read(path, columns, make, self._invalid)
