"""Scores of queries against passages. Pure.

A text is one vector or several, side by side in one row of features; a vector
of zeros is none. Zhang and Stratos, "Understanding Hard Negatives in Noise
Contrastive Estimation", 2021, write all scores of two texts as one form, their
equation 9: each vector of one text (the attention's queries) attends to those
of the other (its keys), and its dot products with them are averaged by that
attention, softly, or are that with the best of them; then they are summed.

The equation as printed, 1^T Q^T K Attn(K^T Q), is a row and no number; its
examples are the sum of its diagonal, `sum_t q_t^T K Attn(K^T q_t)`, which is
what is computed here.
"""

import dataclasses
import functools
import re
from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def dot_scores(
    query_vecs: Float[Array, 'queries features'],
    passage_vecs: Float[Array, 'passages features'],
) -> Float[Array, 'queries passages']:
  """Dot products in full float32 precision.

  TPUs round the operands of a product to bfloat16 unless told otherwise, which
  makes distinct passages tie.

  Args:
    query_vecs: `[queries, features] float32`.
    passage_vecs: `[passages, features] float32`.

  Returns:
    `[queries, passages] float32`.
  """
  return jnp.einsum(
      'qd,pd->qp',
      query_vecs,
      passage_vecs,
      precision=jax.lax.Precision.HIGHEST,
      preferred_element_type=jnp.float32,
  )


