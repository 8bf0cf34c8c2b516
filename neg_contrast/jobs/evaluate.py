"""Evaluates systems by retrieval over a whole corpus."""

import collections
import dataclasses
import functools
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from absl import logging

from neg_contrast import artifacts, errors, plan
from neg_contrast import config as config_lib
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.data.formats import files, zeshel
from neg_contrast.evaluation import (
    dpr_results,
    linking,
    metrics,
    per_query,
    significance,
    trec,
)
from neg_contrast.jobs import dataset as dataset_lib
from neg_contrast.jobs import embedder as embedder_lib
from neg_contrast.jobs import fused, report
from neg_contrast.jobs import model as model_lib
from neg_contrast.jobs import retriever as retriever_lib
from neg_contrast.retrieval import bm25, hits


@dataclasses.dataclass(frozen=True)
class Searched:
  """What a search found.

  Attributes:
    found: rows and scores.
    index: facts about the index, for the manifest.
  """

  found: hits.Hits
  index: dict[str, Any] = dataclasses.field(default_factory=dict)


def index_bm25(
    config: config_lib.EvaluationConfig,
    dataset: dataset_lib.Dataset,
    rows: np.ndarray | None = None,
) -> bm25.Bm25Index:
  """BM25 over title and text of the whole corpus, or of `[rows] int32` of it.
  """
  prepared = dataset.prepared
  passages, ranks = iter(prepared.passages), prepared.tie_ranks
  if rows is not None:
    passages = (prepared.passages[int(row)] for row in rows)
    ranks = ranks[rows]
  return bm25.Bm25Index(
      (f'{p.title} {p.text}' for p in passages), ranks, k1=config.bm25_k1,
      b=config.bm25_b,
  )


class Bm25Search:
  """BM25 for queries of a dataset, which are searched in their own world.

  A world has an index of its own, as if it were a corpus of its own.
  """

  def __init__(
      self, config: config_lib.EvaluationConfig, dataset: dataset_lib.Dataset
  ):
    """Indexes nothing yet."""
    self._config, self._dataset = config, dataset
    self._parts: dict[int, tuple[np.ndarray, bm25.Bm25Index]] = {}

  def search_rows(self, query_rows: np.ndarray, depth: int) -> hits.Hits:
    """The best passages of queries, as rows of the whole corpus."""
    prepared = self._dataset.prepared
    texts = [prepared.queries[int(row)].text for row in query_rows]
    if not prepared.worlds:
      return self._whole.search(texts, depth)

    def search(world: int, lines: np.ndarray) -> hits.Hits:
      rows, index = self._part(world)
      some = [texts[line] for line in np.flatnonzero(lines)]
      return hits.renumber(index.search(some, depth), rows)

    return hits.search_parts(prepared.query_worlds[query_rows], depth, search)

  @functools.cached_property
  def _whole(self) -> bm25.Bm25Index:
    logging.info('indexing the corpus for BM25')
    return index_bm25(self._config, self._dataset)

  def _part(self, world: int) -> tuple[np.ndarray, bm25.Bm25Index]:
    """The rows of a world, ascending, and their index."""
    if world not in self._parts:
      worlds = self._dataset.prepared.passage_worlds
      rows = np.flatnonzero(worlds == world).astype(np.int32)
      self._parts[world] = rows, index_bm25(self._config, self._dataset, rows)
    return self._parts[world]


def search_bm25(
    config: config_lib.EvaluationConfig,
    dataset: dataset_lib.Dataset,
    query_rows: np.ndarray,
    depth: int,
) -> hits.Hits:
  """The best passages of queries by BM25."""
  return Bm25Search(config, dataset).search_rows(query_rows, depth)


