"""Scores of candidates by a model that reads pairs, or by a dual encoder."""

import hashlib
import pathlib
from typing import Any

import numpy as np

from neg_contrast import hosts, progress
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

_VECTOR_BYTES = 2**29  # Of passages, in memory.


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
) -> np.ndarray:
  """Scores by a cross-encoder, in memory; processes divide them.

  Args:
    scorer: the model at work.
    dataset: corpus and queries.
    query_rows: `[queries] int32`.
    rows: `[queries, depth] int32` passages; -1 pads.

  Returns:
    `[queries, depth] float32`, -inf for padding.
  """
  pairs, is_there = pairs_of(query_rows, rows)
  texts = texts_of(dataset, scorer.model)
  block = scorer.block_rows(*texts, pairs)
  blocks = hosts.share_of(-(-len(pairs) // block))
  span = range(blocks.start * block, min(blocks.stop * block, len(pairs)))
  scores = np.full(rows.shape, -np.inf, np.float32)
  scores[is_there] = hosts.gather(scorer.score(
      *texts, pairs, span=span,
      on_progress=progress.Ticker('reranking', len(pairs)),
  ))[:, 0]
  return scores


def kept_scores(
    scorer: pair_scorer.PairScorer,
    dataset: dataset_lib.Dataset,
    query_rows: np.ndarray,
    rows: np.ndarray,
    folder: pathlib.Path,
    identity: dict[str, Any],
    shard_rows: int,
) -> np.ndarray:
  """`cross_scores`, kept on disk shard by shard, which processes divide.

  Args:
    scorer: the model at work.
    dataset: corpus and queries.
    query_rows: `[queries] int32`.
    rows: `[queries, depth] int32` passages; -1 pads.
    folder: around that of the scores, which is named by their identity.
    identity: what the score of a pair depends on.
    shard_rows: pairs in a file, rounded up to whole blocks.

  Returns:
    `[queries, depth] float32`, -inf for padding.
  """
  pairs, is_there = pairs_of(query_rows, rows)
  texts = texts_of(dataset, scorer.model)
  identity = {
      **identity,
      'queries': dataset.prepared.manifest['queries_fingerprint'],
      'pairs': hashlib.sha256(pairs.tobytes()).hexdigest(),
  }
  block = scorer.block_rows(*texts, pairs)
  table = embeddings.make_table(
      folder / folders.sha256_json(identity)[:12], identity,
      vector_table.Layout(len(pairs), 1,
                          shard_rows=-(-shard_rows // block) * block),
      lambda span, out, on_progress: scorer.score(
          *texts, pairs, span=span, out=out, on_progress=on_progress
      ),
      lambda before: progress.Ticker('reranking', len(pairs), before=before),
  )
  scores = np.full(rows.shape, -np.inf, np.float32)
  scores[is_there] = table[:][:, 0]
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
