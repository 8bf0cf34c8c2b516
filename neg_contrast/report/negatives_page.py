"""The part of the report that explains a pool of hard negatives."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from neg_contrast.mining import analysis
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.report import figures

KINDS = ('score', 'mass', 'accuracy')
"""What a log says of the negatives of a source, see `losses.Contrast`."""

_TITLES = {
    'score': 'Mean score of the negatives',
    'mass': 'Share of the softmax',
    'accuracy': 'Positive scores above all of them',
}
# As far as they are systems too, the colours of charts.py's `series_of`.
_SERIES = {'bm25': 0, 'corpus': 1, 'batch': 2, 'context': 3, 'coarse': 4,
           'fine': 5, 'model': 6, 'given': 7}

Contrast = Mapping[str, Mapping[str, tuple[np.ndarray, np.ndarray]]]
"""Kind -> source -> (`[steps] int`, `[steps] float`)."""


@dataclasses.dataclass(frozen=True)
class Place:
  """Where a source has a negative.

  Attributes:
    source: its name.
    rank: from 1, before filters.
    score: None: the source has no scores.
    positive_score: the best of a positive; None: not comparable.
  """

  source: str
  rank: int
  score: float | None
  positive_score: float | None


@dataclasses.dataclass(frozen=True)
class ShownPassage:
  """A passage of a shown query.

  Attributes:
    role: `positive`, `negative` or `random`.
    id: of the passage; that of a half says which tokens of the whole it has.
    title: may be empty.
    text: whole.
    places: of a negative, in each source whose best it is.
    has_answer: whether it holds one.
  """

  role: str
  id: str
  title: str
  text: str
  places: tuple[Place, ...]
  has_answer: bool


@dataclasses.dataclass(frozen=True)
class ShownQuery:
  """A query with a negative of each source.

  Attributes:
    id: of the query.
    text: of the query.
    answers: strings that may be marked in the passages.
    positives: how many it has.
    passages: a positive, the best negative of each source, a random one.
  """

  id: str
  text: str
  answers: tuple[str, ...]
  positives: int
  passages: tuple[ShownPassage, ...]


@dataclasses.dataclass(frozen=True)
class Hubs:
  """How evenly negatives spread over passages.

  Attributes:
    negatives: of the queries that were read.
    passages: how many different ones they are.
    top: (passage id, title or first words, queries that it is a negative of).
  """

  negatives: int
  passages: int
  top: tuple[tuple[str, str, int], ...]


@dataclasses.dataclass(frozen=True)
class Negatives:
  """A pool of hard negatives.

  Attributes:
    summary: its numbers.
    sampled: queries whose negatives were read.
    suspects: what was found in them, by source.
    random: what was found in random passages of the same queries.
    shown: some of these queries.
    hubs: of these queries.
  """

  summary: analysis.Summary
  sampled: int
  suspects: tuple[analysis.Suspects, ...]
  random: analysis.Suspects
  shown: tuple[ShownQuery, ...]
  hubs: Hubs = Hubs(0, 0, ())


@dataclasses.dataclass(frozen=True)
class Refreshes:
  """Cost and effect of making negatives again, as a table.

  Attributes:
    columns: headings.
    rows: (first step that draws from them, text of each column).
  """

  columns: tuple[str, ...]
  rows: tuple[tuple[int, tuple[str, ...]], ...]


NOT_REFRESHED = Refreshes((), ())

REFRESH_COLUMNS: Mapping[str, tuple[str, str]] = {
    'passages': ('passages encoded', '{:,}'),
    'seconds/encoding': ('encoding', '{:.1f} s'),
    'seconds/searching': ('searching', '{:.1f} s'),
    'seconds/filtering': ('filtering', '{:.1f} s'),
    'seconds/drawing': ('drawing', '{:.1f} s'),
    'new': ('new negatives', '{:.0%}'),
    'counts/positive': ('positives dropped', '{:,}'),
    'counts/answer': ('with an answer dropped', '{:,}'),
    'counts/margin': ('above the margin dropped', '{:,}'),
    'counts/relative_margin': ('above the relative margin dropped', '{:,}'),
    'hubness/top1_most': ('most queries with one first passage', '{:,.0f}'),
    'hubness/top1_distinct': ('different first passages', '{:.0%}'),
    'hubness/skewness': ('skewness of N₁₀', '{:.2f}'),
    'hubness/most_drawn': ('draws of the most drawn passage', '{:.1%}'),
    'hubness/distinct': ('different passages drawn', '{:.0%}'),
}
"""Path in a log record -> heading and format."""


def series_of(source: str) -> int:
  """The number of a source's colour."""
  return _SERIES.get(source, 0)


def filter_counts(source: analysis.Source) -> dict[str, int]:
  """Filter -> candidates that it dropped, without those beyond M."""
  counts = zip(pool_lib.DROPPED_BY, source.by_filter.tolist(), strict=True)
  return {name: count for name, count in counts
          if name not in ('', 'pool_size')}


def beyond(source: analysis.Source) -> int:
  """Candidates that no filter drops, after the first M."""
  return int(source.by_filter[pool_lib.code('pool_size')])


def draw_charts(
    negatives: Negatives | None, contrast: Contrast
) -> dict[str, list[str]]:
  """SVG of the parts `overlap`, `ranks`, `gaps` and `contrast`."""
  charts: dict[str, list[str]] = {
      'overlap': [], 'ranks': [], 'gaps': [], 'contrast': [
          figures.curves(
              f'contrast-{kind}', title, contrast[kind], series=0,
              colours={name: series_of(name) for name in contrast[kind]},
              from_zero=kind == 'mass',
          )
          for kind, title in _TITLES.items() if kind in contrast
      ],
  }
  if negatives is not None:
    _draw_pool(negatives.summary, charts)
  return charts


def _draw_pool(
    summary: analysis.Summary, charts: dict[str, list[str]]
) -> None:
  if len(summary.sources) > 1:
    charts['overlap'].append(figures.heat_map(
        'overlap', 'Overlap of the sources',
        [source.name for source in summary.sources], summary.overlap,
        ('of the pool of', 'is also in that of'),
    ))
  deepest = max(len(np.trim_zeros(source.ranks, 'b'))
                for source in summary.sources)
  for number, source in enumerate(summary.sources):
    if source.negatives:
      edges, counts = _rank_bins(source.ranks, deepest)
      charts['ranks'].append(figures.bars(
          f'ranks-{number}', source.name, edges,
          counts / (summary.queries * np.diff(edges)), 'rank', 'of queries',
          series_of(source.name),
      ))
    if source.gaps is not None:
      charts['gaps'].append(figures.bars(
          f'gaps-{number}', source.name, source.gaps.edges,
          source.gaps.counts / source.gaps.counts.sum(),
          'score less the positive’s', 'of negatives', series_of(source.name),
          mark=0,
      ))


def _rank_bins(
    ranks: np.ndarray, end: int, bins: int = 50
) -> tuple[np.ndarray, np.ndarray]:
  """(edges, negatives between them) of ranks 1 to `end - 1`."""
  width = max(1, -(-(end - 1) // bins))
  begins = np.arange(1, end, width)
  edges = np.minimum(np.append(begins, begins[-1] + width), max(end, 2))
  return edges - 0.5, np.add.reduceat(ranks[:end], begins)
