"""Token stores, tokenized by Beam; the bytes are those of one process.

Each part is some rows of a prepared corpus, read and tokenized by one worker,
which holds 1,024 rows at once. This process joins the files of the parts, and
adds up the lengths.
"""

import contextlib
import dataclasses
import pathlib
import shutil
from collections.abc import Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from neg_contrast import beams
from neg_contrast.artifacts import passed_on
from neg_contrast.data import token_bytes

_PART_ROWS = 1 << 16  # Which take a core 20 s.
_AT_ONCE = 1024


@runtime_checkable
class TextsByRow(Protocol):
  """Texts that any worker can read; can be pickled."""

  def __len__(self) -> int:
    ...

  def some(self, rows: range) -> Iterator[tuple[str, ...]]:
    """The texts of some rows, in order."""
    ...


@dataclasses.dataclass(frozen=True)
class _TokenizePart:
  """Tokenizes the rows of a part.

  Attributes:
    texts: to be tokenized.
    encoder: of texts.
    folder: gets `<field>-<kind>-<part>`, ids and lengths.
    size: rows of a part.
    fields: of the texts.
  """

  texts: TextsByRow
  encoder: token_bytes.Encoder
  folder: pathlib.Path
  size: int
  fields: Sequence[str]

  def __call__(self, part: int) -> None:
    """Writes the files of a part."""
    last = self.folder / f'{self.fields[-1]}-lengths-{part}'
    if last.exists():
      return
    rows = range(part * self.size,
                 min((part + 1) * self.size, len(self.texts)))
    lengths: list[list[int]] = [[] for _ in self.fields]
    with contextlib.ExitStack() as stack:
      files = [
          stack.enter_context(open(stack.enter_context(passed_on.putting(
              self.folder / f'{field}-ids-{part}')), 'wb'))
          for field in self.fields
      ]
      for begin in range(0, len(rows), _AT_ONCE):
        batch = self.encoder(list(self.texts.some(
            rows[begin : begin + _AT_ONCE])))
        for field, (ids, some) in enumerate(batch):
          files[field].write(ids)
          lengths[field] += some
    for name, some in zip(self.fields, lengths, strict=True):
      path = self.folder / f'{name}-lengths-{part}'
      with passed_on.putting(path) as partial:
        partial.write_bytes(np.array(some, np.int64).tobytes())


def write(
    texts: TextsByRow, encoder: token_bytes.Encoder, folder: pathlib.Path,
    fields: Sequence[str],
) -> int:
  """Writes the files of a store; returns the number of rows.

  Args:
    texts: of the store.
    encoder: of texts.
    folder: of the store, a scratch folder.
    fields: of the texts.
  """
  with passed_on.shared(folder / 'beam') as scratch:
    return _write(texts, encoder, folder, fields, scratch)


def _write(texts, encoder, folder, fields, scratch) -> int:
  parts = range(-(-len(texts) // _PART_ROWS))
  beams.run('tokenizing', [beams.Each(
      _TokenizePart(texts, encoder, scratch, _PART_ROWS, fields), list(parts)
  )])
  for field in fields:
    end = 0
    with (open(folder / f'{field}_ids.bin', 'wb') as ids,
          open(folder / f'{field}_offsets.bin', 'wb') as offsets):
      offsets.write(np.zeros(1, np.int64).tobytes())
      for part in parts:
        with open(scratch / f'{field}-ids-{part}', 'rb') as f:
          shutil.copyfileobj(f, ids)
        ends = end + np.cumsum(np.fromfile(
            scratch / f'{field}-lengths-{part}', np.int64))
        offsets.write(ends.tobytes())
        end = int(ends[-1])
  return len(texts)


def can_write(texts: Any) -> bool:
  """Whether Beam is to do it, and its workers can read the texts."""
  return beams.is_chosen() and isinstance(texts, TextsByRow) and len(texts) > 0
