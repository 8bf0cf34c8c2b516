"""HTML of results: escaped, whatever texts hold."""

import html.parser

import hypothesis
import pytest
from hypothesis import strategies as st

from neg_contrast import html_parts

HOSTILE = (
    '<script>alert(1)</script>', '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)", '</td></table><h1>', '&lt;b&gt;', '<!--', ']]>',
    '\x1b[2J', 'a\x00b', '\u202egnp', '<mark>',
)


class Reader(html.parser.HTMLParser):
  """Tags, attributes and texts of a page."""

  def __init__(self, page):
    super().__init__(convert_charrefs=True)
    self.tags, self.styles, self.cells = [], set(), []
    self.comments = 0
    self.feed(page)
    self.close()

  def handle_starttag(self, tag, attrs):
    self.tags.append(tag)
    self.styles |= set(attrs)
    if tag in ('td', 'th', 'caption'):
      self.cells.append('')

  def handle_data(self, data):
    if self.cells:
      self.cells[-1] += data

  def handle_comment(self, data):
    self.comments += 1


OURS = {'table', 'caption', 'thead', 'tbody', 'tr', 'th', 'td', 'mark', 'b',
        'p'}
STYLES = {('style', 'text-align:left'), ('style', 'text-align:right')}


def check(page, texts=()):
  """Nothing but our tags is there, and texts can be read."""
  read = Reader(page)
  assert set(read.tags) <= OURS, read.tags
  assert read.styles <= STYLES and not read.comments
  for text in texts:
    shown = ''.join(c if c.isprintable() else ' ' for c in text)
    assert any(shown in cell for cell in read.cells), text
  return read


@pytest.mark.parametrize('text', HOSTILE)
def test_hostile_texts_are_texts(text):
  page = html_parts.table(
      [text, 'b'], [[html_parts.text(text), html_parts.marked(text, 1, 3)]],
      text, (1,))
  read = check(page, [text])
  assert len(read.cells) == 5 and '\x1b' not in page and '\x00' not in page
  assert '\u202e' not in page  # Turns the reading direction of what follows.


@hypothesis.given(st.text(), st.integers(0, 20), st.integers(0, 20))
def test_any_text_is_a_text(text, start, end):
  start, end = sorted(min(place, len(text)) for place in (start, end))
  check(html_parts.table(['a'], [[html_parts.marked(text, start, end)]]))


def test_the_part_stands_between_marks():
  text = 'x' * 500 + ' a <b> part ' + 'y' * 500
  page = html_parts.marked(text, 501, 511)
  assert '<mark>a &lt;b&gt; part</mark>' in page
  assert page.startswith('… x') and page.endswith('y …')
  assert page.count('x') == 199 and page.count('y') == 199
  assert html_parts.marked('short', 0, 0) == 'short'
  assert html_parts.marked('z' * 500, 0, 0) == 'z' * 400 + ' …'
  assert html_parts.marked('abc', 0, 3) == '<mark>abc</mark>'


def test_numbers_stand_to_the_right():
  page = html_parts.table(['n', 'v'], [['a', html_parts.number(1 / 3)]],
                          numbers=(1,))
  assert '<td style="text-align:left">a</td>' in page
  assert '<td style="text-align:right">0.3333</td>' in page
  assert '<caption>' not in page