def search_dense(
    config: config_lib.Config,
    dataset: dataset_lib.Dataset,
    vectors: retriever_lib.Vectors,
    folder: pathlib.Path,
    query_rows: np.ndarray,
) -> Searched:
  """Vectors over the whole corpus; the folder keeps their index."""
  retriever = retriever_lib.Retriever(config, dataset, vectors, folder)
  found = retriever.search_rows(query_rows, config.evaluation.depth)
  return Searched(found, retriever.measure_index(query_rows, found))


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
    """`[queries] int32`, the queries of the split."""
    return self.judgements.queries

  def run_of(self, found: hits.Hits) -> trec.Run:
    """Hits as a run with ids."""
    prepared = self.dataset.prepared
    return {
        prepared.query_ids[query].decode(): [
            (prepared.passage_ids[row].decode(), float(score))
            for row, score in zip(rows, scores, strict=True)
            if row >= 0
        ]
        for query, rows, scores in zip(
            self.query_rows, found.rows, found.scores, strict=True
        )
    }

  def read(self, path: pathlib.Path) -> hits.Hits:
    """A run file as rows: TREC's, or Zeshel's candidates (.json).

    Raises:
      UserError: it is no such file, or does not fit the corpus and the split.
    """
    try:
      return self.hits_of(read_run(path))
    except errors.UserError as e:
      raise errors.UserError(f'{path}: {e}') from None

  def hits_of(self, run: trec.Run) -> hits.Hits:
    """A run as rows, for the queries of the split; the inverse of `run_of`.

    Passages of other worlds than the query's are left out.

    Raises:
      UserError: it ranks a passage that the corpus lacks, or none for any query
        of the split.
    """
    prepared, depth = self.dataset.prepared, self.config.depth
    shape = (len(self.query_rows), depth)
    found = hits.Hits(np.full(shape, -1, np.int32),
                      np.full(shape, -np.inf, np.float32))
    has_worlds, foreign = bool(prepared.worlds), 0
    for number, query in enumerate(self.query_rows):
      place = 0
      for name, score in run.get(prepared.query_ids[query].decode(), []):
        if place == depth:
          break
        row = prepared.passage_ids.row_of(name)
        if row is None:
          raise errors.UserError(
              f'passage "{name}" is not in {prepared.manifest["spec"]}; give '
              'the corpus that the run was made with'
          )
        if has_worlds and (
            prepared.passage_worlds[row] != prepared.query_worlds[query]
        ):
          foreign += 1
          continue
        found.rows[number, place] = row
        found.scores[number, place] = score
        place += 1
    if foreign:
      logging.warning('the run ranks %d passages of other worlds than their '
                      'queries\'; they are left out', foreign)
    ranked = int((found.rows[:, 0] >= 0).sum())
    if ranked < len(found.rows):
      logging.warning('the run ranks %d of the %d queries of the split; the '
                      'others count as not found', ranked, len(found.rows))
    if len(run) > ranked > 0:  # Other splits are no mistake; other data may be.
      known = {name.decode() for name in prepared.query_ids}
      unknown = [name for name in run if name not in known]
      if unknown:
        logging.warning(
            'the run ranks %d queries that %s does not have, such as "%s"; '
            'they are left out', len(unknown), prepared.manifest['spec'],
            unknown[0],
        )
    if not ranked:
      raise errors.UserError(
          'it ranks nothing for the queries of the split; name the split that '
          'it was made for with --config.data.split'
      )
    return found

  def score(
      self,
      run: trec.Run,
      found: hits.Hits,
      names: tuple[str, ...] | None = None,
  ) -> metrics.Scores:
    """Means, and values by query and world, of every metric of the config.

    Metrics of judgements are over the queries with judgements, those of
    answers over all queries of the split.

    Args:
      run: the ranking.
      found: the same as rows.
      names: metrics to take instead of the config's.

    Raises:
      UserError: the split has neither judgements nor anything else to measure.
    """
    names = self.config.metrics if names is None else names
    scores = metrics.Scores({}, {}, {})
    if self.qrels:
      scores = metrics.evaluate(
          self.qrels, run, names, worlds=self.world_names
      )
    elif not self.config.answer_ks:
      raise errors.UserError(
          f'{self.dataset.prepared.manifest["spec"]}: the split has answers '
          'but no judgements; measure answers with '
          '--config.evaluation.answer_ks=1,5,20,100'
      )
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
      for name, hit in values.items():
        scores.mean[name] = float(np.mean(hit))
        scores.per_query[name] = {
            query.id: float(value) for query, value
            in zip(queries, hit, strict=True)
        }
    return scores

  def write_tables(
      self,
      folder: pathlib.Path,
      found: hits.Hits,
      by_query: Mapping[str, Mapping[str, float]],
  ) -> None:
    """Writes what error analysis and readers want.

    Args:
      folder: gets `per_query.tsv`, and `results.json` in DPR's form if the
        config wants it.
      found: the ranking.
      by_query: metric -> query id -> value.
    """
    try:
      per_query.write(folder / report.PER_QUERY,
                      self._results(found, by_query), list(by_query))
    except errors.UserError as e:
      logging.warning('%s: no per_query.tsv is written: %s', folder, e)
    if self.config.dpr_results:
      dpr_results.write(folder / 'results.json', self._dpr_results(found),
                        self.config.answer_rule)

  def _results(
      self, found: hits.Hits, by_query: Mapping[str, Mapping[str, float]]
  ) -> Iterator[per_query.Result]:
    prepared, positives = self.dataset.prepared, self._positive_rows
    for row, ranking in zip(self.query_rows.tolist(), found.rows, strict=True):
      query, right = prepared.queries[row], positives.get(row, set())
      ranks = [rank for rank, passage in enumerate(ranking.tolist(), start=1)
               if passage in right]
      first = int(ranking[0])
      yield per_query.Result(
          query.id, query.text, ranks[0] if ranks else None,
          prepared.passage_ids[first].decode() if first >= 0 else '',
          first in right, tuple(query.answers),
          {metric: values[query.id] for metric, values in by_query.items()
           if query.id in values},
      )

  def _dpr_results(self, found: hits.Hits) -> Iterator[dpr_results.Result]:
    prepared = self.dataset.prepared
    for row, ranking, scores in zip(
        self.query_rows.tolist(), found.rows, found.scores, strict=True
    ):
      query = prepared.queries[row]
      passages = [
          (prepared.passages[int(passage)], float(score))
          for passage, score in zip(ranking, scores, strict=True)
          if passage >= 0
      ]
      yield dpr_results.Result(query.text, query.answers, [
          dpr_results.Passage(passage.id, passage.title, passage.text, score)
          for passage, score in passages
      ])

  @functools.cached_property
  def _positive_rows(self) -> dict[int, set[int]]:
    """Passage rows of each query that has a positive."""
    rows: dict[int, set[int]] = {}
    is_positive = self.judgements.grades > 0
    for query, passage in zip(
        self.judgements.query_rows[is_positive].tolist(),
        self.judgements.passage_rows[is_positive].tolist(), strict=True,
    ):
      rows.setdefault(query, set()).add(passage)
    return rows

  @functools.cached_property
  def world_names(self) -> dict[str, str] | None:
    """The world of each query; None where there are no worlds."""
    prepared = self.dataset.prepared
    if not prepared.worlds:
      return None
    return {
        prepared.query_ids[row].decode():
            prepared.worlds[prepared.query_worlds[row]]
        for row in self.query_rows.tolist()
    }

  @functools.cached_property
  def qrels(self) -> dict[str, dict[str, int]]:
    """Grade of each judged passage, by query."""
    prepared = self.dataset.prepared
    qrels: dict[str, dict[str, int]] = {}
    for query, passage, grade in zip(
        self.judgements.query_rows, self.judgements.passage_rows,
        self.judgements.grades, strict=True,
    ):
      name = prepared.query_ids[query].decode()
      passage_id = prepared.passage_ids[passage].decode()
      qrels.setdefault(name, {})[passage_id] = int(grade)
    return qrels


