"""Folders of text files: each one a document, to be cut by `job=split`."""

import html.parser
import pathlib
from collections.abc import Iterator

from absl import logging

from neg_contrast import errors
from neg_contrast.artifacts import places
from neg_contrast.data import records
from neg_contrast.data.formats import markdown_text

_HTML = ('.html', '.htm')
_MARKDOWN = '.md'
SUFFIXES = ('.txt', _MARKDOWN, *_HTML)
# 2: Markdown without its marks; 3: titles of the first level; 4: of a page, not
# those of its drawings; 5: titles of Markdown that are underlined.
READING = 5
_UNSEEN = ('script', 'style', 'template', 'noscript')
_INLINE = ('a', 'abbr', 'b', 'bdi', 'bdo', 'cite', 'code', 'data', 'dfn', 'em',
           'font', 'i', 'kbd', 'mark', 'q', 's', 'samp', 'small', 'span',
           'strong', 'sub', 'sup', 'time', 'u', 'var', 'wbr')
"""Elements that end no word."""


class Text:
  """All text and HTML files below a folder, in the order of their paths.

  The id is the path within the folder, the title the name without its ending,
  or the document's own: that of a page, of front matter, or Markdown's first
  heading of the first level. Of HTML and Markdown the text that a reader sees
  is kept. A file without any is left out.
  """

  splits: tuple[str, ...] = ()

  def __init__(self, place: str, invalid: records.InvalidRecords):
    """Lists the files.

    Raises:
      UserError: there are none.
    """
    self._folder = places.path(place)
    self._invalid = invalid
    self.files = tuple(sorted(
        path for path in self._folder.rglob('*')
        if path.suffix.lower() in SUFFIXES and path.is_file()
    ))
    if not self.files:
      raise errors.UserError(
          f'text:{place}: no such folder, or no {", ".join(SUFFIXES[:-1])} or '
          f'{SUFFIXES[-1]} files below it'
      )

  def passages(self) -> Iterator[records.Passage]:
    """One a file."""
    blank: list[pathlib.Path] = []
    for path in self.files:
      name = path.relative_to(self._folder)
      try:
        text = path.read_text(encoding='utf-8-sig')
      except UnicodeDecodeError as e:
        self._invalid.report(
            'broken_record', str(path), f'not UTF-8 ({e.reason} at byte '
            f'{e.start})'
        )
        continue
      title = path.stem
      if path.suffix.lower() in _HTML:
        page = _Page()
        page.feed(text)
        page.close()
        text, title = page.text, page.title or title
      elif path.suffix.lower() == _MARKDOWN:
        own, text = markdown_text.read(text)
        title = own or title
      if text.strip():
        yield records.Passage(
            name.as_posix(), title, text, name.as_posix(), str(path)
        )
      else:  # Its name would be a title, and so a passage.
        blank.append(path)
    if blank:
      more = f' and {len(blank) - 1} more' if blank[1:] else ''
      logging.warning('%s%s: no text there; left out', blank[0], more)

  def queries(self) -> Iterator[records.Query]:
    """None."""
    return iter(())

  def judgements(self, split: str) -> Iterator[records.Judgement]:
    """None."""
    return iter(())


class _Page(html.parser.HTMLParser):
  """The title and the text of an HTML page."""

  def __init__(self):
    super().__init__()
    self._pieces: list[str] = []
    self._titles: list[str] = []
    self._open: list[str] = []  # Of those whose text is not seen, or a title.
    self._drawings = 0  # Open ones, which have titles of their own.
    self._is_titled = False

  @property
  def title(self) -> str:
    """The first, in one line; empty: it has none."""
    return ' '.join(''.join(self._titles).split())

  @property
  def text(self) -> str:
    """Lines without white space around them; none is empty."""
    lines = (' '.join(line.split()) for line in
             ''.join(self._pieces).splitlines())
    return '\n'.join(filter(None, lines))

  def handle_starttag(self, tag, attrs):
    """Begins a line, unless the element is a part of one."""
    del attrs
    self._drawings += tag == 'svg'
    if tag in _UNSEEN or tag == 'title':
      self._open.append(tag)
    elif tag not in _INLINE:
      self._pieces.append('\n')

  def handle_endtag(self, tag):
    """Ends the line."""
    self._drawings = max(self._drawings - (tag == 'svg'), 0)
    if tag in self._open:
      while self._open.pop() != tag:
        pass
      self._is_titled |= tag == 'title' and bool(self.title)
    elif tag not in _INLINE:
      self._pieces.append('\n')

  def handle_data(self, data):
    """Keeps what is seen; its own line breaks are spaces."""
    if not self._open:
      self._pieces.append(' '.join(data.split('\n')))
    elif self._open[-1] == 'title' and not (
        self._drawings or self._is_titled or self._titles[8:]):
      self._titles.append(data)


FORMAT = records.SourceFormat(
    'text:documents', Text,
    last_names=tuple(f'*{suffix}' for suffix in SUFFIXES), is_folder=True,
    reading=READING,
)
