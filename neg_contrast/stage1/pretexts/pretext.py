"""The interface of a pretext: how it makes pairs of passages alone."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from neg_contrast.data import records

TO_END = -1
MIN_QUERY_TOKENS = 4
"""Tokens with a letter or digit of a sentence that is a query, and of what is
left of its passage. The papers have no such limit; "He sighed." fits too much.
"""
DRAWS = 100
"""Most pairs that a passage can have where there is no end of them."""

Offsets = Callable[[str], Sequence[tuple[int, int]]]
"""Text -> (start, end) in characters of its tokens: `Tokenizer.offsets`."""


@dataclasses.dataclass(frozen=True, slots=True)
class Pair:
  """A query and the part of a passage that answers it.

  Attributes:
    query: text, with white space folded; holds a letter or digit.
    row: of the positive's passage.
    first: token of the passage's text that the positive begins with.
    end: token it stops before; `TO_END`: none. Where it is not above `first`,
      the positive is all tokens but those of [end, first).
    title: whether the positive keeps its title.
    home: row of the passage that the query was cut from, which is no negative
      of it; -1: the positive's.
  """

  query: str
  row: int
  first: int = 0
  end: int = TO_END
  title: bool = True
  home: int = -1


Document = Sequence[tuple[int, records.Passage]]
"""(row, passage) of a document, by row."""
Draw = Callable[[int, np.random.Generator], Iterator[Pair]]
"""Pairs of the passage at a place of the document, in random order."""


@runtime_checkable
class Searcher(Protocol):
  """A teacher that finds passages."""

  def search(
      self, queries: Sequence[str]
  ) -> Int[np.ndarray, 'queries depth']:
    """`[queries, depth] int` rows of the best passages; -1 where none is."""


@runtime_checkable
class Scorer(Protocol):
  """A teacher that tells how well a query fits a passage."""

  def score(
      self, queries: Sequence[str], passages: Sequence[records.Passage]
  ) -> Float[np.ndarray, ' pairs']:
    """`[pairs] float` of query n and passage n; -inf: they do not fit."""


@dataclasses.dataclass(frozen=True)
class Candidates:
  """What was drawn for a passage, for a teacher to choose from.

  Attributes:
    passage: that queries were cut from.
    pairs: in random order.
    rng: for what else is drawn.
  """

  passage: records.Passage
  pairs: Sequence[Pair]
  rng: np.random.Generator


Settle = Callable[[Sequence[Candidates], Any], list[list[Pair]]]
"""(candidates, `Searcher` or `Scorer`) -> pairs of each passage, best first;
many passages at once, for one search."""


@dataclasses.dataclass(frozen=True)
class Pretext:
  """A way to make a query and its positive.

  Attributes:
    name: in `config.synthetic.pairs`.
    needs: the text it needs, for the error of a corpus that has none.
    prepare: reads a document, and gives what draws the pairs of its passages.
    needs_documents: whether it needs documents of several passages.
    settle: chooses among what is drawn, which then are only candidates; None:
      they are the pairs.
    candidates: drawn for each passage; 0: as many as pairs are wanted.
    is_single: whether there is one pair of a passage at most.
  """

  name: str
  needs: str
  prepare: Callable[[Document, Offsets], Draw]
  needs_documents: bool = False
  settle: Settle | None = None
  candidates: int = 0
  is_single: bool = False
