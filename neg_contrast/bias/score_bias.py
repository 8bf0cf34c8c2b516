"""The bias of a sampled contrastive loss in scores and gradients. Pure.

Zhang and Stratos, "Understanding Hard Negatives in Noise Contrastive
Estimation", 2021. A query x has the scaled scores s(x, y) of all labels y, the
gold among them. Cross-entropy (equation 2) normalises over all labels; NCE
(equation 5) over K candidates: the gold, and negatives drawn from some h. The
gradient of NCE estimates that of the cross-entropy, with the bias of Theorem
3.1:

  b = ∇J_CE - ∇J_NCE = E_x Σ_y (p(y|x) - γ(y|x)) ∂s(x, y)/∂θ

where p is the softmax over all labels (equation 1), π that over the candidates
(equation 3), and γ(y|x) the chance that y is among the candidates and then
drawn by π (equation 6). p - γ is the bias in the scores; one vector-Jacobian
product carries it into the parameters (`gradient_products`).

Why hard negatives make it small: π is at least p on candidates that are
distinct, and 0 elsewhere, so it lies as far from p (in total variation) as they
miss of p's mass, and γ, a mean of such π, at most the mean of that:

  TV(γ, p) ≤ E[1 - Σ_k p(y_k)],

`ScoreBias.missed_mass`. Negatives drawn by p miss little; the best-scoring ones
miss least of all; what the gold is, or the population, does not matter.

Theorem 3.2 does not hold as it is stated (tests/bias/test_score_bias.py): with
negatives drawn iid from p, and p = pop, γ is not p. Of two labels with p = .9
and .1, and K = 2, γ(first) = p²(3 - 2p) = .972. The proof's last sum has no
indicator of y among the candidates and is no distribution. At p = pop it is
uniform negatives that are unbiased, since π is then the posterior of the gold
given the candidates; both gradients are 0 there.
"""

from collections.abc import Callable
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from neg_contrast.batches.packed import AnyArray
from neg_contrast.losses import candidates as candidates_lib


def selection(
    scores: Float[Array, 'queries labels'],
    candidates: Int[AnyArray, 'queries candidates'],
) -> Float[Array, 'queries labels']:
  """Chance of each label to be drawn by π from given candidates.

  γ of equation 6 is its mean over candidates. Less the one-hot gold it is the
  gradient of a query's NCE loss with respect to its scores.

  Args:
    scores: `[queries, labels] float32`, scaled.
    candidates: `[queries, candidates] int32`, labels, the gold first; a label
      may come twice; -1: none.

  Returns:
    `[queries, labels] float32`; rows add up to 1.
  """
  candidates = jnp.asarray(candidates)
  own = jnp.take_along_axis(scores, jnp.maximum(candidates, 0), axis=1)
  share = candidates_lib.masked_softmax(own, candidates >= 0)
  lines = jnp.arange(scores.shape[0])[:, None]
  return jnp.zeros_like(scores).at[lines, candidates].add(share)


@flax.struct.dataclass
class ScoreBias:
  """Gradients of mean losses with respect to the scores, and what draws are.

  Attributes:
    cross_entropy: `[queries, labels] float32`, p - gold, weighted.
    bias: `[2, queries, labels] float32`, p - γ, weighted, where γ is
      estimated by either half of the draws: the errors of the two are
      independent, so that a product of the one with the other estimates ‖b‖²
      without the error's own square.
    cross_entropy_loss: `[] float32`, mean over queries, in nats.
    nce_loss: `[] float32`, the same over draws too.
    effective_negatives: `[] float32`, mean, see `effective_negatives`.
    missed_mass: `[] float32`, mean of p outside of the candidates: a bound on
      the total variation between γ and p, if they are distinct.
  """

  cross_entropy: Any
  bias: Any
  cross_entropy_loss: Any
  nce_loss: Any
  effective_negatives: Any
  missed_mass: Any

  @property
  def mean(self) -> Float[Array, 'queries labels']:
    """`[queries, labels] float32`, the bias by all draws."""
    return jnp.mean(self.bias, axis=0)


