"""Answers to requests, by a model and an index."""

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from neg_contrast.data import records
from neg_contrast.retrieval import finding, retriever, vectors
from neg_contrast.serving import client_requests


@dataclasses.dataclass(frozen=True)
class Hit:
  """A passage that was found.

  Attributes:
    passage: title, text and ids.
    score: of its vector and the query's.
    match: (start, end) of the part of the text that matches best, in
      characters; None: it was not asked for.
  """

  passage: records.Passage
  score: float
  match: tuple[int, int] | None = None


class Answerer:
  """Searches and encodes for several requests at once.

  The encoder is called once for all queries of a batch and once for all
  passages, the index once; matching parts take one more call a query.
  """

  def __init__(
      self,
      found: retriever.Retriever,
      passages: Sequence[records.Passage],
      depth: int,
      on_stage: Callable[[str, float], None] = lambda stage, seconds: None,
  ):
    """Encodes nothing yet.

    Args:
      found: a corpus that is ready to be searched.
      passages: of the corpus.
      depth: that it is searched to, whatever is asked for.
      on_stage: called with `encode`, `search` or `match`, and the seconds of
        it, for each batch.
    """
    self._retriever, self._passages = found, passages
    self._depth, self._on_stage = depth, on_stage

  @property
  def dim(self) -> int:
    """Features of a passage's vector."""
    return self._retriever.vectors.encoder.dim

  def warm_up(self, words: int, depth: int) -> None:
    """Compiles what requests need: for short queries, long ones and matches.

    Args:
      words: of a query that is as long as any.
      depth: passages that are usually asked for.
    """
    queries = 'a', 'a ' * words
    self([client_requests.SearchRequest(queries[:1], depth, True)])
    self([client_requests.SearchRequest(queries[1:], depth)])

  def __call__(
      self, batch: Sequence[client_requests.Request]
  ) -> list[Any]:
    """An answer to each request of a batch.

    Returns:
      Lists of `Hit` for each query of a `SearchRequest`; for an
      `EncodeRequest` an array `[texts, features] float32`.
    """
    vecs = self._encode(batch)
    found = self._search([
        of for one, of in zip(batch, vecs, strict=True)
        if isinstance(one, client_requests.SearchRequest)
    ])
    return [
        [self._hits(one, vec, next(found)) for vec in of]
        if isinstance(one, client_requests.SearchRequest) else of
        for one, of in zip(batch, vecs, strict=True)
    ]

  def _encode(
      self, batch: Sequence[client_requests.Request]
  ) -> list[np.ndarray]:
    """Vectors of the texts of each request."""
    encoder = self._retriever.vectors.encoder
    roles = [getattr(one, 'role', 'query') for one in batch]
    queries: list[str] = []
    passages: list[vectors.PassageLike] = []
    for one in batch:
      if isinstance(one, client_requests.SearchRequest):
        queries += one.queries
      elif one.role == 'query':
        queries += [text for _, text in one.texts]
      else:
        passages += one.texts
    began = time.monotonic()
    vecs = {
        role: encode(texts) for role, encode, texts in (
            ('query', encoder.encode_queries, queries),
            ('passage', encoder.encode_passages, passages),
        ) if texts
    }
    self._on_stage('encode', time.monotonic() - began)
    places, made = {'query': 0, 'passage': 0}, []
    for role, one in zip(roles, batch, strict=True):
      begin = places[role]
      places[role] += one.size
      made.append(vecs[role][begin : places[role]])
    return made

  def _search(self, vecs: Sequence[np.ndarray]):
    """(rows, scores) of each query, in order."""
    if not vecs:
      return iter(())
    began = time.monotonic()
    found = self._retriever.search_vecs(np.concatenate(vecs), self._depth)
    self._on_stage('search', time.monotonic() - began)
    return iter(zip(found.rows, found.scores, strict=True))

  def _hits(
      self,
      request: client_requests.SearchRequest,
      query_vec: np.ndarray,
      found: tuple[np.ndarray, np.ndarray],
  ) -> list[Hit]:
    rows, scores = (of[: request.depth] for of in found)
    passages = [self._passages[int(row)] for row in rows if row >= 0]
    matches: Sequence[tuple[int, int] | None] = [None] * len(passages)
    if request.with_match:
      began = time.monotonic()
      matches = finding.matching_parts(
          self._retriever.vectors.encoder, query_vec, passages
      )
      self._on_stage('match', time.monotonic() - began)
    return [Hit(passage, float(score), match) for passage, score, match
            in zip(passages, scores, matches, strict=False)]
