"""How far NCE is from the cross-entropy, for a model and some queries."""

import dataclasses
import functools
import pathlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import logging
from jaxtyping import Array, Bool, Float, Int

from neg_contrast import artifacts, errors, losses, nce, plan, sharding
from neg_contrast import checkpoints as checkpoints_lib
from neg_contrast import config as config_lib
from neg_contrast.data import examples, packing, sequences
from neg_contrast.evaluation import answers as answers_lib
from neg_contrast.jobs import dataset as dataset_lib
from neg_contrast.jobs import evaluate, nce_synthetic
from neg_contrast.jobs import model as model_lib
from neg_contrast.models import dual_encoder, loading, packed
from neg_contrast.negatives import sampling
from neg_contrast.training import gradient_cache, optimizer, run_log
from neg_contrast.training import state as state_lib
from neg_contrast.training import step as step_lib

_FORMAT = 1  # Of the files, raised when what is computed changes.
_DEPTH = 100  # Of BM25, for the labels that are no positives.

PAPER = {
    ('random', 'cross_entropy'): 16.33, ('random', 'random'): 166.38,
    ('hard', 'cross_entropy'): 0.68, ('hard', 'random'): 0.09,
    ('mixed-50', 'cross_entropy'): 1.20, ('mixed-50', 'random'): 0.90,
}
"""‖b(θ)‖ of Zhang and Stratos, Appendix C, by negatives and parameters."""


@dataclasses.dataclass(frozen=True)
class LabelSpace:
  """The queries that are measured on, and all labels there are for them.

  Attributes:
    query_rows: `[queries] int32`.
    passage_rows: `[labels] int32`: the positive of each query, in order, then
      passages that BM25 finds for them.
    is_label: `[queries, labels] bool`; False for positives of a query other
      than its own, here.
    holds_answer: `[queries, labels] bool`, labels other than its positives
      that hold an answer of the query: likely false negatives.
  """

  query_rows: Int[np.ndarray, ' queries']
  passage_rows: Int[np.ndarray, ' labels']
  is_label: Bool[np.ndarray, 'queries labels']
  holds_answer: Bool[np.ndarray, 'queries labels']

  @property
  def gold(self) -> Int[np.ndarray, ' queries']:
    """Label of each query."""
    return np.arange(len(self.query_rows), dtype=np.int32)


