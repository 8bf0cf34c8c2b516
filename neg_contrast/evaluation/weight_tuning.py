"""Weights of fusions, tuned on the tune split and kept in a folder."""

import dataclasses
import functools
import hashlib
import pathlib
from typing import Any

import numpy as np

from neg_contrast.artifacts import artifact, folders
from neg_contrast.evaluation import dense_members, judged
from neg_contrast.retrieval import (
  bm25_search,
  fusion,
  hits,
  hybrid,
  own_passages,
)
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.settings import config as config_lib

FOLDER = 'weights'  # Of a workdir.
HYBRIDS = ('hybrid', 'hybrid_scores')  # Systems that have weights.

# What `hybrid` tries as the weight of the dense score, BM25's being 1: cosines
# need tens, unnormalised products of DPR about 1.
_HYBRID_WEIGHTS = (0.0, *(2.0 ** (i / 2) for i in range(-8, 17)))


def reads_tune_split(config: config_lib.EnsembleConfig) -> bool:
  """Whether anything is left to tune, on the tune split."""
  return bool(config.members) and (
      config.hybrid or (len(config.members) > 1 and not config.weights)
  )


def read_hybrid(workdir: pathlib.Path) -> hybrid.Tuned | None:
  """The hybrid that the training in a workdir has tuned; None: it has none.

  Raises:
    UserError: they are damaged, or of another format.
  """
  made = folders.read_manifest(
      workdir / FOLDER, folders.Format(Weights.kind, Weights.format)
  )
  if made is None or HYBRIDS[0] not in made['tuned']:
    return None
  identity = made['identity']
  needs = identity['needs']
  return hybrid.Tuned(
      tuple(made['tuned'][HYBRIDS[0]]['weights']),
      identity['settings']['hybrid_depth'], **needs['bm25']['settings'],
      model='' if 'member-1' in needs else needs['member-0'].get('model', ''),
      corpus=needs['bm25']['needs']['texts']['corpus'],
  )


