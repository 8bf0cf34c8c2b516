"""The score-adjusted loss, by enumeration of all draws."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neg_contrast.losses import candidates, own_candidates

K = 3


@pytest.mark.parametrize('is_model', [True, False])
def test_the_adjusted_loss_is_unbiased_by_draws_from_the_model(is_model):
  scores = jnp.asarray([1.0, -0.4, 2.2, 0.3, -1.0])
  gold, others = 2, np.array([0, 1, 3, 4])
  proposal = np.array(jax.nn.softmax(scores[others])) if is_model else (
      np.full(4, 0.25))

  def expected(scores):
    total = 0.0
    for places in itertools.product(range(4), repeat=K - 1):
      places = list(places)
      own = scores[np.array([gold, *others[places]])][None]
      there = np.ones((1, K), bool)
      adjusted = own_candidates.adjusted_scores(
          own, jnp.log(proposal[places])[None].astype(jnp.float32), there
      )
      total += np.prod(proposal[places]) * candidates.candidate_softmax(
          adjusted, there)[0]
    return total

  exact = jax.grad(lambda s: -jax.nn.log_softmax(s)[gold])(scores)
  difference = np.abs(jax.grad(expected)(scores) - exact).max()
  assert difference < 1e-6 if is_model else difference > 0.01


def test_adjusted_scores_of_padding_and_gold_stay():
  scores = jnp.asarray([[1.0, 2.0, 3.0, 4.0]])
  there = np.array([[True, True, True, False]])
  made = own_candidates.adjusted_scores(
      scores, jnp.log(jnp.asarray([[0.5, 0.25, 0.0]])), there)
  np.testing.assert_allclose(
      made, [[1.0, 2 - np.log(2 * 0.5), 3 - np.log(2 * 0.25), 4.0]], rtol=1e-6)
