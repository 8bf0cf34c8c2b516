"""Puts models together: embedding fusion, rank fusion, and BM25 with both."""

import collections
import dataclasses
import functools
import pathlib
from collections.abc import Callable
from typing import Any

from neg_contrast import errors
from neg_contrast.artifacts import plan
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.evaluation import (
  dense_members,
  evaluations,
  fused_systems,
  metrics,
  rankings,
  runs,
  summary,
  weight_tuning,
)
from neg_contrast.jobs import checks, reporting, settings_of_rooms
from neg_contrast.models import by_name as model_lib
from neg_contrast.retrieval import bm25_search, fused_vectors
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.retrieval import searched as searched_lib
from neg_contrast.settings import config as config_lib


def check(config: config_lib.Config) -> None:
  """Refuses a config that does not suit `job=ensemble`."""
  checks.check_source(config)
  config.evaluation.check_depth()
  if not config.ensemble.members and len(config.ensemble.runs) < 2:
    raise config.error('ensemble.members', 'names trained workdirs, or folders,'
                       " such as ('workdirs/fine','workdirs/bm25'); or name two"
                       ' or more TREC files with ensemble.runs')


class EnsembleJob:
  """`job=ensemble`: tunes weights, and evaluates members and all fusions.

  Its workdir is a checkpoint then: of the embedding fusion.
  """

  def __init__(
      self,
      config: config_lib.Config,
      workdir: pathlib.Path,
      index: Callable[[], bm25_search.Bm25Search] | None = None,
  ):
    """Reads nothing yet.

    Args:
      config: of the job.
      workdir: gets weights and evaluations.
      index: makes the BM25 index of the corpus, if others have it too.
    """
    self._config, self._workdir = config, workdir
    self._settings = config.ensemble
    self._make_bm25 = index or (
        lambda: bm25_search.Bm25Search(config.evaluation, self._dataset)
    )
    self._names = [pathlib.Path(member).resolve().name
                   for member in config.ensemble.members]
    self._search = settings_of_rooms.search(config)
    self._members = dense_members.DenseMembers(
        config.ensemble.members, lambda: self._dataset,
        settings_of_rooms.encoding(config), self._search,
        workdir / retriever_lib.FOLDER, config.seed,
    )
    self._tuning = weight_tuning.WeightTuning(
        config.ensemble, config.evaluation, lambda: self._dataset,
        self._members, lambda: self._bm25, self._search, workdir,
    )
    self._systems = fused_systems.FusedSystems(
        config.ensemble, self._members, self._tuning, lambda: self._bm25,
        lambda: self._test,
    )

  def steps(self) -> list[plan.Step]:
    """The plan.

    Raises:
      UserError: two systems have the same name.
    """
    config, settings = self._config, self._settings
    metrics.check_names(config.evaluation.metrics)
    needs_bm25 = config.evaluation.bm25 or (self._is_dense and settings.hybrid)
    self._check_names()
    given = (config.data, config.evaluation, self._workdir,
             lambda: self._dataset, lambda: self._test, config.data.test_split)
    return [
        dataset_lib.preparation_step(config.data, lambda: self._dataset),
        *([evaluations.bm25_step(*given, lambda: self._bm25)]
          if needs_bm25 else []),
        *map(self._member_step, range(len(settings.members))),
        *(evaluations.run_step(*given, path)
          for path in map(pathlib.Path, settings.runs)),
        *([plan.Step(
            'weights', f'tuned on the tune split in {self._tuning.folder}',
            self._is_tuned, self._tuning.tune,
        )] if self._is_dense else []),
        *map(self._fusion_step, self._systems.names),
    ]

  def finish(self) -> None:
    """Saves the ensemble; writes and prints the numbers, and the report."""
    if self._is_dense:
      self.ensemble.save(self._workdir)
    summary.gather(self._workdir, self._dataset)
    if self._is_dense:
      self._print_weights()
    reporting.write_report(self._workdir, self._config, self._dataset)

  @property
  def ensemble(self) -> fused_vectors.Ensemble:
    """Members and their weights, once they are tuned."""
    return fused_vectors.Ensemble(
        self._settings.members,
        tuple(one.encoder.model.fingerprint for one in self._members.vectors),
        self._tuning.member_weights,
    )

  def _member_step(self, number: int) -> plan.Step:
    return dataclasses.replace(
        self._step(
            self._names[number],
            lambda: self._members.vectors[number].search_identity,
            lambda: self._systems.search_member(number),
        ),
        missing=lambda: model_lib.missing(self._settings.members[number]),
        share=lambda: self._members.vectors[number].passage_vecs,
    )

  def _fusion_step(self, name: str) -> plan.Step:
    """Of a system that is made of others."""
    step = self._step(name, functools.partial(self._systems.identity, name),
                      functools.partial(self._systems.search, name))
    if not self._is_dense:
      return step
    return dataclasses.replace(  # Weights count only when they are right.
        step, is_done=lambda: self._is_tuned() and step.is_done()
    )

  def _step(
      self,
      name: str,
      identity: Callable[[], dict[str, Any]],
      search: Callable[[], searched_lib.Searched],
  ) -> plan.Step:
    """Evaluates a system on the test split."""
    config, split = self._config, self._config.data.test_split
    return evaluations.evaluation_step(
        name, config.data, self._workdir, lambda: self._test, split,
        identity=lambda: evaluations.dense_identity(
            self._dataset, config.evaluation, split, identity(), self._search
        ),
        search=lambda _: search(),
    )

  def _check_names(self) -> None:
    names = collections.Counter([
        *self._names,
        *map(runs.run_name, map(pathlib.Path, self._settings.runs)),
        'bm25', *fused_systems.NAMES,
    ])
    name, count = names.most_common(1)[0]
    if count > 1:
      raise errors.UserError(
          f'config.ensemble.members={self._settings.members}, '
          f'ensemble.runs={self._settings.runs}: there would be two systems '
          f'called {name}, after the name of the folder or file; rename one'
      )

  @property
  def _is_dense(self) -> bool:
    return bool(self._settings.members)

  def _is_tuned(self) -> bool:
    is_lacking = any(map(model_lib.missing, self._settings.members))
    return not is_lacking and self._tuning.is_tuned()

  @functools.cached_property
  def _dataset(self) -> dataset_lib.Dataset:
    return dataset_lib.Dataset(self._config.data)

  @functools.cached_property
  def _test(self) -> rankings.Evaluation:
    judgements = (
        self._dataset.splits.test if self._tuning.reads_tune_split else
        self._dataset.prepared.judgements(self._config.data.test_split)
    )
    return rankings.Evaluation(
        self._config.evaluation, self._dataset, judgements
    )

  @functools.cached_property
  def _bm25(self) -> bm25_search.Bm25Search:
    return self._make_bm25()

  def _print_weights(self) -> None:
    for system, found in self._tuning.tuned.items():
      names = (self._names if system == fused_systems.EMBEDDING
               else ['bm25', 'dense'])
      weights = ', '.join(f'{name} {weight:g}' for name, weight in zip(
          names, found['weights'], strict=True
      ))
      reached = (f' (tune split: accuracy@1 {found["accuracy@1"]:.4f}, mrr@10 '
                 f'{found["mrr@10"]:.4f})' if 'accuracy@1' in found else '')
      print(f'weights of {system}: {weights}{reached}')
