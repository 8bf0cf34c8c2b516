"""Ranks by one system against those by another, as a picture.

Pure: see `svg`.
"""

from collections.abc import Sequence

import numpy as np

from neg_contrast.report import svg

_LARGEST = 90.0  # Square points of the mark of most queries.


def rank_movement(
    name: str, before: str, after: str,
    ranks: Sequence[tuple[int | None, int | None]],
) -> str:
  """A mark for each pair of ranks, as large as it has queries.

  Below the diagonal a query rose. What was not found lies on its own line,
  behind the deepest rank.

  Args:
    name: of the figure, unique in its page.
    before: name of the first system.
    after: name of the second.
    ranks: (before, after) of each query, from 1; None: not found.
  """
  deepest = max((rank for pair in ranks for rank in pair if rank), default=1)
  lost = 2.0 * max(deepest, 5)
  points = np.array([[rank or lost for rank in pair] for pair in ranks])
  places, counts = np.unique(points, axis=0, return_counts=True)
  rose = places[:, 1] < places[:, 0]
  fell = places[:, 1] > places[:, 0]

  def draw(axes):
    axes.plot([0.8, lost * 1.25], [0.8, lost * 1.25], color=svg.MUTED,
              linewidth=1, linestyle=(0, (4, 2)))
    sizes = 9 + _LARGEST * counts / max(counts.max(), 8)
    for group, label, series in (
        (rose, 'rose', 3), (fell, 'fell', 5), (~rose & ~fell, 'stayed', 0),
    ):
      axes.scatter(
          places[group, 0], places[group, 1], sizes[group], alpha=0.65,
          color=svg.series_color(series), linewidths=0,
          label=f'{label}: {counts[group].sum():,}',
      )
    ticks = [k for k in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
             if k <= deepest]
    axes.set_xscale('log')  # Before ticks, which it replaces.
    axes.set_yscale('log')
    for axis in (axes.xaxis, axes.yaxis):
      axis.set_ticks([*ticks, lost], [*map(str, ticks), 'none'])
      axis.set_ticks([], minor=True)
    axes.set_xlim(0.8, lost * 1.25)
    axes.set_ylim(0.8, lost * 1.25)
    axes.set_xlabel(f'rank by {before}')
    axes.set_ylabel(f'rank by {after}')
    legend = axes.legend(loc='upper left', bbox_to_anchor=(1.0, 1.0))
    for mark in legend.legend_handles:
      mark.set_sizes([30])

  return svg.draw(name, 'Rank of each query', draw, (5.2, 3.6))
