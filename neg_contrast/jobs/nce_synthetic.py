"""Figure 1 of Zhang and Stratos: NCE, measured while cross-entropy trains."""

import functools
import os
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import logging

from neg_contrast import progress
from neg_contrast.artifacts import folders, plan
from neg_contrast.bias import bias_tables, synthetic
from neg_contrast.jobs import checks
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
    print(bias_tables.synthetic_table(made), flush=True)

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
    """Writes the file.

    With a loop of its own: every update is measured, with draws of that update,
    and these measurements are all that is kept. `training.loop.Trainer` saves,
    evaluates and resumes, and its measurements know no step.
    """
    config = self._config
    log_pop = synthetic.population(config.nce, config.seed)
    entropy = float(-jnp.sum(jnp.exp(log_pop) * log_pop))
    logging.info('population of %d labels: entropy %.3f nats, likeliest %.3f',
                 config.nce.labels, entropy, float(jnp.exp(log_pop).max()))
    transform = optimizer.make_optimizer(config.optim, config.optim.steps)
    params = synthetic.init_params(config.nce, jax.random.key(config.seed))
    state = state_lib.init_state(params, transform)
    train = jax.jit(step_lib.make_train_step(
        synthetic.cross_entropy, transform, config.seed))
    meter = jax.jit(functools.partial(synthetic.measure, config.nce, log_pop))
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
