"""Answers queries with passages: `--config.query`, or a prompt."""

import contextlib
import functools
import json
import pathlib
import shutil
import sys
from typing import Any

from neg_contrast import terminal
from neg_contrast.artifacts import artifact, places
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.jobs.common import (
  checks,
  declared_hybrid,
  next_command,
  settings_of_rooms,
  shown_hits,
)
from neg_contrast.models import by_name, loading
from neg_contrast.retrieval import (
  by_document,
  corpus_index,
  hybrid,
  retriever,
  vectors,
)
from neg_contrast.settings import config as config_lib


def check(config: config_lib.Config) -> None:
  """Refuses a config that does not suit `job=search`."""
  checks.check_source(config)
  checks.check_checkpoint(config)
  if config.query and not config.query.strip():
    raise config.error('query', 'is blank; ask something')
  query_features(config)
  if config.evaluation.hybrid:
    declared_hybrid.of_checkpoint(config)


def query_features(config: config_lib.Config) -> dict[str, Any]:
  """The features beside text of all queries that are asked.

  Raises:
    UserError: they are no json object.
  """
  try:
    values = json.loads(config.query_features or '{}')
  except (RecursionError, ValueError) as e:
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
    return declared_hybrid.searched(self._config, self._index)

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
    """Says how to take the model elsewhere, if it can be."""
    place = places.path(self._config.checkpoint)
    spec, _, _ = loading.read_description(place)
    if spec.side_features or not spec.score.is_dot:
      return
    print('\nTake the model away:\n' + next_command.command(
        'export', f'--config.checkpoint={place}', f'--workdir={place}-exported'
    ), flush=True)

  @functools.cached_property
  def _index(self) -> corpus_index.CorpusIndex:
    return settings_of_rooms.index(
        self._config, dataset_lib.data_of(self._config.data), self._workdir
    )

  @functools.cached_property
  def _searched(self) -> retriever.Retriever | hybrid.HybridRetriever:
    together = declared_hybrid.load(self._config, self._index)
    return self._index.load() if together is None else together

  def _answer(self, query: str) -> str:
    index, depth = self._searched, self._config.evaluation.depth
    features = query_features(self._config)
    asked = vectors.WithFeatures(query, features) if features else query
    if self._config.evaluation.by_document:
      dataset = self._index.vectors.data.load()
      found = by_document.find(
          index.find, asked, depth, len(dataset.prepared.passages),
          dataset.document_of,
      )
    else:
      found = index.find(asked, depth)
    return shown_hits.format_found(
        query, found, terminal.is_coloured(sys.stdout),
        min(100, shutil.get_terminal_size().columns),
    )


def _ask() -> str:
  try:
    line = input('\nquery> ').strip()
  except (EOFError, KeyboardInterrupt, RuntimeError):  # The last: no input.
    return ''
  return line.encode('utf-8', 'replace').decode()
