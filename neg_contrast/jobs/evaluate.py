"""Evaluates systems by retrieval over a whole corpus."""

import dataclasses
import functools
import pathlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from neg_contrast import artifacts, plan, sharding
from neg_contrast import checkpoints as checkpoints_lib
from neg_contrast import config as config_lib
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.evaluation import metrics, trec
from neg_contrast.jobs import dataset as dataset_lib
from neg_contrast.models import dual_encoder, loading
from neg_contrast.retrieval import bm25, encoding, exact, hits
from neg_contrast.training import run_log


def compute_dtype(config: config_lib.ModelConfig) -> Any:
  """The dtype layers compute in on this machine's devices."""
  if config.dtype == 'auto':
    is_cpu = jax.default_backend() == 'cpu'
    return jnp.float32 if is_cpu else jnp.bfloat16
  return jnp.dtype(config.dtype)


def make_encoder(
    spec: dual_encoder.EncoderSpec, config: config_lib.ModelConfig
) -> dual_encoder.Encoder:
  """The encoder module of a spec, with this config's compute settings."""
  return dual_encoder.Encoder(
      spec=spec,
      dtype=compute_dtype(config),
      remat=config.remat,
      scan_unroll=min(config.scan_unroll, spec.bert.num_layers),
  )


class DenseRetriever:
  """Encodes and searches the passages of a dataset, or some of them."""

  def __init__(
      self,
      config: config_lib.Config,
      mesh: Mesh,
      dataset: dataset_lib.Dataset,
      model: loading.Model,
      rows: np.ndarray | None = None,
  ):
    """Tokenizes (once) and compiles (at first use).

    Args:
      config: settings of compute, encoding and search.
      mesh: devices.
      dataset: corpus and queries.
      model: gives spec, text settings and tokenizer; not its weights.
      rows: `[n]` passages to search, ascending; default: the whole corpus.
    """
    count = len(dataset.prepared.passages)
    self._rows = np.arange(count, dtype=np.int32) if rows is None else rows
    self._config, self._mesh, self._dataset = config, mesh, dataset
    self._texts = {role: dataset.tokenize(model, role)
                   for role in ('query', 'passage')}
    encoder = make_encoder(model.spec, config.model)
    self._encoders = {
        role: encoding.TableEncoder(
            encoder, mesh, max(model.text.length(role), config.data.row_length),
            config.index.chunk_tokens,
        )
        for role in ('query', 'passage')
    }

  def encode(self, params: Any, role: str, rows: np.ndarray) -> np.ndarray:
    """`[rows, features] float32` embeddings of queries or passages."""
    texts = self._texts[role]
    lengths = texts.lengths()[rows]
    what = 'queries' if role == 'query' else 'passages'
    return self._encoders[role](
        dual_encoder.tower(params, role),
        lambda i: texts.tokens(int(rows[i])),
        lengths,
        run_log.Ticker(f'encoding {what}', len(rows)),
    )

  def search(
      self, params: Any, query_rows: np.ndarray, depth: int
  ) -> hits.Hits:
    """The best passages of each query, as rows of the whole corpus."""
    index = exact.ExactIndex(
        self.encode(params, 'passage', self._rows),
        self._dataset.prepared.tie_ranks[self._rows],
        self._mesh,
        self._config.index.block_rows,
    )
    query_vecs = self.encode(params, 'query', query_rows)
    found = index.search(query_vecs, depth)
    return hits.Hits(
        np.where(found.rows >= 0, self._rows[found.rows], np.int32(-1)),
        found.scores,
    )


def search_bm25(
    config: config_lib.EvaluationConfig,
    dataset: dataset_lib.Dataset,
    query_rows: np.ndarray,
    depth: int,
) -> hits.Hits:
  """BM25 over title and text of the whole corpus."""
  prepared = dataset.prepared
  index = bm25.Bm25Index(
      (f'{p.title} {p.text}' for p in prepared.passages),
      dataset.prepared.tie_ranks,
      k1=config.bm25_k1,
      b=config.bm25_b,
  )
  return index.search([prepared.queries[int(r)].text for r in query_rows],
                      depth)


