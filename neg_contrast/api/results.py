"""What the verbs of Python return; each shows itself in a notebook."""

import dataclasses
import itertools
import pathlib
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np

from neg_contrast import errors, html_parts
from neg_contrast.api import judged_objects
from neg_contrast.artifacts import folders
from neg_contrast.data import records
from neg_contrast.evaluation import metrics, summary
from neg_contrast.mining import pool_folder
from neg_contrast.negatives import pool as pool_lib

_SHOWN_QUERIES, _SHOWN_NEGATIVES, _SHOWN_CHARACTERS = 5, 5, 160


class Metrics(dict[str, dict[str, float]]):
  """System -> metric -> value: a dict, which a notebook shows as a table."""

  def _repr_html_(self) -> str:
    names = list(dict.fromkeys(itertools.chain.from_iterable(self.values())))
    best = {name: metrics.best(name, (
        values[name] for values in self.values() if name in values
    )) for name in names}
    rows = [
        [html_parts.text(system), *(_value(values, name, best[name], len(self))
                                    for name in names)]
        for system, values in self.items()
    ]
    return html_parts.table(['system', *names], rows,
                            numbers=range(1, len(names) + 1))


def _value(values: Mapping[str, float], name: str, best: float,
           systems: int) -> str:
  if name not in values:
    return ''
  shown = html_parts.number(values[name])
  return f'<b>{shown}</b>' if systems > 1 and values[name] == best else shown


def read_metrics(
    workdir: pathlib.Path, dataset: str, split: str,
    systems: Collection[str] | None = None,
) -> Metrics:
  """The metrics of a finished job on a split of a data set.

  Args:
    workdir: of the job.
    dataset: name of the data set.
    split: of it.
    systems: those that are wanted; None: all that were evaluated there.
  """
  found: dict[str, dict[str, float]] = {}
  for key, value in folders.read_json(workdir / summary.FILE).items():
    *group, system, metric = key.split('/')
    if group == [dataset, split] and (systems is None or system in systems):
      found.setdefault(system, {})[metric] = value
  return Metrics(dict(sorted(found.items(),
                             key=lambda item: summary.place_of(item[0]))))


@dataclasses.dataclass(frozen=True, slots=True)
class Negative:
  """A candidate of a query.

  Attributes:
    query_id: of the query.
    passage_id: of the passage; of half a passage `ID[first:end]`, in tokens.
    source: that proposed it, such as `bm25`.
    rank: from 1, where the source had it.
    score: of the source.
    dropped_by: the filter that keeps it out of training; empty: it is a
      negative.
  """

  query_id: str
  passage_id: str
  source: str
  rank: int
  score: float
  dropped_by: str = ''


class Negatives(Mapping[str, tuple[Negative, ...]]):
  """Query id -> its negatives, source by source, best first.

  They are read from the pool when they are asked for.

  Attributes:
    folder: of the pool: `train(..., negatives__pool=FOLDER,
      negatives__sources=('pool:2',))` trains with them.
  """

  def __init__(self, pool: pool_folder.PoolFolder):
    """Opens a finished pool."""
    self.folder = pool.folder
    self._pool, self._texts = pool.load(), pool.texts
    self._queries = pool.dataset.prepared.queries
    self._lines = {
        self._queries[row].id: line
        for line, row in enumerate(self._pool.query_rows.tolist())
    }

  def __getitem__(self, query_id: str) -> tuple[Negative, ...]:
    return tuple(one for one in self.candidates(query_id)
                 if not one.dropped_by)

  def __iter__(self) -> Iterator[str]:
    return iter(self._lines)

  def __len__(self) -> int:
    return len(self._lines)

  def __repr__(self) -> str:
    return f'Negatives of {len(self)} queries in {self.folder}'

  def candidates(self, query_id: str) -> tuple[Negative, ...]:
    """All candidates of a query, those too that a filter dropped."""
    return tuple(one for one, _ in self._read(query_id))

  def rows(self) -> Iterator[dict[str, Any]]:
    """A dict for each negative, as `pandas.DataFrame` takes them."""
    for query_id in self:
      yield from map(dataclasses.asdict, self[query_id])

  def _read(
      self, query_id: str
  ) -> Iterator[tuple[Negative, records.Passage]]:
    try:
      query_id = judged_objects.id_of('negatives', query_id)  # 3 is '3'.
    except errors.UserError:
      raise KeyError(query_id) from None
    line, pool = self._lines[query_id], self._pool
    for place in np.flatnonzero(pool.rows[line] >= 0).tolist():
      passage = self._texts(int(pool.rows[line, place]))
      yield Negative(
          query_id, passage.id, pool.sources[pool.source[line, place]],
          int(pool.rank[line, place]), float(pool.score[line, place]),
          pool_lib.DROPPED_BY[pool.dropped_by[line, place]],
      ), passage

  def _repr_html_(self) -> str:
    rows = []
    for query_id in itertools.islice(self, _SHOWN_QUERIES):
      line = self._lines[query_id]
      query = self._queries[int(self._pool.query_rows[line])]
      kept = (pair for pair in self._read(query_id) if not pair[0].dropped_by)
      for place, (one, passage) in enumerate(
          itertools.islice(kept, _SHOWN_NEGATIVES)
      ):
        rows.append([
            '' if place else html_parts.text(query.text, _SHOWN_CHARACTERS),
            html_parts.text(one.source), str(one.rank),
            html_parts.number(one.score), html_parts.text(one.passage_id),
            html_parts.text(f'{passage.title} {passage.text}'.strip(),
                            _SHOWN_CHARACTERS),
        ])
    more = len(self) - _SHOWN_QUERIES
    return html_parts.table(
        ['query', 'source', 'rank', 'score', 'passage', 'text'], rows,
        f'Negatives of {len(self)} queries'
        + (f'; {_SHOWN_QUERIES} are shown' if more > 0 else ''), (2, 3),
    )
