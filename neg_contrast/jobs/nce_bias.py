"""How far NCE is from the cross-entropy, for a model and some queries."""

import functools
import pathlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import logging

from neg_contrast import checkpoints as checkpoints_lib
from neg_contrast import errors, progress
from neg_contrast.artifacts import folders, plan
from neg_contrast.bias import meter
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.jobs import checks
from neg_contrast.losses import softmax
from neg_contrast.models import by_name as model_lib
from neg_contrast.models import loading
from neg_contrast.negatives import sampling
from neg_contrast.settings import config as config_lib
from neg_contrast.training import optimizer
from neg_contrast.training import state as state_lib
from neg_contrast.training import step as step_lib

_FORMAT = 2  # Of the files, raised when what is computed changes.

PAPER = {
    ('random', 'cross_entropy'): 16.33, ('random', 'random'): 166.38,
    ('hard', 'cross_entropy'): 0.68, ('hard', 'random'): 0.09,
    ('mixed-50', 'cross_entropy'): 1.20, ('mixed-50', 'random'): 0.90,
}
"""‖b(θ)‖ of Zhang and Stratos, Appendix C, by negatives and parameters."""


def check(config: config_lib.Config) -> None:
  """Refuses a config that does not suit `job=nce_bias`."""
  checks.check_source(config)
  checks.check_init(config)
  checks.check_steps(config)


class NceBiasJob:
  """`job=nce_bias`: Appendix C, for any model and data."""

  def __init__(self, config: config_lib.Config, workdir: pathlib.Path):
    """Reads nothing yet."""
    self._config, self._workdir = config, workdir

  def steps(self) -> list[plan.Step]:
    """The plan: train what is measured at, then measure."""
    config, count = self._config, self._config.nce.queries
    steps = [dataset_lib.preparation_step(config.data, lambda: self._dataset)]
    missing = lambda: model_lib.missing(config.model.init)
    for point in config.nce.points:
      if point != 'initial':
        steps.append(plan.Step(
            f'train {point}', f'{config.optim.steps} steps of {count} queries '
            f'in {self._workdir / point}',
            functools.partial(self._is_trained, point),
            functools.partial(self._train, point), missing,
        ))
      steps.append(plan.Step(
          f'measure {point}', f'{config.nce.draws} draws, in '
          f'{self._path(point)}', functools.partial(self._is_measured, point),
          functools.partial(self._measure, point), missing,
      ))
    return steps

  def finish(self) -> None:
    """Writes `metrics.json` and prints the table."""
    made = {point: folders.read_json(self._path(point))
            for point in self._config.nce.points}
    prefix = f'{self._dataset.name}/{self._config.data.split}'
    folders.write_json(self._workdir / 'metrics.json', {
        f'{prefix}/{point}/{name}/{metric}': value
        for point, one in made.items() for name, values in one['kinds'].items()
        for metric, value in values.items()
    } | {
        f'{prefix}/{point}/{metric}': value
        for point, one in made.items() for metric, value in one['model'].items()
    })
    print(describe(made), flush=True)

  def _path(self, point: str) -> pathlib.Path:
    return self._workdir / f'bias-{point}.json'

  @functools.cached_property
  def _dataset(self) -> dataset_lib.Dataset:
    return dataset_lib.Dataset(self._config.data)

  @functools.cached_property
  def _model(self) -> loading.Model:
    wanted = self._config.model
    model = model_lib.load_checkpoint(
        wanted.init, wanted, self._config.seed
    )
    if model.spec.shared != wanted.shared:
      raise errors.UserError(
          f'config.model.shared={wanted.shared}: {wanted.init} was trained '
          f'with {model.spec.shared}; set the same'
      )
    return model

  @functools.cached_property
  def _space(self) -> meter.LabelSpace:
    split = self._config.data.split
    return meter.choose_labels(
        self._config, self._dataset, self._dataset.prepared.judgements(split),
        f'data.split="{split}"',
    )

  @functools.cached_property
  def _meter(self) -> meter.BiasMeter:
    return meter.BiasMeter(
        self._config, self._dataset, self._model, self._space
    )

  def _loss(self, params, batch, key):
    """Mean over queries of the cross-entropy among candidates."""
    del key
    texts, candidates = batch
    own = jnp.take_along_axis(
        self._meter.scores(params, texts), jnp.maximum(candidates, 0), axis=1
    )
    loss = softmax.candidate_softmax(own, candidates >= 0)
    best = jnp.where(candidates[:, 1:] >= 0, own[:, 1:], -jnp.inf).max(axis=1)
    return jnp.mean(loss), {'accuracy': jnp.mean(own[:, 0] > best)}

  def _candidates(self, point: str) -> Callable[[int], Any]:
    """Step -> `[queries, candidates]` labels to train with, the gold first."""
    space, config = self._space, self._config
    gold, is_label = space.gold, space.is_label
    if point == 'cross_entropy':
      others = np.where(is_label, np.arange(is_label.shape[1]), -1)
      others[gold, gold] = -1
      everything = np.concatenate([gold[:, None], others], axis=1)
      return lambda step: everything.astype(np.int32)
    draw = functools.partial(self._meter.draw, jnp.zeros(is_label.shape), 0)
    return lambda step: jnp.concatenate(
        [gold[:, None], draw(sampling.draw_key(config.seed, step))], axis=1
    )

  def _identity(self, point: str) -> dict[str, Any]:
    """What the parameters at a point depend on."""
    config, settings = config_lib.to_dict(self._config), self._config.nce
    return folders.as_json({
        'format': _FORMAT, 'init': self._model.fingerprint,
        'data': self._dataset.prepared.manifest['fingerprint'],
        'split': self._config.data.split,
        'labels': settings.labels, 'queries': settings.queries,
        'bm25': [self._config.evaluation.bm25_k1,
                 self._config.evaluation.bm25_b],
        'scale': self._config.loss.scale, 'seed': self._config.seed,
        'dtype': config['model']['dtype'],
        **({} if point == 'initial' else {'optim': config['optim']}),
        **({'negatives': settings.negatives} if point == 'random' else {}),
    })

  def _is_trained(self, point: str) -> bool:
    path = self._workdir / point / folders.MANIFEST
    return path.exists() and (
        folders.read_json(path)['identity'] == self._identity(point)
    )

  def _train(self, point: str) -> None:
    """Trains on all queries at every step, from the last checkpoint.

    Raises:
      UserError: the folder holds the checkpoints of another training.
    """
    config, folder = self._config, self._workdir / point
    folders.make_folder(folder)
    begun = folder / folders.UNFINISHED
    if begun.exists() and folders.read_json(begun) != self._identity(point):
      raise errors.UserError(
          f'{folder}: holds a training with other settings; remove it, or name '
          'another --workdir'
      )
    folders.write_json(begun, self._identity(point))
    transform = optimizer.make_optimizer(config.optim, config.optim.steps)
    state = self._first_state(transform)
    checkpoints = checkpoints_lib.Checkpoints(folder, writes=True)
    latest = checkpoints.latest_step()
    if latest is not None:
      like = jax.tree.map(lambda a: jax.ShapeDtypeStruct(
          a.shape, a.dtype, sharding=a.sharding), state)
      state, _ = checkpoints.restore(like, latest)
    step_fn = jax.jit(
        step_lib.make_train_step(self._loss, transform, config.seed),
        donate_argnums=0,
    )
    candidates, texts = self._candidates(point), self._meter.texts
    says = progress.Ticker(f'training {point}', config.optim.steps,
                          before=int(state.step))
    try:
      for step in range(int(state.step), config.optim.steps):
        state, metrics = step_fn(state, (texts, candidates(step)))
        done = step + 1
        if done % config.checkpointing.log_steps == 0:
          logging.info('step %d/%d  loss %.4f  accuracy %.3f  gradient %.3f',
                       done, config.optim.steps, *(float(metrics[name]) for
                       name in ('loss', 'accuracy', 'gradient_norm')))
        if done % config.checkpointing.save_steps == 0:
          checkpoints.save(state, checkpoints_lib.Progress())
        says(done)
      checkpoints.save(state, checkpoints_lib.Progress(finished=True))
    finally:
      checkpoints.close()  # Which waits for what is being written.
    folders.write_sealed(folder / folders.MANIFEST, {
        'identity': self._identity(point),
        'environment': folders.environment(),
    })

  def _first_state(self, transform) -> state_lib.TrainState:
    params = jax.tree.map(  # Copies, which may be donated.
        jnp.array, state_lib.dual_encoder_params(self._model.params, None)
    )
    return state_lib.init_state(params, transform)

  def _params(self, point: str) -> Any:
    """θ as a `TrainState` has it."""
    if point == 'initial':
      encoder = self._model.params
    else:
      checkpoints = checkpoints_lib.Checkpoints(self._workdir / point)
      encoder = checkpoints.restore_params(
          'encoder', loading.shape_of(self._model.spec),
          checkpoints.selected_step(),
      )
      checkpoints.close()
    return state_lib.dual_encoder_params(encoder, None)

  def _meter_identity(self, point: str) -> dict[str, Any]:
    settings = self._config.nce
    return folders.as_json({
        'point': self._identity(point), 'draws': settings.draws,
        'epoch': self._config.optim.steps,
        'percents': settings.percents, 'negatives': settings.negatives,
    })

  def _is_measured(self, point: str) -> bool:
    path = self._path(point)
    return path.exists() and (
        folders.read_json(path)['identity'] == self._meter_identity(point)
    ) and (point == 'initial' or self._is_trained(point))

  def _measure(self, point: str) -> None:
    """Writes the file of a point."""
    config = self._config
    # The first step that training does not draw for.
    key = sampling.draw_key(config.seed, config.optim.steps)
    folders.write_json(self._path(point), {
        'identity': self._meter_identity(point),
        **self._meter.measure(self._params(point), key),
        'environment': folders.environment(),
    })


