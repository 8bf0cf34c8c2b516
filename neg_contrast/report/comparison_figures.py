"""The figures of a comparison, for a page (SVG) and for a paper (PDF)."""

import dataclasses
import pathlib
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from neg_contrast.evaluation import comparison as comparison_lib
from neg_contrast.report import figures, svg, training_facts

_FIRST_COLOUR = 2  # Grey and brown are BM25's and the start's elsewhere.
_HEIGHT_OF_ROW = 0.34  # Inches.
_HEIGHT_OF_LINE = 0.14  # Of each further line of its name.
_WIDTH_OF_NAME = 30  # Characters.
_MOST_LINES = 4
_LINES = '-', '--', ':', '-.'  # They can be told apart in grey, too.

Curve = tuple[np.ndarray, np.ndarray]
"""`[points]` steps, `[points]` values."""


@dataclasses.dataclass(frozen=True)
class Drawing:
  """A figure that is drawn when it is known as what.

  Attributes:
    name: unique in its page.
    title: above it.
    fill: draws into matplotlib's axes.
    size: width and height, in inches.
  """

  name: str
  title: str
  fill: Callable[[Any], None]
  size: tuple[float, float]

  def svg(self) -> str:
    """As an element of a page."""
    return svg.draw(self.name, self.title, self.fill, self.size)

  def pdf(self) -> bytes:
    """As a file of its own."""
    return svg.draw_pdf(self.title, self.fill, self.size)


def outcome(
    name: str, made: comparison_lib.Comparison, metric: str
) -> Drawing:
  """Differences to the baseline with intervals, and a dot for each seed.

  Args:
    name: of the figure.
    made: the comparison.
    metric: one of its columns.
  """
  rows = [row for row in made.rows if row.name != made.baseline]
  names = [in_lines(row.name) for row in reversed(rows)]

  def fill(axes):
    for place, row in enumerate(reversed(rows)):
      by_seed = list(made.differences(row, metric).values())
      pair = made.pair(row, metric)
      is_sure = pair is not None and (pair.low > 0 or pair.high < 0)
      colour = svg.series_color(_FIRST_COLOUR) if is_sure else svg.MUTED
      if pair is not None:
        axes.plot([pair.low, pair.high], [place, place], color=colour,
                  linewidth=1.6)
      axes.plot(by_seed, place + np.linspace(0.16, 0.34, len(by_seed)), '.',
                color=svg.MUTED, markersize=4)
      middle = np.mean(by_seed) if pair is None else pair.difference
      axes.plot([middle], [place], 'o', color=colour, markersize=5.5)
    axes.axvline(0, color=svg.INK, linewidth=0.9)
    axes.set_yticks(range(len(rows)), names)
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.tick_params(axis='y', length=0, labelcolor=svg.INK)
    axes.grid(axis='y', visible=False)
    axes.spines['left'].set_visible(False)
    axes.set_xlabel(in_lines(f'difference to {made.baseline}', 60)
                    + '\ngrey: the interval holds 0; small: each seed')
    axes.xaxis.set_major_formatter(
        lambda value, _: figures.signed(value, '+.3g')
    )

  title = f'{metric} on {made.dataset}'
  further = sum(one.count('\n') for one in names)
  return Drawing(name, title, fill, (
      5.2, 1.3 + _HEIGHT_OF_ROW * len(rows) + _HEIGHT_OF_LINE * further
  ))


def in_lines(name: str, width: int = _WIDTH_OF_NAME) -> str:
  """A name of bounded width and height, broken at its spaces if it has some.

  Args:
    name: of a row: the keys that it differs in.
    width: characters of a line; of a longer word the middle is left out.
  """
  words = (word if len(word) <= width else
           f'{word[:width // 2 - 1]}…{word[-(width // 2):]}'
           for word in name.split(' '))
  return '\n'.join(textwrap.wrap(' '.join(words), width, max_lines=_MOST_LINES,
                                 placeholder=' …', break_on_hyphens=False))


def learning_curves(
    name: str, made: comparison_lib.Comparison
) -> list[Drawing]:
  """Loss and the first tune metric against the step, a line a row.

  Of each row the mean over its seeds at the steps that all of them logged; none
  where no run has a log.

  Args:
    name: of the figures.
    made: the comparison.
  """
  loss: dict[str, list[Curve]] = {}
  tune: dict[str, dict[str, list[Curve]]] = {}
  seen: set[pathlib.Path] = set()  # A run may have several systems.
  for row in made.rows:
    for run in () if row.is_shared else row.runs:
      training = training_facts.read(run.workdir)
      if training is None or run.workdir in seen:
        continue
      seen.add(run.workdir)
      if 'loss' in training.columns:
        loss.setdefault(row.name, []).append(training.columns['loss'])
      for metric, curve in training.tune.items():
        tune.setdefault(metric, {}).setdefault(row.name, []).append(curve)
  drawn = [_curves(f'{name}-{metric}', f'{metric} on the tune split, mean of '
                   'the seeds', of)
           for metric, of in list(tune.items())[:1]]
  if loss:
    drawn.append(_curves(f'{name}-loss', 'Loss, mean of the seeds', loss))
  return drawn


def _curves(
    name: str, title: str, rows: Mapping[str, Sequence[Curve]]
) -> Drawing:
  def fill(axes):
    for place, (row, curves) in enumerate(rows.items()):
      steps, values = mean_curve(curves)
      axes.plot(
          figures.thin(steps), figures.thin(values), label=in_lines(row),
          linewidth=1.4,
          color=svg.series_color(place + _FIRST_COLOUR), markersize=3,
          marker='o' if len(steps) < 30 else None,
          linestyle=_LINES[place % len(_LINES)],
      )
    axes.set_xlabel('step')
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend(loc='best')

  return Drawing(name, title, fill, (5.2, 3.2))


def mean_curve(curves: Sequence[Curve]) -> Curve:
  """The mean of curves at the steps that all of them have."""
  steps = curves[0][0]
  for other, _ in curves[1:]:
    steps = np.intersect1d(steps, other)
  values = [of[np.searchsorted(at, steps)] for at, of in curves]
  return steps, np.mean(values, axis=0)
