"""Ranking the candidates of a retriever anew, by any model that scores pairs.

The retriever's ranking is evaluated first, as the system `candidates`; its
`run.trec` is what is ranked anew, as the system `reranked`.
"""

import dataclasses
import pathlib
from typing import Any

import numpy as np

from neg_contrast import errors
from neg_contrast.artifacts import artifact, folders, places
from neg_contrast.evaluation import (
  candidate_scores,
  evaluations,
  judged,
  rankings,
)
from neg_contrast.models import by_name, given, loading, reranker
from neg_contrast.retrieval import (
  embedder,
  embeddings,
  encoding,
  hits,
  pair_scorer,
  search_settings,
  searched,
  text_encoder,
)

RERANKED = 'reranked'  # System.


@dataclasses.dataclass(frozen=True)
class PairModel(given.Checkpoint):
  """A model that ranks anew: a cross-encoder or a dual encoder, by name."""

  kind = 'model of pairs'

  def lacks(self) -> str | None:
    """What is wrong with it, as far as a look at its place tells."""
    if (places.path(self.checkpoint) / reranker.FILE).exists():
      return None
    return by_name.missing(self.checkpoint, is_start=True)

  def read(self) -> reranker.Reranker | loading.Model:
    """Model and weights."""
    assert self.config is not None
    load = (by_name.load_reranker if by_name.is_reranker(self.checkpoint)
            else by_name.load_checkpoint)
    return load(self.checkpoint, self.config, self.seed)


@dataclasses.dataclass(frozen=True)
class Candidates(evaluations.Evaluation):
  """The evaluation of what is ranked anew; its run loads as `Hits`."""

  def read(self) -> hits.Hits:
    """The run.

    Raises:
      UserError: there is none, or it is damaged.
    """
    evaluations.read_manifest(self.folder)  # Whole, or an error.
    if not self._run.exists():
      raise errors.UserError(
          f'{self._run}: the candidates could not be written, as an id holds '
          'white space; rename it'
      )
    return self.ranking.judged.open().read(self._run)

  def _find_contents(self, role: str) -> dict[str, str] | None:
    """The bytes of the run: another machine finds other scores."""
    del role
    if not (self.is_made() and self._run.exists()):
      return None
    return {'run': folders.sha256_file(self._run)}

  @property
  def _run(self) -> pathlib.Path:
    return self.folder / 'run.trec'


@dataclasses.dataclass(frozen=True)
class Scores(artifact.Artifact):
  """What a model says of candidates: `[queries, depth] float32`, -inf pads.

  Attributes:
    candidates: what is scored.
    model: a cross-encoder, or a dual encoder with any score function.
    encoding: how it encodes texts or pairs.
    search: how a dual encoder's vectors are scored.
    workdir: of the job.
  """

  kind = 'scores of candidates'
  name = 'scores'
  is_divided = True
  candidates: Candidates
  model: artifact.Artifact
  encoding: encoding.EncodingSettings
  search: search_settings.SearchSettings
  workdir: pathlib.Path

  @property
  def folder(self) -> pathlib.Path:
    """Where they lie."""
    code = folders.sha256_json(self._table_identity)[:12]
    return self.workdir / candidate_scores.FOLDER / code

  def describe(self) -> str:
    """Of what, and where."""
    folder = self.workdir / candidate_scores.FOLDER
    return f'scores of all candidates in {folder}'

  def needs(self) -> dict[str, artifact.Artifact]:
    """Texts, candidates and the model."""
    return {'texts': self.candidates.ranking.judged.data,
            'candidates': self.candidates, 'model': self.model}

  def settings(self) -> dict[str, Any]:
    """How they are computed."""
    return embedder.vectors_identity(
        self.encoding, self._judged.dataset, self.model.load()
    )

  def is_made(self) -> bool:
    """Whether all lie on disk."""
    return self.identity is not None and embeddings.open_table(
        self.folder, self._table_identity
    ) is not None

  def build(self) -> None:
    """Scores the pairs that were not."""
    dataset, model = self._judged.dataset, self.model.load()
    wanted = self._judged.judgements.queries, self.candidates.load().rows
    kept = self.folder, self._table_identity
    if isinstance(model, reranker.Reranker):
      candidate_scores.keep_scores(
          pair_scorer.PairScorer(model, self.encoding), dataset, *wanted,
          *kept,
      )
      return
    encoder = text_encoder.TextEncoder(model, self.encoding)
    scores = candidate_scores.dual_scores(
        self.search, dataset, encoder, *wanted
    )
    candidate_scores.keep_in_memory(scores, wanted[1], *kept)

  def read(self) -> np.ndarray:
    """All of them."""
    return candidate_scores.read_scores(
        self.folder, self._table_identity, self.candidates.load().rows
    )

  @property
  def _judged(self) -> judged.Judged:
    return self.candidates.ranking.judged

  @property
  def _table_identity(self) -> dict[str, Any]:
    identity = self.identity
    assert identity is not None, 'needs are not made'
    return identity


@dataclasses.dataclass(frozen=True)
class Reranked(judged.Ranking):
  """Candidates in the order of a model's scores.

  Attributes:
    candidates: what is ranked anew.
    scores: of them.
  """

  kind = 'ranking of candidates'
  candidates: Candidates
  scores: Scores

  def needs(self) -> dict[str, artifact.Artifact]:
    """Passages and queries, candidates and scores."""
    return {**super().needs(), 'candidates': self.candidates,
            'scores': self.scores}

  def read(self) -> searched.Searched:
    """Sorts."""
    rows = self.candidates.load().rows
    return searched.Searched(hits.best_of(
        rows, self.scores.load(), self.judged.dataset.prepared.tie_ranks,
        rows.shape[1],
    ))


@dataclasses.dataclass(frozen=True)
class RerankedEvaluation(evaluations.Evaluation):
  """The same of a new ranking, with metrics of what it was made from."""

  ranking: Reranked

  def task(self) -> rankings.Evaluation:
    """What scores it."""
    return dataclasses.replace(
        super().task(), candidates=self.ranking.candidates.load
    )


def evaluate(
    candidates: judged.Ranking,
    model: artifact.Artifact,
    encoding_settings: encoding.EncodingSettings,
    search: search_settings.SearchSettings,
    workdir: pathlib.Path,
) -> tuple[Candidates, RerankedEvaluation]:
  """The evaluations of candidates, and of what a model makes of them.

  Args:
    candidates: what a retriever or a run gives.
    model: that ranks them anew: a cross-encoder, or a dual encoder with any
      score function.
    encoding_settings: how the model encodes texts or pairs.
    search: how a dual encoder's vectors are scored.
    workdir: of the job.
  """
  before = Candidates(candidates, workdir)
  scores = Scores(before, model, encoding_settings, search, workdir)
  return before, RerankedEvaluation(
      Reranked(candidates.judged, RERANKED, before, scores), workdir
  )
