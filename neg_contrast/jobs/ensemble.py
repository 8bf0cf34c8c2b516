"""Puts models together: embedding fusion, rank fusion, and BM25 with both."""

import collections
import dataclasses
import functools
import hashlib
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

from neg_contrast import errors
from neg_contrast.artifacts import folders, plan
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.evaluation import (
  evaluations,
  metrics,
  rankings,
  runs,
  summary,
)
from neg_contrast.jobs import settings_of_rooms
from neg_contrast.models import by_name as model_lib
from neg_contrast.report import workdir_report
from neg_contrast.retrieval import (
  bm25_search,
  fused_vectors,
  fusion,
  hits,
  search_settings,
)
from neg_contrast.retrieval import embedder as embedder_lib
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.retrieval import searched as searched_lib
from neg_contrast.retrieval import vectors as vectors_lib
from neg_contrast.settings import config as config_lib

WEIGHTS = 'weights'  # Folder of a workdir.

# What `hybrid` tries as the weight of the dense score, BM25's being 1: cosines
# need tens, unnormalised products of DPR about 1.
_HYBRID_WEIGHTS = (0.0, *(2.0 ** (i / 2) for i in range(-8, 17)))


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
    self._make_index = index or (
        lambda: bm25_search.Bm25Search(config.evaluation, self._dataset)
    )
    self._names = [pathlib.Path(member).resolve().name
                   for member in config.ensemble.members]

  def steps(self) -> list[plan.Step]:
    """The plan.

    Raises:
      UserError: two systems have the same name.
    """
    config, settings = self._config, self._settings
    metrics.check_names(config.evaluation.metrics)
    needs_bm25 = config.evaluation.bm25 or (self._is_dense and settings.hybrid)
    self._check_names()
    return [
        dataset_lib.preparation_step(config.data, lambda: self._dataset),
        *([evaluations.bm25_step(
            config, self._workdir, lambda: self._dataset, lambda: self._test,
            config.data.test_split, lambda: self._bm25,
        )] if needs_bm25 else []),
        *(dataclasses.replace(
            self._step(
                name, functools.partial(self._member_identity, number),
                functools.partial(lambda n, _: self._found(n), number),
            ), missing=functools.partial(model_lib.missing, member),
            share=functools.partial(
                lambda n: self._members[n].passage_vecs, number
            ),
        ) for number, (name, member) in enumerate(
            zip(self._names, settings.members, strict=True)
        )),
        *self._run_steps(),
        *([plan.Step(
            'weights', f'tuned on the tune split in {self._weights_folder}',
            self._is_tuned, self._tune,
        )] if self._is_dense else []),
        *self._fusion_steps(),
    ]

  def finish(self) -> None:
    """Saves the ensemble; writes and prints the numbers, and the report."""
    if self._is_dense:
      self.ensemble.save(self._workdir)
    summary.gather(self._workdir, self._dataset)
    if self._is_dense:
      self._print_weights()
    workdir_report.write_report(self._workdir, self._config, self._dataset)

  @functools.cached_property
  def ensemble(self) -> fused_vectors.Ensemble:
    """Members and their weights, once they are tuned."""
    return fused_vectors.Ensemble(
        self._settings.members,
        tuple(member.encoder.model.fingerprint for member in self._members),
        tuple(self._tuned['fusion_embedding']['weights']),
    )

  def _run_steps(self) -> list[plan.Step]:
    return [
        evaluations.run_step(
            self._config, self._workdir, lambda: self._dataset,
            lambda: self._test, self._config.data.test_split, path,
        ) for path in map(pathlib.Path, self._settings.runs)
    ]

  def _fusion_steps(self) -> list[plan.Step]:
    """Of the systems that are made of others."""
    settings = self._settings
    by_rank = lambda _: fusion.fuse(
        self._rankings, (1.0,) * len(self._rankings), self._tie_ranks,
        self._depth, fusion.reciprocal_rank(settings.rank_k),
    )
    steps: list[plan.Step] = []
    if len(settings.members) > 1:
      steps.append(self._step(
          'fusion_embedding', lambda: self._vectors.search_identity,
          lambda _: self._fused_found,
      ))
    if len(settings.members) + len(settings.runs) > 1:
      steps.append(self._step('fusion_rank', self._rank_identity, by_rank))
    if self._is_dense and settings.hybrid:
      steps += [
          self._step(name, functools.partial(self._hybrid_identity, name), rank)
          for name, rank in (('hybrid', self._rerank),
                             ('hybrid_scores', self._add_scores),
                             ('hybrid_ranks', self._add_ranks))
      ]
    if not self._is_dense:
      return steps
    return [  # Whose weights are looked up only when they are right.
        dataclasses.replace(step, is_done=functools.partial(
            lambda done: self._is_tuned() and done(), step.is_done
        )) for step in steps
    ]

  def _step(
      self,
      name: str,
      identity: Callable[[], dict[str, Any]],
      search: Callable[[np.ndarray], hits.Hits | searched_lib.Searched],
  ) -> plan.Step:
    """Evaluates a system on the test split."""
    def searched(rows: np.ndarray) -> searched_lib.Searched:
      found = search(rows)
      return (searched_lib.Searched(found) if isinstance(found, hits.Hits)
              else found)

    return evaluations.evaluation_step(
        name, self._config.data, self._workdir, lambda: self._test,
        self._config.data.test_split,
        identity=lambda: evaluations.dense_identity(
            self._dataset, self._config, self._config.data.test_split,
            identity(),
        ),
        search=searched,
    )

  def _check_names(self) -> None:
    names = collections.Counter([
        *self._names,
        *map(runs.run_name, map(pathlib.Path, self._settings.runs)),
        'bm25', 'fusion_embedding', 'fusion_rank', 'hybrid', 'hybrid_scores',
        'hybrid_ranks',
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

  @property
  def _is_tuning(self) -> bool:
    """Whether anything is left to tune, on the tune split."""
    settings = self._settings
    return self._is_dense and (
        settings.hybrid or (len(settings.members) > 1 and not settings.weights)
    )

  @functools.cached_property
  def _dataset(self) -> dataset_lib.Dataset:
    return dataset_lib.Dataset(self._config.data)

  @functools.cached_property
  def _test(self) -> rankings.Evaluation:
    judgements = (
        self._dataset.splits.test if self._is_tuning else
        self._dataset.prepared.judgements(self._config.data.test_split)
    )
    return rankings.Evaluation(
        self._config.evaluation, self._dataset, judgements
    )

  @functools.cached_property
  def _tune_judgements(self) -> prepared_lib.Judgements:
    return self._dataset.splits.tune

  @property
  def _tie_ranks(self) -> np.ndarray:
    return self._dataset.prepared.tie_ranks

  @property
  def _depth(self) -> int:
    return self._config.evaluation.depth

  @functools.cached_property
  def _members(self) -> list[embedder_lib.Embedder]:
    return [
        fused_vectors.load_member(
            settings_of_rooms.encoding(self._config), self._dataset, member,
            self._folder, self._config.seed,
        ) for member in self._settings.members
    ]

  @property
  def _search_settings(self) -> search_settings.SearchSettings:
    return settings_of_rooms.search(self._config)

  @property
  def _folder(self) -> pathlib.Path:
    return self._workdir / retriever_lib.FOLDER

  @property
  def _fused_folder(self) -> pathlib.Path:
    """Keeps the index of the fusion: its member's, if there is one only."""
    members = self._settings.members
    return self._folder_of(members[0]) if len(members) == 1 else self._folder

  def _folder_of(self, member: str) -> pathlib.Path:
    """Keeps its index."""
    folder = fused_vectors.folder_of(member, self._folder)
    assert folder is not None
    return folder

  def _member_identity(self, number: int) -> dict[str, Any]:
    return self._members[number].search_identity

  @functools.cache  # noqa: B019 - a job lives as long as the program.
  def _found(self, number: int) -> searched_lib.Searched:
    """What a member finds for the test queries."""
    return searched_lib.search_dense(
        self._search_settings, self._dataset, self._members[number],
        self._folder_of(self._settings.members[number]),
        self._test.query_rows,
    )

  @functools.cached_property
  def _vectors(self) -> vectors_lib.Vectors:
    """Of all members with their weights."""
    return self._fused(self._tuned['fusion_embedding']['weights'])

  def _fused(self, weights: list[float]) -> vectors_lib.Vectors:
    if len(self._members) == 1:
      return self._members[0]
    return fused_vectors.FusedVectors(self._members, weights)

  def _retriever(
      self, vectors: vectors_lib.Vectors, folder: pathlib.Path
  ) -> retriever_lib.Retriever:
    return retriever_lib.Retriever(
        self._search_settings, self._dataset, vectors, folder
    )

  @functools.cached_property
  def _fused_found(self) -> searched_lib.Searched:
    """What the dense system finds for the test queries."""
    if len(self._members) == 1:
      return self._found(0)
    return searched_lib.search_dense(
        self._search_settings, self._dataset, self._vectors, self._fused_folder,
        self._test.query_rows,
    )

  @functools.cached_property
  def _rankings(self) -> list[hits.Hits]:
    """Of every member and run, for the test queries."""
    return [
        *(self._found(number).found for number in range(len(self._members))),
        *(self._test.read(pathlib.Path(run)) for run in self._settings.runs),
    ]

  def _rank_identity(self) -> dict[str, Any]:
    return {
        'members': [member.search_identity for member in self._members],
        'runs': [folders.sha256_file(pathlib.Path(run))
                 for run in self._settings.runs],
        'k': self._settings.rank_k,
    }

  # BM25 with the dense system.

  def _hybrid_identity(self, name: str) -> dict[str, Any]:
    return {
        'dense': self._vectors.search_identity,
        'bm25': self._bm25_settings,
        'tuned': self._tuned.get(name, {'k': self._settings.rank_k}),
    }

  @property
  def _bm25_settings(self) -> dict[str, Any]:
    return {
        'k1': self._config.evaluation.bm25_k1,
        'b': self._config.evaluation.bm25_b,
        'depth': self._settings.hybrid_depth,
    }

  @functools.cached_property
  def _bm25(self) -> bm25_search.Bm25Search:
    return self._make_index()

  @functools.cached_property
  def _sparse(self) -> hits.Hits:
    """BM25's ranking of the test queries."""
    return self._search_sparse(self._test.query_rows)

  def _search_sparse(self, rows: np.ndarray) -> hits.Hits:
    return self._bm25.search_rows(rows, self._settings.hybrid_depth)

  def _rescored(
      self, sparse: hits.Hits, rows: np.ndarray, vectors: vectors_lib.Vectors
  ) -> fusion.Candidates:
    """What BM25 found for queries, with BM25's and the dense score."""
    found = fusion.align([sparse], self._tie_ranks, fusion.raw)
    return found.with_scores(
        self._retriever(vectors, self._fused_folder).score(
            vectors.query_vecs(rows), found.rows
        )
    )

  def _rerank(self, rows: np.ndarray) -> hits.Hits:
    return self._rescored(self._sparse, rows, self._vectors).ranked(
        self._tuned['hybrid']['weights'], self._depth
    )

  def _add_scores(self, _: np.ndarray) -> hits.Hits:
    return fusion.fuse(
        [_cut(self._sparse, self._depth), self._fused_found.found],
        self._tuned['hybrid_scores']['weights'], self._tie_ranks, self._depth,
        fusion.min_max,
    )

  def _add_ranks(self, _: np.ndarray) -> hits.Hits:
    return fusion.fuse(
        [_cut(self._sparse, self._depth), self._fused_found.found],
        (1.0, 1.0), self._tie_ranks, self._depth,
        fusion.reciprocal_rank(self._settings.rank_k),
    )

  # Tuning.

  @property
  def _weights_folder(self) -> pathlib.Path:
    return self._workdir / WEIGHTS

  @property
  def _weights_identity(self) -> dict[str, Any]:
    settings = self._settings
    settings_of_index = self._search_settings.scann(self._dataset.prepared)
    return folders.as_json({
        'members': [member.search_identity for member in self._members],
        'data': self._dataset.prepared.manifest['fingerprint'],
        'tune_queries': hashlib.sha256(
            self._tune_judgements.queries.tobytes()
        ).hexdigest() if self._is_tuning else None,
        'index': None if settings_of_index is None
        else dataclasses.asdict(settings_of_index),
        'weights': settings.weights,
        'weight_steps': settings.weight_steps,
        'candidates': settings.candidates,
        'depth': self._depth,
        'bm25': self._bm25_settings if settings.hybrid else None,
    })

  def _is_tuned(self) -> bool:
    made = folders.read_manifest(self._weights_folder)
    if made is None or any(map(model_lib.missing, self._settings.members)):
      return False
    return made['identity'] == self._weights_identity

  @functools.cached_property
  def _tuned(self) -> dict[str, Any]:
    """System -> weights, and what they reach on the tune split."""
    made = folders.read_manifest(self._weights_folder)
    assert made is not None
    return made['tuned']

  def _tune(self) -> None:
    """Finds the weights of every fusion that has some."""
    manifest = {'identity': self._weights_identity, 'tuned': {},
                'environment': folders.environment()}
    with folders.writing(self._weights_folder, manifest):
      manifest['tuned'] = self._find_weights()
    for name in ('_tuned', '_vectors', '_fused_found', 'ensemble'):
      vars(self).pop(name, None)

  def _find_weights(self) -> dict[str, Any]:
    settings = self._settings
    rows = self._tune_judgements.queries if self._is_tuning else None
    if settings.weights:
      best: dict[str, Any] = {'weights': list(settings.weights)}
    elif len(self._members) == 1:
      best = {'weights': [1.0]}
    else:
      assert rows is not None
      best = self._best(
          self._member_candidates(rows),
          fusion.simplex(len(self._members), settings.weight_steps),
      )
    tuned = {'fusion_embedding': best}
    if settings.hybrid:
      assert rows is not None
      vectors = self._fused(best['weights'])
      sparse = self._search_sparse(rows)
      tuned['hybrid'] = self._best(
          self._rescored(sparse, rows, vectors),
          np.array([(1.0, weight) for weight in _HYBRID_WEIGHTS]),
      )
      dense = self._retriever(vectors, self._fused_folder).search_rows(
          rows, self._depth
      )
      tuned['hybrid_scores'] = self._best(
          fusion.align([_cut(sparse, self._depth), dense], self._tie_ranks,
                       fusion.min_max),
          fusion.simplex(2, settings.weight_steps),
      )
    return tuned

  def _member_candidates(self, rows: np.ndarray) -> fusion.Candidates:
    """The best passages of every member, scored by all."""
    retrievers = list(map(
        self._retriever, self._members,
        map(self._folder_of, self._settings.members),
    ))
    vecs = [member.query_vecs(rows) for member in self._members]
    found = [one.search_vecs(of, self._settings.candidates, rows)
             for one, of in zip(retrievers, vecs, strict=True)]
    return fusion.gather(
        [hit.rows for hit in found],
        [functools.partial(one.score, of)
         for one, of in zip(retrievers, vecs, strict=True)],
        self._tie_ranks,
    )

  def _best(
      self, candidates: fusion.Candidates, grid: np.ndarray
  ) -> dict[str, Any]:
    """The best weights of a grid on the tune split, as json."""
    judgements = self._tune_judgements
    passages = len(self._dataset.prepared.passages)
    positive = judgements.grades > 0
    wanted = (judgements.query_rows[positive].astype(np.int64) * passages
              + judgements.passage_rows[positive])
    codes = judgements.queries.astype(np.int64)[:, None] * passages
    is_positive = (candidates.rows >= 0) & np.isin(
        codes + candidates.rows, wanted
    )
    best = fusion.tune(candidates, is_positive, grid)
    return {
        'weights': list(best.weights),
        'queries': len(candidates.rows),
        'tried': len(grid),
        'accuracy@1': best.accuracy,
        'mrr@10': best.mrr,
    }

  def _print_weights(self) -> None:
    for system, found in self._tuned.items():
      names = (self._names if system == 'fusion_embedding'
               else ['bm25', 'dense'])
      weights = ', '.join(f'{name} {weight:g}' for name, weight in zip(
          names, found['weights'], strict=True
      ))
      reached = (f' (tune split: accuracy@1 {found["accuracy@1"]:.4f}, mrr@10 '
                 f'{found["mrr@10"]:.4f})' if 'accuracy@1' in found else '')
      print(f'weights of {system}: {weights}{reached}')


def _cut(found: hits.Hits, depth: int) -> hits.Hits:
  return hits.Hits(found.rows[:, :depth], found.scores[:, :depth])
