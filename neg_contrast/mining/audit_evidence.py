"""Gathers the evidence of an audit: looks at every candidate of a pool."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from neg_contrast import progress
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import examples
from neg_contrast.mining import (
  analysis,
  false_negatives,
  filters,
  label_share,
  related_queries,
  strategies,
)
from neg_contrast.mining import texts as texts_lib
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.retrieval import vectors as vectors_lib

RANDOM = 50
"""Random passages for a query."""

_AT_ONCE = 64  # 64 × 600 × 384 float32 are 59 MB.
_TWINS = 10  # Passages of twins that are read for a query.


@dataclasses.dataclass(frozen=True)
class Gathered:
  """Evidence by source, that of random passages, and other numbers."""

  sources: dict[str, false_negatives.Evidence]
  random: false_negatives.Evidence
  facts: dict[str, Any]


class Gatherer:
  """Looks at every candidate; memory holds 20 bytes of each."""

  def __init__(
      self,
      dataset: dataset_lib.Dataset,
      split: str,
      pool: pool_lib.Pool,
      judge: vectors_lib.Vectors,
      answer_rule: str,
  ):
    """Encodes the corpus and the queries, and finds related queries.

    Args:
      dataset: whose candidates these are.
      split: of the queries.
      pool: unfiltered candidates.
      judge: compares candidates with positives.
      answer_rule: `string` or `regex`.
    """
    prepared, rows = dataset.prepared, pool.query_rows
    self._prepared, self._pool, self._rule = prepared, pool, answer_rule
    self._known = examples.known_positives(prepared)
    self._passage_vecs = judge.passage_vecs
    self._query_vecs = judge.query_vecs(rows)
    self._answers = [prepared.queries[int(row)].answers for row in rows]
    judgements = prepared.judgements(split)
    self._positives = judgements.select(judgements.grades > 0)
    about = prepared, rows, self._positives, self._known
    self._labelling = labelling_of(pool)
    self._twins = related_queries.find_twins(*about)
    self._others = related_queries.find_others(*about, self._passage_vecs)

  def gather(self) -> Gathered:
    """All evidence."""
    pool, sources, facts = self._pool, {}, self._facts()
    passages = len(self._prepared.passages)
    for number, name in enumerate(pool.sources):
      columns = np.flatnonzero(pool.source[0] == number)
      rows = np.asarray(pool.rows[:, columns])
      is_positive = pool.dropped_by[:, columns] == pool_lib.code('positive')
      if strategies.is_ranked(name):
        facts['accuracy'][name] = {
            f'@{k}': float(is_positive[:, :k].any(axis=1).mean())
            for k in (1, 5, 20)
        }
      if name == 'context':
        facts['context'] = _context_facts(rows, is_positive, passages)
      own = np.asarray(pool.positive_scores[:, number])[:, None]
      with np.errstate(invalid='ignore', divide='ignore'):
        relative = (pool.score[:, columns] - own) / np.abs(own)
      evidence = self._look(
          name, np.where(rows < passages, rows, -1), ~is_positive, relative
      )
      sources[name] = self._believe(evidence, columns)
    random = self._look_at_random()
    facts['random_above'] = false_negatives.mean(
        random.difference > 0, random.exists
    )
    return Gathered(sources, random, facts)

  def _believe(self, evidence, columns) -> false_negatives.Evidence:
    """With verdicts, if there are some; those of random passages are nan."""
    verdicts = self._pool.verdicts
    if verdicts is None or self._labelling is None:
      return evidence
    scores = np.full(evidence.exists.shape, np.nan, np.float32)
    if columns is not None:
      scores[:] = verdicts.logit[:, columns]
    return dataclasses.replace(
        evidence, believed=self._labelling.believed(scores))

  def _look_at_random(self) -> false_negatives.Evidence:
    query_rows = self._pool.query_rows
    rows = np.random.default_rng(0).integers(
        len(self._prepared.passages), size=(len(query_rows), RANDOM),
        dtype=np.int32,
    )
    groups = self._prepared.passage_groups[rows]
    is_positive = (
        groups[:, :, None] == self._known[query_rows][:, None, :]
    ).any(axis=2)
    return self._believe(self._look(
        'random', rows, ~is_positive, np.full(rows.shape, np.nan)
    ), None)

  def _look(self, name, rows, usable, relative) -> false_negatives.Evidence:
    """The evidence of `[queries, depth]` passage rows; -1 pads."""
    groups = self._prepared.passage_groups[np.maximum(rows, 0)]
    exists = (rows >= 0) & usable
    exists &= ~filters.repeated(groups, exists)
    on_progress = progress.Ticker(f'looking at {name}', len(rows))
    parts = []
    for begin in range(0, len(rows), _AT_ONCE):
      lines = slice(begin, min(begin + _AT_ONCE, len(rows)))
      parts.append(self._look_at(lines, rows[lines], exists[lines],
                                 relative[lines]))
      on_progress(lines.stop)
    return false_negatives.Evidence(exists, *(
        np.concatenate(values) for values in zip(*parts, strict=True)
    ))

  def _look_at(self, lines, rows, exists, relative):
    """The fields of `Evidence` after `exists`, of some queries."""
    others = self._others[lines]
    has_other = (others >= 0)[:, None]
    groups = self._prepared.passage_groups[np.maximum(rows, 0)]
    theirs = np.where(has_other, self._known[np.maximum(others, 0)], -1)
    compared = exists & has_other & ~(
        groups[:, :, None] == theirs[:, None, :]
    ).any(axis=2)
    answer = self._holds(self._answers[lines], rows, exists)
    chance = self._holds([
        self._prepared.queries[int(row)].answers if row >= 0 else ()
        for row in others
    ], rows, compared)
    known = self._known[self._pool.query_rows[lines]]
    copy = analysis.near_copies(self._passage, known, rows, exists)
    twin = exists & np.array([
        np.isin(of_query, twins)
        for of_query, twins in zip(groups, self._twins[lines], strict=True)
    ])
    query_vecs = self._query_vecs[lines]
    scores, own = (
        np.einsum('qd,qsd->qs', query_vecs,
                  self._passage_vecs[np.maximum(these, 0)])
        for these in (rows, known)
    )
    own = np.where(known >= 0, own, -np.inf).max(axis=1, keepdims=True)
    difference = np.where(exists, scores - own, 0).astype(np.float32)
    return (answer, chance, compared, copy, twin, difference,
            relative.astype(np.float32))

  def _holds(self, answers: Sequence[Sequence[str]], rows, where):
    return texts_lib.find_answers(
        self._prepared.passages.some, answers, rows, where, self._rule
    )

  @functools.lru_cache(maxsize=32768)  # noqa: B019
  def _passage(self, row: int):
    return self._prepared.passages[row]

  def _facts(self) -> dict[str, Any]:
    """What else to know of the data."""
    pool, prepared = self._pool, self._prepared
    known = self._known[pool.query_rows]
    counts = (known >= 0).sum(axis=1)
    answered = np.array([bool(some) for some in self._answers])
    in_positive = self._holds(self._answers, known, known >= 0).any(axis=1)
    users = np.bincount(self._positives.passage_rows,
                        minlength=len(prepared.passages))
    groups = prepared.passage_groups
    return {
        'queries': len(pool), 'passages': len(prepared.passages),
        'answer_rule': self._rule,
        'positives_per_query': float(counts.mean()),
        'most_positives': int(counts.max()),
        'queries_per_used_passage': float(users[users > 0].mean()),
        'copied_passages': float(np.mean(
            np.bincount(groups, minlength=len(groups))[groups] > 1
        )),
        'queries_with_answers': float(answered.mean()),
        'answer_in_positive': float(in_positive[answered].mean())
                              if answered.any() else None,
        **self._twin_facts(answered),
        'accuracy': {},
        'labelled': self._labelling.share if self._labelling else None,
        'cross_encoder': (pool.verdicts.facts['model'] if pool.verdicts
                          else None),
    }

  def _twin_facts(self, answered: np.ndarray) -> dict[str, Any]:
    """How often twins' positives hold the answer of the query."""
    has_twins = np.array([bool(twins) for twins in self._twins])
    rows = np.full((len(self._pool), _TWINS), -1, np.int32)
    for line, some in enumerate(self._twins):
      rows[line, :len(some[:_TWINS])] = some[:_TWINS]
    both = answered & has_twins
    holds = self._holds(self._answers, rows, rows >= 0)
    return {
        'queries_with_twins': float(has_twins.mean()),
        'answer_in_twins': false_negatives.mean(holds[both], rows[both] >= 0),
        'twin_queries_with_answers': int(both.sum()),
    }


def labelling_of(pool: pool_lib.Pool) -> label_share.Labelling | None:
  """What the verdicts on a pool say of labels.

  A passage that several sources propose to a query counts once. None: nobody
  judged the pool, or the judge's scores say nothing of labels.
  """
  if pool.verdicts is None:
    return None
  scores = np.asarray(pool.verdicts.logit)
  lines, columns = np.nonzero(np.isfinite(scores))
  pairs = np.stack([lines, pool.rows[lines, columns]], axis=1)
  _, first = np.unique(pairs, axis=0, return_index=True)
  chosen = lines[first], columns[first]
  return label_share.fit(
      scores[chosen], pool.dropped_by[chosen] == pool_lib.code('positive'))


def _context_facts(rows, is_positive, passages) -> dict[str, float]:
  whole = ((rows >= 0) & (rows < passages) & ~is_positive).sum(axis=1)
  halves = (rows >= passages).any(axis=1)
  return {
      **{f'at_least_{n}': float((whole >= n).mean()) for n in (1, 2, 10)},
      'halves': float(halves.mean()),
      'none': float(((whole == 0) & ~halves).mean()),
  }
