"""What every loss of a dual encoder takes and says of itself. Pure.

A loss compares the vectors of a batch; `make_loss` puts an encoder before it.
`losses/loss_table.py` lists all of them.
"""

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from neg_contrast import losses, scoring
from neg_contrast.losses import gradient_cache, matryoshka, table_search
from neg_contrast.models import dual_encoder

HARD_NEGATIVES = 'hard_negatives'
LOG_PROPOSAL = 'log_proposal'
ONE_VECTOR = 'one_vector'
TEACHER = 'teacher'
"""What a batch may hold, or not: hard negatives of each query, with what chance
each of them was drawn, one vector of each text, and a teacher's scores of a
query's own candidates."""

BATCH, OWN = 'batch', 'own'
"""A query's candidates: those of the whole batch, or its own alone."""


class Vectors(NamedTuple):
  """A batch, encoded.

  Attributes:
    queries: `[batch, query_features] float32`.
    positives: `[batch, features] float32`; row i answers query i.
    negatives: `[batch, negatives, features] float32`; `negatives` may be 0;
      where there is no hard negative, that of any sequence.
    corpus: `[corpus, features] float32`, passages of the corpus that all
      queries share as candidates.
    queue: `[queue, features] float32`, positives of earlier batches, without
      gradient.
  """

  queries: Float[Array, 'batch query_features']
  positives: Float[Array, 'batch features']
  negatives: Float[Array, 'batch negatives features']
  corpus: Float[Array, 'corpus features']
  queue: Float[Array, 'queue features']


@dataclasses.dataclass(frozen=True)
class DualEncoderLoss(abc.ABC):
  """A loss of the vectors of a batch.

  Its attributes are keys of `config.loss` of the same name; a loss declares
  those that it alone has.

  Attributes:
    bidirectional: rank the queries for each passage too.
    adjusted: lower the scores of negatives by how often they are drawn.
    candidates: `BATCH` or `OWN`.
    hardest: negatives of a query that count, those that score highest; 0: all.
  """

  directions: ClassVar[tuple[bool, ...]]  # Values of `bidirectional` it knows.
  adjusts: ClassVar[bool] = False  # Whether it knows `adjusted`.
  has_scale: ClassVar[bool] = True  # Whether it depends on the scale.

  bidirectional: bool
  adjusted: bool = False
  candidates: str = BATCH
  hardest: int = 0

  @property
  def shares(self) -> bool:
    """Whether queries share candidates."""
    return self.candidates == BATCH

  @property
  def needs(self) -> tuple[str, ...]:
    """What a batch must hold, see `HARD_NEGATIVES` and so on."""
    if self.candidates == BATCH:
      return ()
    chances = (LOG_PROPOSAL,) if self.adjusted else ()
    return HARD_NEGATIVES, *chances

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
      `contrast` (see `contrast.of_batch`).
    """


def make_loss(
    loss: DualEncoderLoss,
    encoder: dual_encoder.Encoder,
    scale: float,
    sources: Sequence[str] = (),
    chunks: gradient_cache.Chunks | None = None,
    frozen: str = '',
    matryoshka_dims: Sequence[int] = (),
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
    frozen: a tower that gets no gradient; empty: none.
    matryoshka_dims: widths at which the loss is taken too.
  """

  def loss_fn(params, batch, key):
    params = {**params, 'encoder': {
        name: jax.lax.stop_gradient(tower) if name == frozen else tower
        for name, tower in params['encoder'].items()
    }}
    vectors = encode_batch(encoder, params, batch, key, chunks)
    if batch.table is not None:
      vectors, batch = _find(encoder.spec.score, vectors, batch)
    used_scale = scale_of(params, scale)
    value, metrics = matryoshka.mean_over(
        matryoshka_dims, encoder.spec.normalize,
        lambda vectors: loss(
            vectors, batch, used_scale, encoder.spec.score, sources
        ), vectors,
    )
    metrics = {**metrics, 'scale': used_scale}
    if batch.memory is not None:
      metrics[losses.REMEMBERED] = jax.lax.stop_gradient(
          _remembered(encoder, vectors, batch, key, chunks)
      )
    return value, metrics

  return loss_fn


def _find(score, vectors, batch):
  """A batch of queries with passages of the table: positives, and the nearest.
  """
  count = batch.negative_sources.shape[1]
  rows, sources = table_search.nearest(
      vectors.queries, batch.table, batch.excluded, count, score
  )
  take = lambda rows: jax.lax.stop_gradient(batch.table.take(rows))
  vectors = vectors._replace(
      positives=take(batch.positive_rows), negatives=take(rows)
  )
  return vectors, batch.replace(negative_sources=sources)


def _remembered(encoder, vectors, batch, key, chunks):
  """What the queue gets: positives, by the momentum encoder if there is one.

  It encodes them under the same dropout masks, so that it tends to the encoder
  itself as its momentum tends to 0.
  """
  if 'momentum' not in batch.memory:
    return vectors.positives
  towers = sorted(batch.sequences)
  tower = 'passage' if 'passage' in towers else 'shared'
  table = _encode_tower(
      encoder, jax.lax.stop_gradient(batch.memory['momentum']), batch, tower,
      towers.index(tower), key, chunks,
  )
  return table[batch.positive_slots]


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

  Returns:
    Of a batch of queries alone, `queries`, and no passage.
  """
  vecs = {
      name: _encode_tower(
          encoder, params['encoder'][name], batch, name, number, dropout_key,
          chunks,
      ) for number, name in enumerate(sorted(batch.sequences))
  }
  query_table = vecs['shared'] if 'shared' in vecs else vecs['query']
  queries = query_table[batch.query_slots]
  if batch.table is not None:
    none = jnp.zeros((0, batch.table.vecs.shape[-1]), jnp.float32)
    return Vectors(queries, none, none[None], none, none)
  passage_table = vecs['shared'] if 'shared' in vecs else vecs['passage']
  features = passage_table.shape[1]
  none = jnp.zeros((0, features), jnp.float32)
  return Vectors(
      queries,
      passage_table[batch.positive_slots],
      passage_table[batch.negative_slots],
      none if batch.corpus_slots is None else passage_table[batch.corpus_slots],
      none if batch.memory is None
      else batch.memory['queue'].reshape(-1, features),
  )


def _encode_tower(encoder, tower, batch, name, number, dropout_key, chunks):
  """`[groups * slots, features]`, of a tower with some parameters."""
  key = (None if dropout_key is None
         else jax.random.fold_in(dropout_key, number))
  by_group = gradient_cache.encode(
      encoder.clone(role=name), tower, batch.sequences[name], key, chunks
  )
  return by_group.reshape(-1, by_group.shape[-1])
