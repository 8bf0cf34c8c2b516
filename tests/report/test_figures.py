import pathlib
import re
import xml.etree.ElementTree as ET

import matplotlib
import numpy as np

from neg_contrast.report import figures
from neg_contrast.report import svg as svg_lib

NAME = 'a$x^2$ </svg><script>alert(1)</script> "#010101" id="b'


def texts_of(svg):
  return [''.join(e.itertext()) for e in ET.fromstring(svg).iter()
          if e.tag.endswith('text')]


def cuts(**kwargs):
  systems = {
      'bm25': {1: figures.Estimate(0.2, 0.1, 0.3), 20: figures.Estimate(0.5)},
      NAME: {1: figures.Estimate(0.25, 0.2, 0.35)},
  }
  return figures.cuts('cuts', 'accuracy', systems,
                      {'bm25': 0, NAME: svg_lib.SERIES + 1})


def test_takes_colours_from_the_page_and_keeps_names_whole():
  before = dict(matplotlib.rcParams)
  svg = cuts()
  assert dict(matplotlib.rcParams) == before
  assert svg == cuts()
  assert NAME in texts_of(svg) and 'accuracy@k' in texts_of(svg)
  assert '<script' not in svg and svg.count('</svg>') == 1
  for variable in ('--ink', '--muted', '--line', '--series-0', '--series-1'):
    assert f'var({variable})' in svg
  tags = ''.join(re.findall('<[^>]*>', svg))
  assert not re.findall('#[0-9a-f]{6}[^0-9a-f]', tags)
  assert 'font-family' not in tags and '<style' not in tags
  assert 'http' not in re.sub(r'xmlns(:xlink)?="[^"]*"', '', tags)


def test_ids_of_two_figures_differ_and_lead_somewhere():
  curve = {'': (np.arange(3), np.arange(3.0))}
  svgs = [figures.curves(name, 'Loss', curve, series=2) for name in 'ab']
  ids = [set(re.findall(' id="([^"]*)"', svg)) for svg in svgs]
  assert ids[0] and not ids[0] & ids[1]
  for svg, known in zip(svgs, ids, strict=True):
    assert set(re.findall(r'(?:url\(#|href="#)([^)"]*)', svg)) <= known


def test_intervals_are_drawn_where_they_are():
  values = {'accuracy@1': figures.Estimate(0.2, 0.1, 0.3),
            'mrr': figures.Estimate(0.1, -0.1, 0.4),
            'map': figures.Estimate(-0.1)}
  svg = figures.differences('d', 'after − before', values, 3)
  texts = texts_of(svg)
  assert {'accuracy@1', 'mrr', 'map', '0'} <= set(texts)
  assert '−0.1' in texts and '-0.1' not in texts
  # The line and dot of accuracy@1 and of map; mrr may be none at all.
  assert len(re.findall(r'd="M[^"]*"[^>]*stroke: var\(--series-3\)', svg)) >= 2


def test_best_step_histogram_and_single_points():
  steps = np.arange(1, 1201)
  svg = figures.curves(
      'loss', 'Loss',
      {'mean': (steps, 1 / steps), 'other': (steps, steps * 1.0)},
      series=2, mark=(400, 'best: step 400'),
  )
  assert {'mean', 'other', 'best: step 400', 'step'} <= set(texts_of(svg))
  assert len(svg) < 40_000  # 1,200 points are thinned.
  assert figures.curves('one', 'One', {'': (steps[:1], steps[:1] * 1.)},
                        series=0, from_zero=True)
  counts = np.bincount([3, 3, 4, 9, 9, 9, 700])
  svg = figures.histogram('h', 'Lengths', counts, 8, 'queries')
  assert {'cut at 8', 'queries', 'tokens'} <= set(texts_of(svg))
  assert 'cut at 8' not in texts_of(
      figures.histogram('h', 'Lengths', np.bincount([3, 4]), 384, 'queries'))


def test_curves_of_equal_rank_have_their_colours():
  lines = {name: (np.arange(3), np.arange(3.0)) for name in ('a', NAME)}
  svg = figures.curves('c', 'C', lines, series=0, colours={'a': 3, NAME: 5})
  assert 'var(--series-3)' in svg and 'var(--series-5)' in svg
  assert 'var(--series-0)' not in svg and NAME in texts_of(svg)


def test_bars():
  svg = figures.bars('b', NAME, np.array([-0.5, 0.5, 1.5]),
                     np.array([0.25, 0.5]), 'rank', 'of queries', 4, mark=-0.25)
  texts = texts_of(svg)
  assert {NAME, 'rank', 'of queries', '40%', '−0.5'} <= set(texts)
  assert 'var(--series-4)' in svg and svg.count('</svg>') == 1


def test_heat_map_leaves_out_what_is_known_anyway():
  shares = np.array([[1, 0.25, np.nan], [0.5, 1, 0], [np.nan, 0.126, 1]])
  svg = figures.heat_map('h', 'Overlap', ('a', 'b', NAME), shares, ('of', 'in'))
  texts = texts_of(svg)
  cells = [text for text in texts if text == '–' or text.endswith('%')]
  assert cells == ['–', '25%', '–', '50%', '–', '0%', '–', '13%', '–']
  assert texts.count(NAME) == 2 and {'of', 'in'} <= set(texts)
  assert 'aria-label="Overlap"' in svg and 'Overlap' not in texts
  assert '<image' not in svg  # The policy of the page forbids them.


def test_thin_keeps_the_mean():
  values = np.random.default_rng(0).random(2000)
  thinned = figures.thin(values)
  assert len(thinned) == 200
  np.testing.assert_allclose(thinned.mean(), values.mean())
  assert figures.thin(values[:9]) is not None
  np.testing.assert_array_equal(figures.thin(values[:9]), values[:9])


def test_signed():
  assert [figures.signed(v, '+.2f') for v in (0.5, -0.25, 0)] == [
      '+0.50', '−0.25', '0']


def test_standing_alone_a_figure_has_the_colours_of_the_report():
  svg = svg_lib.standalone(cuts())
  style = ET.fromstring(svg)[0].text
  page = pathlib.Path(figures.__file__).with_name('report.html.jinja')
  by_day = page.read_text().partition('@media')[0]
  used = set(re.findall(r'var\(--([a-z0-9-]+)\)', svg))
  assert {'ink', 'series-0', 'series-1'} <= used
  for name in used:
    assert re.search(f'--{name}: #[0-9a-f]{{6}};', style)[0] in by_day


def test_smoothing_keeps_means_and_ends():
  values = np.array([3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0])
  smooth = figures.smooth(values)
  np.testing.assert_allclose(smooth[[0, 3, 7]], [2.0, 10 / 3, 4.0])
  np.testing.assert_allclose(figures.smooth(np.full(50, 0.7)), 0.7)
  steps = np.arange(1, 61)
  noisy = np.sin(steps)
  line = {'': (steps, noisy)}
  plain, faint = (figures.curves('x', 'Loss', line, series=2,
                                 is_smoothed=is_smoothed)
                  for is_smoothed in (False, True))
  assert faint.count('var(--series-2)') == plain.count('var(--series-2)') + 1
