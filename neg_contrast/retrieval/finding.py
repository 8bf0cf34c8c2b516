"""A passage that a search found, and the part of it that matches the query."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from neg_contrast import html_parts
from neg_contrast.data import records
from neg_contrast.retrieval import hits, matching, vectors

Search = Callable[[np.ndarray, int], hits.Hits]
"""(`[queries, features] float32`, depth) -> rows of the corpus."""


@dataclasses.dataclass(frozen=True)
class Found:
  """A passage that a search found.

  Attributes:
    passage: title, text and ids.
    score: of its embedding and the query's.
    match: (start, end) in characters of the part of `passage.text` whose own
      embedding is nearest to the query's; (0, 0) if the text is blank, or if
      nobody asked for it.
  """

  passage: records.Passage
  score: float
  match: tuple[int, int] = (0, 0)


class Answers(list[Found]):
  """The passages found for a query, best first; a notebook shows a table.

  Attributes:
    query: what was asked.
  """

  def __init__(self, query: str, found: Iterable[Found]):
    """Takes what a search found."""
    super().__init__(found)
    self.query = query

  def _repr_html_(self) -> str:
    rows = [[
        str(rank), html_parts.number(one.score),
        html_parts.text(one.passage.id), html_parts.text(one.passage.title),
        html_parts.marked(one.passage.text, *one.match),
    ] for rank, one in enumerate(self, start=1)]
    return html_parts.table(['', 'score', 'passage', 'title', 'text'], rows,
                            self.query, (0, 1))


class AnswerSets(list[Answers]):
  """The answers of several queries; a notebook shows a table of each."""

  def _repr_html_(self) -> str:
    return ''.join(answers._repr_html_() for answers in self)


def find_each(
    encoder: vectors.Encoder,
    passages: Sequence[records.Passage],
    search: Search,
    queries: Sequence[vectors.QueryLike],
    depth: int,
) -> AnswerSets:
  """The best passages of each query, with their matching parts.

  Args:
    encoder: of queries and parts.
    passages: of the corpus.
    search: ranks passages.
    queries: what is asked.
    depth: passages wanted of each.

  Raises:
    TypeError: no list of texts is given.
    ValueError: a query is blank, or depth is not positive.
  """
  queries = vectors.listed(queries)
  if depth < 1:
    raise ValueError(f'depth is {depth}; it must be at least 1')
  texts = [vectors.text_of(query) for query in queries]
  if not all(text.strip() for text in texts):
    raise ValueError('the query is blank')
  query_vecs = encoder.encode_queries(queries)
  found = search(query_vecs, depth)
  lines, places = np.nonzero(found.rows >= 0)
  some = [passages[int(row)] for row in found.rows[lines, places]]
  parts = matching_parts(encoder, query_vecs[lines], some)
  answers = AnswerSets(Answers(text, ()) for text in texts)
  for line, *one in zip(lines.tolist(), some,
                        found.scores[lines, places].tolist(), parts,
                        strict=True):
    answers[line].append(Found(*one))
  return answers


def matching_parts(
    encoder: vectors.Encoder,
    query_vecs: np.ndarray,
    passages: Sequence[records.Passage],
) -> list[tuple[int, int]]:
  """The part of each passage that is nearest to its query.

  Args:
    encoder: encodes all parts together.
    query_vecs: `[passages, features] float32`, of the query of each passage.
    passages: whose texts are cut by `matching.parts`.

  Returns:
    (start, end) in characters of each text; (0, 0) if it is blank.
  """
  parts = [matching.parts(passage.text) for passage in passages]
  counts = list(map(len, parts))
  if not sum(counts):
    return [(0, 0)] * len(passages)
  vecs = encoder.encode_passages([
      passage.text[start:end]
      for passage, of in zip(passages, parts, strict=True)
      for start, end in of
  ])
  scores = encoder.score_pairs(np.repeat(query_vecs, counts, axis=0), vecs)
  return [
      of[int(np.argmax(some))] if of else (0, 0)
      for of, some in zip(parts, np.split(scores, np.cumsum(counts)[:-1]),
                          strict=True)
  ]
