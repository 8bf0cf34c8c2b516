"""Answers queries with passages: `--config.query`, or a prompt."""

import contextlib
import functools
import json
import pathlib
import re
import shutil
import sys
import textwrap
from typing import Any

from neg_contrast import terminal
from neg_contrast.artifacts import artifact
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.jobs.common import (
  checks,
  next_command,
  settings_of_rooms,
)
from neg_contrast.models import by_name
from neg_contrast.retrieval import (
  by_document,
  corpus_index,
  finding,
  vectors,
)
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.settings import config as config_lib

_WORDS_AROUND = 40
_FRONT_MATTER = re.compile(r'\A---[ \t]*\r?\n.*?^---[ \t]*(?:\r?\n|\Z)',
                           re.DOTALL | re.MULTILINE)
"""Of Markdown: settings of the page, between two lines of hyphens."""


def check(config: config_lib.Config) -> None:
  """Refuses a config that does not suit `job=search`."""
  checks.check_source(config)
  checks.check_checkpoint(config)
  if config.query and not config.query.strip():
    raise config.error('query', 'is blank; ask something')
  query_features(config)


def query_features(config: config_lib.Config) -> dict[str, Any]:
  """The features beside text of all queries that are asked.

  Raises:
    UserError: they are no json object.
  """
  try:
    values = json.loads(config.query_features or '{}')
  except ValueError as e:
    raise config.error('query_features', f'is no json ({e}); write it as '
                       '\'{"location": "Paris"}\'') from None
  if not isinstance(values, dict):
    raise config.error('query_features', 'must be a json object, such as '
                       '\'{"location": "Paris"}\'')
  return values


class SearchJob:
  """`job=search`: any checkpoint over any corpus."""

  def __init__(self, config: config_lib.Config, workdir: pathlib.Path):
    """Reads nothing yet."""
    self._config, self._workdir = config, workdir

  def targets(self) -> list[artifact.Artifact]:
    """What it searches."""
    return [self._index]

  def finish(self) -> None:
    """Answers."""
    if self._config.query:
      print(self._answer(self._config.query), flush=True)
      if by_name.is_workdir(self._config.checkpoint):
        self._advise()
      return
    with contextlib.suppress(ImportError):  # Not on every system.
      import readline  # noqa: F401 - input() has arrow keys then
    print('Type a query; an empty line ends.', flush=True)
    while query := _ask():
      print(self._answer(query), flush=True)

  def _advise(self) -> None:
    """Says how to take the model elsewhere."""
    place = self._config.checkpoint
    print('\nTake the model away:\n' + next_command.command(
        'export', f'--config.checkpoint={place}', f'--workdir={place}-exported'
    ), flush=True)

  @functools.cached_property
  def _index(self) -> corpus_index.CorpusIndex:
    config, folder = self._config, self._workdir / retriever_lib.FOLDER
    data = dataset_lib.data_of(config.data)
    return corpus_index.CorpusIndex(
        settings_of_rooms.vectors(config, data, folder),
        settings_of_rooms.search(config), folder,
    )

  def _answer(self, query: str) -> str:
    index, depth = self._index.load(), self._config.evaluation.depth
    features = query_features(self._config)
    asked = vectors.WithFeatures(query, features) if features else query
    if self._config.evaluation.by_document:
      count = len(self._index.vectors.data.load().prepared.passages)
      found = by_document.find(index.find, asked, depth, count)
    else:
      found = index.find(asked, depth)
    return format_found(query, found, terminal.is_coloured(sys.stdout),
                        min(100, shutil.get_terminal_size().columns))


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


def _ask() -> str:
  try:
    line = input('\nquery> ').strip()
  except (EOFError, KeyboardInterrupt, RuntimeError):  # The last: no input.
    return ''
  return line.encode('utf-8', 'replace').decode()
