"""POOLINGS: how the hidden states of a text's tokens become one vector. Pure.

To add one: write a function of the hidden states of all rows and of where the
texts lie; add it to the table, with the name that sentence-transformers has for
it.
"""

import dataclasses
from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from neg_contrast.batches import packed


def first(
    hidden: Float[Array, 'tokens features'],
    sequences: packed.PackedSequences,
) -> Float[Array, 'slots features']:
  """The first token of each slot; zeros if empty."""
  return _tokens(hidden, sequences, sequences.first_index)


def last(
    hidden: Float[Array, 'tokens features'],
    sequences: packed.PackedSequences,
) -> Float[Array, 'slots features']:
  """The last token of each slot; zeros if empty."""
  lengths = _membership(sequences).sum(1)
  at = sequences.first_index + jnp.maximum(lengths, 1) - 1
  return _tokens(hidden, sequences, at)


def mean(
    hidden: Float[Array, 'tokens features'],
    sequences: packed.PackedSequences,
) -> Float[Array, 'slots features']:
  """Mean over the tokens of each slot, summed in float32; zeros if empty.

  A product with a one-hot matrix: `slots * tokens * features` multiply-adds,
  under 1% of the transformer's.
  """
  membership = _membership(sequences)
  totals = jnp.einsum(
      'st,tf->sf',
      membership.astype(hidden.dtype),
      hidden,
      preferred_element_type=jnp.float32,
  )
  counts = membership.sum(axis=1, keepdims=True)
  return totals / jnp.maximum(counts, 1)


def weighted_mean(
    hidden: Float[Array, 'tokens features'],
    sequences: packed.PackedSequences,
) -> Float[Array, 'slots features']:
  """The mean with weights 1, 2, 3 ... along each text; zeros if empty.

  Muennighoff, "SGPT: GPT Sentence Embeddings for Semantic Search", equation 2.
  """
  numbers = sequences.positions.reshape(-1) + 1
  weights = _membership(sequences) * numbers.astype(jnp.float32)
  totals = jnp.einsum(
      'st,tf->sf', weights, hidden, preferred_element_type=jnp.float32,
      precision=jax.lax.Precision.HIGHEST,
  )
  return totals / jnp.maximum(weights.sum(1, keepdims=True), 1)


def maximum(
    hidden: Float[Array, 'tokens features'],
    sequences: packed.PackedSequences,
) -> Float[Array, 'slots features']:
  """The largest value of each feature over the tokens; zeros if empty."""
  segments = sequences.segment_ids.reshape(-1)
  largest = jax.ops.segment_max(
      hidden.astype(jnp.float32), segments,
      sequences.first_index.shape[0] + 1,
  )[1:]
  return jnp.where(jnp.isfinite(largest), largest, 0)


@dataclasses.dataclass(frozen=True)
class Pooling:
  """One entry of the table.

  Attributes:
    pool: the function.
    text: what it gives, for people.
    theirs: its name in sentence-transformers.
    switch: of older folders: the key `pooling_mode_SWITCH`.
  """

  pool: Callable[..., Array]
  text: str
  theirs: str
  switch: str


POOLINGS: Mapping[str, Pooling] = {
    'cls': Pooling(
        first, 'the hidden state of [CLS]', 'cls', 'cls_token'
    ),
    'mean': Pooling(
        mean, 'the mean over all tokens, [CLS] and [SEP] included', 'mean',
        'mean_tokens',
    ),
    'last': Pooling(
        last, 'the hidden state of the last token', 'lasttoken', 'lasttoken'
    ),
    'weighted_mean': Pooling(
        weighted_mean, 'the mean over all tokens, with weights 1, 2, 3 ...',
        'weightedmean', 'weightedmean_tokens',
    ),
    'max': Pooling(
        maximum, 'the largest value of each feature over all tokens', 'max',
        'max_tokens',
    ),
}


def _tokens(hidden, sequences, at):
  """Token `at[s]` of all rows where it is of slot s, else zeros.

  A text without tokens stands where another begins, or behind the last row.
  """
  at = jnp.minimum(at, len(hidden) - 1)
  slots = jnp.arange(1, len(at) + 1)
  is_own = jnp.asarray(sequences.segment_ids).reshape(-1)[at] == slots
  return jnp.where(is_own[:, None], hidden[at].astype(jnp.float32), 0)


def _membership(
    sequences: packed.PackedSequences,
) -> Bool[Array, 'slots tokens']:
  """Which tokens of all rows are those of each slot."""
  slots = sequences.first_index.shape[0]
  segments = sequences.segment_ids.reshape(-1)
  return segments[None, :] == jnp.arange(1, slots + 1)[:, None]
