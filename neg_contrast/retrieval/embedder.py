"""One model's vectors of a dataset."""

import functools
import hashlib
import pathlib
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from neg_contrast import hosts, progress, sharding
from neg_contrast.artifacts import folders
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import feature_store, tokenized
from neg_contrast.models import attention, loading, reranker
from neg_contrast.models import by_name as model_lib
from neg_contrast.retrieval import (
  embeddings,
  encoding,
  passing_vectors,
  text_encoder,
  vector_table,
  vectors,
)


def identity(
    settings: encoding.EncodingSettings,
    dataset: dataset_lib.Dataset,
    model: loading.Model,
) -> dict[str, Any]:
  """What the embeddings of a corpus, as they are kept, depend on."""
  stored = settings.index.embedding_dtype
  return {
      **vectors_identity(settings, dataset, model),
      **({} if stored == 'float32' else {'stored': stored}),
  }


def vectors_identity(
    settings: encoding.EncodingSettings,
    dataset: dataset_lib.Dataset,
    model: loading.Model | reranker.Reranker,
) -> dict[str, Any]:
  """What the embeddings of a corpus depend on, as they are computed.

  Scores of pairs do too, and on the queries.
  """
  return {
      'corpus': dataset.prepared.manifest['corpus_fingerprint'],
      'model': model.fingerprint,
      **computed(settings, model),
      'chunk_tokens': settings.chunk_tokens,
      'row_length': settings.row_length,
      **dataset.own_prefixes('passage'),
      **feature_store.contents_of(
          dataset.prepared, getattr(model, 'side_features', ())
      ),
  }


def computed(
    settings: encoding.EncodingSettings,
    model: loading.Model | reranker.Reranker,
) -> dict[str, str]:
  """The `dtype` a model computes in; and `attention`, if XLA does it not."""
  dtype = model_lib.compute_dtype(settings.model)
  kernel = attention.choose(
      model.spec.transformer, settings.model.attention, settings.row_length,
      dtype,
      sharding.make_local_mesh(settings.mesh),
  )
  return {'dtype': str(np.dtype(dtype)),
          **({} if kernel == 'xla' else {'attention': kernel})}


class Embedder(vectors.Vectors):
  """Vectors of the queries and passages of a dataset, by one model."""

  def __init__(
      self,
      dataset: dataset_lib.Dataset,
      encoder: text_encoder.TextEncoder,
      folder: pathlib.Path | None = None,
      rows: np.ndarray | None = None,
      is_for_part: bool = False,
  ):
    """Encodes nothing yet.

    Args:
      dataset: corpus and queries.
      encoder: of both.
      folder: keeps the embeddings, of any number of models; None: memory keeps
        them; several processes then come together to make them, each a part.
      rows: `[n] int32` passages to encode, ascending; default: the whole
        corpus.
      is_for_part: it encodes few passages, see `token_store.make_token_store`.
    """
    self._dataset, self._rows = dataset, rows
    self._encoder = encoder.with_prefixes(
        dataset.own_prefixes('query', 'passage'))
    self._is_for_part = is_for_part
    self._identity = identity(encoder.settings, dataset, encoder.model)
    if rows is not None:
      self._identity['rows'] = hashlib.sha256(
          np.ascontiguousarray(rows, np.int32).tobytes()
      ).hexdigest()
    self._folder = None if folder is None else (
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

  def query_vecs(
      self, query_rows: Int[np.ndarray, ' queries']
  ) -> Float[np.ndarray, 'queries features']:
    """`[queries, features] float32` of queries of the dataset."""
    return self._encoder.encode(
        'query', self._dataset.tokenize(self._encoder.model, 'query'),
        query_rows,
        on_progress=progress.Ticker('encoding queries', len(query_rows)),
    )

  @property
  def passages(self) -> int:
    """How many it encodes."""
    return (len(self._dataset.prepared.passages) if self._rows is None
            else len(self._rows))

  @functools.cached_property
  def passage_vecs(self) -> vector_table.Rows:
    """`[passages, features] float32` of the corpus, or of `rows`."""
    ticker = lambda before: progress.Ticker(
        'encoding passages', self.passages, before=before
    )
    if self._folder is None:
      return self._encode_in_memory(self._texts, self.passages, ticker(0))
    return embeddings.make_table(*self._table(), ticker)

  def begin(self) -> embeddings.Shards:
    """Makes the folder of the embeddings, or joins in.

    Returns:
      Its shards, which other processes may make.

    Raises:
      UserError: the folder holds something else or can't be written to.
    """
    return embeddings.begin(*self._table())

  def _table(self) -> tuple[pathlib.Path, dict[str, Any], vector_table.Layout,
                            embeddings.Encode]:
    """Where, of what, in which layout and how; texts are tokenized now."""
    assert self._folder is not None
    texts, index = self._texts, self._encoder.settings.index
    block = self._encoder.block_rows('passage', texts, self._rows)
    layout = vector_table.Layout(
        self.passages, self._encoder.dim, index.embedding_dtype,
        -(-index.table_rows // block) * block,
    )
    return (self._folder, self._identity, layout,
            lambda rows, out, on_progress: self._encoder.encode(
                'passage', texts, self._rows, span=rows, out=out,
                on_progress=on_progress))

  @property
  def block_rows(self) -> int:
    """Passages whose vectors depend on each other, in the last bits."""
    return self._encoder.block_rows('passage', self._texts, self._rows)

  def encode_span(self, span: range) -> Float[np.ndarray, 'span features']:
    """Vectors of adjacent passages, in whole blocks; nothing is kept.

    Args:
      span: places among the passages.
    """
    return self._encoder.encode('passage', self._texts, self._rows, span=span)

  @property
  def passing_vecs(self) -> vector_table.Rows:
    """`[passages, features] float32` that are not kept: read once, in order."""
    return passing_vectors.PassingVectors(
        self.encode_span, (self.passages, self._encoder.dim), self.block_rows
    )

  @property
  def _texts(self) -> tokenized.TokenizedTexts:
    return self._dataset.tokenize(
        self._encoder.model, 'passage', self._is_for_part)

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