def score_bias(
    scores: Float[Array, 'queries labels'],
    gold: Int[AnyArray, ' queries'],
    is_label: Bool[AnyArray, 'queries labels'],
    draw: Callable[[Key[Array, '']], Int[Array, 'queries negatives']],
    keys: Key[Array, ' draws'],
    weights: Float[AnyArray, ' queries'] | None = None,
) -> ScoreBias:
  """Measures the bias of NCE in the scores by drawing negatives many times.

  Args:
    scores: `[queries, labels] float32`, scaled.
    gold: `[queries] int32`, label of each query.
    is_label: `[queries, labels] bool`: what cross-entropy normalises over;
      False for other known positives, which `draw` must not draw either.
    draw: key -> labels of K - 1 negatives of each query; -1: none.
    keys: `[draws]`, an even number; they are used one at a time.
    weights: `[queries] float32`, of the queries in the mean, adding up to 1;
      None: equal ones.

  Raises:
    ValueError: an odd number of draws, or none.
  """
  if not len(keys) or len(keys) % 2:
    raise ValueError(f'{len(keys)} draws do not make two halves')
  gold = jnp.asarray(gold)
  queries, labels = scores.shape
  weights = jnp.full(queries, 1 / queries) if weights is None else weights
  lines = jnp.arange(queries)[:, None]
  model = candidates_lib.masked_softmax(scores, is_label)
  own = jnp.take_along_axis(scores, gold[:, None], axis=1)[:, 0]

  def add(sums, key):
    candidates = jnp.concatenate([gold[:, None], draw(key)], axis=1)
    there = candidates >= 0
    picked = jnp.take_along_axis(scores, jnp.maximum(candidates, 0), axis=1)
    total = jax.nn.logsumexp(jnp.where(there, picked, -jnp.inf), axis=1)
    chosen = jnp.zeros_like(scores).at[lines, candidates].max(there)
    one = (selection(scores, candidates), weights @ (total - own),
           weights @ candidates_lib.effective_negatives(picked, there),
           weights @ (1 - jnp.sum(model * chosen, axis=1)))
    return jax.tree.map(jnp.add, sums, one), None

  def of_half(keys):
    start = (jnp.zeros_like(scores), *(jnp.zeros(()) for _ in range(3)))
    sums, _ = jax.lax.scan(add, start, keys)
    return jax.tree.map(lambda a: a / len(keys), sums)

  gamma, *means = jax.lax.map(of_half, keys.reshape(2, -1))
  loss, effective, missed = (jnp.mean(value) for value in means)
  total = jax.nn.logsumexp(jnp.where(is_label, scores, -jnp.inf), axis=1)
  return ScoreBias(
      cross_entropy=weights[:, None] * (model - jax.nn.one_hot(gold, labels)),
      bias=weights[:, None] * (model - gamma),
      cross_entropy_loss=weights @ (total - own),
      nce_loss=loss, effective_negatives=effective, missed_mass=missed,
  )


def gradient_products(
    vjp: Callable[[Float[Array, 'queries labels']], tuple[Any]],
    directions: Float[Array, 'directions queries labels'],
) -> Float[Array, 'directions directions']:
  """Inner products of the gradients that directions in the scores are.

  Each direction takes one vector-Jacobian product. Gradients are held one
  beside the other: `directions` times the parameters.

  Args:
    vjp: as `jax.vjp` gives it, of parameters -> scaled scores.
    directions: `[directions, queries, labels] float32`, gradients with respect
      to the scores.

  Returns:
    `[directions, directions] float32`; the roots of the diagonal are norms.
  """
  gradients = jax.lax.map(lambda one: vjp(one)[0], directions)
  products = [
      jnp.einsum('ip,jp->ij', flat, flat, precision=jax.lax.Precision.HIGHEST)
      for flat in (leaf.reshape(len(directions), -1)
                   for leaf in jax.tree.leaves(gradients))
  ]
  return jnp.sum(jnp.stack(products), axis=0)


@flax.struct.dataclass
class BiasNorms:
  """Lengths of gradients with respect to the parameters.

  Attributes:
    cross_entropy: `[] float32`, ‖∇J_CE‖.
    nce: `[] float32`, ‖∇J_NCE‖ over all draws.
    bias: `[] float32`, ‖b‖. The error of a mean over few draws adds to it.
    cosine: `[] float32`, between ∇J_CE and ∇J_NCE.
  """

  cross_entropy: Any
  nce: Any
  bias: Any
  cosine: Any


def norms_of(products: Float[AnyArray, '2 2']) -> BiasNorms:
  """Norms from the inner products of ∇J_CE and b."""
  exact, both, square = products[0, 0], products[0, 1], products[1, 1]
  nce_square = jnp.maximum(0, exact - 2 * both + square)
  return BiasNorms(
      cross_entropy=jnp.sqrt(exact),
      nce=jnp.sqrt(nce_square),
      bias=jnp.sqrt(square),
      cosine=(exact - both) / jnp.maximum(jnp.sqrt(exact * nce_square), 1e-30),
  )
