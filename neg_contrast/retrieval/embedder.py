"""One model's vectors of a dataset."""

import functools
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from absl import logging
from jaxtyping import Float, Int

from neg_contrast import hosts, progress, scoring, sharding
from neg_contrast.artifacts import folders
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.models import attention, loading, reranker
from neg_contrast.models import by_name as model_lib
from neg_contrast.retrieval import embeddings, text_encoder, vector_table
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.settings import config as config_lib

_MANY_CUT = 0.25  # Passages that the model reads in part, to be told of.


def make_encoder(
    config: config_lib.Config, model: loading.Model
) -> text_encoder.TextEncoder:
  """The encoder of a model, on this process's devices."""
  mesh = sharding.make_local_mesh(config.mesh)
  return text_encoder.TextEncoder(
      model,
      model_lib.make_module(
          model.spec, config.model, config.data.row_length, mesh
      ),
      mesh,
      config.data.row_length,
      model_lib.chunk_tokens(config.index),
  )


def identity(
    config: config_lib.Config,
    dataset: dataset_lib.Dataset,
    model: loading.Model,
) -> dict[str, Any]:
  """What the embeddings of a corpus, as they are kept, depend on."""
  stored = config.index.embedding_dtype
  return {
      **vectors_identity(config, dataset, model),
      **({} if stored == 'float32' else {'stored': stored}),
  }


def vectors_identity(
    config: config_lib.Config,
    dataset: dataset_lib.Dataset,
    model: loading.Model | reranker.Reranker,
) -> dict[str, Any]:
  """What the embeddings of a corpus depend on, as they are computed.

  Scores of pairs do too, and on the queries.
  """
  dtype = model_lib.compute_dtype(config.model)
  computed = attention.choose(
      model.spec.bert, config.model.attention, config.data.row_length, dtype,
      sharding.make_local_mesh(config.mesh),
  )
  return {
      'corpus': dataset.prepared.manifest['corpus_fingerprint'],
      'model': model.fingerprint,
      'dtype': str(np.dtype(dtype)),
      **({} if computed == 'xla' else {'attention': computed}),
      'chunk_tokens': model_lib.chunk_tokens(config.index),
      'row_length': config.data.row_length,
  }


class Embedder(retriever_lib.Vectors):
  """Vectors of the queries and passages of a dataset, by one model."""

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
      config: settings of encoding.
      dataset: corpus and queries.
      encoder: of both.
      folder: keeps the embeddings of whole corpora, of any number of models;
        None: memory keeps them; several processes then come together to make
        them, each a part.
      rows: `[n] int32` passages to encode, ascending; default: the whole
        corpus.
    """
    self._config, self._dataset = config, dataset
    self._encoder, self._rows = encoder, rows
    self._identity = identity(config, dataset, encoder.model)
    self._folder = None if folder is None or rows is not None else (
        folder / folders.sha256_json(self._identity)[:12] / 'embeddings'
    )

  @property
  def encoder(self) -> text_encoder.TextEncoder:
    """What encodes queries and passages."""
    return self._encoder

  @property
  def identity(self) -> dict[str, Any]:
    """What the vectors depend on."""
    return self._identity

  @property
  def dim(self) -> int:
    """Features of a passage's vector."""
    return self._encoder.dim

  @property
  def score(self) -> scoring.ScoreFunction:
    """Of a query's vector and a passage's."""
    return self._encoder.score

  def encode_queries(
      self, queries: Sequence[str]
  ) -> Float[np.ndarray, 'queries features']:
    """`[queries, features] float32` of any queries."""
    return self._encoder.encode_queries(queries)

  def encode_passages(
      self, passages: Sequence[text_encoder.PassageLike]
  ) -> Float[np.ndarray, 'passages features']:
    """`[passages, features] float32` of any passages."""
    return self._encoder.encode_passages(passages)

  def query_vecs(
      self, query_rows: Int[np.ndarray, ' queries']
  ) -> Float[np.ndarray, 'queries features']:
    """`[queries, features] float32` of queries of the dataset."""
    return self._encoder.encode(
        'query', self._dataset.tokenize(self._encoder.model, 'query'),
        query_rows,
        on_progress=progress.Ticker('encoding queries', len(query_rows)),
    )

  @functools.cached_property
  def passage_vecs(self) -> vector_table.Rows:
    """`[passages, features] float32` of the corpus, or of `rows`."""
    texts = self._dataset.tokenize(self._encoder.model, 'passage')
    count = len(texts.store) if self._rows is None else len(self._rows)
    if self._rows is None:
      full = float(np.mean(texts.lengths() >= texts.max_length))
      if full > _MANY_CUT:
        logging.warning(
            '%.0f%% of the passages have %d tokens or more, and the model '
            'reads no more of them; configs/split.py makes shorter ones',
            100 * full, texts.max_length,
        )
    ticker = lambda before: progress.Ticker(
        'encoding passages', count, before=before
    )
    if self._folder is None:
      return self._encode_in_memory(texts, count, ticker(0))
    index = self._config.index
    block = self._encoder.block_rows('passage', texts)
    layout = vector_table.Layout(
        count, self.dim, index.embedding_dtype,
        -(-index.table_rows // block) * block,
    )
    return embeddings.make_table(
        self._folder, self._identity, layout,
        lambda rows, out, on_progress: self._encoder.encode(
            'passage', texts, span=rows, out=out, on_progress=on_progress
        ), ticker,
    )

  def _encode_in_memory(self, texts, count, say) -> np.ndarray:
    block = self._encoder.block_rows('passage', texts, self._rows)
    blocks = hosts.share_of(-(-count // block))
    span = range(blocks.start * block, min(blocks.stop * block, count))
    return hosts.gather(self._encoder.encode(
        'passage', texts, self._rows, span=span, on_progress=say
    ))

  def is_made(self) -> bool:
    """Whether the folder has the embeddings already."""
    return self._folder is not None and embeddings.open_table(
        self._folder, self._identity
    ) is not None
