"""Charts as SVG text, of the kinds that reports show.

Pure: see `svg`.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from neg_contrast.report import svg

SHOWN_PART = 0.99
"""Of the sequences in a histogram of lengths; the rest is longer."""

_POINTS = 200  # Of a curve: as many as a chart of this width can show.
_BINS = 60
_SMOOTH_FROM = 12  # Points.

_MARKERS = ('s', 'o', 'D', '^', 'v', 'P', 'X', '*')
_DASHES = ('-', '--', ':', '-.')


@dataclasses.dataclass(frozen=True)
class Estimate:
  """A mean over queries.

  Attributes:
    value: the mean.
    low: of its confidence interval; None where that is not known.
    high: the same.
  """

  value: float
  low: float | None = None
  high: float | None = None


def cuts(
    name: str,
    metric: str,
    systems: Mapping[str, Mapping[int, Estimate]],
    series: Mapping[str, int],
) -> str:
  """A metric against its cut-off k, a line with intervals for each system.

  Args:
    name: of the figure, unique in its page.
    metric: without its `@k`.
    systems: k -> estimate, of each system.
    series: number of each system's colour.
  """

  def draw(axes):
    for place, (system, values) in enumerate(systems.items()):
      ks = sorted(values)
      # Side by side, so that no interval hides another one.
      shift = 1.045 ** (place - (len(systems) - 1) / 2)
      means = np.array([values[k].value for k in ks])
      ends = [[_or(values[k].low, values[k].value) for k in ks],
              [_or(values[k].high, values[k].value) for k in ks]]
      axes.errorbar(
          [k * shift for k in ks], means, np.abs(np.array(ends) - means),
          label=system, color=svg.series_color(series[system]), markersize=4.5,
          marker=_MARKERS[series[system] % svg.SERIES], linewidth=1.6,
          elinewidth=1.3, capsize=2.5,
      )
    axes.set_xscale('log')
    ks = sorted({k for values in systems.values() for k in values})
    axes.set_xticks(ks, [str(k) for k in ks])
    axes.set_xticks([], minor=True)
    axes.set_xlabel('k')
    axes.legend(loc='lower right')

  return svg.draw(name, f'{metric}@k', draw, (5.2, 3.2))


def differences(
    name: str, title: str, values: Mapping[str, Estimate], series: int
) -> str:
  """Differences of two systems with their intervals, a line a metric.

  Args:
    name: of the figure, unique in its page.
    title: above it.
    values: metric -> difference.
    series: number of the colour of those whose interval does not hold 0.
  """

  def draw(axes):
    places = np.arange(len(values))[::-1]
    for place, value in zip(places, values.values(), strict=True):
      low, high = _or(value.low, value.value), _or(value.high, value.value)
      color = svg.MUTED if low <= 0 <= high else svg.series_color(series)
      axes.plot([low, high], [place, place], color=color, linewidth=1.6)
      axes.plot([value.value], [place], 'o', color=color, markersize=5.5)
    axes.axvline(0, color=svg.INK, linewidth=0.9)
    axes.set_yticks(places, list(values))
    axes.set_ylim(-0.7, len(values) - 0.3)
    axes.tick_params(axis='y', length=0, labelcolor=svg.INK)
    axes.grid(axis='y', visible=False)
    axes.spines['left'].set_visible(False)
    axes.xaxis.set_major_locator(ticker.MaxNLocator(6))
    axes.xaxis.set_major_formatter(lambda value, _: signed(value, '+.3g'))

  from matplotlib import ticker  # As in svg.draw.

  height = min(7.0, max(1.5, 0.9 + 0.34 * len(values)))
  return svg.draw(name, title, draw, (5.2, height))


def curves(
    name: str,
    title: str,
    lines: Mapping[str, tuple[np.ndarray, np.ndarray]],
    *,
    series: int,
    colours: Mapping[str, int] | None = None,
    mark: tuple[int, str] | None = None,
    markers: bool = False,
    from_zero: bool = False,
    is_smoothed: bool = False,
) -> str:
  """Values against training steps; long curves are averaged piece by piece.

  Args:
    name: of the figure, unique in its page.
    title: above it.
    lines: label -> (`[points]` steps, `[points]` values); '' is not shown as a
      label.
    series: number of the first line's colour; others are grey and dashed.
    colours: numbers of the colours by label, where all lines count the same.
    mark: a step to point out, and what it is.
    markers: draw each point.
    from_zero: begin the axis of values at 0.
    is_smoothed: draw a moving average, and the first line's values faintly.
  """

  def draw(axes):
    for place, (label, (steps, values)) in enumerate(lines.items()):
      color = svg.MUTED if place else svg.series_color(series)
      if is_smoothed and len(values) > _SMOOTH_FROM:
        if not place:
          axes.plot(thin(steps), thin(values), color=color, linewidth=0.8,
                    alpha=0.35)
        values = smooth(values)
      axes.plot(
          thin(steps), thin(values), _DASHES[place % len(_DASHES)],
          label=label, zorder=2 - 0.1 * place,
          linewidth=1 if place and colours is None else 1.5,
          color=color if colours is None else svg.series_color(colours[label]),
          marker='o' if markers or len(steps) == 1 else None, markersize=3,
      )
    if mark is not None:
      axes.axvline(mark[0], color=svg.MUTED, linewidth=1, linestyle=(0, (2, 2)))
      # At the end of the title's line, where no curve can run through it.
      axes.set_title(
          mark[1], loc='right', color=svg.MUTED, fontsize=8, fontweight='normal'
      )
    if from_zero:
      axes.set_ylim(bottom=0)
    axes.set_xlabel('step')
    axes.xaxis.get_major_locator().set_params(integer=True)
    if any(lines):
      axes.legend(loc='best')

  return svg.draw(name, title, draw, (4.2, 2.5))


def histogram(
    name: str, title: str, counts: np.ndarray, cut: int, label: str
) -> str:
  """How many sequences have how many tokens, with the cut marked.

  The longest hundredth is left out, where it would flatten the rest.

  Args:
    name: of the figure, unique in its page.
    title: above it.
    counts: `[longest + 1]` sequences with n tokens.
    cut: tokens that sequences are cut to.
    label: of the vertical axis.
  """
  total = np.cumsum(counts)
  end = 1 + int(np.argmax(total >= SHOWN_PART * total[-1]))

  def draw(axes):
    width = max(1, -(-end // _BINS))
    bins = np.arange(0, end + width, width)
    axes.hist(
        np.arange(end), bins, weights=counts[:end], color=svg.MUTED, alpha=0.7,
        rwidth=0.9,
    )
    if cut <= 2 * end:  # Else the cut would squeeze all bars to the left.
      axes.axvline(cut, color=svg.INK, linewidth=1.2, linestyle=(0, (4, 2)))
      axes.annotate(
          f'cut at {cut}', (cut, 1), xycoords=('data', 'axes fraction'),
          xytext=(-4 if cut > end / 2 else 4, -2), textcoords='offset points',
          ha='right' if cut > end / 2 else 'left', va='top', color=svg.INK,
          fontsize=8.5,
      )
    axes.set_xlim(left=0)
    axes.set_xlabel('tokens')
    axes.set_ylabel(label)
    axes.yaxis.set_major_formatter(lambda value, _: f'{value:,.0f}')
    axes.grid(axis='x', visible=False)

  return svg.draw(name, title, draw, (4.6, 2.6))


def bars(
    name: str,
    title: str,
    edges: np.ndarray,
    shares: np.ndarray,
    label: str,
    what: str,
    series: int,
    mark: float | None = None,
) -> str:
  """A small histogram.

  Args:
    name: of the figure, unique in its page.
    title: above it.
    edges: `[bins + 1]`, ascending.
    shares: `[bins]`, between 0 and 1.
    label: of the values.
    what: the shares are of.
    series: number of the colour.
    mark: a value to point out.
  """

  def draw(axes):
    axes.stairs(
        shares, edges, fill=True, color=svg.series_color(series), alpha=0.75
    )
    if mark is not None:
      axes.axvline(mark, color=svg.INK, linewidth=1, linestyle=(0, (4, 2)))
    axes.set_ylim(bottom=0)
    axes.set_xlabel(label)
    axes.set_ylabel(what)
    axes.xaxis.set_major_locator(ticker.MaxNLocator(5))
    axes.xaxis.set_major_formatter(
        lambda value, _: f'{value:g}'.replace('-', '−')
    )
    axes.yaxis.set_major_locator(
        ticker.MaxNLocator(4, steps=[1, 2, 2.5, 5, 10])
    )
    axes.yaxis.set_major_formatter(lambda value, _: f'{100 * value:.3g}%')
    axes.grid(axis='x', visible=False)

  from matplotlib import ticker  # As in svg.draw.

  return svg.draw(name, title, draw, (3.1, 2.0))


def reliability(
    name: str, title: str, bins: Sequence[Mapping[str, float]]
) -> str:
  """A reliability diagram: what is positive, by how probable it was said to be.

  Calibrated probabilities lie on the diagonal (Guo et al., 2017, figure 1).

  Args:
    name: of the figure, unique in its page.
    title: above it.
    bins: each with `probability`, `positive` and `pairs`.
  """

  def draw(axes):
    axes.plot([0, 1], [0, 1], color=svg.INK, linewidth=1,
              linestyle=(0, (4, 2)))
    axes.plot(
        [one['probability'] for one in bins],
        [one['positive'] for one in bins], marker='o', markersize=4,
        color=svg.series_color(2),
    )
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(-0.02, 1.02)
    axes.set_xlabel('probability')
    axes.set_ylabel('positive')

  return svg.draw(name, title, draw, (3.1, 2.6))


def heat_map(
    name: str,
    title: str,
    labels: Sequence[str],
    shares: np.ndarray,
    sides: tuple[str, str],
) -> str:
  """Shares of rows that columns have too; the diagonal says nothing.

  Args:
    name: of the figure, unique in its page.
    title: for those who don't see it.
    labels: of rows and columns alike.
    shares: `[labels, labels]`, between 0 and 1; nan: unknown.
    sides: what rows and columns are.
  """
  from matplotlib import patches  # As in svg.draw.

  def draw(axes):
    for (row, column), share in np.ndenumerate(shares):
      known = row != column and not np.isnan(share)
      axes.add_patch(patches.Rectangle(
          (column - 0.47, row - 0.45), 0.94, 0.9, linewidth=0,
          # At the most, so that the number stays readable.
          **({'facecolor': svg.series_color(2), 'alpha': 0.05 + 0.5 * share}
             if known else {'facecolor': svg.LINE, 'alpha': 0.4}),
      ))
      axes.text(
          column, row, f'{100 * share:.0f}%' if known else '–', va='center',
          ha='center', color=svg.INK if known else svg.MUTED, fontsize=10,
      )
    places = np.arange(len(labels))
    axes.set_xticks(places, list(labels))
    axes.set_yticks(places, list(labels))
    axes.set_title('')
    axes.set_ylabel(sides[0])
    axes.set_xlabel(sides[1])
    axes.set_xlim(-0.5, len(labels) - 0.5)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.tick_params(length=0, labelcolor=svg.INK)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)

  width = 0.8 + 0.07 * max(map(len, labels)) + 0.85 * len(labels)
  return svg.draw(name, title, draw, (width, 1.1 + 0.5 * len(labels)))


def signed(value: float, form: str) -> str:
  """A number with its sign, a true minus, in a format; 0 has none."""
  return f'{value:{form}}'.replace('-', '−') if value else '0'


def thin(values: np.ndarray) -> np.ndarray:
  """`[at most 200]` means of consecutive pieces of a long curve."""
  if len(values) <= _POINTS:
    return values
  pieces = np.array_split(values, _POINTS)
  return np.array([piece.mean() for piece in pieces])


def smooth(values: np.ndarray) -> np.ndarray:
  """Means over a tenth of the curve around each point; `[points] float`."""
  reach = max(1, len(values) // 20)
  sums = np.concatenate([[0.0], np.cumsum(values)])
  places = np.arange(len(values))
  ends = np.minimum(places + reach + 1, len(values))
  begins = np.maximum(places - reach, 0)
  return (sums[ends] - sums[begins]) / (ends - begins)


def _or(value: float | None, default: float) -> float:
  return default if value is None else value
