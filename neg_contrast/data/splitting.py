"""Cuts documents into disjoint passages. Pure.

The corpus of Lu et al. (section 5.1) and of Karpukhin et al. 2020 (section 4.1)
is made of passages of 100 words that do not overlap.
"""

from collections.abc import Sequence

from neg_contrast.data import scripts


def by_words(text: str, words: int) -> list[tuple[int, int]]:
  """Passages of `words` words; the last one has what is left.

  Words are what stands between white space, and letters of scripts that are
  written without any, with the punctuation after them.

  Args:
    text: of a document.
    words: of a passage, at least 1.

  Returns:
    (start, end) in characters; none for a blank text.
  """
  spans = [match.span() for match in scripts.pieces(text)]
  return [
      (spans[first][0], spans[min(first + words, len(spans)) - 1][1])
      for first in range(0, len(spans), words)
  ]


def by_tokens(
    text: str, offsets: Sequence[tuple[int, int]], tokens: int
) -> list[tuple[int, int]]:
  """Passages of at most `tokens` tokens that end where a word ends.

  A word of more tokens than that is cut between two of them; only a character
  that has more tokens by itself makes a longer passage.

  Args:
    text: of a document.
    offsets: (start, end) in characters of each of its tokens.
    tokens: of a passage, at least 1, special tokens not counted.

  Returns:
    (start, end) in characters; none for a blank text.
  """
  passages: list[tuple[int, int]] = []
  begin, end, count = -1, -1, 0
  token = 0
  for match in scripts.pieces(text):
    inside = []
    while token < len(offsets) and offsets[token][0] < match.end():
      inside.append(offsets[token])
      token += 1
    if begin >= 0 and count + len(inside) > tokens:
      passages.append((begin, end))
      begin = -1
    if begin < 0:
      begin, count = match.start(), 0
    first = 0
    while len(inside) - first > tokens:  # The passage holds this word alone.
      cut = first + tokens
      while cut > first and inside[cut][0] == inside[cut - 1][0]:
        cut -= 1  # To the first token of a character.
      if cut == first:
        cut = next((i for i in range(first, len(inside))
                    if inside[i][0] > inside[first][0]), len(inside))
      if cut == len(inside):
        break
      passages.append((begin, inside[cut][0]))
      begin, first = inside[cut][0], cut
    count += len(inside) - first
    end = match.end()
  return passages if begin < 0 else [*passages, (begin, end)]
