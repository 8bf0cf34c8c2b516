"""`crops`: of two random pieces of a passage, one finds the other.

Izacard et al. 2022, Contriever, section 3.1.
"""

import bisect
import re
from collections.abc import Sequence

import numpy as np

from neg_contrast.stage1.pretexts import pretext, words

CROP_PARTS = (0.05, 0.5)
"""Least and greatest length of a crop as a part of the passage's tokens."""
MIN_CROP_TOKENS = 8
"""Of a crop, before it is widened to whole words; shorter passages than two of
these have none. The paper's documents of 256 tokens make at least 12."""

# Thai to Burmese, Khmer, kana, and Chinese characters.
_UNSPACED = re.compile(
    '[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff'
    '\uf900-\ufaff\U00020000-\U0003ffff]'
)


def _crops(
    document: pretext.Document, offsets: pretext.Offsets
) -> pretext.Draw:
  """Crops are widened to whole words, and a crop is not paired with itself.

  The positive keeps its title, as passages do when they are searched, unless
  the query holds all of it: then the title alone would tell.
  """

  def draw(place, rng):
    row, passage = document[place]
    tokens = offsets(passage.text)
    if len(tokens) < 2 * MIN_CROP_TOKENS:
      return
    edges = _edges(passage.text, tokens)
    for _ in range(pretext.DRAWS):
      first, end = _crop(len(tokens), edges, rng)
      positive = _crop(len(tokens), edges, rng)
      texts = [words.text_of(passage.text, tokens, span)
               for span in ((first, end), positive)]
      if positive == (first, end) or not all(map(words.WORD.search, texts)):
        continue
      tells = f' {words.fold(passage.title)} ' in f' {words.fold(texts[0])} '
      yield pretext.Pair(texts[0], row, *positive, title=not tells)

  return draw


def _edges(text: str, tokens: Sequence[tuple[int, int]]) -> list[int]:
  """Tokens before which a text may be cut, and the number of tokens.

  That is at white space, and beside letters of scripts that write none between
  words. A character of several tokens is never cut.
  """
  inner = []
  for i in range(1, len(tokens)):
    end, start = tokens[i - 1][1], tokens[i][0]
    if end <= start and (
        any(map(str.isspace, text[end : start + 1]))
        or _UNSPACED.search(text[end - 1] + text[start])
    ):
      inner.append(i)
  return [0, *inner, len(tokens)]


def _crop(
    tokens: int, edges: Sequence[int], rng: np.random.Generator
) -> tuple[int, int]:
  """A random span of whole words, as (first, end)."""
  length = max(MIN_CROP_TOKENS, int(rng.uniform(*CROP_PARTS) * tokens))
  first = int(rng.integers(tokens - length + 1))
  return (edges[bisect.bisect_right(edges, first) - 1],
          edges[bisect.bisect_left(edges, first + length)])


CROPS = pretext.Pretext('crops', 'passages of several words', _crops)