def describe(made: dict[str, dict[str, Any]]) -> str:
  """The table, beside the paper's."""
  lines = [f'{"parameters":15}{"accuracy":>9}{"loss":>9}{"gradient":>10}'
           f'{"p(gold)":>9}{"p(known positives)":>20}{"p(answer)":>11}']
  for point, one in made.items():
    model = one['model']
    lines.append(
        f'{point:15}{model["accuracy"]:9.4f}{model["loss"]:9.4f}'
        f'{model["gradient"]:10.4f}{model["gold_mass"]:9.4f}'
        f'{model["known_positive_mass"]:20.4f}{model["answer_mass"]:11.4f}'
    )
  lines += ['', f'{"negatives":11}{"parameters":15}{"bias":>9}{"error":>8}'
            f'{"gradient":>10}{"cosine":>8}{"loss":>9}{"missed":>9}'
            f'{"effective":>11}{"paper":>9}']
  for name in next(iter(made.values()))['kinds']:
    for point, one in made.items():
      values = one['kinds'][name]
      paper = PAPER.get((name, point))
      lines.append(
          f'{name:11}{point:15}{values["bias"]:9.4f}'
          f'{values["score_error"]:8.1%}'
          f'{values["gradient"]:10.4f}{values["cosine"]:8.4f}'
          f'{values["loss"]:9.4f}{values["missed_mass"]:9.4f}'
          f'{values["effective_negatives"]:11.2f}'
          + (f'{paper:9.2f}' if paper is not None else f'{"-":>9}')
      )
  return '\n'.join(lines)
