"""Serves a checkpoint and a corpus over HTTP, until it is stopped."""

import functools
import importlib.util
import pathlib

from neg_contrast import errors, hosts
from neg_contrast.artifacts import artifact
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.jobs.common import (
  checks,
  declared_hybrid,
  settings_of_rooms,
)
from neg_contrast.retrieval import corpus_index
from neg_contrast.settings import config as config_lib

_USUAL_QUERY = 'what people ask for in a few words'
_LIBRARIES = ('starlette', 'uvicorn', 'prometheus_client')


def check(config: config_lib.Config) -> None:
  """Refuses a config that does not suit `job=serve`."""
  checks.check_source(config)
  checks.check_checkpoint(config)
  if config.evaluation.by_document:
    raise config.evaluation.error(
        'by_document', 'the server answers with passages; job=search shows '
        'each document once'
    )
  for key in ('query', 'query_features'):
    if getattr(config, key):
      raise config.error(key, 'the server takes queries by requests; '
                         'job=search takes this one')
  if config.evaluation.hybrid:
    declared_hybrid.of_checkpoint(config)
  missing = [name for name in _LIBRARIES
             if importlib.util.find_spec(name) is None]
  if missing:
    raise errors.UserError(
        f'{errors.key("job")}=serve: needs {", ".join(missing)}; '
        'pip install -r launch/requirements-serve.txt'
    )


class ServeJob:
  """`job=serve`: any checkpoint over any corpus."""

  def __init__(self, config: config_lib.Config, workdir: pathlib.Path):
    """Reads nothing yet."""
    self._config, self._workdir = config, workdir

  def targets(self) -> list[artifact.Artifact]:
    """What it searches: as `job=search`."""
    return declared_hybrid.searched(self._config, self._index)

  def finish(self) -> None:
    """Answers requests until SIGTERM or Ctrl-C.

    Raises:
      UserError: there are several processes, or the address is taken.
    """
    from neg_contrast.serving import (
      answering,
      search_page,
      server,
      server_metrics,
      web_app,
    )

    config, limits = self._config, self._config.serve
    if hosts.are_several():
      raise errors.UserError('job=serve answers with one process; start it '
                             'with --processes=1, and one on each host')
    bound = server.bind(limits)
    prepared = self._data.load().prepared
    passages = prepared.passages
    metrics = server_metrics.ServerMetrics(len(passages))
    answer = answering.Answerer(
        self._index.load(), passages, limits.most_depth, metrics.on_stage,
        declared_hybrid.load(config, self._index),
    )
    answer.warm_up(
        [one.text for one in prepared.queries[: limits.batch_texts]]
        or [_USUAL_QUERY], limits.batch_texts, limits.most_characters // 2,
        config.evaluation.depth,
    )
    about = search_page.About(
        pathlib.PurePath(config.checkpoint).name, _public(config.data.source),
        len(passages), config.evaluation.depth, limits.most_depth,
        limits.most_characters,
    )
    server.serve(
        web_app.WebApp(answer, about, limits, metrics).app, bound, limits,
        functools.partial(
            print, f'\nserving at {server.url_of(bound)}; Ctrl-C stops it',
            flush=True,
        ),
    )

  @functools.cached_property
  def _data(self) -> dataset_lib.Data:
    return dataset_lib.data_of(self._config.data)

  @functools.cached_property
  def _index(self) -> corpus_index.CorpusIndex:
    return settings_of_rooms.index(self._config, self._data, self._workdir)


def _public(source: str) -> str:
  """A source without the folders that its place lies in."""
  scheme, colon, place = source.partition(':')
  return f'{scheme}{colon}{pathlib.PurePath(place).name}'
