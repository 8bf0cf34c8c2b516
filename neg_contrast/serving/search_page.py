"""The page that a query is typed into: HTML without scripts.

Queries and texts come from anybody: the template escapes all of them, and the
page's policy allows no script, no request and no frame.
"""

import base64
import dataclasses
import functools
import hashlib
import pathlib
import re
from collections.abc import Sequence
from typing import Any

from neg_contrast.retrieval import finding

_TEMPLATE = 'search.html.jinja'
_WORDS_AROUND = 60


@dataclasses.dataclass(frozen=True)
class About:
  """What is served.

  Attributes:
    model: its name.
    corpus: name of the source.
    passages: of the corpus.
    depth: passages for a query, unless a request says otherwise.
    most_depth: passages that a request may ask for.
    most_characters: of a query.
  """

  model: str
  corpus: str
  passages: int
  depth: int
  most_depth: int
  most_characters: int


@dataclasses.dataclass(frozen=True)
class Shown:
  """A hit as the page shows it.

  Attributes:
    title: of the passage.
    id: of the passage.
    score: of the passage.
    before: what is shown before the matching part.
    match: the matching part.
    after: what is shown after it.
  """

  title: str
  id: str
  score: float
  before: str
  match: str
  after: str


def render(
    about: About,
    query: str = '',
    depth: int | None = None,
    hits: Sequence[finding.Found] | None = None,
    error: str = '',
    seconds: float = 0.0,
) -> str:
  """The page.

  Args:
    about: what is served.
    query: that was typed.
    depth: passages wanted.
    hits: that were found; None: nothing was searched.
    error: that is shown instead.
    seconds: that the search took.
  """
  template, _ = _parts()
  return template.render(
      about=about, query=query, depth=depth or about.depth, error=error,
      hits=None if hits is None else [*map(_shown, hits)], seconds=seconds,
  )


def policy() -> str:
  """The Content-Security-Policy of the page."""
  return (f"default-src 'none'; style-src '{_parts()[1]}'; form-action 'self'; "
          "base-uri 'none'; frame-ancestors 'none'")


@functools.cache
def _parts() -> tuple[Any, str]:
  """The template, and the hash of its style."""
  import jinja2

  environment = jinja2.Environment(
      loader=jinja2.FileSystemLoader(pathlib.Path(__file__).parent),
      autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True,
      lstrip_blocks=True,
  )
  environment.filters['count'] = '{:,}'.format
  source = pathlib.Path(__file__).with_name(_TEMPLATE).read_text('utf-8')
  style = re.search('<style>(.*)</style>', source, re.DOTALL)
  assert style is not None
  digest = hashlib.sha256(style.group(1).encode()).digest()
  code = base64.b64encode(digest).decode()
  return environment.get_template(_TEMPLATE), f'sha256-{code}'


def _shown(hit: finding.Found) -> Shown:
  text, (begin, end) = hit.passage.text, hit.match
  before, after = text[:begin].split(' '), text[end:].split(' ')
  if len(before) > _WORDS_AROUND:
    before = ['…', *before[-_WORDS_AROUND:]]
  if len(after) > _WORDS_AROUND:
    after = [*after[:_WORDS_AROUND], '…']
  return Shown(
      hit.passage.title or hit.passage.document_id, hit.passage.id, hit.score,
      _printable(' '.join(before)), _printable(text[begin:end]),
      _printable(' '.join(after)),
  )


def _printable(text: str) -> str:
  """As many characters, without those that no reader sees."""
  return ''.join(c if c.isprintable() or c == '\n' else ' ' for c in text)
