"""Figure 1 of Zhang and Stratos: NCE, measured while cross-entropy trains."""

import functools
import math
import os
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import logging
from jaxtyping import Array, Float, Int, Key

from neg_contrast import progress
from neg_contrast.artifacts import folders, plan
from neg_contrast.jobs import checks
from neg_contrast.losses import nce
from neg_contrast.negatives import sampling
from neg_contrast.report import figures
from neg_contrast.report import svg as svg_lib
from neg_contrast.settings import config as config_lib
from neg_contrast.training import optimizer
from neg_contrast.training import state as state_lib
from neg_contrast.training import step as step_lib

CURVES = 'curves.json'
FIGURES = {'loss': 'figure-loss.svg', 'bias': 'figure-bias.svg'}

_FORMAT = 1  # Of the file, raised when what is computed changes.
_LEAST = 1e-6  # Mass of the rarest labels, together, that are never the gold.
_SERIES = {'cross-entropy': 3, 'entropy': 0, 'random': 2, 'hard': 5}


def check(config: config_lib.Config) -> None:
  """Refuses a config that does not suit `job=nce_synthetic`."""
  checks.check_steps(config)


class NceSyntheticJob:
  """`job=nce_synthetic`: trains by cross-entropy, and measures NCE."""

  def __init__(self, config: config_lib.Config, workdir: pathlib.Path):
    """Computes nothing yet."""
    self._config, self._workdir = config, workdir

  def steps(self) -> list[plan.Step]:
    """The plan."""
    steps = self._config.optim.steps
    return [plan.Step(
        'curves', f'{steps} updates and what NCE is at each in {self._path}',
        self._is_done, self._run,
    )]

  def finish(self) -> None:
    """Draws the figures, writes `metrics.json` and prints the last update."""
    made = folders.read_json(self._path)
    for name, svg in _draw(made).items():
      path = self._workdir / FIGURES[name]
      partial = path.with_name(path.name + '.partial')
      partial.write_text(svg_lib.standalone(svg), encoding='utf-8')
      os.replace(partial, path)
    folders.write_json(self._workdir / 'metrics.json', _metrics(made))
    print(describe(made), flush=True)

  @property
  def _path(self) -> pathlib.Path:
    return self._workdir / CURVES

  @property
  def _identity(self) -> dict[str, Any]:
    config = config_lib.to_dict(self._config)
    return folders.as_json({
        'format': _FORMAT, 'nce': config['nce'], 'optim': config['optim'],
        'batch_size': self._config.data.batch_size, 'seed': self._config.seed,
    })

  def _is_done(self) -> bool:
    return (self._path.exists()
            and folders.read_json(self._path)['identity'] == self._identity)

  def _run(self) -> None:
    """Writes the file."""
    config = self._config
    log_pop = population(config.nce, config.seed)
    entropy = float(-jnp.sum(jnp.exp(log_pop) * log_pop))
    logging.info('population of %d labels: entropy %.3f nats, likeliest %.3f',
                 config.nce.labels, entropy, float(jnp.exp(log_pop).max()))
    transform = optimizer.make_optimizer(config.optim, config.optim.steps)
    params = init_params(config.nce, jax.random.key(config.seed))
    state = state_lib.init_state(params, transform)
    train = jax.jit(step_lib.make_train_step(_loss, transform, config.seed))
    meter = jax.jit(functools.partial(measure, config.nce, log_pop))
    says = progress.Ticker('updates', config.optim.steps)
    batch_key = jax.random.fold_in(jax.random.key(config.seed), 1)
    points = []
    for step in range(config.optim.steps):
      labels = jax.random.categorical(
          jax.random.fold_in(batch_key, step), log_pop,
          shape=(config.data.batch_size,),
      )
      state, _ = train(state, labels)
      found = meter(state.params, sampling.draw_key(config.seed, step))
      points.append({'step': step + 1, **jax.tree.map(float, found)})
      says(step + 1)
    folders.write_json(self._path, {
        'identity': self._identity, 'entropy': entropy, 'points': points,
        'environment': folders.environment(),
    })


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
    bias = nce.score_bias(
        scores, golds, jnp.ones_like(usable),
        functools.partial(_negatives, golds, scores, usable, chosen),
        keys, weights,
    )
    products = nce.gradient_products(vjp, jnp.concatenate(
        [jnp.stack([bias.cross_entropy, bias.mean]), bias.bias]
    ))
    norms = nce.norms_of(products[:2, :2])
    result['cross-entropy'] = {'loss': bias.cross_entropy_loss,
                               'gradient': norms.cross_entropy}
    result[sampling.kind_of(percent)] = {
        'loss': bias.nce_loss, 'gradient': norms.nce, 'bias': norms.bias,
        'bias_square': products[2, 3],  # Of the two halves of the draws.
        'effective_negatives': bias.effective_negatives,
        'missed_mass': bias.missed_mass,
    }
  return result


def describe(made: dict[str, Any]) -> str:
  """The last update as a table."""
  last = made['points'][-1]
  optim = made['identity']['optim']
  lines = [
      f'{last["step"]} updates at a learning rate of '
      f'{optim["learning_rate"]:g}; entropy of the population '
      f'{made["entropy"]:.4f} nats',
      f'{"":14}{"loss":>9}{"gradient":>10}{"bias":>9}{"unbiased":>10}'
      f'{"missed mass":>13}{"effective negatives":>21}',
  ]
  for name, values in last.items():
    if name == 'step':
      continue
    line = f'{name:14}{values["loss"]:9.4f}{values["gradient"]:10.4f}'
    if 'bias' in values:
      line += (f'{values["bias"]:9.4f}'
               f'{signed_root(values["bias_square"]):10.4f}'
               f'{values["missed_mass"]:13.4f}'
               f'{values["effective_negatives"]:21.2f}')
    lines.append(line)
  return '\n'.join(lines)


def signed_root(square: float) -> float:
  """A norm from an estimate of its square, negative where that is."""
  return math.copysign(math.sqrt(abs(square)), square)


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


def _loss(params, labels, key):
  """Mean cross-entropy of sampled labels."""
  del key
  return -jnp.mean(jax.nn.log_softmax(scores_of(params))[labels]), {}


def _metrics(made: dict[str, Any]) -> dict[str, float]:
  """`synthetic/population/<kind>/<metric>` at the end of training."""
  last = {name: values for name, values in made['points'][-1].items()
          if name != 'step'}
  return {
      'synthetic/population/cross-entropy/entropy': made['entropy'],
      **{f'synthetic/population/{name}/{metric}': value
         for name, values in last.items() for metric, value in values.items()},
  }


def _draw(made: dict[str, Any]) -> dict[str, str]:
  """Both panels of the figure."""
  points = made['points']
  steps = np.array([point['step'] for point in points])
  kinds = [name for name in points[0] if name not in ('step', 'cross-entropy')]
  curve = lambda name, key: (
      steps, np.array([point[name][key] for point in points])
  )
  label = {name: f'{name} NCE' for name in kinds}
  colours = {label[name]: _SERIES.get(name, 1) for name in kinds}
  return {
      'loss': figures.curves(
          'nce-loss', 'Loss, nats', {
              **{label[name]: curve(name, 'loss') for name in kinds},
              'cross-entropy': curve('cross-entropy', 'loss'),
              'entropy': (steps, np.full(len(steps), made['entropy'])),
          }, series=0, colours={**colours, **_SERIES}, from_zero=True,
      ),
      'bias': figures.curves(
          'nce-bias', 'Norm of the gradient’s bias',
          {label[name]: curve(name, 'bias') for name in kinds},
          series=0, colours=colours, from_zero=True,
      ),
  }