def read_run(path: pathlib.Path) -> trec.Run:
  """A run file: TREC's, or Zeshel's candidates (.json).

  Raises:
    UserError: it is no such file.
  """
  is_json = files.plain_name(path).endswith('.json')
  return zeshel.read_candidates(path) if is_json else trec.read_run(path)


def read_runs(paths: Iterable[pathlib.Path]) -> trec.Run:
  """Run files of different queries as one.

  Raises:
    UserError: one is no run file, or a query is in two of them.
  """
  joined: trec.Run = {}
  for path in paths:
    run = read_run(path)
    repeated = next((query for query in run if query in joined), None)
    if repeated is not None:
      raise errors.UserError(
          f'{path}: query "{repeated}" was in a run file before; name files of '
          'different queries'
      )
    joined.update(run)
  return joined


def folder_of(
    workdir: pathlib.Path,
    config: config_lib.DataConfig,
    split: str,
    system: str,
) -> pathlib.Path:
  """Where the evaluation of a system lies."""
  name = dataset_lib.name_of(config)
  return workdir / 'evaluation' / f'{name}-{split}-{system}'


def evaluation_step(
    system: str,
    config: config_lib.DataConfig,
    workdir: pathlib.Path,
    evaluation: Callable[[], Evaluation],
    split: str,
    identity: Callable[[], dict[str, Any]],
    search: Callable[[np.ndarray], Searched],
    share: Callable[[], object] = plan.nothing,
) -> plan.Step:
  """The step that evaluates one system and writes run, metrics and manifest.

  Args:
    system: its name in `metrics.json`.
    config: names the data set.
    workdir: of the job.
    evaluation: makes the evaluation; not called before the step runs.
    split: name of the split.
    identity: what the result depends on; an older result is kept if equal.
    search: query rows -> what was found.
    share: what several processes divide before, such as encoding.
  """
  name = dataset_lib.name_of(config)
  folder = folder_of(workdir, config, split, system)

  def is_done() -> bool:
    manifest = artifacts.read_manifest(folder)
    return manifest is not None and manifest['identity'] == identity()

  def run() -> None:
    task = evaluation()
    searched = search(task.query_rows)
    ranked = task.run_of(searched.found)
    scores = task.score(ranked, searched.found)
    manifest = {
        'identity': identity(),
        'key': f'{name}/{split}/{system}',
        'queries': len(task.query_rows),
        'passages': len(task.dataset.prepared.passages),
        'metrics': scores.mean,
        **({'worlds': scores.per_world} if task.dataset.prepared.worlds
           else {}),
        'index': searched.index,
        'environment': artifacts.environment(),
    }
    with artifacts.writing(folder, manifest) as scratch:
      try:
        trec.write_run(scratch / 'run.trec', ranked, system)
      except errors.UserError as e:
        logging.warning('%s: no run.trec is written: %s', folder, e)
      task.write_tables(scratch, searched.found, scores.per_query)

  return plan.Step(
      f'{system}', f'run and metrics of {system} on {split} in {folder}',
      is_done, run, share=share,
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
          if key in ('metrics', 'answer_ks', 'answer_rule', 'depth')
          or (key == 'dpr_results' and value)
      },
  }


