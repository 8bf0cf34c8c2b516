"""What the page of a report shows."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from neg_contrast.data import statistics
from neg_contrast.report import figures, negatives_page


@dataclasses.dataclass(frozen=True)
class System:
  """What a system reached on a split.

  Attributes:
    name: of the system.
    folder: of its files, relative to the page.
    queries: how many were asked.
    passages: how many were searched.
    metrics: means, with their intervals.
    note: which model it is; empty: the name says it.
  """

  name: str
  folder: str
  queries: int
  passages: int
  metrics: Mapping[str, figures.Estimate]
  note: str = ''


@dataclasses.dataclass(frozen=True)
class Comparison:
  """The same queries, asked of two systems.

  Attributes:
    before: the system compared with.
    after: the system that should be better.
    queries: how many both have, by the first metric.
    metrics: means of after minus before by query, with their intervals.
    better: queries with a greater value of the first metric afterwards.
    worse: queries with a smaller one.
  """

  before: str
  after: str
  queries: int
  metrics: Mapping[str, figures.Estimate]
  better: int = 0
  worse: int = 0


@dataclasses.dataclass(frozen=True)
class Group:
  """All systems on a split.

  Attributes:
    name: `<dataset>/<split>`.
    systems: in the order they are shown.
    comparison: of two of them; None where there is one system only.
    pairs: (before, after) -> the first metric of every two, both ways.
  """

  name: str
  systems: tuple[System, ...]
  comparison: Comparison | None = None
  pairs: Mapping[tuple[str, str], Comparison] = dataclasses.field(
      default_factory=dict
  )


@dataclasses.dataclass(frozen=True)
class Place:
  """Where a ranking has a passage.

  Attributes:
    rank: from 1; None: nowhere.
    score: of the system; None: unknown.
  """

  rank: int | None = None
  score: float | None = None


@dataclasses.dataclass(frozen=True)
class ShownPassage:
  """A passage of a query that moved.

  Attributes:
    id: of the passage.
    title: may be empty.
    text: whole; None: there is no such passage in the corpus.
    roles: why it is shown.
    before: where the first system has it.
    after: where the second system has it.
    is_positive: whether it is judged so.
    has_answer: whether it holds one.
  """

  id: str
  title: str
  text: str | None
  roles: tuple[str, ...]
  before: Place
  after: Place
  is_positive: bool
  has_answer: bool


@dataclasses.dataclass(frozen=True)
class MovedQuery:
  """A query that two systems answer differently.

  Attributes:
    id: of the query.
    text: of the query.
    answers: strings that may be marked in the passages.
    before: where its first positive was, in words.
    after: where it is now.
    positives: how many it has.
    passages: the positive and both top passages, each once.
  """

  id: str
  text: str
  answers: tuple[str, ...]
  before: str
  after: str
  positives: int
  passages: tuple[ShownPassage, ...]


@dataclasses.dataclass(frozen=True)
class Moves:
  """The queries that moved most.

  Attributes:
    before: name of the first system.
    after: name of the second.
    what: what is ranked, such as "first positive passage".
    risen: the biggest gains.
    fallen: the biggest losses.
    risen_count: all that rose.
    fallen_count: all that fell.
    same_count: all that stayed.
    ranks: of all queries, before and after; None: not found.
  """

  before: str
  after: str
  what: str
  risen: tuple[MovedQuery, ...]
  fallen: tuple[MovedQuery, ...]
  risen_count: int
  fallen_count: int
  same_count: int
  ranks: tuple[tuple[int | None, int | None], ...] = ()


@dataclasses.dataclass(frozen=True)
class Training:
  """The record of a training run.

  Attributes:
    columns: name of a logged value -> (`[steps] int`, `[steps] float`).
    tune: metric -> the same, of evaluations on the tune split.
    best_step: the step whose checkpoint counts; None where none was evaluated.
    facts: what else there is to say.
    contrast: what the positives were up against; empty where nothing is known.
    bias: kind of negatives -> (`[steps] int`, `[steps] float`), norm of the
      bias of NCE's gradient; empty where it was not measured.
    refreshes: cost and effect of making negatives again; empty where that was
      not done.
    solved: (step, sentence) where negatives were found to teach nothing.
  """

  columns: Mapping[str, tuple[np.ndarray, np.ndarray]]
  tune: Mapping[str, tuple[np.ndarray, np.ndarray]]
  best_step: int | None
  facts: Mapping[str, str]
  contrast: negatives_page.Contrast = dataclasses.field(default_factory=dict)
  bias: Mapping[str, tuple[np.ndarray, np.ndarray]] = dataclasses.field(
      default_factory=dict
  )
  refreshes: negatives_page.Refreshes = negatives_page.NOT_REFRESHED
  solved: tuple[tuple[int, str], ...] = ()


@dataclasses.dataclass(frozen=True)
class Data:
  """What is known of the data.

  Attributes:
    corpus: the passages.
    splits: what each is used for, and its numbers.
    lengths: of `query` and `passage` inputs, where a model was at hand.
    skipped: unusable records by kind.
    repeated: records that repeat an earlier one of the same id.
  """

  corpus: statistics.Corpus
  splits: tuple[tuple[str, statistics.Split], ...]
  lengths: Mapping[str, statistics.Lengths]
  skipped: Mapping[str, int]
  repeated: int


@dataclasses.dataclass(frozen=True)
class Report:
  """All that the page shows.

  Attributes:
    job: `train`, `evaluate`, `mine` or `audit`.
    name: `<dataset>/<split>`.
    facts: what was run, a line each.
    made: when the newest evaluation was.
    groups: that of `name` first.
    moves: None where there is no pair of rankings with judgements or answers.
    training: None where nothing was trained here.
    data: the corpus and its splits.
    config: resolved, by section.
    defaults: the same keys; missing keys differ from everything.
    environment: versions and settings.
    negatives: None where there is no pool of them.
    tables: of a grid of trainings, as HTML.
    calibration: of a cross-encoder, as `evaluation.calibrated` has it; None:
      there is none.
    command: that ran it; empty: it was run from Python.
  """

  job: str
  name: str
  facts: Mapping[str, str]
  made: str
  groups: tuple[Group, ...]
  moves: Moves | None
  training: Training | None
  data: Data
  config: Mapping[str, Any]
  defaults: Mapping[str, Any]
  environment: Mapping[str, Any]
  negatives: negatives_page.Negatives | None = None
  tables: tuple[str, ...] = ()
  calibration: Mapping[str, Any] | None = None
  command: str = ''
