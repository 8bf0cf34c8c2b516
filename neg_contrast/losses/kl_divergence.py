"""KL: the student's distribution over candidates is to be the teacher's. Pure.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from neg_contrast.batches.packed import AnyArray
from neg_contrast.losses import weighted


def kl_divergence(
    scores: Float[Array, 'batch candidates'],
    teacher: Float[AnyArray, 'batch candidates'],
    is_taught: Bool[AnyArray, 'batch candidates'],
    weights: weighted.Weights = None,
) -> Float[Array, '']:
  """Mean over queries of KL(teacher || student) among a query's candidates.

    mean_i Σ_k softmax(t_i)_k (log softmax(t_i)_k - log softmax(s_i)_k)

  Ren et al., "RocketQAv2", 2021, section 3.3, as the authors' code has it (the
  equation is printed the other way round, KL(student || teacher)), over the
  candidates that the teacher has scored. Queries with fewer than two of them
  are left out.

  Args:
    scores: `[batch, K] float32`, the student's, scaled.
    teacher: `[batch, K] float32`, the teacher's scores, finite.
    is_taught: `[batch, K] bool`, candidates that both have scored.
    weights: of the queries.

  Returns:
    `[] float32`, in nats, at least 0; 0 where no query is taught.
  """
  is_taught = jnp.asarray(is_taught)
  counts = is_taught.sum(axis=1) > 1
  kept = is_taught | ~counts[:, None]  # No row may be empty: its slope is nan.
  log_student, log_teacher = (
      jax.nn.log_softmax(jnp.where(kept, values, -jnp.inf), axis=1)
      for values in (scores, teacher)
  )
  gaps = jnp.where(kept, log_teacher, 0) - jnp.where(kept, log_student, 0)
  by_query = jnp.sum(jnp.exp(log_teacher) * gaps, axis=1)
  return weighted.mean_where(by_query, counts, weights)