def dense_identity(
    dataset: dataset_lib.Dataset,
    config: config_lib.Config,
    split: str,
    vectors: dict[str, Any],
) -> dict[str, Any]:
  """What the evaluation of a model depends on.

  Args:
    dataset: of the evaluation.
    config: of the job.
    split: name of the split.
    vectors: what a search of its vectors depends on.
  """
  settings = retriever_lib.index_settings(config, dataset.prepared)
  return {
      **data_identity(dataset, config, split),
      'embeddings': vectors,
      'index': 'exact' if settings is None else dataclasses.asdict(settings),
  }


def bm25_step(
    config: config_lib.Config,
    workdir: pathlib.Path,
    dataset: Callable[[], dataset_lib.Dataset],
    evaluation: Callable[[], Evaluation],
    split: str,
    index: Callable[[], Bm25Search] | None = None,
) -> plan.Step:
  """The step that evaluates BM25, with an index that is made for it or given.
  """
  make = index or (lambda: Bm25Search(config.evaluation, dataset()))
  return evaluation_step(
      'bm25', config.data, workdir, evaluation, split,
      identity=lambda: {
          **data_identity(dataset(), config, split),
          'k1': config.evaluation.bm25_k1,
          'b': config.evaluation.bm25_b,
      },
      search=lambda rows: Searched(
          make().search_rows(rows, config.evaluation.depth)
      ),
  )


def run_step(
    config: config_lib.Config,
    workdir: pathlib.Path,
    dataset: Callable[[], dataset_lib.Dataset],
    evaluation: Callable[[], Evaluation],
    split: str,
    path: pathlib.Path,
) -> plan.Step:
  """The step that evaluates a TREC run file, under the name of the file."""

  step = evaluation_step(
      run_name(path), config.data, workdir, evaluation, split,
      identity=lambda: {
          **data_identity(dataset(), config, split),
          'run': artifacts.sha256_file(path),
      },
      search=lambda _: Searched(evaluation().read(path)),
  )
  return dataclasses.replace(step, missing=lambda: missing_run(path))


def run_name(path: pathlib.Path) -> str:
  """The system of a run file, after its name."""
  return path.name.removesuffix('.gz').rpartition('.')[0] or path.name


def missing_run(path: pathlib.Path) -> str | None:
  """What is wrong with the place of a run file."""
  return None if path.is_file() else f'{path}: no such file'


