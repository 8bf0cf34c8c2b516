"""Figures of a comparison, for pages and for papers."""

import matplotlib
import numpy as np

from neg_contrast.report import comparison_figures, svg
from tests import finished
from tests.jobs import test_compare


def test_pdf_has_the_colours_of_the_page(tmp_path):
  def fill(axes):
    axes.errorbar([1, 2], [3, 4], [0.1, 0.2], color=svg.series_color(2),
                  label='a line', capsize=2)
    axes.axvline(1, color=svg.INK)
    axes.legend()

  with matplotlib.rc_context({'pdf.compression': 0}):
    made = svg.draw_pdf('Title', fill, (3, 2))
  assert b'0.00392' not in made  # Placeholders are #01....
  for name in ('series-2', 'ink', 'muted', 'line'):
    red = int(svg.PALETTE[name][1:3], 16) / 255
    assert f'{red:.10f}'[:8].encode() in made, name


def test_mean_curve_is_over_common_steps():
  curve = lambda steps, shift: (np.array(steps), np.array(steps) + shift)
  steps, values = comparison_figures.mean_curve(
      [curve([1, 2, 4], 0.0), curve([2, 3, 4], 1.0)])
  assert steps.tolist() == [2, 4] and values.tolist() == [2.5, 4.5]


def test_names_are_escaped(tmp_path):
  for n in range(2):
    finished.write(tmp_path / f'<b>run{n}&$x_1', None, n)
  made = test_compare.run(tmp_path / 'work', tmp_path / '*run*')
  assert list(made['rows']) == ['<b>run0&$x_1', '<b>run1&$x_1']
  page = (tmp_path / 'work' / 'comparison.html').read_text()
  assert '<b>' not in page and '&lt;b&gt;run0&amp;$x_1' in page
  assert r'\textless{}b\textgreater{}run0\&\$x\_1' in (
      tmp_path / 'work' / 'comparison.tex').read_text()
  assert r'\<b\>run0\&\$x\_1' in (
      tmp_path / 'work' / 'comparison.md').read_text()
