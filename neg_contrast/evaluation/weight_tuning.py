"""Weights of fusions, tuned on the tune split and kept in a folder."""

import dataclasses
import functools
import hashlib
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

from neg_contrast.artifacts import folders
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.evaluation import dense_members
from neg_contrast.retrieval import bm25_search, fusion, hits, search_settings
from neg_contrast.settings import config as config_lib

FOLDER = 'weights'  # Of a workdir.
FORMAT = folders.Format('tuned weights', 1)

# What `hybrid` tries as the weight of the dense score, BM25's being 1: cosines
# need tens, unnormalised products of DPR about 1.
_HYBRID_WEIGHTS = (0.0, *(2.0 ** (i / 2) for i in range(-8, 17)))


class WeightTuning:
  """Weights of the fusion of members, and of hybrids of it and BM25."""

  def __init__(
      self,
      ensemble: config_lib.EnsembleConfig,
      evaluation: config_lib.EvaluationConfig,
      dataset: Callable[[], dataset_lib.Dataset],
      members: dense_members.DenseMembers,
      bm25: Callable[[], bm25_search.Bm25Search],
      search: search_settings.SearchSettings,
      workdir: pathlib.Path,
  ):
    """Reads nothing yet.

    Args:
      ensemble: what is fused, and which weights are tried.
      evaluation: depth, and settings of BM25.
      dataset: corpus and splits.
      members: that are fused.
      bm25: of the corpus.
      search: of the members' vectors.
      workdir: gets the folder `weights`.
    """
    self._settings, self._evaluation = ensemble, evaluation
    self._dataset, self._members, self._bm25 = dataset, members, bm25
    self._search, self.folder = search, workdir / FOLDER

  @property
  def reads_tune_split(self) -> bool:
    """Whether anything is left to tune, on the tune split."""
    settings = self._settings
    return bool(settings.members) and (
        settings.hybrid or (len(settings.members) > 1 and not settings.weights)
    )

  @functools.cached_property
  def judgements(self) -> prepared_lib.Judgements:
    """Those of the tune split."""
    return self._dataset().splits.tune

  @property
  def bm25_identity(self) -> dict[str, Any]:
    """What BM25's part of a hybrid depends on."""
    return {
        'k1': self._evaluation.bm25_k1,
        'b': self._evaluation.bm25_b,
        'depth': self._settings.hybrid_depth,
    }

  def is_tuned(self) -> bool:
    """Whether the folder has the weights of these members and settings."""
    made = folders.read_manifest(self.folder, FORMAT)
    return made is not None and made['identity'] == self._identity

  @property
  def tuned(self) -> dict[str, Any]:
    """System -> `weights`, and what they reach on the tune split.

    Read again each time: the weights may have been tuned meanwhile.
    """
    made = folders.read_manifest(self.folder, FORMAT)
    assert made is not None
    return made['tuned']

  @property
  def member_weights(self) -> tuple[float, ...]:
    """Of embedding fusion."""
    return tuple(self.tuned['fusion_embedding']['weights'])

  def tune(self) -> None:
    """Finds the weights of every fusion that has some, and keeps them."""
    manifest = {'identity': self._identity, 'tuned': {},
                'environment': folders.environment()}
    with folders.writing(self.folder, manifest, format=FORMAT):
      manifest['tuned'] = self._find_weights()

  @property
  def _identity(self) -> dict[str, Any]:
    settings = self._settings
    index = self._search.scann(self._dataset().prepared)
    return folders.as_json({
        'members': [one.search_identity for one in self._members.vectors],
        'data': self._dataset().prepared.manifest['fingerprint'],
        'tune_queries': hashlib.sha256(
            self.judgements.queries.tobytes()
        ).hexdigest() if self.reads_tune_split else None,
        'index': None if index is None else dataclasses.asdict(index),
        'weights': settings.weights,
        'weight_steps': settings.weight_steps,
        'candidates': settings.candidates,
        'depth': self._evaluation.depth,
        'bm25': self.bm25_identity if settings.hybrid else None,
    })

  def _find_weights(self) -> dict[str, Any]:
    settings, count = self._settings, len(self._members)
    if settings.weights:
      best: dict[str, Any] = {'weights': list(settings.weights)}
    elif count == 1:
      best = {'weights': [1.0]}
    else:
      best = self._best(self._member_candidates(),
                        fusion.simplex(count, settings.weight_steps))
    tuned = {'fusion_embedding': best}
    if settings.hybrid:
      tuned |= self._tune_hybrids(tuple(best['weights']))
    return tuned

  def _tune_hybrids(self, weights: tuple[float, ...]) -> dict[str, Any]:
    rows, depth = self.judgements.queries, self._evaluation.depth
    sparse = self._bm25().search_rows(rows, self._settings.hybrid_depth)
    dense = self._members.fused_retriever(weights).search_rows(rows, depth)
    both = [hits.Hits(sparse.rows[:, :depth], sparse.scores[:, :depth]), dense]
    return {
        'hybrid': self._best(
            self._members.rescored(sparse, rows, weights, self._tie_ranks),
            np.array([(1.0, weight) for weight in _HYBRID_WEIGHTS]),
        ),
        'hybrid_scores': self._best(
            fusion.align(both, self._tie_ranks, fusion.min_max),
            fusion.simplex(2, self._settings.weight_steps),
        ),
    }

  def _member_candidates(self) -> fusion.Candidates:
    """The best passages of every member, scored by all."""
    rows = self.judgements.queries
    retrievers = [self._members.retriever(number)
                  for number in range(len(self._members))]
    vecs = [member.query_vecs(rows) for member in self._members.vectors]
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
    judgements = self.judgements
    passages = len(self._dataset().prepared.passages)
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

  @property
  def _tie_ranks(self) -> np.ndarray:
    return self._dataset().prepared.tie_ranks
