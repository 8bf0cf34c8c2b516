"""Answers to requests, by a model and an index."""

import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from neg_contrast.data import records
from neg_contrast.retrieval import finding, hybrid, retriever, vectors
from neg_contrast.serving import client_requests


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
      together: hybrid.HybridRetriever | None = None,
  ):
    """Encodes nothing yet.

    Args:
      found: a corpus that is ready to be searched.
      passages: of the corpus.
      depth: that it is searched to, whatever is asked for.
      on_stage: called with `encode`, `search` or `match`, and the seconds of
        it, for each batch.
      together: searches the same corpus by BM25 and the model; None: the model
        searches alone.
    """
    self._retriever, self._passages = found, passages
    self._depth, self._on_stage, self._together = depth, on_stage, together

  @property
  def dim(self) -> int:
    """Features of a passage's vector."""
    return self._retriever.vectors.encoder.dim

  def warm_up(
      self, queries: Sequence[str], most: int, words: int, depth: int
  ) -> None:
    """Compiles what requests need: for batches of any size, and long queries.

    Programs are compiled for few shapes, which follow from the number of
    queries, in powers of two, and from their lengths. One that is met later
    takes seconds then.

    Args:
      queries: like those that will be asked; one or more.
      most: queries of a batch.
      words: of a query that is as long as any.
      depth: passages that are usually asked for.
    """
    self([client_requests.SearchRequest(tuple(queries[:1]), depth, True)])
    size = 2
    while size <= most:
      some = tuple(itertools.islice(itertools.cycle(queries), size))
      self([client_requests.SearchRequest(some, depth)])
      size *= 2
    longer = 60  # A row of tokens, which get twice as long; see `TableEncoder`.
    while longer < 2 * words:
      query = 'a ' * min(longer, words)
      self([client_requests.SearchRequest((query,), depth)])
      longer *= 2

  def __call__(
      self, batch: Sequence[client_requests.Request]
  ) -> list[Any]:
    """An answer to each request of a batch.

    Returns:
      Lists of `finding.Found` for each query of a `SearchRequest`; for an
      `EncodeRequest` an array `[texts, features] float32`.
    """
    vecs = self._encode(batch)
    searches = [(one.queries, of) for one, of in zip(batch, vecs, strict=True)
                if isinstance(one, client_requests.SearchRequest)]
    found = self._search([text for texts, _ in searches for text in texts],
                         [of for _, of in searches])
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
    vecs: dict[str, np.ndarray] = {}
    if queries:
      vecs['query'] = encoder.encode_queries(queries)
    if passages:
      vecs['passage'] = encoder.encode_passages(passages)
    self._on_stage('encode', time.monotonic() - began)
    places: dict[str, int] = {'query': 0, 'passage': 0}
    of_requests = []
    for role, one in zip(roles, batch, strict=True):
      begin = places[role]
      places[role] += one.size
      of_requests.append(vecs[role][begin : places[role]])
    return of_requests

  def _search(self, queries: Sequence[str], vecs: Sequence[np.ndarray]):
    """(rows, scores) of each query, in order."""
    if not vecs:
      return iter(())
    began = time.monotonic()
    query_vecs, depth = np.concatenate(vecs), self._depth
    found = (self._retriever.search_vecs(query_vecs, depth)
             if self._together is None
             else self._together.search_vecs(queries, query_vecs, depth))
    self._on_stage('search', time.monotonic() - began)
    return iter(zip(found.rows, found.scores, strict=True))

  def _hits(
      self,
      request: client_requests.SearchRequest,
      query_vec: np.ndarray,
      found: tuple[np.ndarray, np.ndarray],
  ) -> list[finding.Found]:
    rows, scores = (of[: request.depth] for of in found)
    passages = [self._passages[int(row)] for row in rows if row >= 0]
    matches = [(0, 0)] * len(passages)
    if request.with_match:
      began = time.monotonic()
      matches = finding.matching_parts(
          self._retriever.vectors.encoder,
          np.repeat(query_vec[None], len(passages), axis=0), passages,
      )
      self._on_stage('match', time.monotonic() - began)
    return [finding.Found(passage, float(score), match)
            for passage, score, match in zip(
                passages, scores[rows >= 0], matches, strict=True)]
