"""Ids of many records: what repeats, which row has an id, the order of ids.

Everything is sorted on disk, by SQLite, so that 21 million ids need little
memory, and ids are compared as they are, not by a hash that could collide.
"""

import array
import functools
import pathlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from jaxtyping import Int, UInt8

from neg_contrast.artifacts import arrays

_CACHE_KIB = 16 * 1024  # Of each of three; more is not faster.
_BATCH = 10_000
_BLOCK = 2**16  # Rows whose numbers are looked up at once.


class IdTable(Sequence[bytes]):
  """The ids of a finished table: row → id, and id → row."""

  def __init__(self, path: pathlib.Path, is_finished: bool = True):
    """Opens what `IdSorter.finish` wrote under this name.

    Args:
      path: of the files, without their suffixes.
      is_finished: whether the folder around them is, see `arrays.map_file`.

    Raises:
      UserError: a file is missing or damaged.
    """
    map_file = functools.partial(arrays.map_file, is_finished=is_finished)
    self._ends = map_file(path.with_suffix('.ends.bin')).check().view('<i8')
    self._bytes = map_file(path.with_suffix('.ids.bin')).check()
    self._rows_file = map_file(path.with_suffix('.sqlite'))
    self._connection: sqlite3.Connection | None = None

  def __len__(self) -> int:
    return len(self._ends)

  def __getitem__(self, row):
    """The UTF-8 bytes of an id.

    Raises:
      IndexError: there is no such row; -1, which pads pools, is none.
    """
    if isinstance(row, slice):
      return [self[i] for i in range(*row.indices(len(self)))]
    if not 0 <= row < len(self):
      raise IndexError(f'row {row} of {len(self)}')
    start = self._ends[row - 1] if row else 0
    return self._bytes[start : self._ends[row]].tobytes()

  def row_of(self, name: str) -> int | None:
    """The row with this id; None if there is none.

    Raises:
      UserError: the file of rows is damaged.
    """
    if self._connection is None:
      self._rows_file.check()
      self._connection = sqlite3.connect(
          f'{self._rows_file.path.absolute().as_uri()}?mode=ro&immutable=1',
          uri=True, check_same_thread=False,
      )
    try:
      key = name.encode()
    except UnicodeEncodeError:
      return None  # Half of a surrogate pair: no stored id has one.
    try:
      found = self._connection.execute(
          'SELECT row FROM ids WHERE id = ?', (key,)
      ).fetchone()
    except sqlite3.Error as e:
      raise self._rows_file.damaged(e) from None
    return found[0] if found else None


class IdSorter:
  """Takes the ids of records in row order, and sorts them."""

  def __init__(self, path: pathlib.Path):
    """Starts an empty table; its files are called `path` with suffixes."""
    self._path = path
    self._scratch = path.with_suffix('.sorting')
    self._scratch.unlink(missing_ok=True)
    self._records = _connect(self._scratch)
    self._records.execute(
        'CREATE TABLE records (row INTEGER PRIMARY KEY, id BLOB, '
        'content BLOB, text BLOB, document BLOB)'
    )
    self._ids = open(path.with_suffix('.ids.bin'), 'wb')  # noqa: SIM115
    self._ends = open(path.with_suffix('.ends.bin'), 'wb')  # noqa: SIM115
    self._count = self._end = 0

  def __len__(self) -> int:
    return self._count

  def add(
      self,
      names: Sequence[bytes],
      contents: Sequence[bytes],
      texts: Sequence[bytes],
      documents: Sequence[bytes],
  ) -> None:
    """Adds the next records.

    Args:
      names: their ids.
      contents: of each, all that two records of the same id must share, or a
        hash of it.
      texts: what two records of the same group share, or a hash of it.
      documents: of the records; empty: unknown.
    """
    rows = range(len(self), len(self) + len(names))
    self._records.executemany(
        'INSERT INTO records VALUES (?, ?, ?, ?, ?)',
        zip(rows, names, contents, texts, documents, strict=True),
    )
    ends = self._end + np.cumsum([len(name) for name in names], dtype='<i8')
    self._ids.write(b''.join(names))
    self._ends.write(ends.tobytes())
    self._end, self._count = int(ends[-1]), rows.stop

  def finish(self) -> Int[np.ndarray, ' rows']:
    """Writes the table.

    Returns:
      `[rows] int8`: 0 for the first record of an id, 1 for a repeat with the
      same content, 2 for one with another. If not all are 0, the table is of no
      use: make another without the repeats.
    """
    self._ids.close()
    self._ends.close()
    repeats = np.zeros(len(self), np.int8)

    def first_rows() -> Iterator[tuple[bytes, int]]:
      last = first_content = None
      for name, row, content in self._records.execute(
          'SELECT id, row, content FROM records ORDER BY id, row'
      ):
        if name == last:
          repeats[row] = 1 if content == first_content else 2
          continue
        last, first_content = name, content
        yield name, row

    write_ascending(self._path, first_rows(), len(self))
    return repeats

  def groups(self) -> Int[np.ndarray, ' rows']:
    """`[rows] int32`: the first row with an equal `text`."""
    return self._first_rows('text', 'TRUE')

  def documents(self) -> Int[np.ndarray, ' rows']:
    """`[rows] int32`: documents numbered as they come; -1 where unknown."""
    return numbered(self._first_rows('document', "document != x''"))

  def close(self) -> None:
    """Removes the scratch file."""
    self._ids.close()
    self._ends.close()
    self._records.close()
    self._scratch.unlink(missing_ok=True)

  def _first_rows(self, column: str, condition: str):
    """`[rows] int32`: the first row of equal value; -1 unless `condition`."""
    found = np.full(len(self), -1, np.int32)
    last, first = None, -1
    for value, row in self._records.execute(
        f'SELECT {column}, row FROM records WHERE {condition} '
        f'ORDER BY {column}, row'
    ):
      if value != last:
        last, first = value, row
      found[row] = first
    return found


