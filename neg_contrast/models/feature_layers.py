"""Layers that turn features beside text into a part of a text's vector. Pure.

The vector of a text, after pooling and before the projection, is

    pooled + sqrt(D) * sum over features of E_f(value)

where E_f is the mean of rows of a table of embeddings, or a linear layer, and D
the features of `pooled`. Weights begin with a deviation that is sqrt(D) smaller
than that of other layers, so that features begin as small as any layer; a step
of Adam moves them sqrt(D) times as far. At rates that suit a pretrained encoder
they would else hardly move, beside a pooled vector of length 10 or more.
Facebook search (Huang et al., 2020) concatenates features with the text's
vector before a layer; a linear layer on what is concatenated is such a sum.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from neg_contrast.data.side_features import side_feature

KEY = 'features'
"""Of the layers among a tower's parameters."""


class FeatureLayers(nn.Module):
  """The sum that features add to the vectors of texts.

  Attributes:
    features: whose layers they are.
    dim: features of the vectors.
    deviation: standard deviation of the tower's random weights.
  """

  features: tuple[side_feature.SideFeature, ...]
  dim: int
  deviation: float

  @nn.compact
  def __call__(
      self, values: Mapping[str, Any] | None
  ) -> Float[Array, 'slots features']:
    """Embeds values.

    Args:
      values: by the feature's key, `[slots, columns]`; zeros: no value, which
        adds nothing.

    Returns:
      `[slots, features] float32`.

    Raises:
      ValueError: there are no values: what packed the texts left them out.
    """
    if values is None:
      raise ValueError('texts without the features that the model reads')
    root = math.sqrt(self.dim)
    init = nn.initializers.normal(self.deviation / root)
    vecs = []
    for one in self.features:
      value = jnp.asarray(values[one.key])
      if one.table_rows:
        table = nn.Embed(one.table_rows, self.dim, embedding_init=init,
                         name=one.key)
        vecs.append(mean_of_rows(table, value))
      else:
        vecs.append(nn.Dense(
            self.dim, use_bias=False, kernel_init=init, name=one.key,
            precision=jax.lax.Precision.HIGHEST,
        )(value))
    return root * sum(vecs[1:], vecs[0])


def mean_of_rows(
    table: nn.Embed, ids: Int[Array, 'slots ids']
) -> Float[Array, 'slots features']:
  """Mean of the rows of a table that each slot names; 0 names none.

  All rows of a slot are in memory: `slots * ids * features` float32.
  """
  is_one = ids > 0
  total = jnp.where(is_one[..., None], table(ids), 0).sum(1)
  return total / jnp.maximum(is_one.sum(1, keepdims=True), 1)


def blank(
    features: Sequence[side_feature.SideFeature], *axes: int
) -> dict[str, np.ndarray] | None:
  """Features of texts that have none: by key, `[*axes, columns]` zeros."""
  return {
      one.key: np.zeros(
          (*axes, one.columns), np.int32 if one.table_rows else np.float32
      ) for one in features
  } or None


def init_params(
    features: tuple[side_feature.SideFeature, ...],
    dim: int,
    deviation: float,
    key: Key[Array, ''],
) -> dict[str, Any]:
  """Random weights of the layers, by the names of features."""
  layers = FeatureLayers(features, dim, deviation)
  return layers.init(key, blank(features, 1))['params']
