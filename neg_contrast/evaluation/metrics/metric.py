"""What a metric is, and the ranking that it measures."""

import abc
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar

from jaxtyping import Int
from numpy import ndarray

JUDGEMENTS, ANSWERS, CANDIDATES = 'judgements', 'answers', 'candidates'
DOCUMENTS = 'documents'
"""What metrics may need."""

Run = Mapping[str, Iterable[tuple[str, float]]]
"""Query id → (passage id, score) pairs in any order."""


@dataclasses.dataclass(frozen=True)
class Answers:
  """The answers of queries, and the texts that may hold them.

  Attributes:
    query_ids: of each query.
    answers: strings, or patterns under the rule `regex`, of each query.
    rows: `[queries, depth] int`, corpus rows, best first; -1 where there are no
      more.
    text_of: the text of a row, without its title.
    rule: see `answers.has_answer`.
  """

  query_ids: Sequence[str]
  answers: Sequence[Sequence[str]]
  rows: Int[ndarray, 'queries depth']
  text_of: Callable[[int], str]
  rule: str = 'string'


@dataclasses.dataclass(frozen=True)
class Ranking:
  """A ranking, and what is known of its queries.

  Attributes:
    run: the ranking; passages are ordered by `trec.ranked`.
    judgements: query id → passage id → grade. Means are over these queries: one
      that the run does not have counts as not found.
    answers: makes them; None: none are known.
    candidates: makes what was ranked anew; None: the whole corpus was searched.
    worlds: of each query; None: all are of one.
    relevance_level: the least grade of a positive.
    documents: makes the names of documents, by passage, of all passages of the
      run and the judgements; None: none are known.
  """

  run: Run
  judgements: Mapping[str, Mapping[str, int]] = dataclasses.field(
      default_factory=dict
  )
  answers: Callable[[], Answers] | None = None
  candidates: Callable[[], Run] | None = None
  worlds: Mapping[str, str] | None = None
  relevance_level: int = 1
  documents: Callable[[], Mapping[str, str]] | None = None

  @property
  def known(self) -> set[str]:
    """Which needs of metrics it serves."""
    return {name for name, value in (
        (JUDGEMENTS, self.judgements or None), (ANSWERS, self.answers),
        (CANDIDATES, self.candidates), (DOCUMENTS, self.documents),
    ) if value is not None}


@dataclasses.dataclass(frozen=True)
class Asked:
  """A metric with its cut.

  Attributes:
    name: such as `accuracy@5`.
    form: such as `accuracy@k`, its name in the table.
    cut: such as 5; None where there is none.
  """

  name: str
  form: str
  cut: int | None = None


class Metric(abc.ABC):
  """A number for each query of a ranking; one object may serve several names.

  Attributes:
    needs: what must be known of the queries: of `JUDGEMENTS`, `ANSWERS`,
      `CANDIDATES` and `DOCUMENTS`. One that needs candidates is measured
      wherever there are some, whether a config asks for it or not.
    is_over_worlds: whether its mean is that of the worlds' means.
    less_is_better: whether a smaller mean is a better one.
    first_passage: for a metric `@k` that is 1 where the first passage of a kind
      is among the top k: that kind, for the report; else empty.
  """

  needs: ClassVar[tuple[str, ...]] = (JUDGEMENTS,)
  is_over_worlds: ClassVar[bool] = False
  less_is_better: ClassVar[bool] = False
  first_passage: ClassVar[str] = ''

  @abc.abstractmethod
  def values(
      self, ranking: Ranking, asked: Sequence[Asked]
  ) -> dict[str, dict[str, float]]:
    """Measures a ranking.

    Args:
      ranking: that serves all `needs`.
      asked: the names that configs ask for, each once.

    Returns:
      `Asked.name` → query id → value, for all of `asked`; a query on which a
      metric is not defined is left out.
    """
