"""A finished training, as `train` returns it."""

import functools
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from neg_contrast import html_parts, listeners
from neg_contrast.api import (
  commands,
  job_folders,
  opening,
  pushing,
  results,
  setting_keys,
)
from neg_contrast.artifacts import places
from neg_contrast.models import exported_model
from neg_contrast.retrieval import finding, text_encoder
from neg_contrast.retrieval import retriever as retriever_lib

_LOADED_WITH = ('index', 'mesh', 'data')
"""Sections of settings that matter to a retriever; the model keeps its own."""


class Training:
  """A trained retriever: its numbers, and what can be done with it.

  It stands for its workdir, wherever a path is taken:
  `api.evaluate(trained, ...)`, `api.load_encoder(trained)`.

  Attributes:
    workdir: of the training.
    source: `beir:FOLDER` of its queries and passages.
    metrics: system -> metric -> value on the test queries.
  """

  def __init__(
      self,
      workdir: pathlib.Path,
      source: str,
      metrics: results.Metrics,
      settings: Mapping[str, Any],
  ):
    """Loads nothing yet.

    Args:
      workdir: see above.
      source: see above.
      metrics: see above.
      settings: those that it was trained with.
    """
    self.workdir, self.source, self.metrics = workdir, source, metrics
    self._settings = {key: value for key, value in settings.items()
                      if key.partition('__')[0] in _LOADED_WITH}

  def __fspath__(self) -> str:
    return os.fspath(self.workdir)

  def __repr__(self) -> str:
    return f'Training in {self.workdir}: {dict(self.metrics)}'

  @functools.cached_property
  def encoder(self) -> text_encoder.TextEncoder:
    """Of queries and passages, with the prompts that the data set has."""
    prefixes = ('data__query_prefix', 'data__passage_prefix')
    return opening.load_encoder(self.workdir, **{
        key: self._settings[key] for key in prefixes if key in self._settings})

  @functools.cached_property
  def retriever(self) -> retriever_lib.Retriever:
    """Of its passages; the workdir keeps their vectors."""
    root = places.path(self.source.partition(':')[2]).parents[1]
    return opening.load_retriever(
        self.workdir, self.source, self.workdir,
        **{**job_folders.settings_of(root), **self._settings},
    )

  def search(
      self, queries: Sequence[str], depth: int = 10
  ) -> finding.AnswerSets:
    """The best of its passages for each query; warm after one call.

    Raises:
      ValueError: a query is blank, or depth is not positive.
    """
    return self.retriever.find_each(queries, depth)

  def export(
      self, folder: str | os.PathLike[str] | None = None
  ) -> pathlib.Path:
    """Writes a sentence-transformers folder, and returns its place.

    Args:
      folder: the model is written to its folder `model`; default: `exported` of
        the workdir.

    Raises:
      UserError: another model is there, or no folder of that kind can hold this
        one.
    """
    place = self.workdir / 'exported' if folder is None else (
        places.path(folder)
    )
    config = setting_keys.from_file('export', None,
                                    {'checkpoint': os.fspath(self)})
    commands.run_job(config, place, listeners.Listener(), is_printed=False)
    return place / exported_model.FOLDER

  def push_to_hub(self, repo: str, **options: Any) -> str:
    """Exports and uploads it; `options` are those of `api.push_to_hub`."""
    return pushing.push_to_hub(self.export(), repo, **options)

  def _repr_html_(self) -> str:
    return (f'<p>{html_parts.text(str(self.workdir))}</p>'
            f'{self.metrics._repr_html_()}')