class NceBiasJob:
  """`job=nce_bias`: Appendix C, for any model and data."""

  def __init__(self, config: config_lib.Config, workdir: pathlib.Path):
    """Reads nothing yet.

    Raises:
      UserError: chunks do not make up the groups.
    """
    chunk_groups, groups = config.model.chunk_groups, config.data.groups
    if chunk_groups < 0 or chunk_groups and groups % chunk_groups:
      raise errors.UserError(
          f'config.model.chunk_groups={chunk_groups}: here it is 0 or divides '
          f'data.groups={groups}'
      )
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
    made = {point: artifacts.read_json(self._path(point))
            for point in self._config.nce.points}
    prefix = f'{self._dataset.name}/{self._config.data.split}'
    artifacts.write_json(self._workdir / 'metrics.json', {
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
    model = model_lib.load_checkpoint(self._config, wanted.init)
    if model.spec.shared != wanted.shared:
      raise errors.UserError(
          f'config.model.shared={wanted.shared}: {wanted.init} was trained '
          f'with {model.spec.shared}; set the same'
      )
    return model

  @functools.cached_property
  def _space(self) -> LabelSpace:
    return choose_labels(self._config, self._dataset)

  @functools.cached_property
  def _texts(self) -> dict[str, tuple[packed.PackedSequences, np.ndarray]]:
    """Packed sequences of both roles, and the slot of each query or label."""
    result = {}
    for role, rows in (('query', self._space.query_rows),
                       ('passage', self._space.passage_rows)):
      tokens = self._dataset.tokenize(self._model, role).tokens(rows)
      result[role] = _pack(
          tokens, self._config.data.groups, self._model.text.length(role)
      )
    return result

  def _scores(
      self, params: Any, texts: Any
  ) -> Float[Array, 'queries labels']:
    """Scaled scores of all labels, without dropout.

    Args:
      params: of a `TrainState`.
      texts: see `_texts`.
    """
    encoder = model_lib.make_module(
        self._model.spec, self._config,
        sharding.make_local_mesh(self._config.mesh),
    )
    chunks = (gradient_cache.Chunks(self._config.model.chunk_groups)
              if self._config.model.chunk_groups else None)
    vecs = {}
    for role, (one, slots) in texts.items():
      by_group = gradient_cache.encode(
          encoder.clone(role=role),
          dual_encoder.tower(params['encoder'], role), one, None, chunks,
      )
      vecs[role] = by_group.reshape(-1, by_group.shape[-1])[slots]
    return self._config.loss.scale * self._model.spec.score(
        vecs['query'], vecs['passage']
    )

  def _loss(self, params, batch, key):
    """Mean over queries of the cross-entropy among candidates."""
    del key
    texts, candidates = batch
    own = jnp.take_along_axis(
        self._scores(params, texts), jnp.maximum(candidates, 0), axis=1
    )
    loss = losses.candidate_softmax(own, candidates >= 0)
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
    draw = self._draw(jnp.zeros(is_label.shape), 0)
    return lambda step: jnp.concatenate(
        [gold[:, None], draw(sampling.draw_key(config.seed, step))], axis=1
    )

  def _draw(self, scores: Any, percent: int) -> Callable[[Any], Any]:
    """Key -> labels of K - 1 negatives of each query."""
    space = self._space
    usable = space.is_label.copy()
    usable[space.gold, space.gold] = False
    chosen = sampling.mixed(self._config.nce.negatives, percent)
    return lambda key: sampling.draw(
        key, space.query_rows, scores, usable, chosen
    ).rows

  def _identity(self, point: str) -> dict[str, Any]:
    """What the parameters at a point depend on."""
    config, settings = config_lib.to_dict(self._config), self._config.nce
    return artifacts.as_json({
        'format': _FORMAT, 'init': self._model.fingerprint,
        'data': self._dataset.prepared.manifest['fingerprint'],
        'split': self._config.data.split, 'groups': self._config.data.groups,
        'labels': settings.labels, 'queries': settings.queries,
        'bm25': [self._config.evaluation.bm25_k1,
                 self._config.evaluation.bm25_b],
        'scale': self._config.loss.scale, 'seed': self._config.seed,
        'dtype': config['model']['dtype'],
        **({} if point == 'initial' else {'optim': config['optim']}),
        **({'negatives': settings.negatives} if point == 'random' else {}),
    })

  def _is_trained(self, point: str) -> bool:
    path = self._workdir / point / artifacts.MANIFEST
    return path.exists() and (
        artifacts.read_json(path)['identity'] == self._identity(point)
    )

  def _train(self, point: str) -> None:
    """Trains on all queries at every step, from the last checkpoint.

    Raises:
      UserError: the folder holds the checkpoints of another training.
    """
    config, folder = self._config, self._workdir / point
    artifacts.make_folder(folder)
    begun = folder / artifacts.UNFINISHED
    if begun.exists() and artifacts.read_json(begun) != self._identity(point):
      raise errors.UserError(
          f'{folder}: holds a training with other settings; remove it, or name '
          'another --workdir'
      )
    artifacts.write_json(begun, self._identity(point))
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
    candidates, texts = self._candidates(point), jax.device_put(self._texts)
    says = run_log.Ticker(f'training {point}', config.optim.steps,
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
    artifacts.write_json(folder / artifacts.MANIFEST, {
        'identity': self._identity(point),
        'environment': artifacts.environment(),
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
    return jax.tree.map(
        jnp.asarray, state_lib.dual_encoder_params(encoder, None)
    )

  @functools.cached_property
  def _compute_scores(self) -> Callable[[Any, Any], Array]:
    return jax.jit(self._scores)

  @functools.cached_property
  def _meters(self) -> dict[str, Callable[[Array, Array], nce.ScoreBias]]:
    """Kind of negatives -> (scores, keys) -> the bias in the scores."""

    def bias(percent, scores, keys):
      return nce.score_bias(scores, self._space.gold, self._space.is_label,
                            self._draw(scores, percent), keys)

    return {
        nce_synthetic.kind(percent): jax.jit(functools.partial(bias, percent))
        for percent in self._config.nce.percents
    }

  @functools.cached_property
  def _compute_products(self) -> Callable[[Any, Any, Array], Array]:
    """(θ, texts, directions in the scores) -> products of gradients."""
    return jax.jit(lambda params, texts, directions: nce.gradient_products(
        lambda params: self._scores(params, texts), params, directions
    ))

  def _meter_identity(self, point: str) -> dict[str, Any]:
    settings = self._config.nce
    return artifacts.as_json({
        'point': self._identity(point), 'draws': settings.draws,
        'epoch': self._config.optim.steps,
        'percents': settings.percents, 'negatives': settings.negatives,
    })

  def _is_measured(self, point: str) -> bool:
    path = self._path(point)
    return path.exists() and (
        artifacts.read_json(path)['identity'] == self._meter_identity(point)
    ) and (point == 'initial' or self._is_trained(point))

  def _measure(self, point: str) -> None:
    """Writes the file of a point."""
    config, space = self._config, self._space
    params, texts = self._params(point), jax.device_put(self._texts)
    scores = self._compute_scores(params, texts)
    logging.info('%s: scores of %d labels for %d queries', point,
                 *scores.shape[::-1])
    keys = jax.random.split(  # The first step that training does not draw for.
        sampling.draw_key(config.seed, config.optim.steps), config.nce.draws
    )
    found = {name: meter(scores, keys) for name, meter in self._meters.items()}
    exact = next(iter(found.values()))
    logging.info('%s: drew negatives %d times', point, len(keys))
    products = np.asarray(self._compute_products(params, texts, jnp.stack(
        [exact.cross_entropy, *(one.mean for one in found.values())]
    )))
    kinds = {}
    for number, (name, one) in enumerate(found.items(), start=1):
      norms = nce.norms_of(products[np.ix_([0, number], [0, number])])
      halves = one.bias[0] - one.bias[1]
      kinds[name] = {
          'bias': norms.bias,
          'gradient': norms.nce, 'cosine': norms.cosine, 'loss': one.nce_loss,
          'effective_negatives': one.effective_negatives,
          'missed_mass': one.missed_mass,
          'score_error': jnp.linalg.norm(halves) / 2
                         / jnp.linalg.norm(one.mean),
      }
    artifacts.write_json(self._path(point), {
        'identity': self._meter_identity(point),
        'model': jax.tree.map(float, {
            **facts_of(np.asarray(scores), space),
            'loss': exact.cross_entropy_loss,
            'gradient': np.sqrt(products[0, 0]),
        }),
        'kinds': jax.tree.map(float, kinds),
        'environment': artifacts.environment(),
    })


def choose_labels(
    config: config_lib.Config, dataset: dataset_lib.Dataset
) -> LabelSpace:
  """Random queries of distinct positives, and what BM25 finds for them.

  Half of the labels in Appendix C are gold for some query; the others contain
  its mention. Here BM25 gives them: the best passage of each query in turn that
  is no positive of any of the queries and not taken yet.

  Raises:
    UserError: the split has too few queries of distinct positives, or BM25
      finds too few passages.
  """
  settings, prepared = config.nce, dataset.prepared
  judgements = prepared.judgements(config.data.split)
  judged = judgements.select(judgements.grades > 0)
  groups, known = prepared.passage_groups, examples.known_positives(prepared)
  pairs: dict[int, tuple[int, int]] = {}  # Group -> query and passage.
  queries: set[int] = set()
  order = np.random.default_rng(config.seed).permutation(len(judged.grades))
  for query, passage in zip(judged.query_rows[order].tolist(),
                            judged.passage_rows[order].tolist(), strict=True):
    group = int(groups[passage])
    if len(pairs) < settings.queries and (
        group not in pairs and query not in queries
    ):
      pairs[group] = query, passage
      queries.add(query)
  if len(pairs) < settings.queries:
    raise errors.UserError(
        f'config.nce.queries={settings.queries}: data.split='
        f'"{config.data.split}" has {len(pairs)} with distinct positives; name '
        'another split, or ask for fewer'
    )
  query_rows, golds = (
      np.array(column, np.int32) for column in zip(*pairs.values(), strict=True)
  )
  positives = set(known[query_rows].reshape(-1).tolist())
  found = evaluate.search_bm25(
      config.evaluation, dataset, query_rows,
      min(_DEPTH, len(prepared.passages)),
  ).rows
  taken: dict[int, int] = {}  # Group -> passage.
  for passage in found.T.reshape(-1).tolist():
    if passage < 0 or len(golds) + len(taken) == settings.labels:
      continue
    group = int(groups[passage])
    if group not in positives:
      taken.setdefault(group, passage)
  if len(golds) + len(taken) < settings.labels:
    raise errors.UserError(
        f'config.nce.labels={settings.labels}: BM25 finds {len(taken)} '
        f'passages beside the {len(golds)} positives; ask for fewer'
    )
  passage_rows = np.concatenate([golds, np.fromiter(taken.values(), np.int32)])
  is_positive = (
      groups[passage_rows][None, :, None] == known[query_rows][:, None, :]
  ).any(axis=2)
  own = np.eye(*is_positive.shape) > 0
  texts = [prepared.passages[int(row)].text for row in passage_rows]
  holds_answer = np.array([
      [bool(answers) and answers_lib.has_answer(
          text, answers, config.evaluation.answer_rule) for text in texts]
      for answers in (prepared.queries[int(row)].answers for row in query_rows)
  ])
  return LabelSpace(
      query_rows, passage_rows, own | ~is_positive,
      holds_answer & ~is_positive,
  )


def facts_of(
    scores: Float[np.ndarray, 'queries labels'], space: LabelSpace
) -> dict[str, float]:
  """What the model makes of the labels, without sampling.

  Returns:
    `accuracy` (the gold scores best of the labels); `gold_mass`; and of the
    softmax over everything, other known positives included, the mean mass on
    them and on other labels that hold an answer.
  """
  exponents = np.exp(scores - scores.max(axis=1, keepdims=True))
  mass = exponents / exponents.sum(axis=1, keepdims=True)
  gold = space.gold
  others = np.where(space.is_label, scores, -np.inf)
  others[gold, gold] = -np.inf
  return {
      'accuracy': np.mean(scores[gold, gold] > others.max(axis=1)),
      'gold_mass': np.mean(mass[gold, gold]),
      'known_positive_mass': np.mean((mass * ~space.is_label).sum(axis=1)),
      'answer_mass': np.mean((mass * space.holds_answer).sum(axis=1)),
      'answer_labels': np.mean(space.holds_answer.sum(axis=1)),
  }


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


def _pack(
    tokens: sequences.AnySequences, groups: int, longest: int
) -> tuple[packed.PackedSequences, Int[np.ndarray, ' sequences']]:
  layout = packing.plan(
      tokens.lengths, groups, packing.default_row_length(longest)
  )
  return packing.fill(layout, tokens), layout.flat_slot
