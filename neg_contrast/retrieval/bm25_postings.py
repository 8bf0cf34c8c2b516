"""Postings: which of some passages hold a term, and how often.

A file of postings holds, each part from a multiple of 8 bytes on:

| part | type | of |
|---|---|---|
| sizes | int64 | passages, terms, postings, bytes of a count |
| terms | uint64, ascending | each different term |
| begins | uint32, one more than terms | its first posting |
| lengths | uint32 | each passage: its terms, repeats counted |
| places | uint16, ascending in a term | each posting: the passage |
| counts | uint8, or what holds the largest | how often it holds the term |

That is 3 bytes a posting, 4 a passage and 12 a different term. Neither k1 nor b
is in it, nor anything of other passages: scores are computed when a search
reads it.
"""

import dataclasses
import pathlib
from collections.abc import Callable

import numpy as np
from jaxtyping import Int, Integer, UInt, UInt16, UInt32, UInt64

from neg_contrast.artifacts import arrays, checksums
from neg_contrast.retrieval import bm25_terms

MOST_PASSAGES = 2**16  # That a place can number.
_SIZES = 4
_ALIGNED = 8


@dataclasses.dataclass(frozen=True)
class Postings:
  """The terms of at most 65,536 passages; arrays may be mapped from disk.

  Attributes:
    terms: `[terms] uint64`, ascending, different.
    begins: `[terms + 1] uint32`, where the postings of each term begin.
    lengths: `[passages] uint32`, terms of each passage, repeats counted.
    places: `[postings] uint16`, the passage of each.
    counts: `[postings] uint8` or wider, how often it holds the term.
    check: verifies postings from `begins` to `ends`, both `[runs] int`.
  """

  terms: UInt64[np.ndarray, ' terms']
  begins: UInt32[np.ndarray, ' ends']
  lengths: UInt32[np.ndarray, ' passages']
  places: UInt16[np.ndarray, ' postings']
  counts: UInt[np.ndarray, ' postings']
  check: Callable[[np.ndarray, np.ndarray], None] = lambda begins, ends: None

  def locate(
      self, terms: UInt64[np.ndarray, ' wanted']
  ) -> tuple[Int[np.ndarray, ' wanted'], Int[np.ndarray, ' wanted']]:
    """The first posting of some terms, and the one after their last.

    Args:
      terms: `[wanted] uint64`, best ascending.

    Returns:
      Two of `[wanted] int64`, equal for a term that no passage holds.
    """
    if not len(self.terms):
      return np.zeros(len(terms), np.int64), np.zeros(len(terms), np.int64)
    at = np.minimum(np.searchsorted(self.terms, terms), len(self.terms) - 1)
    begins = self.begins[at].astype(np.int64)
    is_there = self.terms[at] == terms
    return begins, np.where(is_there, self.begins[at + 1], begins)

  def gather(
      self, begins: Int[np.ndarray, ' runs'], ends: Int[np.ndarray, ' runs']
  ) -> tuple[Int[np.ndarray, ' postings'], Integer[np.ndarray, ' postings']]:
    """Places and counts of runs of postings, one run after the other."""
    self.check(begins, ends)
    sizes = ends - begins
    shifts = begins - (np.cumsum(sizes) - sizes)
    postings = np.arange(sizes.sum()) + np.repeat(shifts, sizes)
    return self.places[postings].astype(np.intp), self.counts[postings]


def count(terms: bm25_terms.Terms) -> Postings:
  """Counts the terms of some passages.

  Raises:
    ValueError: there are more than 65,536 passages, or 2^32 postings.
  """
  lengths = terms.lengths
  if len(lengths) > MOST_PASSAGES:
    raise ValueError(f'{len(lengths)} passages; at most {MOST_PASSAGES}')
  used = np.flatnonzero(np.bincount(terms.numbers, minlength=1))
  different, places = np.unique(terms.table[used], return_inverse=True)
  place_of = np.zeros(len(terms.table), np.int64)
  place_of[used] = places
  # Places of terms are below 2^32, those of passages below 2^16.
  keys = place_of[terms.numbers] << 16
  keys |= np.repeat(np.arange(len(lengths)), lengths)
  keys.sort()
  firsts = np.flatnonzero(np.diff(keys, prepend=-1))
  counts = np.diff(firsts, append=len(keys))
  if len(firsts) >= 2**32:
    raise ValueError(f'{len(firsts)} postings; a shard must have fewer')
  keys = keys[firsts]
  begins = np.searchsorted(keys, np.arange(len(different) + 1) << 16)
  return Postings(
      different, begins.astype(np.uint32), lengths.astype(np.uint32),
      (keys & 0xffff).astype(np.uint16),
      counts.astype(np.min_scalar_type(counts.max(initial=0))),
  )


def write(postings: Postings, path: pathlib.Path) -> None:
  """Writes a file of postings."""
  sizes = np.array([
      len(postings.lengths), len(postings.terms), len(postings.places),
      postings.counts.itemsize,
  ], np.int64)
  with open(path, 'wb') as f:
    for part in (sizes, postings.terms, postings.begins, postings.lengths,
                 postings.places, postings.counts):
      f.write(part.tobytes())
      f.write(bytes(-part.nbytes % _ALIGNED))


def read(
    path: pathlib.Path, folder: pathlib.Path, passages: int
) -> Postings:
  """Maps a file of postings.

  All but the postings are verified here, and those by `check`.

  Args:
    path: of the file.
    folder: of the artifact.
    passages: that it has to be of.

  Raises:
    UserError: it is missing, damaged, or of another number of passages.
  """
  file = arrays.map_file(path, folder)
  file.check(0, min(len(file.data), _SIZES * 8))
  if len(file.data) < _SIZES * 8:
    raise file.damaged('too short')
  sizes = file.data[: _SIZES * 8].view(np.int64).tolist()
  dtypes = {1: np.uint8, 2: np.uint16, 4: np.uint32}
  if sizes[0] != passages or sizes[3] not in dtypes:
    raise file.damaged(f'of {sizes[0]} passages, not {passages}')
  layout = [
      (np.uint64, sizes[1]), (np.uint32, sizes[1] + 1), (np.uint32, sizes[0]),
      (np.uint16, sizes[2]), (dtypes[sizes[3]], sizes[2]),
  ]
  parts, begin = [], _SIZES * 8
  for dtype, length in layout:
    end = begin + length * np.dtype(dtype).itemsize
    parts.append((begin, file.data[begin:end].view(dtype)))
    begin = end + -end % _ALIGNED
  if begin != len(file.data):
    raise file.damaged(f'{len(file.data):,} bytes, not {begin:,}')
  file.check(0, parts[3][0])
  terms, begins, lengths, places, counts = (values for _, values in parts)
  return Postings(terms, begins, lengths, places, counts,
                  _checker(file, *parts[3:]))


def _checker(
    file: checksums.MappedFile, *parts: tuple[int, np.ndarray]
) -> Callable[[np.ndarray, np.ndarray], None]:
  """Verifies runs of some parts of a file: their first byte, and values."""

  def check(begins: np.ndarray, ends: np.ndarray) -> None:
    for first, values in parts:
      file.check_runs(first + begins * values.itemsize,
                      first + ends * values.itemsize)

  return check
