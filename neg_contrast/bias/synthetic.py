"""A network of one input, and what NCE is at its parameters.

Zhang and Stratos, "Understanding Hard Negatives in Noise Contrastive
Estimation", Figure 1.
"""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from neg_contrast.bias import score_bias
from neg_contrast.negatives import sampling
from neg_contrast.settings import config as config_lib

_LEAST = 1e-6  # Mass of the rarest labels, together, that are never the gold.


def population(
    config: config_lib.NceConfig, seed: int
) -> Float[Array, ' labels']:
  """log pop(y): a softmax of u / temperature, u uniform in [0, 1]."""
  key = jax.random.fold_in(jax.random.key(seed), 2)
  uniform = jax.random.uniform(key, (config.labels,))
  return jax.nn.log_softmax(uniform / config.temperature)


def init_params(
    config: config_lib.NceConfig, key: Key[Array, '']
) -> dict[str, Any]:
  """An embedding, and two layers as PyTorch begins them: ±1 / √inputs."""
  keys = jax.random.split(key, 5)
  bound = 1 / math.sqrt(config.hidden)
  weights = lambda key, *shape: jax.random.uniform(
      key, shape, minval=-bound, maxval=bound
  )
  return {
      'embedding': jax.random.normal(keys[0], (config.hidden,)),
      'hidden': {'kernel': weights(keys[1], config.hidden, config.hidden),
                 'bias': weights(keys[2], config.hidden)},
      'output': {'kernel': weights(keys[3], config.hidden, config.labels),
                 'bias': weights(keys[4], config.labels)},
  }


def scores_of(params: dict[str, Any]) -> Float[Array, ' labels']:
  """s(y) of the only input there is."""
  hidden = jax.nn.relu(
      params['embedding'] @ params['hidden']['kernel']
      + params['hidden']['bias']
  )
  return hidden @ params['output']['kernel'] + params['output']['bias']


def measure(
    config: config_lib.NceConfig,
    log_pop: Float[Array, ' labels'],
    params: dict[str, Any],
    key: Key[Array, ''],
) -> dict[str, Any]:
  """Cross-entropy exactly, and NCE by draws for every gold that has mass.

  Args:
    config: labels, negatives and draws.
    log_pop: `[labels] float32`.
    params: of the network.
    key: of the draws.

  Returns:
    `cross-entropy` and the kinds of negatives -> losses and norms.
  """
  golds, weights = _golds(log_pop)
  spread = lambda params: jnp.tile(scores_of(params), (len(golds), 1))
  scores, vjp = jax.vjp(spread, params)
  usable = jnp.arange(config.labels) != golds[:, None]
  keys = jax.random.split(key, config.draws)
  result = {}
  for percent in config.percents:
    chosen = sampling.mixed(config.negatives, percent)
    bias = score_bias.score_bias(
        scores, golds, jnp.ones_like(usable),
        functools.partial(_negatives, golds, scores, usable, chosen),
        keys, weights,
    )
    products = score_bias.gradient_products(vjp, jnp.concatenate(
        [jnp.stack([bias.cross_entropy, bias.mean]), bias.bias]
    ))
    norms = score_bias.norms_of(products[:2, :2])
    result['cross-entropy'] = {'loss': bias.cross_entropy_loss,
                               'gradient': norms.cross_entropy}
    result[sampling.kind_of(percent)] = {
        'loss': bias.nce_loss, 'gradient': norms.nce, 'bias': norms.bias,
        'bias_square': products[2, 3],  # Of the two halves of the draws.
        'effective_negatives': bias.effective_negatives,
        'missed_mass': bias.missed_mass,
    }
  return result


def cross_entropy(
    params: dict[str, Any], labels: Int[Array, ' batch'], key: Key[Array, '']
) -> tuple[Float[Array, ''], dict[str, Any]]:
  """Mean cross-entropy of sampled labels, and no metrics."""
  del key
  return -jnp.mean(jax.nn.log_softmax(scores_of(params))[labels]), {}


def _negatives(golds, scores, usable, chosen, key):
  return sampling.draw(key, golds, scores, usable, chosen).rows


def _golds(
    log_pop: Float[Array, ' labels']
) -> tuple[Int[np.ndarray, ' golds'], Float[np.ndarray, ' golds']]:
  """Labels with all but a millionth of the mass, and their shares."""
  pop = np.exp(np.asarray(log_pop, np.float64))
  order = np.argsort(-pop)
  count = 1 + int(np.searchsorted(np.cumsum(pop[order]), 1 - _LEAST))
  golds = order[:count]
  return golds, (pop[golds] / pop[golds].sum()).astype(np.float32)