def gather(
    workdir: pathlib.Path, dataset: dataset_lib.Dataset, say: bool = True
) -> dict[str, float]:
  """Writes `metrics.json` from all evaluations of a workdir, and prints it.

  Where a split has several systems, `significance-<dataset>-<split>.tsv` holds
  the differences of all pairs. Where a data set has worlds,
  `worlds-<dataset>-<split>.tsv` holds the means of each.

  Args:
    workdir: of the job.
    dataset: what was found in an older state of it is left out.
    say: whether to print.

  Returns:
    `<dataset>/<split>/<system>/<metric>` -> value.
  """
  values: dict[str, float] = {}
  recalls: list[str] = []
  tables: dict[str, dict[str, dict[str, float]]] = {}
  by_query: dict[str, dict[str, dict[str, dict[str, float]]]] = {}
  worlds: dict[str, dict[str, dict[str, dict[str, float]]]] = {}
  for folder, manifest in report.read_evaluations(workdir, dataset):
    group, _, system = manifest['key'].rpartition('/')
    title = (f'{group}: {manifest["queries"]} queries, '
             f'{manifest["passages"]} passages')
    tables.setdefault(title, {})[system] = manifest['metrics']
    if (folder / report.PER_QUERY).exists():
      by_query.setdefault(group, {})[system] = per_query.read(
          folder / report.PER_QUERY
      )
    for name, value in manifest['metrics'].items():
      values[f'{manifest["key"]}/{name}'] = value
    if 'worlds' in manifest:
      worlds.setdefault(group, {})[system] = manifest['worlds']
    if manifest['index'].get('kind') == 'scann':
      recalls.append(f'{manifest["key"]}: ScaNN found '
                     f'{manifest["index"]["recall"]:.4f} of what exact search '
                     f'finds in the top {manifest["index"]["depth"]}')
  artifacts.write_json(workdir / 'metrics.json', values)
  for group, systems in by_query.items():
    if len(systems) > 1:
      significance.write(
          workdir / f'significance-{group.replace("/", "-")}.tsv',
          significance.compare(systems),
      )
  for group, of_systems in worlds.items():
    linking.write_worlds(
        workdir / f'worlds-{group.replace("/", "-")}.tsv', of_systems
    )
  for title, rows in tables.items() if say else ():
    print(f'\n{title}\n{metrics.format_table(rows)}')
  if recalls and say:
    print('\n'.join(recalls))
  return values


class EvaluateJob:
  """`job=evaluate`: any checkpoint, any source, beside BM25 and given runs."""

  def __init__(self, config: config_lib.Config, workdir: pathlib.Path):
    """Reads nothing yet."""
    self._config, self._workdir = config, workdir

  def steps(self) -> list[plan.Step]:
    """The plan.

    Raises:
      UserError: two systems have the same name.
    """
    config, workdir, split = (
        self._config, self._workdir, self._config.data.split
    )
    system = (
        'fusion_embedding' if model_lib.is_ensemble(config.checkpoint) else
        'trained' if model_lib.is_workdir(config.checkpoint) else 'initial'
    )
    dataset, evaluation = lambda: self._dataset, lambda: self._evaluation
    model = evaluation_step(
        system, config.data, workdir, evaluation, split,
        identity=lambda: dense_identity(
            self._dataset, config, split, self._vectors.search_identity
        ),
        search=lambda rows: search_dense(
            config, self._dataset, self._vectors,
            workdir / retriever_lib.FOLDER, rows,
        ),
        share=lambda: self._vectors.passage_vecs,
    )
    systems = [
        *([bm25_step(config, workdir, dataset, evaluation, split)]
          if config.evaluation.bm25 else []),
        *(run_step(config, workdir, dataset, evaluation, split, path)
          for path in map(pathlib.Path, config.evaluation.runs)),
        dataclasses.replace(
            model, missing=lambda: model_lib.missing(config.checkpoint)
        ),
    ]
    metrics.check_names(config.evaluation.metrics)
    names = collections.Counter(step.name for step in systems)
    name, count = names.most_common(1)[0]
    if count > 1:
      raise errors.UserError(
          f'config.evaluation.runs={config.evaluation.runs}: there would be '
          f'two systems called {name}, after the name of the file; rename one'
      )
    return [dataset_lib.preparation_step(config.data, dataset), *systems]

  def finish(self) -> None:
    """Writes and prints the numbers, and the report."""
    gather(self._workdir, self._dataset)
    vectors = self._vectors
    report.write_report(
        self._workdir, self._config, self._dataset,
        vectors.encoder.model if isinstance(vectors, embedder_lib.Embedder)
        else None,
    )

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
  def _vectors(self) -> retriever_lib.Vectors:
    return fused.load_vectors(
        self._config, self._dataset, self._config.checkpoint,
        self._workdir / retriever_lib.FOLDER,
    )
