"""SVG text that takes its colours and fonts from the page around it.

Pure: no state of matplotlib is left changed, and equal arguments give equal
bytes.
"""

import contextlib
import html
import io
import re
from collections.abc import Callable, Iterator
from typing import Any

from neg_contrast import terminal

SERIES = 8
"""The page's style sheet defines the colours --series-0 to --series-7."""

# Colours that nobody would choose stand for names of the style sheet.
INK, MUTED, LINE = '#010101', '#010102', '#010103'
_VARIABLES = {
    INK: 'var(--ink)', MUTED: 'var(--muted)', LINE: 'var(--line)',
    **{f'#0102{n:02x}': f'var(--series-{n})' for n in range(SERIES)},
}
# Those of report.html.jinja, by day, for figures that stand alone.
PALETTE = {
    'ink': '#1d2127', 'muted': '#646b75', 'line': '#e2e3e1',
    'series-0': '#83888f', 'series-1': '#c0782a', 'series-2': '#1f5fa8',
    'series-3': '#2f8158', 'series-4': '#8a4fa3', 'series-5': '#b4405b',
    'series-6': '#2b8a95', 'series-7': '#7a6a2c',
}
_SETTINGS: dict[Any, Any] = {
    'svg.fonttype': 'none',  # Text stays text, in the font of the page.
    'text.parse_math': False,  # A $ in a name is a $.
    'font.family': 'DejaVu Sans',  # Comes with matplotlib.
    'font.size': 9,
    'axes.edgecolor': LINE,
    'axes.labelcolor': MUTED,
    'axes.titlecolor': INK,
    'axes.titlelocation': 'left',
    'axes.titlesize': 10,
    'axes.titleweight': 'bold',
    'axes.spines.top': False,
    'axes.spines.right': False,
    'axes.grid': True,
    'axes.axisbelow': True,
    'axes.unicode_minus': False,
    'grid.color': LINE,
    'grid.linewidth': 0.6,
    'xtick.color': LINE,
    'ytick.color': LINE,
    'xtick.labelcolor': MUTED,
    'ytick.labelcolor': MUTED,
    'legend.frameon': False,
    'legend.labelcolor': INK,
    'legend.fontsize': 8.5,
}


def series_color(series: int) -> str:
  """The placeholder of a series' colour."""
  return f'#0102{series % SERIES:02x}'


def standalone(svg: str) -> str:
  """A figure as a file of its own, on white."""
  colours = ' '.join(f'--{name}: {value};' for name, value in PALETTE.items())
  style = (f'<style>svg {{ {colours} background: #fff; '
           'font-family: sans-serif; }</style>')
  head, _, rest = svg.partition('>')
  return f'<?xml version="1.0" encoding="utf-8"?>\n{head}>{style}{rest}\n'


def draw(
    name: str,
    title: str,
    fill: Callable[[Any], None],
    size: tuple[float, float],
) -> str:
  """A `<svg>` element without sizes, fonts and colours of its own.

  Args:
    name: of the figure, unique in its page.
    title: above it.
    fill: draws into matplotlib's axes.
    size: width and height, in inches.
  """
  buffer = io.StringIO()
  with _chart(title, fill, size, {'svg.hashsalt': name}) as chart:
    chart.savefig(
        buffer, format='svg', transparent=True,
        metadata=dict.fromkeys(('Date', 'Creator', 'Format', 'Type')),
    )
  svg = terminal.clean(buffer.getvalue())  # XML has no other characters.
  svg = svg[svg.index('<svg'):]
  # A style element would hold for the whole page.
  svg = re.sub('<style.*?</style>', '', svg, count=1, flags=re.DOTALL)
  svg = re.sub('<[^>]*>', lambda m: _adapt(m[0], name), svg)
  head, _, rest = svg.partition('>')
  return f'{head} role="img" aria-label="{html.escape(title)}">{rest}'


def draw_pdf(
    title: str, fill: Callable[[Any], None], size: tuple[float, float]
) -> bytes:
  """The same figure as a PDF of its own, in the colours of `standalone`.

  Args:
    title: above it.
    fill: as of `draw`.
    size: width and height, in inches.
  """
  buffer = io.BytesIO()
  with _chart(title, fill, size, {'pdf.fonttype': 42}) as chart:
    chart.draw_without_rendering()  # Ticks and legends are there from now on.
    for artist in chart.findobj():
      _paint(artist)
    chart.savefig(buffer, format='pdf', metadata=dict.fromkeys(
        ('CreationDate', 'Creator', 'Producer')
    ))
  return buffer.getvalue()


@contextlib.contextmanager
def _chart(
    title: str,
    fill: Callable[[Any], None],
    size: tuple[float, float],
    settings: dict[Any, Any],
) -> Iterator[Any]:
  """A figure that is filled; settings hold while it is saved."""
  import matplotlib  # Slow to import, and only reports need it.
  from matplotlib import figure

  with matplotlib.rc_context({**_SETTINGS, **settings}):
    chart = figure.Figure(figsize=size, layout='constrained')
    axes = chart.add_subplot()
    axes.set_title(title)
    axes.tick_params(length=3)
    fill(axes)
    yield chart


def _paint(artist: Any) -> None:
  """Gives an artist the colours that its placeholders stand for."""
  from matplotlib import colors

  wanted = {placeholder: PALETTE[variable[len('var(--'):-1]]
            for placeholder, variable in _VARIABLES.items()}
  for name in ('color', 'facecolor', 'edgecolor', 'markerfacecolor',
               'markeredgecolor'):
    has = getattr(artist, f'get_{name}', None)
    if has is None or not hasattr(artist, f'set_{name}'):
      continue
    found = colors.to_rgba_array(has())
    painted = [colors.to_rgba(wanted.get(colors.to_hex(one), tuple(one)),
                              one[3]) for one in found]
    if painted and painted != [tuple(one) for one in found]:
      getattr(artist, f'set_{name}')(
          painted if len(painted) > 1 else painted[0]
      )


def _adapt(tag: str, name: str) -> str:
  """A tag with the page's colours, ids unique in it, and no size of its own."""
  if tag.startswith('<svg'):
    return re.sub(r' (?:width|height)="[0-9.]+pt"', '', tag)
  # Several figures share one page: their ids must differ.
  tag = re.sub(r'( id="|url\(#|href="#)', rf'\g<1>{name}-', tag)
  tag = re.sub('; font-family: [^;"]*|font-family: [^;"]*; ', '', tag)
  return re.sub('#0[0-9a-f]{5}', lambda m: _VARIABLES.get(m[0], m[0]), tag)
