"""A passage that a search found, and the part of it that matches the query."""

import dataclasses
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from neg_contrast.data import records
from neg_contrast.retrieval import matching, vectors


@dataclasses.dataclass(frozen=True)
class Found:
  """A passage that a search found.

  Attributes:
    passage: title, text and ids.
    score: of its embedding and the query's.
    match: (start, end) in characters of the part of `passage.text` whose own
      embedding is nearest to the query's; (0, 0) if the text is blank.
  """

  passage: records.Passage
  score: float
  match: tuple[int, int]


def matching_parts(
    encoder: vectors.Encoder,
    query_vec: np.ndarray,
    passages: Sequence[records.Passage],
) -> list[tuple[int, int]]:
  """The part of each passage that is nearest to a query.

  Args:
    encoder: encodes all parts together.
    query_vec: `[features] float32`.
    passages: whose texts are cut by `matching.parts`.

  Returns:
    (start, end) in characters of each text; (0, 0) if it is blank.
  """
  if not passages:
    return []
  parts = [matching.parts(passage.text) for passage in passages]
  vecs = encoder.encode_passages([
      passage.text[start:end]
      for passage, of in zip(passages, parts, strict=True)
      for start, end in of
  ])
  ends = np.cumsum([len(of) for of in parts])[:-1]
  scores = np.asarray(
      encoder.score(jnp.asarray(query_vec)[None], jnp.asarray(vecs))[0]
  )
  return [
      of[int(np.argmax(scores))] if of else (0, 0)
      for of, scores in zip(parts, np.split(scores, ends), strict=True)
  ]
