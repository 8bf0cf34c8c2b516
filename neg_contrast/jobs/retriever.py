"""A model and a corpus, ready to be searched: for jobs and notebooks."""

import dataclasses
import functools
import pathlib
import shutil
from collections.abc import Sequence
from typing import Any

import numpy as np
from absl import logging
from jax.sharding import Mesh

from neg_contrast import artifacts, sharding
from neg_contrast import config as config_lib
from neg_contrast.data import records
from neg_contrast.jobs import dataset as dataset_lib
from neg_contrast.jobs import model as model_lib
from neg_contrast.models import loading
from neg_contrast.retrieval import (
    embeddings,
    exact,
    hits,
    matching,
    scann_index,
    text_encoder,
)
from neg_contrast.training import run_log

_RECALL_QUERIES = 200
_LEAST_RECALL_DEPTH = 100  # One index serves searches of any depth.


@dataclasses.dataclass(frozen=True)
class Found:
  """A passage that a search found.

  Attributes:
    passage: title, text and ids.
    score: dot product of its embedding and the query's.
    match: (start, end) in characters of the part of `passage.text` whose own
      embedding is nearest to the query's; (0, 0) if the text is blank.
  """

  passage: records.Passage
  score: float
  match: tuple[int, int]


def make_encoder(
    config: config_lib.Config, model: loading.Model, mesh: Mesh | None = None
) -> text_encoder.TextEncoder:
  """The encoder of a model, on the devices that the config names."""
  return text_encoder.TextEncoder(
      model,
      model_lib.make_module(model.spec, config.model),
      mesh or sharding.make_mesh(config.mesh),
      config.data.row_length,
      config.index.chunk_tokens,
  )