def numbered(first: Int[np.ndarray, ' rows']) -> Int[np.ndarray, ' rows']:
  """Numbers values in the order of their first rows.

  Args:
    first: `[rows] int32`, the first row with the same value; -1: it has none.
      It is changed.

  Returns:
    `[rows] int32`, numbers from 0; -1 where there is no value.
  """
  blocks = [first[begin : begin + _BLOCK]
            for begin in range(0, len(first), _BLOCK)]
  begins = np.zeros(len(first), bool)
  for block in blocks:
    begins[block[block >= 0]] = True
  numbers = np.cumsum(begins, dtype=np.int32)
  for block in blocks:
    is_known = block >= 0
    block[is_known] = numbers[block[is_known]] - 1
  return first


def write_ascending(
    path: pathlib.Path, ids: Iterable[tuple[bytes, int]], rows: int
) -> None:
  """Writes the row of each id and the ranks of rows, not the ids by row.

  Args:
    path: as that of `IdSorter`.
    ids: all different, ascending, each with its row.
    rows: how many there are.
  """
  order = array.array('i')

  def noted() -> Iterator[tuple[bytes, int]]:
    for name, row in ids:
      order.append(row)
      yield name, row

  _write_rows(path, noted())
  _save_tie_ranks(path, np.frombuffer(order, np.int32), rows)


def write_sorted(
    path: pathlib.Path,
    ids: UInt8[np.ndarray, 'rows length'],
    ascending: Int[np.ndarray, ' rows'],
) -> None:
  """Writes a table of ids that are sorted already, all different.

  Args:
    path: as that of `IdSorter`.
    ids: `[rows, length] uint8`, the bytes of ids of one length.
    ascending: `[rows] int32`, rows in the order of ids.
  """
  count, length = ids.shape
  path.with_suffix('.ids.bin').write_bytes(ids.tobytes())
  ends = np.arange(1, count + 1, dtype='<i8') * length
  path.with_suffix('.ends.bin').write_bytes(ends.tobytes())

  def rows() -> Iterator[tuple[bytes, int]]:
    for begin in range(0, count, _BATCH):
      some = ascending[begin : begin + _BATCH]
      names = ids[some].tobytes()
      yield from ((names[length * place : length * (place + 1)], row)
                  for place, row in enumerate(some.tolist()))

  _write_rows(path, rows())
  _save_tie_ranks(path, ascending, count)


def load_tie_ranks(path: pathlib.Path) -> Int[np.ndarray, ' rows']:
  """`[rows] int32`, as `hits.tie_ranks`, of the table of this name."""
  return arrays.load_array(
      path.with_suffix('.tie_ranks.npy'), (None,), np.int32
  )


def _write_rows(
    path: pathlib.Path, ids: Iterable[tuple[bytes, int]]
) -> None:
  """Writes the row of each id; they ascend."""
  path = path.with_suffix('.sqlite')
  path.unlink(missing_ok=True)
  table = _connect(path)
  table.execute('CREATE TABLE ids (id BLOB PRIMARY KEY, row INTEGER) '
                'WITHOUT ROWID')
  table.executemany('INSERT INTO ids VALUES (?, ?)', ids)
  table.commit()
  table.close()


def _save_tie_ranks(
    path: pathlib.Path, ascending: Int[np.ndarray, ' different'], rows: int
) -> None:
  """Saves `load_tie_ranks`, from rows in the order of ids."""
  ranks = np.empty(rows, np.int32)
  for begin in range(0, len(ascending), _BLOCK):
    some = ascending[begin : begin + _BLOCK]
    last = len(ascending) - 1 - begin
    ranks[some] = np.arange(last, last - len(some), -1, dtype=np.int32)
  np.save(path.with_suffix('.tie_ranks.npy'), ranks)


def _connect(path: pathlib.Path) -> sqlite3.Connection:
  """A database that is thrown away if the program is killed."""
  connection = sqlite3.connect(path)
  for setting in ('journal_mode=OFF', 'synchronous=OFF', 'temp_store=FILE',
                  f'cache_size=-{_CACHE_KIB}'):
    connection.execute(f'PRAGMA {setting}')
  return connection
