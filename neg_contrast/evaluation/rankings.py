"""Ranks the queries of a split, and scores the ranking."""

import dataclasses
import functools
import pathlib
from collections.abc import Iterator, Mapping

import numpy as np
from absl import logging

from neg_contrast import errors
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.evaluation import (
  dpr_results,
  metrics,
  per_query,
  runs,
  trec,
)
from neg_contrast.retrieval import hits
from neg_contrast.settings import config as config_lib


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
      return self.hits_of(runs.read_run(path))
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
      per_query.write(folder / per_query.FILE,
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
