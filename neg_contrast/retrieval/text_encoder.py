"""One model at work: texts in, vectors out."""

import copy
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Int

from neg_contrast import scoring, sharding
from neg_contrast.data import feature_store, tokenized
from neg_contrast.models import by_name as model_lib
from neg_contrast.models import dual_encoder, loading
from neg_contrast.retrieval import encoding, vectors


class TextEncoder(vectors.Encoder):
  """Encodes queries and passages with one model."""

  def __init__(
      self, model: loading.Model, settings: encoding.EncodingSettings
  ):
    """Puts the weights on this process's devices; compiles at first use.

    Args:
      model: weights, tokenizer and text settings.
      settings: how it computes.
    """
    self._model, self._settings = model, settings
    self._mesh = sharding.make_local_mesh(settings.mesh)
    row_length = settings.row_length
    module = model_lib.make_module(
        model.spec, settings.model, row_length, self._mesh
    )
    self._tables = {
        role: encoding.TableEncoder(
            module.clone(role=role), self._mesh, model.text.length(role),
            settings.chunk_tokens,
            row_length and max(model.text.length(role), row_length),
        )
        for role in ('query', 'passage')
    }
    self._params = self._placed(model.params)
    self._prefixes: Mapping[str, str] = {}

  @property
  def dim(self) -> int:
    """Features of a passage's embedding."""
    return self._model.spec.features('passage')

  @property
  def score(self) -> scoring.ScoreFunction:
    """Of embeddings of queries and of passages."""
    return self._model.spec.score

  @property
  def model(self) -> loading.Model:
    """What it was made of."""
    return self._model

  @property
  def settings(self) -> encoding.EncodingSettings:
    """How it computes."""
    return self._settings

  def work(self, role: str) -> encoding.Work:
    """What was done so far for `query` or `passage` inputs."""
    return dataclasses.replace(self._tables[role].work)

  def with_params(self, params: Any, fingerprint: str = '') -> 'TextEncoder':
    """The same with other weights; nothing is compiled anew.

    Args:
      params: towers.
      fingerprint: of these; needed where a folder keeps their vectors.
    """
    other = copy.copy(self)
    other._params = self._placed(params)
    if fingerprint:
      other._model = dataclasses.replace(self._model, fingerprint=fingerprint)
    return other

  def with_prefixes(self, prefixes: Mapping[str, str]) -> 'TextEncoder':
    """The same for typed texts of a data set that has prefixes of its own.

    Args:
      prefixes: `query_prefix`, `passage_prefix`, in the place of the model's.
    """
    if prefixes == self._prefixes:
      return self
    other = copy.copy(self)
    other._prefixes = prefixes
    return other

  def encode_queries(
      self, queries: Sequence[vectors.QueryLike]
  ) -> Float[np.ndarray, 'queries features']:
    """`[queries, features] float32` embeddings.

    The query prefix, of the data set or the model, is put before each, and they
    are cut to the model's query length.

    Raises:
      TypeError: no list of texts is given.
      UserError: a feature can't be used.
    """
    return self.encode('query', self._tokenize('query', [
        one if isinstance(one, vectors.WithFeatures)
        else vectors.WithFeatures(vectors.text_of(one), {})
        for one in vectors.listed(queries)
    ]))

  def encode_passages(
      self, passages: Sequence[vectors.PassageLike]
  ) -> Float[np.ndarray, 'passages features']:
    """`[passages, features] float32` embeddings of titles and texts.

    Raises:
      TypeError: no list of passages is given.
      UserError: a feature can't be used.
    """
    return self.encode('passage', self._tokenize('passage', list(
        map(vectors.passage_of, vectors.listed(passages))
    )))

  def encode(
      self,
      role: str,
      texts: tokenized.TokenizedTexts,
      rows: Int[np.ndarray, ' rows'] | None = None,
      *,
      span: range | None = None,
      out: Any = None,
      on_progress: Callable[[int], None] | None = None,
  ) -> Any:
    """Embeddings of tokenized texts.

    Args:
      role: `query` or `passage`.
      texts: tokenized by this model's tokenizer.
      rows: `[rows] int` which of them; default: all.
      span: which of these; whole blocks, see `block_rows`.
      out: `[rows, features] float32` to write to by slices, such as a mapped
        file; of the span, if there is one.
      on_progress: called with the number of rows done so far.

    Returns:
      `[rows, features] float32`: `out`, if given.

    Raises:
      ValueError: the span cuts a block.
    """
    lengths = texts.lengths()
    if rows is not None:
      lengths = lengths[rows]
    return self._tables[role](
        dual_encoder.tower(self._params, role),
        lambda i: texts.tokens(i if rows is None else rows[i]),
        lengths, on_progress, out, span,
    )

  def block_rows(
      self,
      role: str,
      texts: tokenized.TokenizedTexts,
      rows: Int[np.ndarray, ' rows'] | None = None,
  ) -> int:
    """Texts whose vectors depend on each other, in the last bits."""
    lengths = texts.lengths()
    return self._tables[role].block_rows(
        lengths if rows is None else lengths[rows]
    )

  def _tokenize(
      self, role: str, texts: Sequence[vectors.WithFeatures]
  ) -> tokenized.TokenizedTexts:
    text, tokenizer = self._model.text, self._model.tokenizer
    return dataclasses.replace(tokenized.tokenize_in_memory(
        [(one.title, one.text) for one in texts], tokenizer, text.length(role),
        self._prefixes.get(f'{role}_prefix', text.prefix(role)), text.title_end,
    ), side_features=feature_store.table_in_memory(
        self._model.side_features, role,
        [(one.title, one.text, one.features) for one in texts],
    ))

  def _placed(self, params: Any) -> Any:
    return jax.device_put(
        params, sharding.parameter_shardings(params, self._mesh)
    )
