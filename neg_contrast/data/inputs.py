"""How token ids of title and text become input sequences. Pure."""

import dataclasses
from collections.abc import Iterable

import numpy as np
from jaxtyping import Int

from neg_contrast.data import sequences

WHOLE = (0, -1, 1)
"""First token of a text, token to stop before, whether the title is taken."""


@dataclasses.dataclass(frozen=True)
class Template:
  """The special tokens of an input, as the template of a tokenizer has them.

  Attributes:
    start: ids before all else: that of [CLS], or none.
    end: ids after all else: that of [SEP], of T5's `</s>`, or none.
    between: ids between title and text: one [SEP], two `</s>` in RoBERTa's
      `<s> a </s></s> b </s>`, or none.
  """

  start: tuple[int, ...]
  end: tuple[int, ...]
  between: tuple[int, ...]

  @property
  def around(self) -> int:
    """Tokens that every input has."""
    return len(self.start) + len(self.end)

  @property
  def second_start(self) -> tuple[int, ...]:
    """What stands before the second text, after the end of the first."""
    return self.between[len(self.end):]


def cut(
    titles: sequences.Sequences,
    texts: sequences.Sequences,
    cuts: Int[np.ndarray, 'sequences 3'],
) -> tuple[sequences.Sequences, tuple[sequences.Sequences, ...]]:
  """Parts of titles and texts.

  Args:
    titles: whole.
    texts: whole.
    cuts: `[sequences, 3] int`: first token of the text, token to stop before
      (-1: the end; not above the first: what is left out is between them), and
      whether the title is taken.

  Returns:
    The titles; and texts in two pieces, of which the second is mostly empty.
  """
  first, end, with_title = cuts.T
  lengths = texts.lengths
  is_gap = (end >= 0) & (end <= first)
  return titles.cut(0, np.where(with_title, titles.lengths, 0)), (
      texts.cut(np.where(is_gap, 0, first), np.where(end < 0, lengths, end)),
      texts.cut(np.where(is_gap, first, lengths), lengths),
  )


def mention_pieces(
    left: sequences.Sequences,
    mentions: sequences.Sequences,
    right: sequences.Sequences,
    *,
    marker_ids: tuple[int, int],
    room: int,
) -> tuple[sequences.Sequences, ...]:
  """`left start mention end right`, cut so that the mention is in the middle.

  Left and right context share the room that the mention leaves, and what one of
  them does not need goes to the other; the odd token goes to the right. A
  mention that is too long loses its end. The markers always stay.

  Args:
    left: tokens before each mention.
    mentions: tokens of the mentions.
    right: tokens after each.
    marker_ids: ids of the tokens before and after a mention.
    room: tokens of all pieces together, at most; at least 2.

  Returns:
    Five pieces, one after the other: `texts` of `input_sequences`.
  """
  mentions = mentions.cut(0, room - 2)
  rest = room - 2 - mentions.lengths
  before = np.minimum(left.lengths,
                      np.maximum(rest // 2, rest - right.lengths))
  start, end = (sequences.repeated([number], len(mentions))
                for number in marker_ids)
  return (left.cut(left.lengths - before, left.lengths), start, mentions, end,
          right.cut(0, rest - before))


def input_sequences(
    titles: sequences.Sequences,
    texts: tuple[sequences.Sequences, ...],
    template: Template,
    *,
    max_length: int,
    prefix_ids: tuple[int, ...] = (),
) -> sequences.Chained:
  """`[CLS] prefix title [SEP] text [SEP]`; without title, `[CLS] prefix text
  [SEP]` (Lu et al., section 3), with the special tokens of a template.

  Only the text is cut, and the last tokens stay; a title that alone is too long
  is cut too.

  Args:
    titles: without special tokens; may be empty.
    texts: pieces of the texts, one after the other; without special tokens; may
      be empty.
    template: the special tokens.
    max_length: tokens of a result, at most; more than `template.around`.
    prefix_ids: put after `template.start`.

  Returns:
    Views: ids are read when they are taken out.
  """
  head = sequences.repeated((*template.start, *prefix_ids), len(titles))
  end = sequences.repeated(template.end, len(titles))
  most = min(len(template.between), max_length - template.around)
  title_ends = np.where(titles.lengths > 0, most, 0)
  pieces = fit((head, titles, *texts),
               max_length - len(template.end) - title_ends)
  between = sequences.repeated(template.between, len(titles))
  pieces.insert(2, between.cut(0, title_ends))
  return sequences.Chained((*pieces, end))


def fit(
    pieces: Iterable[sequences.Sequences],
    room: Int[np.ndarray, ' sequences'] | int,
) -> list[sequences.Sequences]:
  """Cuts the last pieces where all of them are too long together.

  Args:
    pieces: the first pieces of all sequences, their second ones, and so on.
    room: tokens of all pieces of a sequence, at most.
  """
  kept = []
  for piece in pieces:
    kept.append(piece.cut(0, room))
    room = room - kept[-1].lengths
  return kept


def sequence_lengths(
    title_lengths: Int[np.ndarray, ' rows'],
    text_lengths: Int[np.ndarray, ' rows'],
    template: Template,
    *,
    max_length: int,
    prefix_length: int = 0,
) -> Int[np.ndarray, ' rows']:
  """`[rows] int64` lengths of what `input_sequences` would return."""
  between = len(template.between) * (title_lengths > 0)
  whole = (template.around + prefix_length + title_lengths + text_lengths
           + between)
  return np.minimum(whole, max_length)
