"""Metrics of documents: a document counts by its best passage."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from neg_contrast.evaluation import trec
from neg_contrast.evaluation.metrics import metric, trec_eval

PREFIX = 'document_'
NAMES = tuple(PREFIX + name for name in trec_eval.MEASURES)


class Documents(metric.Metric):
  """`document_accuracy@k` and the like: those of `trec_eval`, of documents.

  A document has the rank of its first passage, counted in documents, and the
  highest grade of its judged passages. A passage whose document is not known is
  a document of its own. Where the top k passages are of few documents, fewer
  than k documents are ranked: `evaluation.depth` says how many passages are
  retrieved.
  """

  needs = (metric.JUDGEMENTS, metric.DOCUMENTS)

  def values(
      self, ranking: metric.Ranking, asked: Sequence[metric.Asked]
  ) -> dict[str, dict[str, float]]:
    """See `metric.Metric.values`."""
    assert ranking.documents is not None
    documents = ranking.documents()
    of_documents = dataclasses.replace(
        ranking,
        run={query: _first(ranking.run[query], documents)
             for query in ranking.judgements if query in ranking.run},
        judgements={query: _best(judged, documents)
                    for query, judged in ranking.judgements.items()},
    )
    plain = [dataclasses.replace(
        one, name=one.name.removeprefix(PREFIX),
        form=one.form.removeprefix(PREFIX),
    ) for one in asked]
    found = trec_eval.TrecEval().values(of_documents, plain)
    return {PREFIX + name: values for name, values in found.items()}


def _first(
    ranked: Iterable[tuple[str, float]], documents: Mapping[str, str]
) -> list[tuple[str, float]]:
  """Documents in the order of their first passages."""
  found = dict.fromkeys(
      documents[passage] for passage, _ in trec.ranked(ranked)
  )
  return [(name, float(len(found) - rank)) for rank, name in enumerate(found)]


def _best(
    judged: Mapping[str, int], documents: Mapping[str, str]
) -> dict[str, int]:
  """The highest grade of the passages of each document."""
  grades: dict[str, int] = {}
  for passage, grade in judged.items():
    name = documents[passage]
    grades[name] = max(grade, grades.get(name, grade))
  return grades