class Retriever:
  """Searches the passages of a dataset, or some of them."""

  def __init__(
      self,
      config: config_lib.Config,
      dataset: dataset_lib.Dataset,
      encoder: text_encoder.TextEncoder,
      folder: pathlib.Path | None = None,
      rows: np.ndarray | None = None,
  ):
    """Encodes nothing yet.

    Args:
      config: settings of encoding and search.
      dataset: corpus and queries.
      encoder: of both.
      folder: keeps the passages' embeddings and their index; None: memory does.
      rows: `[n] int32` passages to search, ascending; default: the whole
        corpus.
    """
    self._config, self._dataset, self._encoder = config, dataset, encoder
    self._folder = folder
    count = len(dataset.prepared.passages)
    self._rows = np.arange(count, dtype=np.int32) if rows is None else rows

  @property
  def encoder(self) -> text_encoder.TextEncoder:
    """What encodes its queries and passages."""
    return self._encoder

  def find(self, query: str, depth: int = 10) -> list[Found]:
    """The best passages for a query, best first, with their matching parts."""
    query_vecs = self._encoder.encode_queries([query])
    found = self._index.search(query_vecs, depth)
    kept = found.rows[0] >= 0
    passages = [self._dataset.prepared.passages[int(row)]
                for row in self._rows[found.rows[0][kept]]]
    return [
        Found(passage, float(score), match) for passage, score, match in zip(
            passages, found.scores[0][kept],
            self._matches(query_vecs[0], passages), strict=True,
        )
    ]

  def search(self, queries: Sequence[str], depth: int = 100) -> hits.Hits:
    """The best passages of each query, as rows of the whole corpus."""
    return self._search(self._encoder.encode_queries(queries), depth)

  def search_rows(self, query_rows: np.ndarray, depth: int) -> hits.Hits:
    """The same for queries of the dataset."""
    return self._search(self._encode_rows(query_rows), depth)

  @functools.cached_property
  def passage_vecs(self) -> np.ndarray:
    """`[passages, features] float32` of the passages that are searched."""
    texts = self._dataset.tokenize(self._encoder.model, 'passage')
    shape = (len(self._rows), self._encoder.dim)

    def encode(out: np.ndarray) -> np.ndarray:
      return self._encoder.encode(
          'passage', texts, self._rows, out=out,
          on_progress=run_log.Ticker('encoding passages', len(self._rows)),
      )

    if self._folder is None:
      return encode(np.empty(shape, np.float32))
    folder = self._folder / 'embeddings'
    if not embeddings.is_made(folder, self.identity()):
      shutil.rmtree(self._folder / 'index', ignore_errors=True)
    return embeddings.make_table(folder, self.identity(), shape, encode)

  def is_made(self) -> bool:
    """Whether the folder has embeddings and index already."""
    folder = self._folder
    if folder is None or not embeddings.is_made(
        folder / 'embeddings', self.identity()
    ):
      return False
    return self._settings is None or _has_index(folder / 'index',
                                                self._settings)

  def make(self) -> None:
    """Encodes the corpus and builds the index, where they are not there."""
    _ = self._index

  def identity(self) -> dict[str, Any]:
    """What the embeddings of the whole corpus depend on."""
    config = self._config
    return {
        'corpus': self._dataset.prepared.manifest['corpus_fingerprint'],
        'model': self._encoder.model.fingerprint,
        'dtype': str(np.dtype(model_lib.compute_dtype(config.model))),
        'chunk_tokens': config.index.chunk_tokens,
        'row_length': config.data.row_length,
    }

  def measure_index(
      self, query_rows: np.ndarray, found: hits.Hits
  ) -> dict[str, Any]:
    """What the index misses of what exact search finds, for some queries.

    Args:
      query_rows: `[queries] int32` of the dataset.
      found: what `search_rows` found for them.

    Returns:
      Json values for a manifest; exact search has nothing to measure.
    """
    if not isinstance(self._index, scann_index.ScannIndex):
      return {'kind': 'exact'}
    depth = found.rows.shape[1]
    some = np.linspace(
        0, len(query_rows) - 1, min(_RECALL_QUERIES, len(query_rows)), dtype=int
    )
    query_vecs = self._encode_rows(query_rows[some])
    recall = self._index.recall_against(
        query_vecs, self._exact.search(query_vecs, depth)
    )
    logging.info('ScaNN found %.2f%% of the exact top %d of %d queries',
                 100 * recall, depth, len(some))
    return {
        'kind': 'scann',
        'tuned': dataclasses.asdict(self._index.measured),
        'recall': recall,
        'depth': depth,
        'queries': len(some),
    }

  @functools.cached_property
  def _index(self) -> hits.Index:
    settings, vecs = self._settings, self.passage_vecs
    if settings is None:
      return self._exact
    folder = None if self._folder is None else self._folder / 'index'
    if folder and _has_index(folder, settings):
      return scann_index.load(folder, vecs)
    logging.info('building a ScaNN index of %d passages', len(vecs))
    index = scann_index.build(vecs, self._tie_ranks, settings)
    if folder:
      index.save(folder)
    return index

  @property
  def _settings(self) -> scann_index.Settings | None:
    """Of a ScaNN index; None where search is exact."""
    config = self._config
    if scann_index.kind_for(len(self._rows), config.index.kind) == 'exact':
      return None
    return scann_index.Settings(
        target_recall=config.index.target_recall,
        recall_k=max(config.evaluation.depth, _LEAST_RECALL_DEPTH),
        shard_rows=config.index.shard_rows,
        seed=config.seed,
    )

  @functools.cached_property
  def _exact(self) -> exact.ExactIndex:
    return exact.ExactIndex(
        self.passage_vecs,
        self._tie_ranks,
        sharding.make_mesh(self._config.mesh),
        self._config.index.block_rows,
    )

  @property
  def _tie_ranks(self) -> np.ndarray:
    return self._dataset.prepared.tie_ranks[self._rows]

  def _encode_rows(self, query_rows: np.ndarray) -> np.ndarray:
    texts = self._dataset.tokenize(self._encoder.model, 'query')
    return self._encoder.encode(
        'query', texts, query_rows,
        on_progress=run_log.Ticker('encoding queries', len(query_rows)),
    )

  def _search(self, query_vecs: np.ndarray, depth: int) -> hits.Hits:
    found = self._index.search(query_vecs, depth)
    return hits.Hits(
        np.where(found.rows >= 0, self._rows[found.rows], np.int32(-1)),
        found.scores,
    )

  def _matches(
      self, query_vec: np.ndarray, passages: Sequence[records.Passage]
  ) -> list[tuple[int, int]]:
    """The best part of each passage, all encoded together."""
    parts = [matching.parts(passage.text) for passage in passages]
    vecs = self._encoder.encode_passages([
        passage.text[start:end]
        for passage, of in zip(passages, parts, strict=True)
        for start, end in of
    ])
    ends = np.cumsum([len(of) for of in parts])[:-1]
    return [
        of[int(np.argmax(scores))] if of else (0, 0)
        for of, scores in zip(parts, np.split(vecs @ query_vec, ends),
                              strict=True)
    ]


def _has_index(folder: pathlib.Path, settings: scann_index.Settings) -> bool:
  made = artifacts.read_manifest(folder)
  return made is not None and (
      made.get('settings') == dataclasses.asdict(settings)
  )
