"""How token ids of title and text become an input sequence. Pure."""

import numpy as np
from jaxtyping import Int, Integer


def sequence_tokens(
    title_ids: Integer[np.ndarray, ' title'],
    text_ids: Integer[np.ndarray, ' text'],
    *,
    cls_id: int,
    sep_id: int,
    max_length: int,
    prefix_ids: tuple[int, ...] = (),
) -> Int[np.ndarray, ' tokens']:
  """`[CLS] prefix title [SEP] text [SEP]`; without title, `[CLS] prefix text
  [SEP]` (Lu et al., section 3).

  Only the text is cut, and the last [SEP] stays; a title that alone is too long
  is cut too.

  Args:
    title_ids: without special tokens; may be empty.
    text_ids: without special tokens; may be empty.
    cls_id: id of [CLS].
    sep_id: id of [SEP].
    max_length: tokens of the result, at most.
    prefix_ids: put after [CLS].

  Returns:
    `[tokens] int32`.
  """
  head = np.concatenate([
      np.array([cls_id, *prefix_ids], np.int32), title_ids.astype(np.int32)
  ])
  if len(title_ids):
    head = np.append(head[: max_length - 2], np.int32(sep_id))
  tokens = np.concatenate([head, text_ids.astype(np.int32)])[: max_length - 1]
  return np.append(tokens, np.int32(sep_id))


def sequence_lengths(
    title_lengths: Int[np.ndarray, ' rows'],
    text_lengths: Int[np.ndarray, ' rows'],
    *,
    max_length: int,
    prefix_length: int = 0,
) -> Int[np.ndarray, ' rows']:
  """`[rows] int64` lengths of what `sequence_tokens` would return."""
  whole = 2 + prefix_length + title_lengths + text_lengths + (title_lengths > 0)
  return np.minimum(whole, max_length)
