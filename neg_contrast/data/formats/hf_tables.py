"""Three tables of the hub: a corpus, queries, and judgements of pairs."""

import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

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
    """Looks at the columns.

    Args:
      place: of the data set, as the user says it.
      corpus: its files.
      queries: their files.
      judged: split -> files of its judgements.
      options: what a column holds -> the name that the user gives.
      invalid: hears of records that can't be used.

    Raises:
      UserError: a column is not known.
    """
    self._corpus, self._queries = tuple(corpus), tuple(queries)
    self._judged, self._invalid = judged, invalid
    self.splits = tuple(judged)
    pairs_of = tuple(path for some in judged.values() for path in some)
    self.files = (*self._corpus, *self._queries, *pairs_of)
    needed = {**dict.fromkeys((*self._corpus, *self._queries), ('id', 'text')),
              **dict.fromkeys(pairs_of, ('query_id', 'passage_id'))}
    self._columns = {path: hf_columns.find(place, path, options, *holds)
                     for path, holds in needed.items()}

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
      self, paths: Iterable[pathlib.Path],
      make: Callable[[hf_columns.Row, str], pairs.Record],
  ) -> Iterator[pairs.Record]:
    for path in paths:
      yield from hf_columns.read(path, self._columns[path], make, self._invalid)