@dataclasses.dataclass(frozen=True)
class ScoreFunction:
  """A point of equation 9.

  Attributes:
    direction: `query_to_passage`: the vectors of the query attend to those of
      the passage; `passage_to_query`: the other way round.
    query_vectors: vectors of a query: those of its leftmost tokens, or so many
      codes.
    passage_vectors: vectors of a passage: those of its leftmost tokens.
    codes: the query's vectors are learned codes' averages of all its tokens
      (Humeau et al., "Poly-encoders").
    attention: `hard` (the best) or `soft` (softmax).
  """

  direction: Literal['query_to_passage', 'passage_to_query'] = (
      'query_to_passage'
  )
  query_vectors: int = 1
  passage_vectors: int = 1
  codes: bool = False
  attention: Literal['hard', 'soft'] = 'hard'

  @property
  def is_dot(self) -> bool:
    """Whether it is the dot product of one vector and one vector."""
    return self.query_vectors == self.passage_vectors == 1

  def vectors(self, role: str) -> int:
    """Vectors of a text: of a `query` or `passage`; of a tower of both."""
    counts = {'query': self.query_vectors, 'passage': self.passage_vectors}
    return counts.get(role, max(counts.values()))

  def __call__(
      self,
      query_vecs: Float[Array, 'queries query_features'],
      passage_vecs: Float[Array, 'passages passage_features'],
  ) -> Float[Array, 'queries passages']:
    """Scores of all pairs, in full float32 precision.

    Passages are taken some at a time where there are many products of vectors,
    in forward and backward pass.

    Args:
      query_vecs: `[queries, query_vectors * features] float32`; further
        features, which a tower of both roles gives, are left out.
      passage_vecs: `[passages, passage_vectors * features] float32`; likewise.

    Returns:
      `[queries, passages] float32`; 0 where a text has no vector.
    """
    if self.is_dot:
      return dot_scores(query_vecs, passage_vecs)
    queries, passages = self._split(query_vecs, passage_vecs)
    count = len(passages)
    each = max(1, len(queries) * queries.shape[1] * passages.shape[1])
    block = max(1, _PRODUCTS_AT_ONCE // each)
    if count <= block:
      return self._all_pairs(queries, passages)
    blocks = -(-count // block)
    padded = jnp.pad(passages, ((0, blocks * block - count), (0, 0), (0, 0)))
    scores = jax.lax.map(
        jax.checkpoint(functools.partial(self._all_pairs, queries)),
        padded.reshape(blocks, block, *passages.shape[1:]),
    )
    return jnp.moveaxis(scores, 0, 1).reshape(len(queries), -1)[:, :count]

  def pairs(
      self,
      query_vecs: Float[Array, 'pairs query_features'],
      passage_vecs: Float[Array, 'pairs passage_features'],
  ) -> Float[Array, ' pairs']:
    """Scores of query n and passage n, else as all pairs."""
    queries, passages = self._split(query_vecs, passage_vecs)
    products = jnp.einsum(
        'ntd,nud->ntu', queries, passages,
        precision=jax.lax.Precision.HIGHEST,
        preferred_element_type=jnp.float32,
    )
    return self._attend(products, _exist(queries), _exist(passages))

  def _split(self, query_vecs, passage_vecs):
    """Vectors on an axis of their own."""
    features = query_vecs.shape[-1] // self.query_vectors
    if self.query_vectors < self.passage_vectors:
      features = passage_vecs.shape[-1] // self.passage_vectors
    return (
        vecs[:, : count * features].reshape(len(vecs), count, features)
        for vecs, count in ((query_vecs, self.query_vectors),
                            (passage_vecs, self.passage_vectors))
    )

  def _all_pairs(self, queries, passages):
    products = jnp.einsum(
        'qtd,pud->qptu', queries, passages,
        precision=jax.lax.Precision.HIGHEST,
        preferred_element_type=jnp.float32,
    )
    return self._attend(
        products, _exist(queries)[:, None], _exist(passages)[None]
    )

  def _attend(self, products, query_exists, passage_exists):
    """`[..., t, u]` products of vectors to `[...]` scores."""
    if self.direction == 'passage_to_query':
      products = jnp.swapaxes(products, -1, -2)
      query_exists, passage_exists = passage_exists, query_exists
    is_key = passage_exists[..., None, :]
    has_key = is_key.any(-1)
    if self.attention == 'hard':
      best = jnp.max(products, -1, where=is_key, initial=-jnp.inf)
      attended = jnp.where(has_key, best, 0)
    else:
      logits = jnp.where(is_key, products, _NEVER)
      attended = jnp.sum(
          jax.nn.softmax(logits, -1) * products, -1, where=is_key
      )
    return jnp.sum(attended, -1, where=query_exists)


DUAL = ScoreFunction()

_PRODUCTS_AT_ONCE = 2**25  # 128 MiB.
_NEVER = -1e30  # A logit; -inf would make nan of a text without vectors.
_NAMED = re.compile(r'(dual|som|(poly|multi|genpoly)-([1-9][0-9]*))')


def named(
    name: str, query_length: int, passage_length: int
) -> ScoreFunction:
  """A score function of the paper (section 4.2 and appendix B).

  Args:
    name: `dual`: [CLS] with [CLS]; `poly-M`: the passage's [CLS] attends to M
      codes of the query; `multi-M`: the best of the passage's first M tokens
      for the query's [CLS]; `som`: the sum over the query's tokens of the best
      of the passage's (ColBERT); `genpoly-M`: as poly-M, for the passage's
      first M tokens.
    query_length: tokens of a query, at most.
    passage_length: tokens of a passage, at most.

  Raises:
    ValueError: there is none of this name.
  """
  found = _NAMED.fullmatch(name)
  if not found:
    raise ValueError(
        f'{name!r} is no score function; choose dual, poly-M, multi-M, som or '
        'genpoly-M, with a number of vectors M'
    )
  kind, count = found[2] or name, int(found[3] or 1)
  first = min(count, passage_length)
  return {
      'dual': DUAL,
      'poly': ScoreFunction('passage_to_query', count, 1, True, 'soft'),
      'multi': ScoreFunction(passage_vectors=first),
      'som': ScoreFunction(
          query_vectors=query_length, passage_vectors=passage_length
      ),
      'genpoly': ScoreFunction('passage_to_query', count, first, True, 'soft'),
  }[kind]


def _exist(vecs: Float[Array, '*texts vectors features']):
  return jnp.any(vecs != 0, axis=-1)