@dataclasses.dataclass(frozen=True)
class Evaluation:
  """Ranks a split's queries by any system, and scores the ranking.

  Attributes:
    config: metrics and depth.
    dataset: corpus and queries.
    judgements: of the split.
  """

  config: config_lib.EvaluationConfig
  dataset: dataset_lib.Dataset
  judgements: prepared_lib.Judgements

  @functools.cached_property
  def query_rows(self) -> np.ndarray:
    """`[queries] int32`, those with judgements."""
    return np.unique(self.judgements.query_rows)

  def run_of(self, found: hits.Hits) -> trec.Run:
    """Hits as a run with ids."""
    prepared = self.dataset.prepared
    ids = prepared.passage_ids
    return {
        prepared.queries[int(query)].id: [
            (ids[row].decode(), float(score))
            for row, score in zip(rows, scores, strict=True)
            if row >= 0
        ]
        for query, rows, scores in zip(
            self.query_rows, found.rows, found.scores, strict=True
        )
    }

  def score(
      self,
      run: trec.Run,
      found: hits.Hits,
      names: tuple[str, ...] | None = None,
  ) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """Means, and values by query, of every metric of the config.

    Args:
      run: the ranking.
      found: the same as rows.
      names: metrics to take instead of the config's.
    """
    names = self.config.metrics if names is None else names
    scores = metrics.evaluate(self._qrels, run, names)
    means, by_query = dict(scores.mean), dict(scores.per_query)
    if self.config.answer_ks:
      prepared = self.dataset.prepared
      queries = [prepared.queries[int(row)] for row in self.query_rows]
      values = metrics.answer_accuracy(
          found.rows,
          lambda row: prepared.passages[row].text,
          [query.answers for query in queries],
          self.config.answer_ks,
          self.config.answer_rule,
      )
      for name, per_query in values.items():
        means[name] = float(np.mean(per_query))
        by_query[name] = {query.id: float(value) for query, value
                          in zip(queries, per_query, strict=True)}
    return means, by_query

  @functools.cached_property
  def _qrels(self) -> dict[str, dict[str, int]]:
    prepared = self.dataset.prepared
    qrels: dict[str, dict[str, int]] = {}
    for query, passage, grade in zip(
        self.judgements.query_rows, self.judgements.passage_rows,
        self.judgements.grades, strict=True,
    ):
      name = prepared.queries[int(query)].id
      passage_id = prepared.passage_ids[passage].decode()
      qrels.setdefault(name, {})[passage_id] = int(grade)
    return qrels


def evaluation_step(
    system: str,
    workdir: pathlib.Path,
    evaluation: Callable[[], Evaluation],
    split: str,
    identity: Callable[[], dict[str, Any]],
    search: Callable[[np.ndarray], hits.Hits],
) -> plan.Step:
  """The step that evaluates one system and writes run, metrics and manifest.

  Args:
    system: its name in `metrics.json`.
    workdir: of the job.
    evaluation: makes the evaluation; not called before the step runs.
    split: name of the split.
    identity: what the result depends on; an older result is kept if equal.
    search: query rows -> hits.
  """
  folder = workdir / 'evaluation' / f'{split}-{system}'

  def is_done() -> bool:
    manifest = artifacts.read_manifest(folder)
    return manifest is not None and manifest['identity'] == identity()

  def run() -> None:
    task = evaluation()
    found = search(task.query_rows)
    ranked = task.run_of(found)
    means, by_query = task.score(ranked, found)
    manifest = {
        'identity': identity(),
        'key': f'{task.dataset.name}/{split}/{system}',
        'queries': len(task.query_rows),
        'passages': len(task.dataset.prepared.passages),
        'metrics': means,
        'environment': artifacts.environment(),
    }
    with artifacts.writing(folder, manifest) as scratch:
      trec.write_run(scratch / 'run.trec', ranked, system)
      artifacts.write_json(scratch / 'per_query.json', by_query)

  return plan.Step(
      f'{system}', f'run and metrics of {system} on {split} in {folder}',
      is_done, run,
  )


def data_identity(
    dataset: dataset_lib.Dataset, config: config_lib.Config, split: str
) -> dict[str, Any]:
  """What an evaluation depends on beside the system."""
  manifest = dataset.prepared.manifest
  return {
      'split': split,
      'corpus': manifest['corpus_fingerprint'],
      'data': manifest['fingerprint'],  # Judgements too.
      'evaluation': {
          key: list(value) if isinstance(value, tuple) else value
          for key, value in config_lib.to_dict(config.evaluation).items()
          if key in ('metrics', 'answer_ks', 'answer_rule', 'depth', 'bm25_k1',
                     'bm25_b')
      },
  }


