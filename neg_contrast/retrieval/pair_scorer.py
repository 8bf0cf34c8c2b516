"""A cross-encoder at work: pairs of texts in, scores out."""

import copy
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Int

from neg_contrast import sharding
from neg_contrast.batches import text_pairs
from neg_contrast.data import tokenized
from neg_contrast.models import by_name as model_lib
from neg_contrast.models import reranker
from neg_contrast.retrieval import encoding


class PairScorer:
  """Scores pairs of queries and passages with one model.

  Attributes:
    model: weights, tokenizer and text settings.
    settings: how it computes.
  """

  def __init__(
      self, model: reranker.Reranker, settings: encoding.EncodingSettings
  ):
    """Puts the weights on this process's devices; compiles at first use.

    Args:
      model: weights, tokenizer and text settings.
      settings: how it computes.
    """
    self.model, self.settings = model, settings
    self._mesh = sharding.make_local_mesh(settings.mesh)
    row_length = settings.row_length
    self._table = encoding.TableEncoder(
        model_lib.make_cross_encoder(model.spec, settings.model), self._mesh,
        model.longest, settings.chunk_tokens,
        row_length and max(model.longest, row_length), text_pairs.fill,
    )
    self._params = self._placed(model.params)

  def with_model(self, model: reranker.Reranker) -> 'PairScorer':
    """The same with other weights; nothing is compiled anew."""
    other = copy.copy(self)
    other.model, other._params = model, self._placed(model.params)
    return other

  def score(
      self,
      queries: tokenized.TokenizedTexts,
      passages: tokenized.TokenizedTexts,
      pairs: Int[np.ndarray, 'pairs 2'],
      *,
      span: range | None = None,
      out: Any = None,
      on_progress: Callable[[int], None] | None = None,
  ) -> Any:
    """Scores of some pairs.

    Args:
      queries: tokenized by this model's tokenizer.
      passages: likewise.
      pairs: `[pairs, 2] int`, row of the query and of the passage.
      span: which of the pairs; whole blocks, see `block_rows`.
      out: `[pairs, 1] float32` to write to by slices; of the span, if there is
        one.
      on_progress: called with the number of pairs done so far.

    Returns:
      `[pairs, 1] float32`: `out`, if given.

    Raises:
      ValueError: the span cuts a block.
    """
    return self._table(
        self._params,
        lambda i: text_pairs.join(
            queries.tokens(pairs[i, 0]), passages.tokens(pairs[i, 1]),
            self.model.start,
        ),
        self._lengths(queries, passages, pairs), on_progress, out, span,
    )

  def block_rows(
      self,
      queries: tokenized.TokenizedTexts,
      passages: tokenized.TokenizedTexts,
      pairs: Int[np.ndarray, 'pairs 2'],
  ) -> int:
    """Pairs whose scores depend on each other, in the last bits."""
    return self._table.block_rows(self._lengths(queries, passages, pairs))

  def _placed(self, params: Any) -> Any:
    return jax.device_put(
        params, sharding.parameter_shardings(params, self._mesh)
    )

  def _lengths(self, queries, passages, pairs):
    return text_pairs.pair_lengths(
        queries.lengths()[pairs[:, 0]], passages.lengths()[pairs[:, 1]],
        self.model.start,
    )
