"""Teachers of pretexts: what chooses among queries or passages.

Each is an artifact that loads as a `pretext.Searcher`, a `Scorer`, or both.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from neg_contrast import errors
from neg_contrast.artifacts import artifact
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import records
from neg_contrast.models import by_name, given, loading
from neg_contrast.retrieval import (
  bm25_search,
  embedder,
  encoding,
  text_encoder,
)
from neg_contrast.stage1.pretexts import words


class _Bm25:
  """BM25 of all passages."""

  def __init__(self, search: bm25_search.Bm25Search, depth: int):
    self._search, self._depth = search, depth

  def search(
      self, queries: Sequence[str]
  ) -> Int[np.ndarray, 'queries depth']:
    """`[queries, depth] int` rows; -1 beyond what has a word of the query."""
    if not queries:
      return np.zeros((0, self._depth), np.int32)
    return self._search.search(queries, self._depth).rows

  def score(
      self, queries: Sequence[str], passages: Sequence[records.Passage]
  ) -> Float[np.ndarray, ' pairs']:
    """`[pairs] float64` BM25 for each word of the query.

    A sum would make the longest query the best of all.
    """
    scores = np.empty(len(queries))
    for n, (query, passage) in enumerate(zip(queries, passages, strict=True)):
      text = f'{passage.title} {passage.text}'
      count = max(1, len(words.WORD.findall(query)))
      scores[n] = self._search.score_texts(query, [text])[0] / count
    return np.where(scores > 0, scores, -np.inf)


class _Model:
  """Scores of a dual encoder."""

  def __init__(self, encoder: text_encoder.TextEncoder):
    self._encoder = encoder

  def score(
      self, queries: Sequence[str], passages: Sequence[records.Passage]
  ) -> Float[np.ndarray, ' pairs']:
    """`[pairs] float32` products of vectors; a passage is encoded once."""
    if not queries:
      return np.zeros(0, np.float32)
    places: dict[str, int] = {}
    places_of = np.array([places.setdefault(passage.id, len(places))
                          for passage in passages])
    different = {passage.id: passage for passage in passages}
    passage_vecs = self._encoder.encode_passages(list(different.values()))
    query_vecs = self._encoder.encode_queries(queries)
    return np.einsum('nd,nd->n', query_vecs, passage_vecs[places_of])


class _Titles:
  """Which share of their words a query and the passage's title have alike."""

  def score(
      self, queries: Sequence[str], passages: Sequence[records.Passage]
  ) -> Float[np.ndarray, ' pairs']:
    """`[pairs] float64` F1 of the sets of words; -inf: none alike."""
    scores = np.full(len(queries), -np.inf)
    for n, (query, passage) in enumerate(zip(queries, passages, strict=True)):
      asked, title = (set(words.fold(text).split())
                      for text in (query, passage.title))
      if asked & title:
        scores[n] = 2 * len(asked & title) / (len(asked) + len(title))
    return scores


@dataclasses.dataclass(frozen=True)
class Bm25Teacher(artifact.InMemory):
  """BM25 as a teacher.

  Attributes:
    index: of the corpus.
    depth: passages that it finds for a query.
  """

  kind = 'bm25 teacher'
  name = 'teacher'
  index: bm25_search.Bm25
  depth: int

  def describe(self) -> str:
    """What teaches."""
    return f'the first {self.depth} passages of BM25'

  def needs(self) -> dict[str, artifact.Artifact]:
    """The index."""
    return {'index': self.index}

  def settings(self) -> dict[str, Any]:
    """How deep it searches."""
    return {'depth': self.depth}

  def read(self) -> _Bm25:
    """Opens nothing before the first query."""
    return _Bm25(self.index.load(), self.depth)


@dataclasses.dataclass(frozen=True)
class ModelTeacher(artifact.InMemory):
  """A dual encoder as a teacher.

  Attributes:
    model: loads as one.
    encoding: how it computes.
    data: whose prefixes stand in the place of the model's.
  """

  kind = 'model teacher'
  name = 'teacher'
  model: given.Checkpoint
  encoding: encoding.EncodingSettings
  data: dataset_lib.Data

  def describe(self) -> str:
    """Whose scores."""
    return f'scores of {self.model.checkpoint}'

  def needs(self) -> dict[str, artifact.Artifact]:
    """The model."""
    return {'model': self.model}

  def inputs(self) -> dict[str, artifact.Artifact]:
    """The data, too, of which its prefixes alone count."""
    return {**super().inputs(), 'data': self.data}

  def settings(self) -> dict[str, Any]:
    """How it computes, where that is not float32 by XLA; and prefixes.

    Raises:
      UserError: as `read`.
    """
    computed = embedder.computed(self.encoding, self._checked())
    if computed['dtype'] == 'float32':
      del computed['dtype']
    return {**computed, **self._prefixes}

  def read(self) -> _Model:
    """The model on this process's devices.

    Raises:
      UserError: a text has several vectors.
    """
    encoder = text_encoder.TextEncoder(self._checked(), self.encoding)
    return _Model(encoder.with_prefixes(self._prefixes))

  @property
  def _prefixes(self) -> dict[str, str]:
    return self.data.load().own_prefixes('query', 'passage')

  def _checked(self) -> loading.Model:
    return by_name.check_one_vector(
        self.model.load(),
        f'{errors.key("synthetic.salience_checkpoint")} takes',
    )


@dataclasses.dataclass(frozen=True)
class TitleTeacher(artifact.InMemory):
  """The titles of passages as a teacher."""

  kind = 'title teacher'
  name = 'teacher'

  def describe(self) -> str:
    """What teaches."""
    return 'titles of passages'

  def needs(self) -> dict[str, artifact.Artifact]:
    """Nothing: passages bring their titles."""
    return {}

  def read(self) -> _Titles:
    """Nothing to read."""
    return _Titles()
