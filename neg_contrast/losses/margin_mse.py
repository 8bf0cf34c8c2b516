"""MarginMSE: the student's margins are to be the teacher's. Pure."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from neg_contrast.batches.packed import AnyArray
from neg_contrast.losses import weighted


def margin_mse(
    scores: Float[Array, 'batch candidates'],
    teacher: Float[AnyArray, 'batch candidates'],
    is_taught: Bool[AnyArray, 'batch candidates'],
    weights: weighted.Weights = None,
) -> Float[Array, '']:
  """Mean squared difference of margins of positives above their negatives.

    mean_{(i, n)} ((s_i0 - s_in) - (t_i0 - t_in))²

  Hofstätter et al., "Improving Efficient Neural Ranking Models with
  Cross-Architecture Knowledge Distillation", 2020, equation 4. Deviation: the
  mean is over all pairs of a positive and a negative that the teacher has
  scored, as in sentence-transformers.

  Args:
    scores: `[batch, K] float32`, the student's, scaled; the positive in column
      0.
    teacher: `[batch, K] float32`, the teacher's scores, finite.
    is_taught: `[batch, K] bool`, candidates that both have scored.
    weights: of the queries; a pair has that of its query.

  Returns:
    `[] float32`, in squared units of the teacher's scores; 0 where no pair is
    taught.
  """
  counts = jnp.asarray(is_taught)[:, 1:] & jnp.asarray(is_taught)[:, :1]
  gaps = (scores[:, :1] - scores[:, 1:]) - (teacher[:, :1] - teacher[:, 1:])
  return weighted.mean_where(jnp.square(gaps), counts, weights)
