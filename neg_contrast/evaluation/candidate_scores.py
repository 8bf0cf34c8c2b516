"""Scores of candidates by a model that reads pairs, or by a dual encoder.

They are kept in tables, as vectors of one feature.
"""

import hashlib
import pathlib
from typing import Any

import numpy as np

from neg_contrast import progress
from neg_contrast.artifacts import folders
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import tokenized
from neg_contrast.models import reranker
from neg_contrast.retrieval import (
  embedder,
  embeddings,
  pair_scorer,
  search_settings,
  text_encoder,
  vector_table,
)
from neg_contrast.retrieval import retriever as retriever_lib

FOLDER = 'reranked'
"""Of a workdir: scores of pairs."""

_VECTOR_BYTES = 2**29  # Of passages, in memory.
_PART = 4096  # Pairs, of which an interruption loses one part.


def texts_of(
    dataset: dataset_lib.Dataset, model: reranker.Reranker
) -> tuple[tokenized.TokenizedTexts, tokenized.TokenizedTexts]:
  """Queries and passages as a cross-encoder reads them."""
  return dataset.tokenize(model, 'query'), dataset.tokenize(model, 'passage')


def cross_scores(
    scorer: pair_scorer.PairScorer,
    dataset: dataset_lib.Dataset,
    query_rows: np.ndarray,
    rows: np.ndarray,
    parent: pathlib.Path,
) -> np.ndarray:
  """Scores by a cross-encoder, for whoever asks with the same weights.

  Args:
    scorer: the model at work.
    dataset: corpus and queries.
    query_rows: `[queries] int32`.
    rows: `[queries, depth] int32` passages; -1 pads.
    parent: of the folder of the scores, which their identity names.

  Returns:
    `[queries, depth] float32`, -inf for padding.
  """
  pairs, _ = pairs_of(query_rows, rows)
  identity = {
      **embedder.vectors_identity(scorer.settings, dataset, scorer.model),
      'queries': dataset.prepared.manifest['queries_fingerprint'],
      **dataset.own_prefixes('query'),
      'pairs': hashlib.sha256(pairs.tobytes()).hexdigest(),
  }
  folder = parent / folders.sha256_json(identity)[:12]
  keep_scores(scorer, dataset, query_rows, rows, folder, identity)
  return read_scores(folder, identity, rows)


def keep_scores(
    scorer: pair_scorer.PairScorer,
    dataset: dataset_lib.Dataset,
    query_rows: np.ndarray,
    rows: np.ndarray,
    folder: pathlib.Path,
    identity: dict[str, Any],
) -> None:
  """Scores by a cross-encoder, kept part by part, which processes divide.

  Args:
    scorer: the model at work.
    dataset: corpus and queries.
    query_rows: `[queries] int32`.
    rows: `[queries, depth] int32` passages; -1 pads.
    folder: of the scores; what was begun there is gone on with.
    identity: what they depend on.
  """
  pairs, _ = pairs_of(query_rows, rows)
  texts = texts_of(dataset, scorer.model)
  block = scorer.block_rows(*texts, pairs)
  embeddings.make_table(
      folder, identity,
      vector_table.Layout(len(pairs), 1,
                          shard_rows=-(-_PART // block) * block),
      lambda span, out, on_progress: scorer.score(
          *texts, pairs, span=span, out=out, on_progress=on_progress
      ),
      lambda before: progress.Ticker('reranking', len(pairs), before=before),
  )


def keep_in_memory(
    scores: np.ndarray,
    rows: np.ndarray,
    folder: pathlib.Path,
    identity: dict[str, Any],
) -> None:
  """Keeps scores that all processes have in memory.

  Args:
    scores: `[queries, depth] float32`.
    rows: `[queries, depth] int32` passages; -1 pads.
    folder: of the scores.
    identity: what they depend on.
  """
  values = scores[rows >= 0]

  def copy(span: range, out: Any, on_progress: embeddings.OnProgress) -> None:
    out[: len(span)] = values[span.start : span.stop, None]
    on_progress(len(span))

  embeddings.make_table(
      folder, identity, vector_table.Layout(len(values), 1), copy
  )


def read_scores(
    folder: pathlib.Path, identity: dict[str, Any], rows: np.ndarray
) -> np.ndarray:
  """What was kept.

  Args:
    folder: of the scores.
    identity: what they depend on.
    rows: `[queries, depth] int32` passages; -1 pads.

  Returns:
    `[queries, depth] float32`, -inf for padding.
  """
  table = embeddings.open_table(folder, identity)
  assert table is not None
  scores = np.full(rows.shape, -np.inf, np.float32)
  scores[rows >= 0] = table[:][:, 0]
  return scores


def dual_scores(
    search: search_settings.SearchSettings,
    dataset: dataset_lib.Dataset,
    encoder: text_encoder.TextEncoder,
    query_rows: np.ndarray,
    rows: np.ndarray,
) -> np.ndarray:
  """Scores by a dual encoder; other arguments as of `cross_scores`.

  Only candidates are encoded, those of some queries at a time.
  """
  query_vecs = embedder.Embedder(dataset, encoder).query_vecs(query_rows)
  scores = np.full(rows.shape, -np.inf, np.float32)
  some = max(1, _VECTOR_BYTES // (4 * encoder.dim * rows.shape[1]))
  for begin in range(0, len(rows), some):
    lines = slice(begin, begin + some)
    wanted = np.unique(rows[lines])
    wanted = wanted[wanted >= 0]
    if not len(wanted):
      continue
    retriever = retriever_lib.Retriever(
        search, dataset, embedder.Embedder(dataset, encoder, rows=wanted),
        rows=wanted,
    )
    places = np.where(rows[lines] >= 0, np.searchsorted(wanted, rows[lines]),
                      -1)
    scores[lines] = retriever.score(query_vecs[lines], places)
  return scores


def pairs_of(
    query_rows: np.ndarray, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """`[pairs, 2] int32` (query, passage), and where they are in `rows`."""
  is_there = rows >= 0
  lines, _ = np.nonzero(is_there)
  return np.stack([query_rows[lines], rows[is_there]], axis=1), is_there
