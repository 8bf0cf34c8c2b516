"""How token ids of title and text become input sequences. Pure."""

from collections.abc import Iterable

import numpy as np
from jaxtyping import Int

from neg_contrast.data import sequences

WHOLE = (0, -1, 1)
"""First token of a text, token to stop before, whether the title is taken."""


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
    *,
    cls_id: int,
    sep_id: int,
    max_length: int,
    prefix_ids: tuple[int, ...] = (),
    title_end_id: int | None = None,
    separators: int = 1,
) -> sequences.Chained:
  """`[CLS] prefix title [SEP] text [SEP]`; without title, `[CLS] prefix text
  [SEP]` (Lu et al., section 3).

  Only the text is cut, and the last [SEP] stays; a title that alone is too long
  is cut too.

  Args:
    titles: without special tokens; may be empty.
    texts: pieces of the texts, one after the other; without special tokens; may
      be empty.
    cls_id: id of [CLS].
    sep_id: id of [SEP].
    max_length: tokens of a result, at most.
    prefix_ids: put after [CLS].
    title_end_id: id of what stands between title and text; None: `sep_id`.
    separators: how many of it; two in RoBERTa's pairs.

  Returns:
    Views: ids are read when they are taken out.
  """
  head = sequences.repeated((cls_id, *prefix_ids), len(titles))
  end = sequences.repeated((sep_id,), len(titles))
  most = min(separators, max_length - 2)  # [CLS] and the last [SEP] stay.
  title_ends = np.where(titles.lengths > 0, most, 0)
  pieces = fit((head, titles, *texts), max_length - 1 - title_ends)
  middle = sep_id if title_end_id is None else title_end_id
  between = sequences.repeated((middle,) * separators, len(titles))
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
    *,
    max_length: int,
    prefix_length: int = 0,
    separators: int = 1,
) -> Int[np.ndarray, ' rows']:
  """`[rows] int64` lengths of what `input_sequences` would return."""
  between = separators * (title_lengths > 0)
  whole = 2 + prefix_length + title_lengths + text_lengths + between
  return np.minimum(whole, max_length)
