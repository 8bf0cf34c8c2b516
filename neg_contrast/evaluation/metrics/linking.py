"""Accuracies of entity linking in two stages: a retriever, then a reranker.

Logeswaran et al., 2019; Zhang and Stratos, 2021, section 6.1.
"""

from collections.abc import Sequence

from neg_contrast.evaluation import trec
from neg_contrast.evaluation.metrics import metric

UNNORMALIZED, NORMALIZED = 'unnormalized_accuracy', 'normalized_accuracy'
NAMES = (UNNORMALIZED, NORMALIZED)


class Linking(metric.Metric):
  """Whether the first entity is right, after candidates were ranked anew.

  Unnormalised accuracy is over all mentions; one without candidates is wrong.
  Normalised accuracy is over those whose entity is among the candidates of the
  retriever, so that it is the reranker's alone: a world in which no entity was
  found has none, and is left out of its mean, which is 0 if there are no
  others.
  """

  needs = (metric.JUDGEMENTS, metric.CANDIDATES)
  is_over_worlds = True

  def values(
      self, ranking: metric.Ranking, asked: Sequence[metric.Asked]
  ) -> dict[str, dict[str, float]]:
    """See `metric.Metric.values`; values are 0 or 1.

    Raises:
      ValueError: a reranked entity is no candidate.
    """
    assert ranking.candidates is not None
    candidates = ranking.candidates()
    found, right = {}, {}
    for mention, judged in ranking.judgements.items():
      given = {name for name, _ in candidates.get(mention, ())}
      reranked = trec.ranked(ranking.run.get(mention, ()))
      strange = next((name for name, _ in reranked if name not in given), None)
      if strange is not None:
        raise ValueError(
            f'mention {mention!r}: {strange!r} is reranked and not among the '
            f'{len(given)} candidates'
        )
      gold = {name for name, grade in judged.items() if grade > 0}
      found[mention] = bool(gold & given)
      right[mention] = float(bool(reranked) and reranked[0][0] in gold)
    values = {
        UNNORMALIZED: right,
        NORMALIZED: {mention: value for mention, value in right.items()
                     if found[mention]},
    }
    return {one.name: values[one.form] for one in asked}