@dataclasses.dataclass(frozen=True)
class Weights(artifact.Named):
  """Weights of the fusion of members, and of hybrids of it and BM25.

  Loads as: system -> `weights`, and what they reach on the tune split.

  Attributes:
    config: what is fused, and which weights are tried.
    members: that are fused.
    bm25: of the corpus.
    tune: queries of the tune split.
    workdir: gets the folder `weights`.
  """

  kind = 'tuned weights'
  format = 2
  name = 'weights'
  has_roles = True
  is_divided = True
  config: config_lib.EnsembleConfig
  members: dense_members.DenseMembers
  bm25: bm25_search.Bm25
  tune: judged.Judged
  workdir: pathlib.Path

  @property
  def folder(self) -> pathlib.Path:
    """Of the workdir."""
    return self.workdir / FOLDER

  def describe(self) -> str:
    """How they come about, and where they lie."""
    return f'tuned on the tune split in {self.folder}'

  def needs(self) -> dict[str, artifact.Artifact]:
    """The tune split, if that is read, the members, and BM25 for hybrids."""
    of = 'data' if reads_tune_split(self.config) else 'corpus'
    return {of: self.tune.data, **self.members.needs(),
            **({'bm25': self.bm25} if self.config.hybrid else {})}

  def settings(self) -> dict[str, Any]:
    """What is tried, and how it is searched."""
    config, prepared = self.config, self.tune.dataset.prepared
    settings: dict[str, Any] = {
        'index': self._members.search.index_identity(prepared),
        'weights': config.weights,
        'weight_steps': config.weight_steps,
        'candidates': config.candidates,
        'depth': self.tune.config.depth,
    }
    if reads_tune_split(config):
      rows = self.tune.judgements.queries
      settings['tune_queries'] = hashlib.sha256(rows.tobytes()).hexdigest()
    if config.hybrid:
      settings['hybrid_depth'] = config.hybrid_depth
    return settings

  def prepare(self) -> None:
    """Makes the indexes and finds the weights; processes search together."""
    for retriever in self._retrievers:
      retriever.make()
    _ = self._tuned

  def write(self, scratch: pathlib.Path, manifest: dict[str, Any]) -> None:
    """Puts them into the manifest."""
    del scratch
    manifest |= {'tuned': self._tuned, 'environment': folders.environment()}

  def read(self) -> dict[str, Any]:
    """What was tuned."""
    made = folders.read_manifest(self.folder, self._format)
    assert made is not None
    return made['tuned']

  def of(self, system: str) -> tuple[float, ...]:
    """Those of a system, once they are tuned."""
    return tuple(self.load()[system]['weights'])

  def _find_contents(self, role: str) -> dict[str, Any] | None:
    """The weights of the system that the role names."""
    return {'weights': list(self.of(role))} if self.is_made() else None

  @functools.cached_property
  def _tuned(self) -> dict[str, Any]:
    """The weights of every fusion that has some."""
    config, count = self.config, len(self.members)
    if config.weights:
      best: dict[str, Any] = {'weights': list(config.weights)}
    elif count == 1:
      best = {'weights': [1.0]}
    else:
      best = self._best(self._member_candidates(),
                        fusion.simplex(count, config.weight_steps))
    tuned = {dense_members.EMBEDDING: best}
    if config.hybrid:
      tuned |= self._tune_hybrids(tuple(best['weights']))
    return tuned

  def _tune_hybrids(self, weights: tuple[float, ...]) -> dict[str, Any]:
    rows, depth = self.tune.judgements.queries, self.tune.config.depth
    sparse = own_passages.search_rows(
        self.bm25.load(), self.tune.dataset, rows, self.config.hybrid_depth
    )
    retriever = self._members.fused_retriever(weights)
    dense = own_passages.search_rows(
        retriever, self.tune.dataset, rows, depth
    )
    both = [hits.Hits(sparse.rows[:, :depth], sparse.scores[:, :depth]), dense]
    rescoring, adding = HYBRIDS
    return {
        rescoring: self._best(
            hybrid.rescored(
                retriever, sparse, retriever.vectors.query_vecs(rows)
            ),
            np.array([(1.0, weight) for weight in _HYBRID_WEIGHTS]),
        ),
        adding: self._best(
            fusion.align(both, self._tie_ranks, fusion.min_max),
            fusion.simplex(2, self.config.weight_steps),
        ),
    }

  def _member_candidates(self) -> fusion.Candidates:
    """The best passages of every member, scored by all."""
    rows = self.tune.judgements.queries
    retrievers = self._member_retrievers
    vecs = [one.vectors.query_vecs(rows) for one in retrievers]
    dataset, count = self.tune.dataset, self.config.candidates
    depth = own_passages.depth_for(dataset, count)
    found = [own_passages.drop(dataset, rows,
                               one.search_vecs(of, depth, rows), count)
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
    judgements = self.tune.judgements
    passages = len(self.tune.dataset.prepared.passages)
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
  def _members(self) -> dense_members.DenseMembers:
    """They search for all queries of the tune split, if it is read at all."""
    count = (len(self.tune.judgements.queries)
             if reads_tune_split(self.config) else 0)
    return dataclasses.replace(
        self.members, search=self.members.search.of_queries(count)
    )

  @property
  def _member_retrievers(self) -> list[retriever_lib.Retriever]:
    members = self._members
    return [members.retriever(number) for number in range(len(members))]

  @property
  def _retrievers(self) -> list[retriever_lib.Retriever]:
    """Those that tuning searches with; an index serves any weights."""
    count, config = len(self.members), self.config
    return [
        *(self._member_retrievers if count > 1 and not config.weights else ()),
        *([self._members.fused_retriever((1.0,) * count)]
          if config.hybrid else ()),
    ]

  @property
  def _tie_ranks(self) -> np.ndarray:
    return self.tune.dataset.prepared.tie_ranks
