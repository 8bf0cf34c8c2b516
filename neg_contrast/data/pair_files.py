"""Files of pairs, read by all processes in parts."""

import array
import functools
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from jaxtyping import Int

from neg_contrast import errors
from neg_contrast.artifacts import kept_parts
from neg_contrast.data import inputs, synthetic_pairs
from neg_contrast.data import prepared as prepared_lib

File = Callable[[], pathlib.Path]
"""Gives the place of a file of pairs, once it is known to be whole."""
Parts = Callable[[str, int], kept_parts.KeptParts]
"""(name, count) -> parts of that name."""
_FILES_AT_ONCE = 4


class PairFiles:
  """What is known of the pairs of some files, `[pairs, ...]` arrays by name.

  `codes`: uint8, what stands for each query, see `synthetic_pairs.code`.
  `passages`: int32, rows. `homes`: int32, rows of the passages that queries
  were cut from, -1 for those of `passages`. `is_negative`: uint8, 0 or 1.
  `cuts`: int32, of those pairs alone that `cut_pairs` numbers.
  """

  def __init__(
      self, base: prepared_lib.Prepared, files: Sequence[File], parts: Parts
  ):
    """Reads nothing yet.

    Args:
      base: the corpus.
      files: of pairs; their order counts.
      parts: are kept until all is stored.
    """
    self._base, self._files = base, files
    self._blocks = kept_parts.divide(len(files), _FILES_AT_ONCE)
    self._parts = parts('pairs', len(self._blocks))

  def read(self) -> None:
    """Reads all files, with all processes that come here.

    Raises:
      UserError: a file is damaged, a query empty, or a passage not in the
        corpus.
    """
    self._parts.make(self._read)

  def ends(self) -> Int[np.ndarray, ' files']:
    """Pairs of all files up to the end of each; at least one number."""
    counts = [count for part in range(len(self._blocks))
              for count in self._parts.manifest(part)['pairs']]
    return np.cumsum(counts or [0])

  def all(self, name: str, dtype: Any, *shape: int) -> np.ndarray:
    """One of the arrays, `[pairs, *shape]`."""
    return np.concatenate([
        self._parts.array(part, name, (None, *shape), dtype)
        for part in range(len(self._blocks))
    ])

  def of(self, name: str) -> list[pathlib.Path]:
    """The files of one of the arrays, whose rows are those of `all`."""
    return [self._parts.file(part, f'{name}.npy')
            for part in range(len(self._blocks))]

  def cut_pairs(self) -> Int[np.ndarray, ' cut']:
    """Numbers of the pairs whose passage is cut, ascending."""
    numbers, before = [], 0
    for part in range(len(self._blocks)):
      numbers.append(before + self._parts.array(
          part, 'cut', (None,), np.int32
      ).astype(np.int64))
      before += sum(self._parts.manifest(part)['pairs'])
    return np.concatenate(numbers)

  def texts(
      self, wanted: Int[np.ndarray, ' some'], ends: Int[np.ndarray, ' files']
  ) -> Iterator[str]:
    """The queries of some pairs.

    Args:
      wanted: numbers of the pairs, ascending.
      ends: of `ends`.
    """
    begin, end = np.searchsorted(ends, wanted[[0, -1]], 'right')
    number = int(ends[begin - 1]) if begin else 0
    left = iter(wanted.tolist())
    following = next(left)
    for file in self._files[begin : end + 1]:
      for pair in synthetic_pairs.read_pairs([file()]):
        if number == following:
          yield pair['query']
          following = next(left, -1)
        number += 1

  def _read(
      self, part: int, scratch: pathlib.Path, manifest: dict[str, Any]
  ) -> None:
    """Writes what stands for the pairs of some files."""
    row_of = functools.lru_cache(1024)(self._row_of)
    codes, counts, negative = bytearray(), [], bytearray()
    passages, homes, cut, cuts = (array.array('i') for _ in range(4))
    for file in self._files[self._blocks[part]]:
      path, before = file(), len(passages)
      for pair in synthetic_pairs.read_pairs([path]):
        if not pair['query'].strip():
          raise errors.UserError(
              f'{path}: a query of "{pair["passage_id"]}" has no text'
          )
        if pair['cut'] != inputs.WHOLE:
          cut.append(len(passages))
          cuts.extend(pair['cut'])
        codes += synthetic_pairs.code(pair['query'])
        negative.append(pair.get('is_negative', False))
        passages.append(row_of(pair['passage_id'], path))
        homes.append(row_of(pair['home_id'], path) if 'home_id' in pair else -1)
      counts.append(len(passages) - before)
    manifest['pairs'] = counts
    for name, values in (
        ('passages', passages), ('homes', homes), ('cut', cut),
    ):
      np.save(scratch / f'{name}.npy', np.array(values, np.int32))
    np.save(scratch / 'is_negative.npy', np.frombuffer(negative, np.uint8))
    np.save(scratch / 'cuts.npy', np.array(cuts, np.int32).reshape(-1, 3))
    np.save(scratch / 'codes.npy', np.frombuffer(codes, np.uint8).reshape(
        -1, synthetic_pairs.CODE_BYTES
    ))

  def _row_of(self, passage_id: str, path: pathlib.Path) -> int:
    row = self._base.passage_ids.row_of(passage_id)
    if row is None:
      raise errors.UserError(
          f'{path}: a pair is of the passage "{passage_id}", which '
          f'{self._base.manifest["spec"]} does not have'
      )
    return row
