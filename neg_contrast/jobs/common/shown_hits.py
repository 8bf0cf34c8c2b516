"""Found passages as text for a terminal."""

import re
import textwrap

from neg_contrast import terminal
from neg_contrast.retrieval import finding

_WORDS_AROUND = 40
_FRONT_MATTER = re.compile(r'\A---[ \t]*\r?\n.*?^---[ \t]*(?:\r?\n|\Z)',
                           re.DOTALL | re.MULTILINE)
"""Of Markdown: settings of the page, between two lines of hyphens."""


def format_found(
    query: str, found: list[finding.Found], bold: bool, width: int
) -> str:
  """Passages with scores; the matching part stands out.

  Args:
    query: what was asked.
    found: best first.
    bold: mark the matching part by terminal codes; else by asterisks.
    width: of a line, in characters.
  """
  scores = [f'{one.score:.4f}' for one in found]
  score_width = max(map(len, scores), default=0)
  rank_width = len(str(len(found)))
  indent = ' ' * (rank_width + score_width + 6)
  lines = [f'\n{terminal.clean(query)}']
  for rank, (one, score) in enumerate(zip(found, scores, strict=True), 1):
    title = ' '.join((one.passage.title or one.passage.document_id).split())
    room = max(20, width - len(indent) - terminal.columns(one.passage.id) - 4)
    if terminal.columns(title) > room:
      title = terminal.fit(title, room - 3) + '...'
    lines.append(f'\n  {rank:{rank_width}d}. {score:>{score_width}}  ' + (
        terminal.styled(title, terminal.BOLD) + '  ' if title else ''
    ) + terminal.styled(f'[{one.passage.id}]', terminal.DIM))
    lines += textwrap.wrap(
        _marked(one, bold), max(40, width), initial_indent=indent,
        subsequent_indent=indent,
    )
  text = '\n'.join(lines)
  return text if bold else terminal.without_styles(text)


def _marked(one: finding.Found, bold: bool) -> str:
  """What surrounds the matching part of a text, which is marked.

  Front matter is left out; a match inside of it is not shown.
  """
  text, (start, stop) = one.passage.text, one.match
  front = _FRONT_MATTER.match(text)
  first = front.end() if front else 0
  start, stop = max(start, first), max(stop, first)
  before = _shorten(terminal.clean(text[first:start]), from_left=True)
  after = _shorten(terminal.clean(text[stop:]), from_left=False)
  part = terminal.clean(text[start:stop])
  if part:
    part = terminal.styled(part, terminal.BOLD) if bold else f'**{part}**'
  return ' '.join(f'{before} {part} {after}'.split())


def _shorten(text: str, from_left: bool) -> str:
  """At most some words of what surrounds a match."""
  words = text.split()
  if len(words) <= _WORDS_AROUND:
    return text
  return ('... ' + ' '.join(words[-_WORDS_AROUND:]) if from_left
          else ' '.join(words[:_WORDS_AROUND]) + ' ...')
