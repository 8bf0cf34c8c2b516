"""What gives vectors: of any texts, and of the texts of a dataset.

There are two layers. An `Encoder` turns texts into vectors: `TextEncoder` with
one model, `FusedEncoder` with several. A `Vectors` has an encoder and gives the
vectors of a dataset's queries and passages by row, the passages' from disk once
they are there: `Embedder` with one model, `FusedVectors` with several.
"""

import abc
import dataclasses
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from neg_contrast import scoring
from neg_contrast.data import records
from neg_contrast.retrieval import vector_table


@dataclasses.dataclass(frozen=True)
class WithFeatures:
  """A text with features beside it.

  Attributes:
    text: not empty.
    features: by name, as records have them. Of those that a model reads, one
      that is not named has no value.
    title: of a passage.
  """

  text: str
  features: Mapping[str, Any]
  title: str = ''


PassageLike = (
    str | tuple[str, str] | Mapping[str, str] | records.Passage | WithFeatures)
"""A text, a (title, text) or {'title': title, 'text': text}, a passage of a
corpus, or a text with features."""
QueryLike = str | WithFeatures
"""A text, by itself or with features."""


def text_of(query: Any) -> str:
  """The words of a `QueryLike`.

  Raises:
    TypeError: it is something else.
  """
  if isinstance(query, WithFeatures):
    return query.text
  if not isinstance(query, str):
    raise TypeError(f'a query is a text, not {type(query).__name__}: '
                    f'{query!r:.40}')
  return query


def listed(texts: Any) -> list[Any]:
  """Texts as a list.

  Raises:
    TypeError: they are a single text or (title, text), a dict, a set or a
      table.
  """
  if isinstance(texts, Mapping):
    raise TypeError('a list of texts is expected, not a dict: '
                    'list(texts.values())')
  if hasattr(type(texts), 'columns'):  # It gives their names, and not its rows.
    raise TypeError(
        f'a list of texts is expected, not {type(texts).__name__}: a column of '
        'it, or list(zip(table["title"], table["text"])) for passages')
  if isinstance(texts, tuple):
    raise TypeError('a list of texts is expected, not a tuple: list(texts), or '
                    '[texts] where it is the (title, text) of one passage')
  if isinstance(texts, (str, bytes, Set)) or not isinstance(
      texts, Iterable):
    raise TypeError(f'a list of texts is expected, such as [{texts!r:.40}], '
                    f'not {type(texts).__name__}')
  return list(texts)


def passage_of(passage: Any) -> WithFeatures:
  """The title, text and features of a `PassageLike`.

  Raises:
    TypeError: it is something else.
  """
  match passage:
    case WithFeatures():
      return passage
    case str(text):
      return WithFeatures(text, {})
    case records.Passage(title=str(title), text=str(text)):
      return WithFeatures(text, {}, title)
    case {'text': str(text), **rest} if not rest:
      return WithFeatures(text, {})
    case {'title': str(title), 'text': str(text), **rest} if not rest:
      return WithFeatures(text, {}, title)
    case [str(title), str(text)]:
      return WithFeatures(text, {}, title)
  raise TypeError("a passage is a text, a (title, text) or {'title': title, "
                  f"'text': text}}, not {type(passage).__name__}: "
                  f'{passage!r:.40}')


class Encoder(abc.ABC):
  """Encodes any queries and passages."""

  @property
  @abc.abstractmethod
  def dim(self) -> int:
    """Features of a passage's vector."""

  @property
  @abc.abstractmethod
  def score(self) -> scoring.ScoreFunction:
    """The score of a query's vector and a passage's."""

  @abc.abstractmethod
  def encode_queries(self, queries: Sequence[QueryLike]) -> np.ndarray:
    """`[queries, features] float32` of any queries."""

  @abc.abstractmethod
  def encode_passages(self, passages: Sequence[PassageLike]) -> np.ndarray:
    """`[passages, features] float32` of any passages."""

  def score_pairs(
      self,
      query_vecs: Float[np.ndarray, 'pairs query_features'],
      passage_vecs: Float[np.ndarray, 'pairs passage_features'],
  ) -> Float[np.ndarray, ' pairs']:
    """`[pairs] float32` scores of vector n and vector n.

    Dot products are NumPy's, which compiles nothing for a new number of pairs.

    Args:
      query_vecs: `[pairs, features] float32`, as `encode_queries` gives them.
      passage_vecs: likewise, of passages.
    """
    if self.score.is_dot:
      return np.einsum('pd,pd->p', query_vecs, passage_vecs)
    return np.asarray(self.score.pairs(
        jnp.asarray(query_vecs), jnp.asarray(passage_vecs)
    ))


class Vectors(abc.ABC):
  """Vectors of the queries and passages of a dataset.

  No Protocol: to check one, Python 3.11 would compute `passage_vecs`.
  """

  @property
  @abc.abstractmethod
  def identity(self) -> dict[str, Any]:
    """What the passages' vectors depend on, as json."""

  @property
  def search_identity(self) -> dict[str, Any]:
    """What a search depends on, if that is more."""
    return self.identity

  @property
  @abc.abstractmethod
  def encoder(self) -> Encoder:
    """Encodes texts that are not in the dataset."""

  @abc.abstractmethod
  def query_vecs(self, query_rows: np.ndarray) -> np.ndarray:
    """`[queries, features] float32` of queries of the dataset."""

  @property
  @abc.abstractmethod
  def passage_vecs(self) -> vector_table.Rows:
    """`[passages, features] float32` of the dataset; made once."""

  @abc.abstractmethod
  def is_made(self) -> bool:
    """Whether `passage_vecs` lie on disk already."""
