"""What every loss of a dual encoder takes and says of itself. Pure.

A loss compares the vectors of a batch; `make_loss` puts an encoder before it.
`losses/table.py` lists all of them.
"""

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from neg_contrast import losses, scoring
from neg_contrast.losses import gradient_cache
from neg_contrast.models import dual_encoder

HARD_NEGATIVES = 'hard_negatives'
LOG_PROPOSAL = 'log_proposal'
"""What a batch may hold, or not: hard negatives of each query, and with what
chance each of them was drawn."""


class Vectors(NamedTuple):
  """A batch, encoded.

  Attributes:
    queries: `[batch, query_features] float32`.
    positives: `[batch, features] float32`; row i answers query i.
    negatives: `[batch, negatives, features] float32`; `negatives` may be 0;
      where there is no hard negative, that of any sequence.
  """

  queries: Float[Array, 'batch query_features']
  positives: Float[Array, 'batch features']
  negatives: Float[Array, 'batch negatives features']


@dataclasses.dataclass(frozen=True)
class DualEncoderLoss(abc.ABC):
  """A loss of the vectors of a batch.

  Attributes:
    bidirectional: rank the queries for each passage too.
    adjusted: lower the scores of negatives by how often they are drawn.
  """

  directions: ClassVar[tuple[bool, ...]]  # Values of `bidirectional` it knows.
  adjusts: ClassVar[bool] = False  # Whether it knows `adjusted`.

  bidirectional: bool
  adjusted: bool = False

  @property
  @abc.abstractmethod
  def needs(self) -> tuple[str, ...]:
    """What a batch must hold: `HARD_NEGATIVES`, `LOG_PROPOSAL`."""

  @abc.abstractmethod
  def __call__(
      self,
      vectors: Vectors,
      batch: Any,
      scale: Float[Array, ''],
      score: scoring.ScoreFunction,
      sources: Sequence[str],
  ) -> tuple[Float[Array, ''], dict[str, Any]]:
    """The loss, and what is logged of it.

    Args:
      vectors: of the batch.
      batch: a `batcher.Batch`; its masks and what its negatives are.
      scale: factor on the scores.
      score: of a query and a candidate.
      sources: names of the sources of hard negatives, by number.

    Returns:
      `[] float32`; and metrics by name, scalars, with `accuracy`, and
      `contrast` (see `contrast.by_source`).
    """


def make_loss(
    loss: DualEncoderLoss,
    encoder: dual_encoder.Encoder,
    scale: float,
    sources: Sequence[str] = (),
    chunks: gradient_cache.Chunks | None = None,
) -> losses.Loss:
  """The loss of parameters: an encoder, and what its vectors are compared by.

  Dropout keys are a function of (seed, step, tower, group), so the masks do not
  depend on the mesh. Metrics: those of the loss, and `scale`.

  Args:
    loss: of the vectors.
    encoder: the encoder module of a tower.
    scale: factor on the scores, unless the parameters hold a learned one.
    sources: names of the sources of hard negatives, by number.
    chunks: encode the batch in chunks; None: at once.
  """

  def loss_fn(params, batch, key):
    vectors = encode_batch(encoder, params, batch, key, chunks)
    used_scale = scale_of(params, scale)
    value, metrics = loss(
        vectors, batch, used_scale, encoder.spec.score, sources
    )
    return value, {**metrics, 'scale': used_scale}

  return loss_fn


def scale_of(params: Any, scale: float) -> Float[Array, '']:
  """The learned scale of the parameters, or the one given."""
  log_scale = params['loss'].get('log_scale')
  return jnp.float32(scale) if log_scale is None else jnp.exp(log_scale)


def encode_batch(
    encoder: dual_encoder.Encoder,
    params: Any,
    batch: Any,
    dropout_key: jax.Array | None,
    chunks: gradient_cache.Chunks | None = None,
) -> Vectors:
  """Vectors of queries, positives and hard negatives.

  Args:
    encoder: the encoder module of a tower.
    params: of a `TrainState`.
    batch: a `batcher.Batch`.
    dropout_key: None: no dropout.
    chunks: encode it in chunks; None: at once.
  """
  vecs = {}
  for number, (name, sequences) in enumerate(sorted(batch.sequences.items())):
    key = (None if dropout_key is None
           else jax.random.fold_in(dropout_key, number))
    by_group = gradient_cache.encode(
        encoder.clone(role=name), params['encoder'][name], sequences, key,
        chunks,
    )
    vecs[name] = by_group.reshape(-1, by_group.shape[-1])
  query_table = vecs['shared'] if 'shared' in vecs else vecs['query']
  passage_table = vecs['shared'] if 'shared' in vecs else vecs['passage']
  return Vectors(
      query_table[batch.query_slots],
      passage_table[batch.positive_slots],
      passage_table[batch.negative_slots],
  )
