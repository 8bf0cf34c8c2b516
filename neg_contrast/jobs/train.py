"""Trains a dual encoder and shows what that changed."""

import dataclasses
import functools
import pathlib
from typing import Any

import jax
import numpy as np
from absl import logging
from jax.sharding import Mesh

from neg_contrast import artifacts, errors, plan, sharding
from neg_contrast import checkpoints as checkpoints_lib
from neg_contrast import config as config_lib
from neg_contrast.data import batches, examples, packing
from neg_contrast.evaluation import metrics
from neg_contrast.jobs import dataset as dataset_lib
from neg_contrast.jobs import evaluate, report
from neg_contrast.jobs import model as model_lib
from neg_contrast.jobs import retriever as retriever_lib
from neg_contrast.models import loading
from neg_contrast.negatives import drawing
from neg_contrast.training import loop, optimizer, run_log
from neg_contrast.training import state as state_lib
from neg_contrast.training import step as step_lib

RUN_FILE = 'run.json'
_BM25_DEPTH_OF_STOP_CORPUS = 100


class TrainJob:
  """`job=train`: evaluate, train with early stopping, evaluate again."""

  def __init__(self, config: config_lib.Config, workdir: pathlib.Path):
    """Reads nothing yet."""
    self._config, self._workdir = config, workdir

  def steps(self) -> list[plan.Step]:
    """The plan."""
    config, workdir, split = (
        self._config, self._workdir, self._config.data.test_split
    )
    metrics.check_names(config.evaluation.metrics)
    bm25 = [] if not config.evaluation.bm25 else [evaluate.bm25_step(
        config, workdir, lambda: self._dataset, lambda: self._test, split
    )]
    return [
        dataset_lib.preparation_step(config.data, lambda: self._dataset),
        *bm25,
        evaluate.evaluation_step(
            'initial', config.data, workdir, lambda: self._test, split,
            identity=lambda: self._identity_of(self._model),
            search=lambda rows: self._search(self._model, rows),
        ),
        plan.Step(
            'training', f'checkpoints in {workdir / checkpoints_lib.FOLDER}',
            is_done=self._is_trained, run=self._train,
        ),
        evaluate.evaluation_step(
            'trained', config.data, workdir, lambda: self._test, split,
            identity=lambda: self._identity_of(self._trained),
            search=lambda rows: self._search(self._trained, rows),
        ),
    ]

  def finish(self) -> None:
    """Writes and prints the numbers."""
    values = evaluate.gather(self._workdir, self._dataset)
    artifacts.write_json(self._workdir / artifacts.MANIFEST, {
        'config': config_lib.to_dict(self._config),
        'identity': self._identity,
        'environment': artifacts.environment(),
        'metrics': values,
    })
    report.write_report(
        self._workdir, self._config, self._dataset, self._model
    )

  @functools.cached_property
  def _mesh(self) -> Mesh:
    return sharding.make_mesh(self._config.mesh)

  @functools.cached_property
  def _dataset(self) -> dataset_lib.Dataset:
    return dataset_lib.Dataset(self._config.data)

  @functools.cached_property
  def _model(self) -> loading.Model:
    return loading.from_pretrained(
        self._config.model.init, self._config.model, self._config.seed
    )

  @functools.cached_property
  def _trained(self) -> loading.Model:
    return model_lib.load_workdir(self._workdir)

  @functools.cached_property
  def _test(self) -> evaluate.Evaluation:
    return evaluate.Evaluation(
        self._config.evaluation, self._dataset, self._dataset.splits.test
    )

  @functools.cached_property
  def _identity(self) -> dict[str, Any]:
    """What the trained parameters depend on."""
    config = config_lib.to_dict(self._config)
    for key in ('mesh', 'checkpointing', 'index', 'job', 'checkpoint',
                'query'):
      config.pop(key)  # These change no result, or its last bits only.
    for key in ('prepared_dir', 'how_to_get', 'split', 'passage_words',
                'passage_tokens'):
      config['data'].pop(key)
    for key in ('remat', 'scan_unroll'):
      config['model'].pop(key)
    config['evaluation'] = {
        key: config['evaluation'][key]
        for key in ('eval_steps', 'patience', 'stop_corpus_passages',
                    'bm25_k1', 'bm25_b')
    }
    manifest = self._dataset.prepared.manifest
    return {
        'config': config,
        'corpus': manifest['corpus_fingerprint'],
        'data': manifest['fingerprint'],  # Judgements too.
        'init': self._model.fingerprint,
    }

  def _identity_of(self, model: loading.Model) -> dict[str, Any]:
    return evaluate.dense_identity(
        self._dataset, self._config, self._config.data.test_split, model
    )

  def _search(
      self, model: loading.Model, query_rows: np.ndarray
  ) -> evaluate.Searched:
    return evaluate.search_dense(
        self._config, self._dataset, model, self._workdir, query_rows
    )

  def _is_trained(self) -> bool:
    if not (self._workdir / RUN_FILE).exists():
      return False
    self._check_same_run()
    checkpoints = checkpoints_lib.Checkpoints(self._workdir)
    step = checkpoints.latest_step()
    finished = step is not None and checkpoints.progress(step).finished
    checkpoints.close()
    return finished

  def _check_same_run(self) -> None:
    """Refuses a workdir that holds another run.

    Raises:
      UserError: names what differs.
    """
    path = self._workdir / RUN_FILE
    saved = artifacts.read_json(path)
    differences = _differences(saved['identity'], artifacts.as_json(
        self._identity
    ))
    if differences:
      raise errors.UserError(
          f'{path}: this workdir holds a run with other settings:\n'
          + '\n'.join(f'  {line}' for line in differences)
          + '\nGo on with those, or name another --workdir'
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

  def _train(self) -> None:
    config, workdir = self._config, self._workdir
    sharding.check_batch(config.data.batch_size, config.data.groups, self._mesh)
    make_batch, pairs = self._make_batch()
    total = total_steps(config, len(pairs))
    if (workdir / RUN_FILE).exists():
      self._check_same_run()
    else:
      loading.save_description(self._model, workdir)
      artifacts.write_json(workdir / RUN_FILE, {
          'identity': self._identity,
          'config': config_lib.to_dict(config),
          'environment': self._environment(),
          'examples': len(pairs),
          'total_steps': total,
      })
    adam = optimizer.make_optimizer(config.optim, total)
    checkpoints = checkpoints_lib.Checkpoints(workdir)
    state, progress = self._start(adam, checkpoints)
    step_fn = step_lib.make_train_step(
        model_lib.make_module(self._model.spec, config.model), adam,
        config.loss.scale, config.seed,
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
    abstract = jax.eval_shape(init, self._model.params)
    shardings = sharding.parameter_shardings(abstract, self._mesh)
    latest = checkpoints.latest_step()
    if latest is None:
      state = jax.jit(init, out_shardings=shardings)(self._model.params)
      return state, checkpoints_lib.Progress()
    like = jax.tree.map(
        lambda a, s: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=s),
        abstract, shardings,
    )
    return checkpoints.restore(like, latest)

  def _make_batch(self):
    """Step -> batch on the devices; and the examples it is made of."""
    config, dataset, text = self._config, self._dataset, self._model.text
    pairs = examples.make_examples(
        dataset.prepared, dataset.splits.train, config.negatives.pool_size
    )
    longest = {'query': text.query_length, 'passage': text.passage_length}
    row_lengths = (
        {'shared': max(longest.values())} if config.model.shared else longest
    )
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
        query_tokens=dataset.tokenize(self._model, 'query').tokens,
        passage_tokens=dataset.tokenize(self._model, 'passage').tokens,
        passage_groups=dataset.prepared.passage_groups,
        mask_known_positives=config.loss.mask_known_positives,
    )

    def make(step):
      batch, stats = batcher(step)
      shardings = sharding.batch_shardings(batch, self._mesh)
      return jax.device_put(batch, shardings), stats

    return make, pairs

  def _draw(self, pairs: examples.Examples) -> batches.Draw:
    config, prepared = self._config.negatives, self._dataset.prepared
    seed = self._config.seed
    if config.strategy == 'corpus':
      return lambda step, numbers, queries: drawing.draw_from_corpus(
          len(prepared.passages), prepared.passage_groups,
          pairs.positive_groups[queries], config.per_query, seed, step, numbers,
      )
    if config.strategy == 'given' and not (pairs.negative_rows >= 0).any():
      raise errors.UserError(
          'config.negatives.strategy="given": '
          f'{self._config.data.source} has no passages judged not relevant '
          '(grade 0); choose "corpus" or "random"'
      )
    return lambda step, numbers, queries: drawing.draw_from_pool(
        pairs.negative_rows[queries], config.per_query, seed, step, numbers,
    )

  def _tune(self):
    """Parameters -> metrics on the tune split, over the stop corpus."""
    evaluation = evaluate.Evaluation(
        self._config.evaluation, self._dataset, self._dataset.splits.tune
    )
    encoder = retriever_lib.make_encoder(
        self._config, self._model, self._mesh
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


def _differences(saved: Any, now: Any, prefix: str = '') -> list[str]:
  """Where two json values differ, a line each."""
  if not (isinstance(saved, dict) and isinstance(now, dict)):
    return [] if saved == now else [f'{prefix}: {saved!r} there, {now!r} here']
  lines = []
  for key in sorted(saved.keys() | now.keys()):
    name = f'{prefix}.{key}' if prefix else key
    lines += _differences(saved.get(key), now.get(key), name)
  return lines
