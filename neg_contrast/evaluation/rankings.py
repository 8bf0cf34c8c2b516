"""Ranks the queries of a split, and scores the ranking."""

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Mapping

import numpy as np
from absl import logging

from neg_contrast import errors
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.evaluation import (
  metrics,
  query_tables,
  runs,
  trec,
)
from neg_contrast.evaluation.metrics import metric
from neg_contrast.retrieval import hits, own_passages
from neg_contrast.settings import config as config_lib


@dataclasses.dataclass(frozen=True)
class Evaluation:
  """Ranks a split's queries by any system, and scores the ranking.

  Attributes:
    config: metrics and depth.
    dataset: corpus and queries.
    judgements: of the split.
    candidates: makes what a system ranks anew, with rows as `query_rows`; None:
      systems search the whole corpus.
  """

  config: config_lib.EvaluationConfig
  dataset: dataset_lib.Dataset
  judgements: prepared_lib.Judgements
  candidates: Callable[[], hits.Hits] | None = None

  @functools.cached_property
  def query_rows(self) -> np.ndarray:
    """`[queries] int32`, the queries of the split."""
    return self.judgements.queries

  def run_of(self, found: hits.Hits) -> trec.Run:
    """Hits as a run with ids."""
    return runs.to_ids(found, self.query_rows, self.dataset.prepared)

  def hits_of(self, run: trec.Run) -> hits.Hits:
    """A run as rows: see `runs.to_rows`; without queries' own passages."""
    depth = self.config.depth
    found = runs.to_rows(
        run, self.query_rows, self.dataset.prepared,
        own_passages.depth_for(self.dataset, depth),
    )
    return own_passages.drop(self.dataset, self.query_rows, found, depth)

  def read(self, *paths: pathlib.Path) -> hits.Hits:
    """Run files as rows: TREC's, or Zeshel's candidates (.json).

    Args:
      *paths: of files for different queries.

    Raises:
      UserError: it is no such file, or does not fit the corpus and the split.
    """
    try:
      return self.hits_of(runs.read_runs(paths))
    except errors.UserError as e:
      raise errors.UserError(f'{", ".join(map(str, paths))}: {e}') from None

  def tuning_metrics(self) -> tuple[str, ...]:
    """The criterion of early stopping, and the metrics of the config.

    Raises:
      UserError: the criterion needs what the split does not have.
    """
    criterion, prepared = self.config.criterion, self.dataset.prepared
    known = {
        metric.JUDGEMENTS: bool(self.qrels),
        metric.CANDIDATES: self.candidates is not None,
        metric.DOCUMENTS: True,
        metric.ANSWERS: self._has_answers,
    }
    for need in metrics.parse(criterion).metric.needs:
      if not known[need]:
        raise errors.SettingError(
            'evaluation.criterion', criterion,
            f'needs {need}, which the tune split of '
            f'{prepared.manifest["spec"]} does not have; choose another '
            'metric, such as accuracy@1'
        )
    return tuple(dict.fromkeys((criterion, *self.config.metrics)))

  def score(
      self,
      run: trec.Run,
      found: hits.Hits,
      names: tuple[str, ...] | None = None,
  ) -> metrics.Scores:
    """Means, and values by query and world, of every metric of the config.

    Metrics of judgements are over the queries with judgements, those of
    answers over all queries of the split. Metrics that need what the split does
    not have are left out.

    Args:
      run: the ranking.
      found: the same as rows.
      names: metrics to take instead of `config.metrics`.

    Raises:
      UserError: the split has neither judgements nor anything else to measure.
    """
    names = self.config.metrics if names is None else names
    answered = tuple(f'answer_accuracy@{k}' for k in self.config.answer_ks)
    asked = *names, *answered, *self._candidate_metrics
    scores = metrics.score(self._ranking(run, found), asked)
    lacking = [name for name in asked if name not in scores.mean]
    if lacking and self.qrels:
      logging.warning(
          '%s: left out, since what they measure is not there (answers of '
          'queries, or candidates that are ranked anew)', ', '.join(lacking))
    if not self.qrels and not scores.mean:
      raise errors.UserError(
          f'{self.dataset.prepared.manifest["spec"]}: the split has answers '
          'but no judgements; measure answers with '
          f'--{errors.key("evaluation.answer_ks")}=1,5,20,100'
      )
    return scores

  @functools.cached_property
  def _has_answers(self) -> bool:
    """Whether any query of the split has some."""
    queries = self.dataset.prepared.queries
    return any(queries[int(row)].answers for row in self.query_rows)

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
    prepared = self.dataset.prepared
    query_tables.write_per_query(
        folder, prepared, self.judgements, found, by_query
    )
    if self.config.dpr_results:
      query_tables.write_dpr(folder, prepared, self.query_rows, found,
                             self.config.answer_rule)

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

  @property
  def _candidate_metrics(self) -> tuple[str, ...]:
    """Those that every ranking of candidates has: the accuracy of these too."""
    if self.candidates is None:
      return ()
    return (f'accuracy@{self.config.depth}',
            *metrics.names_with(metric.CANDIDATES))

  def _ranking(self, run: trec.Run, found: hits.Hits) -> metric.Ranking:
    given = self.candidates
    return metric.Ranking(
        run,
        self.qrels,
        functools.partial(self._answers, found) if self._has_answers else None,
        None if given is None else lambda: self.run_of(given()),
        self.world_names,
        documents=functools.partial(self._documents, found),
    )

  def _documents(self, found: hits.Hits) -> dict[str, str]:
    """Passage id → name of its document, of what is found or judged."""
    prepared, numbers = self.dataset.prepared, self.dataset.documents
    rows = np.union1d(found.rows[found.rows >= 0],
                      self.judgements.passage_rows)
    ids = {int(row): prepared.passage_ids[int(row)].decode() for row in rows}
    return {name: f'document {numbers[row]}' if numbers[row] >= 0
                  else f'passage {name}' for row, name in ids.items()}

  def _answers(self, found: hits.Hits) -> metric.Answers:
    prepared = self.dataset.prepared
    queries = [prepared.queries[int(row)] for row in self.query_rows]
    return metric.Answers(
        [query.id for query in queries],
        [query.answers for query in queries],
        found.rows,
        lambda row: prepared.passages[row].text,
        self.config.answer_rule,
    )
