"""Whether a text near the top holds an answer (DPR's top-k accuracy)."""

from collections.abc import Callable, Sequence

from jaxtyping import Int
from numpy import ndarray

from neg_contrast.data import answers as answer_rule
from neg_contrast.evaluation.metrics import metric


class AnswerAccuracy(metric.Metric):
  """1 where an answer is found in the top k passages, else 0.

  A text is asked for only until the first hit of its query, and never below
  the largest k.
  """

  needs = (metric.ANSWERS,)
  first_passage = 'passage that holds an answer'

  def values(
      self, ranking: metric.Ranking, asked: Sequence[metric.Asked]
  ) -> dict[str, dict[str, float]]:
    """See `metric.Metric.values`; all queries have a value.

    Raises:
      UserError: an answer pattern backtracks without end.
      ValueError: rows and answers differ in number, or a k exceeds the depth.
    """
    assert ranking.answers is not None
    known = ranking.answers()
    if len(known.rows) != len(known.answers):
      raise ValueError(
          f'{len(known.rows)} rankings but answers of {len(known.answers)}'
      )
    cuts = {one.name: one.cut or 0 for one in asked}
    deepest = max(cuts.values(), default=0)
    if deepest > known.rows.shape[1]:
      raise ValueError(
          f'k = {deepest} is beyond the depth {known.rows.shape[1]}'
      )
    first_hits = {
        query: _first_hit(rows[:deepest], known.text_of, answers, known.rule)
        for query, rows, answers in zip(
            known.query_ids, known.rows, known.answers, strict=True
        )
    }
    return {
        name: {query: float(hit < cut) for query, hit in first_hits.items()}
        for name, cut in cuts.items()
    }


def _first_hit(
    ranking: Int[ndarray, 'depth'],
    text_of: Callable[[int], str],
    answers: Sequence[str],
    rule: str,
) -> int:
  """The position of the first passage with an answer; len(ranking) if none."""
  for position, row in enumerate(ranking.tolist()):
    if row >= 0 and answer_rule.has_answer(text_of(row), answers, rule):
      return position
  return len(ranking)
