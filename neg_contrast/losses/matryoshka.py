"""Matryoshka: any loss of the first features of every vector too. Pure.

Kusupati et al., 2022, "Matryoshka Representation Learning", equation 1, with
equal weights.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from neg_contrast.models import dual_encoder

Vectors = TypeVar('Vectors')  # A tree of them.


def first_features(
    vecs: Float[Array, '*some features'], dim: int, normalize: bool
) -> Float[Array, '*some dim']:
  """The first features of vectors.

  Args:
    vecs: `[..., features] float32`.
    dim: how many.
    normalize: to length 1 again.
  """
  vecs = vecs[..., :dim]
  return dual_encoder.l2_normalize(vecs) if normalize else vecs


def mean_over(
    dims: Sequence[int],
    normalize: bool,
    loss: Callable[[Vectors], tuple[Float[Array, ''], dict[str, Any]]],
    vectors: Vectors,
) -> tuple[Float[Array, ''], dict[str, Any]]:
  """The mean of a loss over widths, the full one included.

  Args:
    dims: the narrower widths; none: it is the loss itself.
    normalize: whether vectors have length 1.
    loss: vectors -> loss and what is logged of it.
    vectors: of a batch.

  Returns:
    The mean; and the metrics of the full width, with `loss_all` and a
    `loss_<dim>` for each of the others.
  """
  value, metrics = loss(vectors)
  if not dims:
    return value, metrics
  parts = {'all': value}
  for dim in dims:
    parts[str(dim)], _ = loss(jax.tree.map(functools.partial(
        first_features, dim=dim, normalize=normalize
    ), vectors))
  named = {f'loss_{name}': part for name, part in parts.items()}
  return jnp.mean(jnp.stack(list(parts.values()))), {**metrics, **named}
