"""Markdown as a reader sees it: its title, and text without its marks."""

import re

import yaml

_FRONT_MATTER = re.compile(
    r'---[ \t]*\n(?P<fields>[\w-]+[ \t]*:.*\n(?:.*\n)*?)'
    r'(?:---|\.\.\.)[ \t]*(?:\n|\Z)'
)
_HEADING = re.compile(
    r' {0,3}(?P<marks>#{1,6})(?:[ \t]+(?P<text>.*?))?(?:[ \t]+#+)?[ \t]*'
)
_UNDERLINE = re.compile(r' {0,3}=+[ \t]*')
_BLOCK = re.compile(  # HTML, a quote or a list: no line is in a paragraph.
    r' {0,3}(?:>|<[A-Za-z/!?]|(?:[-+*]|\d{1,9}[.)])(?:[ \t]|$)).*'
)
_RULE = re.compile(r' {0,3}(?:-+[ \t]*|([-_*])[ \t]*(?:\1[ \t]*){2,})')
_CODE = re.compile(r' {4}| {0,3}\t')
_FENCE = re.compile(r' {0,3}(?P<mark>`{3,}|~{3,})(?P<after>.*)')


def read(text: str) -> tuple[str, str]:
  """A document's title and text.

  Front matter (YAML between lines of ---) is left out, headings lose their #
  or their line of =, and code its fences; all else stays.

  Args:
    text: of the file; lines end with a line feed.

  Returns:
    (title, text). The title is that of front matter, or the first heading of
    the first level; empty: there is none.
  """
  title = ''
  if matter := _FRONT_MATTER.match(text):
    title = _title_of(matter['fields'])
    text = text[matter.end() :]
  kept, fence = [], ''
  paragraph: list[str] | None = []  # Its lines so far; None: it is none.
  for line in text.split('\n'):
    if found := _FENCE.fullmatch(line):
      paragraph = []
      if not fence:
        fence = found['mark']
        continue
      if found['mark'].startswith(fence) and not found['after'].strip():
        fence = ''
        continue
    elif not fence and (heading := _HEADING.fullmatch(line)):
      line, paragraph = heading['text'] or '', []
      if heading['marks'] == '#':
        title = title or line
    elif not fence and paragraph and _UNDERLINE.fullmatch(line):
      title, paragraph = title or ' '.join(paragraph), []
      continue
    elif fence or not line.strip() or _RULE.fullmatch(line):
      paragraph = []
    elif _BLOCK.fullmatch(line):
      paragraph = None
    elif paragraph is not None and (paragraph or not _CODE.match(line)):
      paragraph.append(line.strip())
    kept.append(line)
  return title, '\n'.join(kept)


def _title_of(fields: str) -> str:
  """In one line; empty: YAML has none, or is broken."""
  try:  # This loader makes texts, lists and dictionaries alone.
    known = yaml.load(fields, Loader=yaml.BaseLoader)
  except (yaml.YAMLError, RecursionError):
    return ''
  named = known.items() if isinstance(known, dict) else ()
  titles = [value for key, value in named
            if str(key).lower() == 'title' and isinstance(value, str)]
  return ' '.join(titles[0].split()) if titles else ''
