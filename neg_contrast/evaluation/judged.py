"""The queries of a split, and systems that rank passages for them."""

import abc
import dataclasses
import pathlib
from typing import Any

from neg_contrast import errors
from neg_contrast.artifacts import artifact, folders
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.evaluation import metrics, rankings, runs
from neg_contrast.evaluation.metrics import metric
from neg_contrast.retrieval import (
  bm25_search,
  own_passages,
  search_settings,
  searched,
)
from neg_contrast.settings import config as config_lib


@dataclasses.dataclass(frozen=True)
class Judged:
  """Queries of a split, and how rankings of theirs are measured.

  Attributes:
    data: corpus, queries and judgements.
    split: name of the judgements.
    config: metrics and depth.
    is_apart: whether they must not share queries with the tune split.
  """

  data: artifact.Artifact
  split: str
  config: config_lib.EvaluationConfig
  is_apart: bool = False

  @property
  def dataset(self) -> dataset_lib.Dataset:
    """Corpus and queries."""
    return self.data.load()

  @property
  def judgements(self) -> prepared_lib.Judgements:
    """Those of the split.

    Raises:
      UserError: there is no such split; it has negatives alone; or tuning has
        seen its queries.
    """
    dataset = self.dataset
    judgements = (dataset.apart(self.split) if self.is_apart
                  else dataset.prepared.judgements(self.split))
    grades = judgements.grades
    if len(grades) and not (grades > 0).any() and not self.config.answer_ks:
      raise errors.UserError(
          f'{dataset.prepared.manifest["spec"]}: all grades of the split '
          f'"{self.split}" are 0 or less, known negatives; without positives '
          'every metric is 0')
    return judgements

  def open(self) -> rankings.Evaluation:
    """What ranks and scores them; raises as `judgements`."""
    return rankings.Evaluation(self.config, self.dataset, self.judgements)

  def settings(self) -> dict[str, Any]:
    """What an evaluation of theirs depends on, beside data and system."""
    config = self.config
    return {
        'split': self.split,
        **{key: getattr(config, key)
           for key in ('metrics', 'answer_ks', 'answer_rule', 'depth')},
        **self._documents(),
        **({'dpr_results': True} if config.dpr_results else {}),
    }


  def _documents(self) -> dict[str, str]:
    """What documents are, where a metric is of them."""
    is_asked = any(metric.DOCUMENTS in metrics.parse(name).metric.needs
                   for name in self.config.metrics)
    return self.dataset.documents_by if is_asked else {}


@dataclasses.dataclass(frozen=True)
class TuneJudged(Judged):
  """Queries of the tune split, which may be a part of the train split.

  Attributes:
    is_apart: whether they must not share queries with the test split.
  """

  split: str = dataclasses.field(default='tune', init=False)

  @property
  def judgements(self) -> prepared_lib.Judgements:
    """Those that trainings and weights are tuned by."""
    dataset = self.dataset
    return (dataset.splits.tune if self.is_apart
            else dataset.train_and_tune[1])


@dataclasses.dataclass(frozen=True)
class Ranking(artifact.InMemory):
  """What a system finds for the queries of a split; loads as `Searched`.

  It is searched when it is loaded, by all processes together, and kept in
  memory; BM25 keeps its own on disk.

  Attributes:
    judged: the queries.
    system: name of the system, in plans and `metrics.json`.
  """

  judged: Judged
  system: str

  @property
  def name(self) -> str:
    """That of the system."""
    return self.system

  def describe(self) -> str:
    """Whose, and of what."""
    return f'ranking of {self.name} on {self.judged.split}'

  def needs(self) -> dict[str, artifact.Artifact]:
    """Passages and queries."""
    return {'texts': self.judged.data}

  def settings(self) -> dict[str, Any]:
    """What it depends on; subclasses add to the depth."""
    return {'depth': self.judged.config.depth}

  @abc.abstractmethod
  def read(self) -> searched.Searched:
    """Searches."""


@dataclasses.dataclass(frozen=True)
class Bm25Ranking(Ranking):
  """What BM25 finds.

  Attributes:
    index: of the corpus.
  """

  kind = 'ranking by BM25'
  index: bm25_search.Bm25

  def needs(self) -> dict[str, artifact.Artifact]:
    """Passages and queries, and the index."""
    return {**super().needs(), 'bm25': self.index}

  def read(self) -> searched.Searched:
    """Searches."""
    rows = self.judged.open().query_rows
    return searched.Searched(own_passages.search_rows(
        self.index.load(), self.judged.dataset, rows, self.judged.config.depth
    ))


@dataclasses.dataclass(frozen=True)
class RunRanking(Ranking):
  """What run files say.

  Attributes:
    paths: of files for different queries.
  """

  kind = 'ranking of a run'
  paths: tuple[pathlib.Path, ...]

  @property
  def identity(self) -> dict[str, Any] | None:
    """What it depends on; None also where a file is not there."""
    return None if self.lacks() else super().identity

  def lacks(self) -> str | None:
    """The first file that is not there."""
    lacks = map(runs.missing_run, self.paths)
    return next((lack for lack in lacks if lack), None)

  def settings(self) -> dict[str, Any]:
    """The bytes of the files."""
    return {**super().settings(),
            'runs': list(map(folders.sha256_file, self.paths))}

  def read(self) -> searched.Searched:
    """Reads the files."""
    return searched.Searched(self.judged.open().read(*self.paths))


@dataclasses.dataclass(frozen=True)
class DenseRanking(Ranking):
  """What is nearest by the vectors of a model, or of an ensemble.

  Attributes:
    vectors: load as `Vectors`.
    search: how they are searched.
    folder: keeps their index.
  """

  kind = 'ranking by vectors'
  vectors: artifact.Artifact
  search: search_settings.SearchSettings
  folder: pathlib.Path

  def needs(self) -> dict[str, artifact.Artifact]:
    """Passages and queries, and the vectors."""
    return {**super().needs(), 'vectors': self.vectors}

  def settings(self) -> dict[str, Any]:
    """The index."""
    prepared = self.judged.dataset.prepared
    return {**super().settings(),
            'index': self._search.index_identity(prepared)}

  def read(self) -> searched.Searched:
    """Searches."""
    return searched.search_dense(
        self._search, self.judged.dataset, self.vectors.load(), self.folder,
        self.judged.open().query_rows,
    )

  @property
  def _search(self) -> search_settings.SearchSettings:
    """For all queries of the split."""
    return self.search.of_queries(
        len(self.judged.judgements.queries), self.vectors.load().encoder.score
    )
