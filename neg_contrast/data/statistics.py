"""Numbers that describe a prepared corpus.

All of them come from the columns beside the texts (groups, documents, offsets
of tokens, judgements), read piece by piece: no text is read.
"""

import dataclasses
from collections.abc import Iterator

import numpy as np
from jaxtyping import Int

from neg_contrast.data import inputs, tokenized
from neg_contrast.data import prepared as prepared_lib

MANY_POSITIVES = 5
"""Queries with so many positives, or more, are counted together."""

_CHUNK_ROWS = 1_000_000


@dataclasses.dataclass(frozen=True)
class Lengths:
  """How long the input sequences of one role are.

  Attributes:
    counts: `[longest + 1] int64`, how many sequences have n tokens uncut,
      special tokens, prefix and title included.
    cut: tokens that they are cut to.
    untitled: how many of them have no title.
  """

  counts: Int[np.ndarray, ' lengths']
  cut: int
  untitled: int

  @property
  def sequences(self) -> int:
    """How many there are."""
    return int(self.counts.sum())

  @property
  def longest(self) -> int:
    """Tokens of the longest."""
    return len(self.counts) - 1

  @property
  def cut_sequences(self) -> int:
    """How many are longer than the cut."""
    return int(self.counts[self.cut + 1:].sum())

  @property
  def tokens(self) -> int:
    """Tokens of all of them, uncut."""
    return int(self.counts @ np.arange(len(self.counts)))

  @property
  def cut_tokens(self) -> int:
    """Tokens that the cut removes."""
    beyond = self.counts[self.cut + 1:]
    return int(beyond @ np.arange(1, len(beyond) + 1))

  def quantile(self, part: float) -> int:
    """The least length that at least `part` of the sequences don't exceed."""
    reached = np.cumsum(self.counts) >= part * self.sequences
    return int(np.argmax(reached))


def measure_lengths(texts: tokenized.TokenizedTexts) -> Lengths:
  """Counts sequence lengths from the offsets of a token store.

  Takes 16 bytes a text while it counts: 340 MB for 21 million passages.

  Raises:
    ValueError: there are no texts.
  """
  if not len(texts.store):
    raise ValueError('there are no texts to measure')
  titles, bodies = texts.store.titles.lengths, texts.store.texts.lengths
  counts = np.zeros(0, np.int64)
  untitled = 0
  for rows in _chunks(len(titles)):
    lengths = inputs.sequence_lengths(
        titles[rows],
        bodies[rows],
        texts.template,
        max_length=np.iinfo(np.int64).max,
        prefix_length=len(texts.prefix_ids),
    )
    found = np.bincount(lengths, minlength=len(counts))
    found[: len(counts)] += counts
    counts = found
    untitled += int(np.count_nonzero(titles[rows] == 0))
  return Lengths(counts, texts.max_length, untitled)


@dataclasses.dataclass(frozen=True)
class Corpus:
  """What is known of the passages.

  Attributes:
    passages: how many there are.
    copies: passages that repeat an earlier one, case and white space folded.
    largest_group: the most passages that are all the same.
    documents: how many are known.
    without_document: passages whose document is unknown.
    document_sizes: least, median and most passages of a known document; None
      where none is known.
  """

  passages: int
  copies: int
  largest_group: int
  documents: int
  without_document: int
  document_sizes: tuple[int, int, int] | None


def describe_corpus(prepared: prepared_lib.Prepared) -> Corpus:
  """Counts copies and documents, reading the columns piece by piece.

  Takes 8 bytes a document and some bytes for each copy.
  """
  groups, documents = prepared.passage_groups, prepared.passage_documents
  copied = []
  sizes = np.zeros(0, np.int64)
  for rows in _chunks(len(groups)):
    piece = np.asarray(groups[rows])
    # A group is named by its first row: that one is no copy.
    copied.append(piece[piece != np.arange(rows.start, rows.stop)])
    sizes = _add_counts(sizes, np.asarray(documents[rows]))
  copies = np.concatenate(copied)
  most = np.unique(copies, return_counts=True)[1].max(initial=0)
  return Corpus(
      passages=len(groups),
      copies=len(copies),
      largest_group=1 + int(most),
      documents=len(sizes),
      without_document=len(groups) - int(sizes.sum()),
      document_sizes=(
          int(sizes.min()), int(np.median(sizes)), int(sizes.max())
      ) if len(sizes) else None,
  )


@dataclasses.dataclass(frozen=True)
class Split:
  """What a split holds.

  Attributes:
    name: of the split.
    positives: judgements with a grade above 0.
    negatives: the others.
    by_positives: how many judged queries have 0, 1, ... positives; the last
      number is of those with `MANY_POSITIVES` or more.
    unjudged: queries with answers alone.
  """

  name: str
  positives: int
  negatives: int
  by_positives: tuple[int, ...]
  unjudged: int

  @property
  def queries(self) -> int:
    """All queries."""
    return sum(self.by_positives) + self.unjudged

  @property
  def several(self) -> int:
    """Queries with more than one positive."""
    return sum(self.by_positives[2:])


def describe_split(name: str, judgements: prepared_lib.Judgements) -> Split:
  """Counts judgements, and positives by query."""
  is_positive = judgements.grades > 0
  queries, numbers = np.unique(judgements.query_rows, return_inverse=True)
  positives = np.bincount(numbers[is_positive], minlength=len(queries))
  counts = np.bincount(
      np.minimum(positives, MANY_POSITIVES), minlength=MANY_POSITIVES + 1
  )
  return Split(
      name, int(is_positive.sum()), int((~is_positive).sum()),
      tuple(counts.tolist()), len(judgements.unjudged),
  )


def _chunks(rows: int) -> Iterator[slice]:
  for begin in range(0, rows, _CHUNK_ROWS):
    yield slice(begin, min(begin + _CHUNK_ROWS, rows))


def _add_counts(
    counts: Int[np.ndarray, ' numbers'], found: Int[np.ndarray, ' rows']
) -> Int[np.ndarray, ' more']:
  """Counts more numbers, which begin at 0; -1 is not counted."""
  found = found[found >= 0]
  if not len(found):
    return counts
  low, high = int(found.min()), int(found.max()) + 1
  if high > len(counts):
    counts = np.concatenate([counts, np.zeros(high - len(counts), np.int64)])
  counts[low:high] += np.bincount(found - low)
  return counts
