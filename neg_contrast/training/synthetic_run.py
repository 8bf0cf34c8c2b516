"""What NCE is at every update that trains a small network by cross-entropy.

Zhang and Stratos, "Understanding Hard Negatives in Noise Contrastive
Estimation", Figure 1.
"""

import dataclasses
import functools
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
from absl import logging

from neg_contrast import progress
from neg_contrast.artifacts import artifact, folders
from neg_contrast.bias import synthetic
from neg_contrast.negatives import sampling
from neg_contrast.settings import config as config_lib
from neg_contrast.training import optimizer, state, step


@dataclasses.dataclass(frozen=True)
class Curves(artifact.Json):
  """Losses and gradients after every update: `curves.json` of a workdir.

  Attributes:
    config: population, network and draws.
    optim: how it is trained, and how long.
    batch_size: labels of an update.
    seed: of population, parameters, batches and draws.
    workdir: of the file.
  """

  kind = 'curves of NCE'
  format = 2
  name = 'curves'
  config: config_lib.NceConfig
  optim: config_lib.OptimConfig
  batch_size: int
  seed: int
  workdir: pathlib.Path

  @property
  def path(self) -> pathlib.Path:
    """Where they lie."""
    return self.workdir / 'curves.json'

  def describe(self) -> str:
    """How many, and where."""
    return f'{self.optim.steps} updates and what NCE is at each in {self.path}'

  def settings(self) -> dict[str, Any]:
    """All of them."""
    return {'nce': dataclasses.asdict(self.config),
            'optim': dataclasses.asdict(self.optim),
            'batch_size': self.batch_size, 'seed': self.seed}

  def compute(self) -> dict[str, Any]:
    """Trains and measures.

    With a loop of its own: every update is measured, with draws of that update,
    and these measurements are all that is kept. `training.loop.Trainer` saves,
    evaluates and resumes, and its measurements know no step.
    """
    config, steps = self.config, self.optim.steps
    log_pop = synthetic.population(config, self.seed)
    entropy = float(-jnp.sum(jnp.exp(log_pop) * log_pop))
    logging.info('population of %d labels: entropy %.3f nats, likeliest %.3f',
                 config.labels, entropy, float(jnp.exp(log_pop).max()))
    transform = optimizer.make_optimizer(
        self.optim, optimizer.rates_of(self.optim, steps)
    )
    params = synthetic.init_params(config, jax.random.key(self.seed))
    current = state.init_state(params, transform)
    train = jax.jit(step.make_train_step(
        synthetic.cross_entropy, transform, self.seed))
    meter = jax.jit(functools.partial(synthetic.measure, config, log_pop))
    says = progress.Ticker('updates', steps)
    batch_key = jax.random.fold_in(jax.random.key(self.seed), 1)
    points = []
    for number in range(steps):
      labels = jax.random.categorical(
          jax.random.fold_in(batch_key, number), log_pop,
          shape=(self.batch_size,),
      )
      current, _ = train(current, labels)
      found = meter(current.params, sampling.draw_key(self.seed, number))
      points.append({'step': number + 1, **jax.tree.map(float, found)})
      says(number + 1)
    return {'entropy': entropy, 'points': points,
            'environment': folders.environment()}