def bm25_step(
    config: config_lib.Config,
    workdir: pathlib.Path,
    dataset: Callable[[], dataset_lib.Dataset],
    evaluation: Callable[[], Evaluation],
    split: str,
) -> plan.Step:
  """The step that evaluates BM25."""
  return evaluation_step(
      'bm25', workdir, evaluation, split,
      identity=lambda: data_identity(dataset(), config, split),
      search=lambda rows: search_bm25(
          config.evaluation, dataset(), rows, config.evaluation.depth
      ),
  )


def gather(workdir: pathlib.Path) -> dict[str, float]:
  """Writes `metrics.json` from all evaluations of a workdir, and prints it.

  Returns:
    `<dataset>/<split>/<system>/<metric>` -> value.
  """
  values: dict[str, float] = {}
  tables: dict[str, dict[str, dict[str, float]]] = {}
  for folder in sorted((workdir / 'evaluation').iterdir()):
    manifest = artifacts.read_manifest(folder)
    if manifest is None:
      continue
    group, _, system = manifest['key'].rpartition('/')
    title = (f'{group}: {manifest["queries"]} queries, '
             f'{manifest["passages"]} passages')
    tables.setdefault(title, {})[system] = manifest['metrics']
    for name, value in manifest['metrics'].items():
      values[f'{manifest["key"]}/{name}'] = value
  artifacts.write_json(workdir / 'metrics.json', values)
  for title, rows in tables.items():
    print(f'\n{title}\n{metrics.format_table(rows)}')
  return values


class EvaluateJob:
  """`job=evaluate`: any checkpoint, any source, beside BM25."""

  def __init__(self, config: config_lib.Config, workdir: pathlib.Path):
    """Reads nothing yet."""
    self._config, self._workdir = config, workdir

  def steps(self) -> list[plan.Step]:
    """The plan."""
    config, split = self._config, self._config.data.split
    is_workdir = (pathlib.Path(config.checkpoint) / loading.ENCODER_FILE
                  ).exists()
    steps = [dataset_lib.preparation_step(config.data, lambda: self._dataset)]
    if config.evaluation.bm25:
      steps.append(bm25_step(
          config, self._workdir, lambda: self._dataset,
          lambda: self._evaluation, split,
      ))
    steps.append(evaluation_step(
        'trained' if is_workdir else 'initial',
        self._workdir,
        lambda: self._evaluation,
        split,
        identity=lambda: {
            **data_identity(self._dataset, config, split),
            'model': self._model.fingerprint,
        },
        search=self._search,
    ))
    return steps

  def finish(self) -> None:
    """Writes and prints the numbers."""
    gather(self._workdir)

  @functools.cached_property
  def _dataset(self) -> dataset_lib.Dataset:
    return dataset_lib.Dataset(self._config.data)

  @functools.cached_property
  def _evaluation(self) -> Evaluation:
    return Evaluation(
        self._config.evaluation, self._dataset,
        self._dataset.prepared.judgements(self._config.data.split),
    )

  @functools.cached_property
  def _model(self) -> loading.Model:
    return load_checkpoint(self._config)

  def _search(self, query_rows: np.ndarray) -> hits.Hits:
    config, model = self._config, self._model
    mesh = sharding.make_mesh(config.mesh)
    retriever = DenseRetriever(config, mesh, self._dataset, model)
    params = jax.device_put(
        model.params, sharding.parameter_shardings(model.params, mesh)
    )
    return retriever.search(params, query_rows, config.evaluation.depth)


def load_checkpoint(config: config_lib.Config) -> loading.Model:
  """The model of `config.checkpoint`: a workdir of ours, or a folder or name.

  A workdir gives its selected checkpoint: the best on the tune split, or the
  latest where none was evaluated.

  Raises:
    UserError: there is no such model.
  """
  workdir = pathlib.Path(config.checkpoint)
  if not (workdir / loading.ENCODER_FILE).exists():
    return loading.from_pretrained(config.checkpoint, config.model, config.seed)
  return load_workdir(workdir)


def load_workdir(workdir: pathlib.Path) -> loading.Model:
  """The selected checkpoint of a trained workdir.

  Raises:
    UserError: it has no checkpoint yet.
  """
  spec, text, tokenizer = loading.read_description(workdir)
  checkpoints = checkpoints_lib.Checkpoints(workdir)
  step = checkpoints.selected_step()
  like = {'encoder': loading.shape_of(spec)}
  params = checkpoints.restore_encoder(like['encoder'], step)
  checkpoints.close()
  run = artifacts.read_json(workdir / 'run.json')
  return loading.Model(
      spec, text, tokenizer, params, f'{workdir} step {step}',
      artifacts.sha256_json({'run': run['identity'], 'step': step}),
  )
