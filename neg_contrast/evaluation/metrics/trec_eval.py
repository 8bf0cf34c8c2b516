"""Metrics of judgements, computed by trec_eval (through pytrec_eval)."""

from collections.abc import Mapping, Sequence

from neg_contrast.evaluation import trec
from neg_contrast.evaluation.metrics import metric

MEASURES = {
    'accuracy@k': 'success_{k}',
    'recall@k': 'recall_{k}',
    'precision@k': 'P_{k}',
    'ndcg@k': 'ndcg_cut_{k}',
    # trec_eval has no cut: 1/rank falls below 1/k where rank exceeds k.
    'mrr@k': 'recip_rank',
    'mrr': 'recip_rank',
    'map': 'map',
}
"""Our names, and the measures of trec_eval that hold their values."""


class TrecEval(metric.Metric):
  """`accuracy@k` (a positive in the top k), `ndcg@k`, `mrr@k` and the like.

  As `trec_eval -c`, means are over all queries of the judgements: one that the
  run does not have, or without any positive, has 0 in every metric. Without
  -c, trec_eval averages over the queries that both have. Queries that only the
  run has are ignored. The gain of `ndcg@k` is the grade, whatever the relevance
  level; `mrr@k` is 0 when the first positive is below k.
  """

  def values(
      self, ranking: metric.Ranking, asked: Sequence[metric.Asked]
  ) -> dict[str, dict[str, float]]:
    """See `metric.Metric.values`; one pass of trec_eval measures all."""
    measures = {one.name: MEASURES[one.form].format(k=one.cut)
                for one in asked}
    measured = _measure(ranking, set(measures.values()))
    found: dict[str, dict[str, float]] = {}
    for one in asked:
      least = 1 / one.cut if one.form == 'mrr@k' and one.cut else 0.0
      of_queries = {
          query: measured.get(query, {}).get(measures[one.name], 0.0)
          for query in ranking.judgements
      }
      found[one.name] = {query: value if value >= least else 0.0
                         for query, value in of_queries.items()}
    return found


def _measure(
    ranking: metric.Ranking, measures: set[str]
) -> Mapping[str, Mapping[str, float]]:
  """Query → measure → value, for the queries that both sides have.

  Known negatives have grade 0: these measures tell no grades below 1 apart, and
  trec_eval keeps some negative numbers for itself, of which it may crash.
  """
  import pytrec_eval

  evaluator = pytrec_eval.RelevanceEvaluator(
      {query: {passage: max(grade, 0) for passage, grade in judged.items()}
       for query, judged in ranking.judgements.items()},
      measures,
      ranking.relevance_level,
  )
  return evaluator.evaluate({
      query: _distinct_scores(trec.ranked(ranking.run[query]))
      for query in ranking.judgements if query in ranking.run
  })


def _distinct_scores(ranking: trec.Ranking) -> dict[str, float]:
  """n, n - 1, ..., 1: no ties are left for a library to break its own way."""
  return {
      passage: float(len(ranking) - i)
      for i, (passage, _) in enumerate(ranking)
  }
