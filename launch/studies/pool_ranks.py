"""Rank of the positive in a fixed pool: finer than accuracy.

Accuracy changes only when a positive enters the first k passages. Its rank
among a few hundred fixed passages changes with every score.
"""

import pathlib
from collections.abc import Mapping, Sequence

from neg_contrast import api
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.evaluation import trec

NAME = 'mean rank'
_DEPTH = 100  # Passages of a ranking that enter the pool.


class Pool:
  """Passages of each query, the same for all models."""

  def __init__(
      self,
      corpus: prepared_lib.Prepared,
      split: str,
      rankings: Sequence[pathlib.Path],
  ):
    """Reads the rankings.

    Args:
      corpus: with the queries of `split`.
      split: whose positives are ranked.
      rankings: TREC run files.
    """
    self._corpus = corpus
    judged = corpus.judgements(split)
    is_positive = judged.grades > 0
    self._positives: dict[int, set[int]] = {}
    for query, passage in zip(judged.query_rows[is_positive],
                              judged.passage_rows[is_positive], strict=True):
      self._positives.setdefault(int(query), set()).add(int(passage))
    runs = [trec.read_run(path) for path in rankings]
    self._others = {
        query: sorted({
            row
            for run in runs
            for name in _first(run, corpus.query_ids[query].decode())
            if (row := corpus.passage_ids.row_of(name)) is not None
        } - positives)
        for query, positives in self._positives.items()
    }

  def ranks(self, checkpoint: str | pathlib.Path) -> dict[str, float]:
    """Query id -> rank, from 1, of its best positive by a trained model."""
    encoder = api.load_encoder(str(checkpoint))
    queries, passages = self._corpus.queries, self._corpus.passages
    rows = sorted(set().union(*self._positives.values(),
                              *self._others.values()))
    place = {row: at for at, row in enumerate(rows)}
    passage_vecs = encoder.encode_passages([passages[row] for row in rows])
    query_vecs = encoder.encode_queries(
        [queries[row].text for row in self._others]
    )
    ranks = {}
    for vec, (query, others) in zip(query_vecs, self._others.items(),
                                    strict=True):
      own, rest = (
          passage_vecs[[place[row] for row in part]] @ vec
          for part in (sorted(self._positives[query]), others)
      )
      name = self._corpus.query_ids[query].decode()
      ranks[name] = 1.0 + float((rest > own.max()).sum())
    return ranks


def _first(run: Mapping[str, Sequence[tuple[str, float]]], query: str):
  return [name for name, _ in run.get(query, ())[:_DEPTH]]
