"""A training run in a folder: of the job itself, or of a miner it needs."""

import dataclasses
import functools
import pathlib
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from absl import logging
from jax.sharding import Mesh

from neg_contrast import artifacts, errors, plan, sharding
from neg_contrast import checkpoints as checkpoints_lib
from neg_contrast import config as config_lib
from neg_contrast.data import batches, examples, packing, tokenized
from neg_contrast.jobs import dataset as dataset_lib
from neg_contrast.jobs import evaluate
from neg_contrast.jobs import model as model_lib
from neg_contrast.jobs import retriever as retriever_lib
from neg_contrast.models import loading
from neg_contrast.negatives import drawing
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.training import loop, optimizer, run_log
from neg_contrast.training import state as state_lib
from neg_contrast.training import step as step_lib

RUN_FILE = 'run.json'
_BM25_DEPTH_OF_STOP_CORPUS = 100


class Training:
  """Trains a dual encoder as a config says, from where it stopped."""

  def __init__(
      self,
      config: config_lib.Config,
      workdir: pathlib.Path,
      dataset: Callable[[], dataset_lib.Dataset],
      negatives: Any = None,
  ):
    """Reads nothing yet.

    Args:
      config: of the run.
      workdir: of its checkpoints and logs.
      dataset: makes the data.
      negatives: a `jobs.negatives.Negatives`, which gives pool and identity;
        None: it needs none.
    """
    self._config, self.workdir, self._dataset_of = config, workdir, dataset
    self._negatives = negatives

  def step(self, name: str) -> plan.Step:
    """The step of a plan."""
    return plan.Step(
        name, f'checkpoints in {self.workdir / checkpoints_lib.FOLDER}',
        is_done=self.is_trained, run=self.train,
    )

  @functools.cached_property
  def model(self) -> loading.Model:
    """What it starts from."""
    return model_lib.load_checkpoint(self._config, self._config.model.init)

  @functools.cached_property
  def trained(self) -> loading.Model:
    """What came out: the selected checkpoint."""
    return model_lib.load_workdir(self.workdir)

  @property
  def _dataset(self) -> dataset_lib.Dataset:
    return self._dataset_of()

  @functools.cached_property
  def _pool(self) -> pool_lib.Pool | None:
    return None if self._negatives is None else self._negatives.pool

  @property
  def _sources(self) -> tuple[str, ...]:
    """Names of the sources of hard negatives, by number."""
    if self._config.negatives.strategy == 'corpus':
      return ('corpus',)
    return () if self._pool is None else self._pool.sources

  @functools.cached_property
  def _mesh(self) -> Mesh:
    return sharding.make_mesh(self._config.mesh)

  @property
  def identity(self) -> dict[str, Any]:
    """What the trained parameters depend on."""
    manifest = self._dataset.prepared.manifest
    return {
        'config': settings_of(self._config),
        'corpus': manifest['corpus_fingerprint'],
        'data': manifest['fingerprint'],  # Judgements too.
        'init': self.model.fingerprint,
        'pool': None if self._negatives is None else self._negatives.identity,
    }

  def is_trained(self) -> bool:
    """Whether it ran to its end.

    Raises:
      UserError: the workdir holds another run.
    """
    if not (self.workdir / RUN_FILE).exists():
      return False
    if self._negatives is not None and self._negatives.identity is None:
      return False
    self._check_same_run()
    checkpoints = checkpoints_lib.Checkpoints(self.workdir)
    step = checkpoints.latest_step()
    finished = step is not None and checkpoints.progress(step).finished
    checkpoints.close()
    return finished

  def _check_same_run(self) -> None:
    """Refuses a workdir that holds another run.

    Raises:
      UserError: names what differs.
    """
    path = self.workdir / RUN_FILE
    saved = artifacts.read_json(path)
    differences = artifacts.differences(
        saved['identity'], artifacts.as_json(self.identity)
    )
    if differences:
      raise errors.UserError(
          f'{path}: this workdir holds a run with other settings:\n'
          + '\n'.join(f'  {line}' for line in differences)
          + '\nGo on with those, remove it, or name another --workdir'
      )
    for key, value in artifacts.as_json(self._environment()).items():
      if saved['environment'].get(key) != value:
        logging.warning(
            '%s was %s when the run began and is %s now: results may differ '
            'in their last bits', key, saved['environment'].get(key), value,
        )

  def _environment(self) -> dict[str, Any]:
    return {
        **artifacts.environment(),
        'devices': f'{len(jax.devices())} x {jax.devices()[0].device_kind}',
        'mesh': dict(self._mesh.shape),
    }

  def train(self) -> None:
    """Trains, from the last checkpoint if there is one."""
    config, workdir = self._config, self.workdir
    sharding.check_batch(config.data.batch_size, config.data.groups, self._mesh)
    make_batch, pairs = self._make_batch()
    total = total_steps(config, len(pairs))
    if (workdir / RUN_FILE).exists():
      self._check_same_run()
    else:
      loading.save_description(self.model, workdir)
      artifacts.write_json(workdir / RUN_FILE, {
          'identity': self.identity,
          'config': config_lib.to_dict(config),
          'environment': self._environment(),
          'examples': len(pairs),
          'total_steps': total,
      })
    adam = optimizer.make_optimizer(config.optim, total)
    checkpoints = checkpoints_lib.Checkpoints(workdir)
    state, progress = self._start(adam, checkpoints)
    step_fn = step_lib.make_train_step(
        model_lib.make_module(self.model.spec, config.model), adam,
        config.loss.scale, config.seed, self._sources,
    )
    log = run_log.RunLog(workdir, int(state.step), total)
    logging.info(
        'training: %d examples, %d steps of %d queries, %d parameters, mesh '
        '%s, starting after step %d', len(pairs), total, config.data.batch_size,
        sum(a.size for a in jax.tree.leaves(state.params)),
        dict(self._mesh.shape), int(state.step),
    )
    try:
      loop.Trainer(
          jax.jit(step_fn, donate_argnums=0), make_batch, self._tune(),
          checkpoints, log,
          loop.Schedule(
              total_steps=total,
              eval_steps=config.evaluation.eval_steps,
              patience=config.evaluation.patience,
              save_steps=config.checkpointing.save_steps,
              log_steps=config.checkpointing.log_steps,
              batch_size=config.data.batch_size,
              learning_rate=optimizer.make_schedule(config.optim, total),
          ),
      ).fit(state, progress)
    finally:
      log.close()
      checkpoints.close()

  def _start(self, adam, checkpoints):
    """The state and progress to start from: the latest checkpoint, or new."""
    scale = self._config.loss.scale if self._config.loss.learn_scale else None
    init = functools.partial(
        state_lib.init_state, optimizer=adam, learned_scale=scale
    )
    abstract = jax.eval_shape(init, self.model.params)
    shardings = sharding.parameter_shardings(abstract, self._mesh)
    latest = checkpoints.latest_step()
    if latest is None:
      state = jax.jit(init, out_shardings=shardings)(self.model.params)
      return state, checkpoints_lib.Progress()
    like = jax.tree.map(
        lambda a, s: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=s),
        abstract, shardings,
    )
    return checkpoints.restore(like, latest)

  def _make_batch(self):
    """Step -> batch on the devices; and the examples it is made of."""
    config, dataset, text = self._config, self._dataset, self.model.text
    pairs = examples.make_examples(dataset.prepared, dataset.train_and_tune[0])
    self._warn_of_small_pools(pairs.query_rows)
    longest = {'query': text.query_length, 'passage': text.passage_length}
    row_lengths = (
        {'shared': max(longest.values())} if config.model.shared else longest
    )
    halves = (np.zeros((0, 3), np.int32) if self._pool is None
              else self._pool.halves)
    batcher = batches.Batcher(
        examples=pairs,
        batch_size=config.data.batch_size,
        negatives=config.negatives.per_query,
        groups=config.data.groups,
        row_lengths={
            tower: max(length, config.data.row_length
                       or packing.default_row_length(length))
            for tower, length in row_lengths.items()
        },
        seed=config.seed,
        draw=self._draw(pairs),
        query_tokens=dataset.tokenize(self.model, 'query').tokens,
        passage_tokens=_tokens_of(
            dataset.tokenize(self.model, 'passage'), halves
        ),
        passage_groups=dataset.prepared.passage_groups,
        parents=np.array(halves[:, 0]),
        mask_known_positives=config.loss.mask_known_positives,
    )

    def make(step):
      batch, stats = batcher(step)
      shardings = sharding.batch_shardings(batch, self._mesh)
      return jax.device_put(batch, shardings), stats

    return make, pairs

  def _draw(self, pairs: examples.Examples) -> batches.Draw:
    config, prepared = self._config.negatives, self._dataset.prepared
    count, seed, pool = config.per_query, self._config.seed, self._pool
    if config.strategy == 'corpus':
      return lambda step, numbers, queries: drawing.draw_from_corpus(
          len(prepared.passages), prepared.passage_groups,
          pairs.positive_groups[queries], count, seed, step, numbers,
      )
    if pool is None:
      return lambda step, numbers, queries: batches.Drawn(
          *np.full((2, len(queries), 0), -1, np.int32)
      )
    return lambda step, numbers, queries: pool.draw(
        queries, count, seed, step, numbers, config.quotas
    )

  def _warn_of_small_pools(self, query_rows: np.ndarray) -> None:
    """Says when queries have fewer than N negatives to draw from.

    Raises:
      UserError: none has any.
    """
    count, pool = self._config.negatives.per_query, self._pool
    if pool is None:
      return
    lines = pool.lines_of(np.unique(query_rows))
    sizes = np.concatenate([
        np.where(some >= 0, pool.is_negative(some).sum(axis=1), 0)
        for some in np.array_split(lines, -(-len(lines) // 4096))
    ])
    if not sizes.any():
      raise errors.UserError(
          'the pool holds no hard negative for any query of the training '
          'split; loosen the filters of config.negatives, or choose another '
          'strategy'
      )
    few = int((sizes < count).sum())
    if few:
      logging.warning('%d of %d queries have fewer than %d hard negatives; '
                      'their empty slots are masked', few, len(lines), count)

  def _tune(self):
    """Parameters -> metrics on the tune split, over the stop corpus."""
    evaluation = evaluate.Evaluation(
        self._config.evaluation, self._dataset, self._dataset.train_and_tune[1]
    )
    encoder = retriever_lib.make_encoder(
        self._config, self.model, self._mesh
    )
    rows = stop_corpus(self._config, self._dataset, evaluation)
    exact = dataclasses.replace(
        self._config,
        index=dataclasses.replace(self._config.index, kind='exact'),
    )
    names = dict.fromkeys(('accuracy@1', *self._config.evaluation.metrics))

    def measure(params):
      found = retriever_lib.Retriever(
          exact, self._dataset, encoder.with_params(params['encoder']),
          rows=rows,
      ).search_rows(evaluation.query_rows, self._config.evaluation.depth)
      return evaluation.score(evaluation.run_of(found), found, tuple(names))[0]

    return measure


def total_steps(config: config_lib.Config, examples_count: int) -> int:
  """Steps of a run: as config says, or whole batches of its epochs."""
  by_epochs = int(
      examples_count * config.optim.epochs // config.data.batch_size
  )
  return config.optim.steps or max(1, by_epochs)


def stop_corpus(
    config: config_lib.Config,
    dataset: dataset_lib.Dataset,
    evaluation: evaluate.Evaluation,
) -> np.ndarray:
  """Passages that early stopping searches, as ascending rows.

  The positives of the tune queries, the BM25 top 100 of each, and
  `evaluation.stop_corpus_passages` random passages; everything, if the corpus
  has no more than that.
  """
  count = len(dataset.prepared.passages)
  wanted = config.evaluation.stop_corpus_passages
  if count <= wanted:
    return np.arange(count, dtype=np.int32)
  judged = evaluation.judgements.passage_rows
  found = evaluate.search_bm25(
      config.evaluation, dataset, evaluation.query_rows,
      _BM25_DEPTH_OF_STOP_CORPUS,
  ).rows
  rng = np.random.default_rng(config.seed)
  drawn = rng.choice(count, wanted, replace=False)
  rows = np.unique(np.concatenate([judged, found[found >= 0], drawn]))
  return rows.astype(np.int32)



def _tokens_of(
    passages: tokenized.TokenizedTexts, halves: np.ndarray
) -> batches.Tokens:
  """Token ids by row, where rows beyond the corpus are half passages."""
  count = len(passages.store)

  def tokens(row: int) -> np.ndarray:
    if row < count:
      return passages.tokens(row)
    return passages.tokens(*map(int, halves[row - count]))

  return tokens


def settings_of(config: config_lib.Config) -> dict[str, Any]:
  """The part of a config that the trained parameters depend on."""
  values = config_lib.to_dict(config)
  for key in ('mesh', 'checkpointing', 'index', 'job', 'checkpoint', 'query'):
    values.pop(key)  # These change no result, or its last bits only.
  for key in ('prepared_dir', 'how_to_get', 'split', 'passage_words',
              'passage_tokens'):
    values['data'].pop(key)
  for key in ('remat', 'scan_unroll'):
    values['model'].pop(key)
  values['evaluation'] = {
      key: values['evaluation'][key]
      for key in ('eval_steps', 'patience', 'stop_corpus_passages', 'bm25_k1',
                  'bm25_b')
  }
  values['negatives'] = {  # The rest is in the identity of the pool.
      key: values['negatives'][key]
      for key in ('strategy', 'per_query', 'quotas')
  }
  return values
