"""Documents as the rows of a table name them."""

import collections
import contextlib
import difflib
import functools
import itertools
import pathlib
from collections.abc import Callable, Iterable, Iterator

from neg_contrast.data import records
from neg_contrast.data.formats import column_tables, given_pairs

_MOST_ALIKE = 10_000  # Names that a misspelt one is compared with.


def named(rows: column_tables.Rows, column: str) -> Iterator[tuple[str, str]]:
  """(where, name of the document) of each row that names one."""
  for where, row in rows:
    with contextlib.suppress(given_pairs.Unusable):
      if name := given_pairs.get_id(row, column):
        yield where, name


class DocumentNames:
  """What names mean: ids, or files by what their paths end with."""

  def __init__(
      self, ids: Callable[[], Iterable[str]], are_files: bool = False
  ):
    """Reads nothing yet.

    Args:
      ids: gives the ids of all documents, as often as it is asked.
      are_files: whether ids are paths, of which the file's name, with its
        ending or without, does as well where no other file has it.
    """
    self._ids, self._are_files = ids, are_files

  def id_of(self, name: str) -> str:
    """The id of the document that a name means; itself, where it means none."""
    found = self._paths.get(name, [])
    return found[0] if len(found) == 1 else name

  def check(
      self, rows: column_tables.Rows, column: str,
      invalid: records.InvalidRecords,
  ) -> None:
    """Reports the first row that names no document, and how many do.

    Args:
      rows: of the table.
      column: where names stand.
      invalid: hears of it.
    """
    wheres: dict[str, str] = {}
    counts = collections.Counter[str]()
    for where, name in named(rows, column):
      wheres.setdefault(name, where)
      counts[name] += 1
    unknown = dict.fromkeys(name for name in wheres if name == self.id_of(name))
    for one in self._ids():
      unknown.pop(one, None)
    if not unknown:
      return
    first, number = next(iter(unknown)), sum(counts[name] for name in unknown)
    also = (f' ({number} of {counts.total()} rows name documents that are not '
            'there)' if number > 1 else '')
    invalid.report('unknown_id', wheres[first], f'column "{column}" names '
                   f'"{first}", {self._fault(first)}{also}')

  def _fault(self, name: str) -> str:
    found = self._paths.get(name, [])
    if found:
      return (f'as {len(found)} documents are called: write '
              + ' or '.join(f'"{one}"' for one in found[:3]))
    known = itertools.islice(self._ids(), _MOST_ALIKE)
    alike = difflib.get_close_matches(name, [*known, *self._paths], 1)
    return 'which is no document' + (
        f'; did you mean "{alike[0]}"?' if alike else '')

  @functools.cached_property
  def _paths(self) -> dict[str, list[str]]:
    """Names of files, with their endings and without -> paths."""
    found: dict[str, list[str]] = {}
    if self._are_files:
      whole = set(self._ids())
      for one in map(pathlib.PurePosixPath, self._ids()):
        for name in dict.fromkeys((one.name, one.stem)):
          if name not in whole:
            found.setdefault(name, []).append(str(one))
    return found
