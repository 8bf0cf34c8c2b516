"""`run`: the first passages of run files, by whatever system wrote them."""

import dataclasses
import math
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Int

from neg_contrast import errors
from neg_contrast.artifacts import folders, places
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import examples
from neg_contrast.evaluation import runs
from neg_contrast.mining import candidates
from neg_contrast.mining.strategies import strategy


@dataclasses.dataclass(frozen=True)
class RunMiner:
  """Proposes the first passages of a run.

  Attributes:
    run: (passage id, score) pairs of each query id, best first.
    dataset: whose passages and queries these are.
    positives: groups of the known positives of all queries.
    depth: of the candidates.
    worlds: whose passages may be candidates; None: of all, or there are none.
  """

  run: Mapping[str, Sequence[tuple[str, float]]]
  dataset: dataset_lib.Dataset
  positives: examples.Positives
  depth: int
  worlds: frozenset[int] | None = None

  def mine(
      self, queries: Int[np.ndarray, ' queries']
  ) -> candidates.Candidates:
    """The candidates of some queries.

    The score of a query's best positive is that of the run; nan where the run
    does not rank any.

    Raises:
      UserError: a passage is not in the corpus.
    """
    rankings = [self._ranking(int(query)) for query in queries]
    found = candidates.listed(
        [rows for rows, _, _ in rankings],
        [scores for _, scores, _ in rankings], self.depth,
    )
    return dataclasses.replace(found, positive_scores=np.array(
        [positive for _, _, positive in rankings], np.float32
    ))

  def _ranking(self, query: int) -> tuple[list[int], list[float], float]:
    """First rows and their scores, and the score of the best positive."""
    rows: list[int] = []
    scores: list[float] = []
    positive = math.nan
    prepared, owns = self.dataset.prepared, self.dataset.own_passages
    own = -1 if owns is None else int(owns[query])
    known = set(self.positives[query].tolist())
    for name, score in self.run.get(prepared.query_ids[query].decode(), ()):
      if len(rows) == self.depth and not math.isnan(positive):
        break
      row = self._row_of(name)
      if row == own or not self._is_in_world(row):
        continue
      if math.isnan(positive) and int(prepared.passage_groups[row]) in known:
        positive = score
      if len(rows) < self.depth:
        rows.append(row)
        scores.append(score)
    return rows, scores, positive

  def _is_in_world(self, row: int) -> bool:
    return (self.worlds is None
            or int(self.dataset.prepared.passage_worlds[row]) in self.worlds)

  def _row_of(self, name: str) -> int:
    prepared = self.dataset.prepared
    row = prepared.passage_ids.row_of(name)
    if row is None:
      raise errors.UserError(
          f'{errors.key("negatives.runs")}: passage "{name}" is not in '
          f'{prepared.manifest["spec"]}; give the corpus that the run was made '
          'with'
      )
    return row


class Run(strategy.Strategy):
  """Candidates that another system ranked."""

  name = 'run'
  is_ranked = True
  reads = ('runs',)

  @property
  def _paths(self) -> list[pathlib.Path]:
    return list(map(places.path, self.task.runs))

  def lacks(self):
    """The first file that is not there."""
    missing = map(runs.missing_run, self._paths)
    return next((lack for lack in missing if lack), None)

  def settings(self):
    """The bytes of the files, and whose passages of worlds are candidates."""
    read = [folders.sha256_file(path) for path in self._paths]
    has_worlds = bool(self.task.data.load().prepared.worlds)
    return {'runs': read,
            **({'worlds': 'of the queries'} if has_worlds else {})}

  def proposer(self, task):
    """Reads the files; passages of other worlds than the queries' are left out.

    Raises:
      UserError: they rank nothing for any query that is mined for.
    """
    run, prepared = runs.read_runs(self._paths), task.dataset.prepared
    if not any(prepared.query_ids[int(row)].decode() in run
               for row in task.query_rows):
      raise errors.UserError(
          f'{errors.key("negatives.runs")}: {", ".join(map(str, self._paths))} '
          f'ranks no query of the split "{self.task.split}" of '
          f'{prepared.manifest["spec"]}; give runs of its queries'
      )
    worlds = None if task.among is None else frozenset(
        prepared.query_worlds[task.query_rows].tolist()
    )
    return strategy.Proposer(RunMiner(
        run, task.dataset, task.positives, self.task.depth, worlds,
    ))
