"""Queries to compare with in an audit: twins, and those on passages alike."""

import collections

import numpy as np
from jaxtyping import Int

from neg_contrast.data import examples, likeness
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.retrieval import vector_table

_DONORS = 20_000  # Queries whose answers are looked for in others' candidates.
_NEAREST = 50  # Donors to choose from, by likeness of the positive.


def find_twins(
    prepared: prepared_lib.Prepared,
    query_rows: Int[np.ndarray, ' queries'],
    positives: prepared_lib.Judgements,
    known: examples.Positives,
) -> list[list[int]]:
  """Finds positives of other queries that are asked in the same words.

  Args:
    prepared: the data.
    query_rows: `[queries] int32`, whose twins are looked for.
    positives: judgements of positives, among whose queries.
    known: groups of the known positives of all queries.

  Returns:
    Of each query, the groups of its twins' positives that are not its own.
  """
  asked = [likeness.words(prepared.queries[int(row)].text)
           for row in query_rows]
  wanted, groups = set(asked), collections.defaultdict(set)
  for row in np.unique(positives.query_rows):
    words = likeness.words(prepared.queries[int(row)].text)
    if words in wanted:
      ours = known[row]
      groups[words].update(ours[ours >= 0].tolist())
  return [sorted(groups[words].difference(known[row]))
          for row, words in zip(query_rows, asked, strict=True)]


def find_others(
    prepared: prepared_lib.Prepared,
    query_rows: Int[np.ndarray, ' queries'],
    positives: prepared_lib.Judgements,
    known: examples.Positives,
    passage_vecs: vector_table.Rows,
) -> Int[np.ndarray, ' queries']:
  """Finds queries with other answers on passages alike.

  Of the queries whose positive is most like ours to the judge, the first that
  shares neither positive nor answer with us. One about our own passage would
  match the topic better, but a passage that repeats ours holds its answer too,
  and would seem harmless.

  Args:
    prepared: the data.
    query_rows: `[queries] int32`, whose others are looked for.
    positives: judgements of positives, among whose queries.
    known: groups of the known positives of all queries.
    passage_vecs: `[passages, features] float32`, the judge's.

  Returns:
    `[queries] int32` rows; -1 where there is none, or no answer of the query is
    known.
  """
  rows, first = np.unique(positives.query_rows, return_index=True)
  if len(rows) > _DONORS:
    chosen = np.random.default_rng(0).choice(len(rows), _DONORS, False)
    rows, first = rows[chosen], first[chosen]
  fold = lambda answers: {' '.join(a.casefold().split()) for a in answers}
  answers = [fold(prepared.queries[int(row)].answers) for row in rows]
  passages = positives.passage_rows[first]
  groups, vecs = prepared.passage_groups[passages], passage_vecs[passages]
  others = np.full(len(query_rows), -1, np.int32)
  for line, query in enumerate(query_rows):
    ours = fold(prepared.queries[int(query)].answers)
    if not ours:
      continue
    own = known[query]
    scores = vecs @ passage_vecs[own[0]]
    scores[np.isin(groups, own)] = -np.inf
    likely = np.argsort(-scores, kind='stable')[:_NEAREST]
    others[line] = next((
        rows[i] for i in likely
        if scores[i] > -np.inf and answers[i] and not answers[i] & ours
    ), -1)
  return others
