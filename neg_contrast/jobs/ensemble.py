"""Puts models together: embedding fusion, rank fusion, and BM25 with both."""

import collections
import functools
import pathlib

from neg_contrast import errors
from neg_contrast.artifacts import artifact, places
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.evaluation import (
  evaluations,
  fused_systems,
  judged,
  metrics,
  runs,
  summary,
  weight_tuning,
)
from neg_contrast.jobs.common import (
  checks,
  declared_rankings,
  listed_names,
  reporting,
  settings_of_rooms,
  tuned_apart,
)
from neg_contrast.retrieval import bm25_search, corpus_vectors
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.settings import config as config_lib


def check(config: config_lib.Config) -> None:
  """Refuses a config that does not suit `job=ensemble`."""
  checks.check_source(config)
  config.evaluation.check_depth()
  listed_names.check(config, 'ensemble.members', 'ensemble.runs')
  if not config.ensemble.members and len(config.ensemble.runs) < 2:
    raise config.error('ensemble.members', 'names trained workdirs, or folders,'
                       " such as ('workdirs/fine','workdirs/bm25'); or name two"
                       ' or more TREC files with ensemble.runs')


class EnsembleJob:
  """`job=ensemble`: tunes weights, and evaluates members and all fusions.

  Its workdir is a checkpoint then: of the embedding fusion.
  """

  def __init__(self, config: config_lib.Config, workdir: pathlib.Path):
    """Reads nothing yet."""
    self._config, self._workdir = config, workdir
    self._settings = config.ensemble
    self._data = dataset_lib.data_of(config.data)
    self._names = [places.path(member).resolve().name
                   for member in config.ensemble.members]

  def targets(self) -> list[artifact.Artifact]:
    """Evaluations of all systems, and the weights.

    Those that need BM25 stand together: it is indexed once.

    Raises:
      UserError: two systems have the same name, or a metric is not known.
    """
    metrics.check_names(self._config.evaluation.metrics)
    self._check_names()
    all_of = self.ensemble
    alone = [name for name in all_of.names if name == fused_systems.RANK]
    hybrids = [name for name in all_of.names if name in fused_systems.HYBRIDS]
    fused = set(all_of.names) - {*alone, *hybrids}
    return [
        self._data,
        *all_of.member_evaluations,
        *all_of.run_evaluations,
        *all_of.evaluations(alone),
        *self._bm25_evaluation,
        *([all_of.weights] if self._is_dense else []),
        *all_of.evaluations([*hybrids, *sorted(fused)]),
    ]

  def finish(self) -> None:
    """Saves the ensemble; writes and prints the numbers, and the report."""
    dataset = self._data.load()
    if self._is_dense:
      self.ensemble.save(self._workdir)
    summary.gather(self._workdir, dataset)
    if self._is_dense:
      self._print_weights()
    tuned_apart.warn(self._config, dataset)
    reporting.write_report(self._workdir, self._config, dataset)

  @functools.cached_property
  def ensemble(self) -> declared_rankings.Ensemble:
    """Members, and what they make together and with others."""
    config, folder = self._config, self._workdir / retriever_lib.FOLDER
    vectors = [corpus_vectors.of_member(
        self._data, settings_of_rooms.encoding(config), folder, member,
        config.seed,
    ) for member in self._settings.members]
    return declared_rankings.Ensemble(
        self._settings, tuple(zip(self._names, vectors, strict=True)),
        bm25_search.bm25_of(config.evaluation, self._data),
        judged.TuneJudged(self._data, config.evaluation, is_apart=True),
        self._test, settings_of_rooms.search(config), self._workdir,
    )

  def _check_names(self) -> None:
    names = collections.Counter([
        *map(runs.run_name, map(pathlib.Path, self._settings.runs)),
        *self._names, 'bm25', *fused_systems.NAMES,
    ])
    name, count = names.most_common(1)[0]
    if count > 1:
      raise errors.SettingError(
          'ensemble.members', self._settings.members,
          f'with ensemble.runs={self._settings.runs} there would be two '
          f'systems called {name}, after the name of the folder or file; '
          'rename one'
      )

  @property
  def _is_dense(self) -> bool:
    return bool(self._settings.members)

  @property
  def _test(self) -> judged.Judged:
    config = self._config
    return judged.Judged(
        self._data, config.data.test_split, config.evaluation,
        is_apart=weight_tuning.reads_tune_split(config.ensemble))

  @property
  def _bm25_evaluation(self) -> list[evaluations.Evaluation]:
    """If it is wanted, or part of a hybrid."""
    config = self._config
    if not (config.evaluation.bm25 or self._is_dense and self._settings.hybrid):
      return []
    return [evaluations.Evaluation(judged.Bm25Ranking(
        self._test, 'bm25', self.ensemble.bm25), self._workdir)]

  def _print_weights(self) -> None:
    for system, found in self.ensemble.weights.load().items():
      names = (self._names if system == fused_systems.EMBEDDING
               else ['bm25', 'dense'])
      weights = ', '.join(f'{name} {weight:g}' for name, weight in zip(
          names, found['weights'], strict=True
      ))
      reached = (f' (tune split: accuracy@1 {found["accuracy@1"]:.4f}, mrr@10 '
                 f'{found["mrr@10"]:.4f})' if 'accuracy@1' in found else '')
      print(f'weights of {system}: {weights}{reached}')
