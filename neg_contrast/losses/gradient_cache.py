"""The gradient cache: a whole batch's gradients in a chunk's memory. Pure.

Gao, Zhang, Han and Callan, "Scaling Deep Contrastive Learning Batch Size under
Memory Limited Setup", 2021. The batch softmax needs the embeddings of the whole
batch, and nothing else of the encoder. So the batch is encoded chunk by chunk
and nothing is kept but the embeddings; from them come the loss and its
gradients with respect to each (the cache); then every chunk is encoded again,
and its part of the cache is carried back into the parameters. That is one more
forward pass, 4/3 of the products, for activations that do not grow with the
batch.

Here that is a loop over chunks, each a `jax.checkpoint`: differentiated, it
keeps nothing of a chunk but its tokens. Losses and scores know nothing of it.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from neg_contrast.batches import packed
from neg_contrast.models import dual_encoder


@dataclasses.dataclass(frozen=True)
class Chunks:
  """How a batch is cut.

  Attributes:
    groups: groups that each shard encodes at once; divides those it holds. All
      of them: the plain step, which keeps every activation.
    shards: parts of the batch that lie on different devices: contiguous blocks
      of as many groups each. A chunk takes some of every part, so that all
      devices work and no group moves.
    place: puts copies of the parameters, one of each shard on a leading axis,
      on the devices of their shards.
  """

  groups: int
  shards: int = 1
  place: Callable[[Any], Any] = lambda copies: copies


# Arrays of their kind that exist at once, at most, while the loss of a batch
# and its gradients are computed, as compiled for CPU: embeddings, by group and
# by role, and their gradients; scores, masked, as probabilities, and so on.
EMBEDDING_ARRAYS = 4
SCORE_ARRAYS = 9


class LossBytes(NamedTuple):
  """Memory that grows with the batch, on a device.

  Attributes:
    embeddings: bytes of them, which every device holds whole.
    scores: bytes of them, of the queries of a shard.
  """

  embeddings: int
  scores: int


def loss_bytes(
    batch: int, negatives: int, features: int, shards: int = 1, others: int = 0
) -> LossBytes:
  """What a step needs at most besides parameters and activations of a chunk.

  Args:
    batch: queries B.
    negatives: hard negatives N of each.
    features: D, of an embedding.
    shards: devices that share the batch.
    others: passages R that all queries have as candidates beside these.

  Returns:
    `4 * (B (2 + N) + R) D` and `9 * B (B (1 + N) + R) / shards` float32.
  """
  return LossBytes(
      EMBEDDING_ARRAYS * (batch * (2 + negatives) + others) * features * 4,
      SCORE_ARRAYS * batch * (batch * (1 + negatives) + others) * 4 // shards,
  )


def encode(
    encoder: nn.Module,
    tower_params: Any,
    sequences: packed.PackedSequences,
    dropout_key: jax.Array | None,
    chunks: Chunks | None,
) -> Float[Array, 'groups slots features']:
  """As `dual_encoder.encode`, with gradients that encode each chunk again.

  Values and gradients are those of `dual_encoder.encode` but for rounding: a
  group's dropout mask depends on its number only, so both passes have the same.

  Args:
    encoder: the module, as of `dual_encoder.encode`.
    tower_params: its parameters.
    sequences: packed input with a leading `groups` axis.
    dropout_key: None: no dropout.
    chunks: None: the whole batch at once.

  Returns:
    `[groups, slots, features] float32`.
  """
  groups = sequences.token_ids.shape[0]
  if chunks is None or chunks.groups * chunks.shards == groups:
    return dual_encoder.encode(encoder, tower_params, sequences, dropout_key)

  def split(array):
    shape = chunks.shards, -1, chunks.groups, *array.shape[1:]
    return array.reshape(shape).swapaxes(0, 1)

  @functools.partial(jax.checkpoint, prevent_cse=False)
  def encode_chunk(params, numbers, chunk):
    return jax.vmap(
        lambda params, numbers, chunk: dual_encoder.encode(
            encoder, params, chunk, dropout_key, numbers
        )
    )(params, numbers, chunk)

  # Each shard has parameters of its own, so that gradients add up where they
  # are made and are summed over the shards once, not after every chunk.
  params = chunks.place(jax.tree.map(
      lambda a: jnp.broadcast_to(a, (chunks.shards, *a.shape)), tower_params
  ))
  _, vecs = jax.lax.scan(
      lambda _, chunk: (None, encode_chunk(params, *chunk)), None,
      jax.tree.map(split, (jnp.arange(groups), sequences)),
  )
  return vecs.swapaxes(0, 1).reshape(groups, *vecs.shape[3:])
