"""Each query's gold among candidates of its own. Pure."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from neg_contrast.batches.packed import AnyArray


def masked_softmax(
    scores: Float[Array, '*batch labels'],
    is_candidate: Bool[AnyArray, '*batch labels'],
) -> Float[Array, '*batch labels']:
  """p of equation 1 over all labels, π of equation 3 over the candidates.

  Args:
    scores: `[..., labels] float32`, scaled; anything where it is no candidate.
    is_candidate: `[..., labels] bool`, True somewhere.

  Returns:
    `[..., labels] float32`; 0 where it is no candidate.
  """
  return jax.nn.softmax(jnp.where(is_candidate, scores, -jnp.inf), axis=-1)


def candidate_softmax(
    scores: Float[Array, 'queries candidates'],
    is_candidate: Bool[AnyArray, 'queries candidates'],
) -> Float[Array, ' queries']:
  """Cross-entropy of the gold among a query's own candidates.

    loss_i = logsumexp_{k real} s_ik - s_i0

  Zhang and Stratos (2021), equation 11: what hard-negative NCE minimises. Over
  all labels it is the cross-entropy (equation 2).

  Args:
    scores: `[queries, candidates] float32`, scaled; the gold in column 0, its
      negatives behind it; what is no candidate may hold anything.
    is_candidate: `[queries, candidates] bool`; column 0 must be True.

  Returns:
    `[queries] float32`, in nats, at least 0.
  """
  kept = jnp.where(is_candidate, scores, -jnp.inf)
  return jax.nn.logsumexp(kept, axis=1) - scores[:, 0]


def effective_negatives(
    scores: Float[Array, '*batch candidates'],
    is_candidate: Bool[AnyArray, '*batch candidates'],
) -> Float[Array, '*batch']:
  """How many of the negatives the gradient is made of.

  1 / Σ_k ρ_k², where ρ is π over the negatives alone: K - 1 when they share the
  gradient evenly, 1 when one has it all (Kish's effective sample size, 1965;
  the inverse of Simpson's index, Hill, 1973).

  Args:
    scores: `[..., K] float32`, scaled; the gold in column 0.
    is_candidate: `[..., K] bool`, with at least one negative.
  """
  share = masked_softmax(scores[..., 1:], is_candidate[..., 1:])
  return 1 / jnp.sum(jnp.square(share), axis=-1)


def mean_effective_negatives(
    scores: Float[Array, 'batch candidates'],
    is_candidate: Bool[AnyArray, 'batch candidates'],
) -> Float[Array, '']:
  """Mean of `effective_negatives` over the queries that have negatives.

  0 where none has.
  """
  has = is_candidate[:, 1:].any(1)
  counts = jnp.where(has, effective_negatives(scores, is_candidate), 0)
  return counts.sum() / jnp.maximum(1, has.sum())
