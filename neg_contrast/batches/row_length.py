"""Chooses tokens of packed rows, and how many rows, by the data. Pure.

A token of a transformer layer takes `4 h (2 h + I)` operations in dense
products, for hidden size h and I features inside the feed-forward block. In
attention it takes `4 h L`, where L is the length of its row: scores with the
other sequences of the row are computed too, and masked. So a batch costs

    tokens(L) * (E + L),    E = 2 h + I,

where `tokens(L)` counts padding too, and E is the row length at which attention
costs as much as the dense products: 2,304 for MiniLM, 4,608 for BERT-base.
Longer rows have less padding and dearer attention. For MiniLM, rows of 512
tokens have to save 10% of the tokens that rows of 256 take; for BERT-base 5%.

Passages of 128 tokens suit rows of 128. Those of SQuAD, 159 on average and 256
at most, take 7% padding in rows of 256, and 4% in rows of 320.

A training step is compiled once for every number of rows that comes up, of two
towers for every pair of numbers. A training of few steps fills up to multiples,
so that few come up: see `fit_multiples`.
"""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Int

from neg_contrast.batches import packing

_STEP = 64  # Few lengths come up, and tiles of matrix units are filled.
_BATCHES, _SEQUENCES = 16, 2**15  # Of a sample: 0.2 s for each row length.
# Tokens of training that take as long as compiling one program: 17,000 to
# 23,000 were measured for one core and six layers. Accelerators compute more of
# them meanwhile; rows are the same everywhere, so that runs can be repeated.
_PROGRAM_TOKENS = 20_000
_FILLED = 4  # At most this part of a step, if a batch is unlike the sample.


def default(longest: int) -> int:
  """A row a quarter longer than the longest sequence, for unknown lengths."""
  return _whole_steps(-(-longest * 5 // 4))


def longest_row(longest: int) -> int:
  """The longest row that is ever chosen."""
  return _whole_steps(2 * longest)


def sampled_steps(sequences: int) -> range:
  """Training steps by whose batches a row length is chosen.

  Args:
    sequences: of a batch.
  """
  return range(max(2, min(_BATCHES, _SEQUENCES // max(1, sequences))))


def fit_rows(
    batches: Mapping[str, Sequence[Int[np.ndarray, ' _']]],
    groups: int,
    longest: Mapping[str, int],
    even_row_length: int,
    steps: int,
) -> tuple[dict[str, int], dict[str, int]]:
  """`fit_batches` and `fit_multiples` for towers.

  Args:
    batches: lengths of the sequences of each, by tower; a sample.
    groups: that a batch is packed into.
    longest: tokens a sequence may have, of the towers there are.
    even_row_length: E, see above.
    steps: of the training.

  Returns:
    Row lengths, and multiples, by tower.
  """
  lengths = {
      tower: fit_batches(batches[tower], groups, most, even_row_length)
      for tower, most in longest.items()
  }
  return lengths, fit_multiples(
      {tower: batches[tower] for tower in longest}, groups, lengths, steps
  )


def fit_batches(
    batches: Sequence[Int[np.ndarray, ' sequences']],
    groups: int,
    longest: int,
    even_row_length: int,
) -> int:
  """The row length of least cost that takes no more memory than the default.

  The memory of a step grows with its tokens and, where attention is a matrix,
  with `tokens(L) * L`. Neither may exceed that of the default length: what was
  compiled for a machine with that one still fits.

  Args:
    batches: lengths of the sequences of each; a sample.
    groups: that a batch is packed into.
    longest: tokens a sequence may have.
    even_row_length: E, see above.
  """
  tokens = {
      length: sum(packing.plan(one, groups, length).tokens for one in batches)
      for length in _candidates(longest)
  }
  usual = default(longest)
  return _least_cost({
      length: count for length, count in tokens.items()
      if count <= tokens[usual] and count * length <= tokens[usual] * usual
  }, even_row_length)


def fit_multiples(
    batches: Mapping[str, Sequence[Int[np.ndarray, ' _']]],
    groups: int,
    row_lengths: Mapping[str, int],
    steps: int,
) -> dict[str, int]:
  """What numbers of rows are multiples of, for a training to end soonest.

  Larger multiples have more padding, which every step pays for, and fewer
  numbers of rows, each of which is compiled. What is added takes memory beyond
  what `fit_batches` allows, up to a quarter where steps are few.

  Args:
    batches: by tower, lengths of the sequences of each; a sample.
    groups: that a batch is packed into.
    row_lengths: tokens a row holds, by tower.
    steps: of the training.

  Returns:
    By tower; 1 where steps are many.
  """
  needed = {
      tower: np.array([packing.plan(one, groups, row_lengths[tower]).rows
                       for one in some[:max(1, steps)]])
      for tower, some in batches.items()
  }

  def cost(multiples):
    filled = [-(-rows // multiple) * multiple for rows, multiple
              in zip(needed.values(), multiples, strict=True)]
    tokens = groups * sum(
        rows.mean() * row_lengths[tower]
        for tower, rows in zip(needed, filled, strict=True)
    )
    programs = len(set(zip(*filled, strict=True)))
    return steps * tokens + programs * _PROGRAM_TOKENS, multiples

  most = sum(rows.max() * row_lengths[tower] for tower, rows in needed.items())
  choices = [_multiples(rows, int(most) // _FILLED // row_lengths[tower])
             for tower, rows in needed.items()]
  return dict(zip(
      needed, min(map(cost, itertools.product(*choices)))[1], strict=True
  ))


def _multiples(rows: Int[np.ndarray, ' batches'], filled: int) -> list[int]:
  """Parts of slightly more rows than any of a sample has; 1 is one of them.

  Args:
    rows: of the batches of a sample.
    filled: rows that may be added to a batch.
  """
  most = int(rows.max() + (np.ptp(rows) + 1) // 2)
  parts = {-(-most // count) for count in range(1, most + 1)}
  return sorted(one for one in parts if one <= filled + 1)


def fit_sequences(
    lengths: Int[np.ndarray, ' sequences'], even_row_length: int
) -> int:
  """The row length of least cost for sequences packed as one group.

  Args:
    lengths: of the sequences; a sample.
    even_row_length: E, see above.
  """
  return _least_cost({
      length: packing.rows_needed(lengths, length) * length
      for length in _candidates(int(np.max(lengths, initial=1)))
  }, even_row_length)


def _least_cost(tokens: dict[int, int], even_row_length: int) -> int:
  """Of row lengths with their tokens; of equals the shortest."""
  return min(tokens, key=lambda length: (
      tokens[length] * (even_row_length + length), length
  ))


def _candidates(longest: int) -> range:
  return range(_whole_steps(longest), longest_row(longest) + 1, _STEP)


def _whole_steps(tokens: int) -> int:
  return -(-tokens // _STEP) * _STEP
