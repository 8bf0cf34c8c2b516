"""Documents as the rows of a table name them."""

import collections
import contextlib
import difflib
import functools
import itertools
import pathlib
from collections.abc import Callable, Iterable, Iterator

from absl import logging

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
      self, ids: Callable[[], Iterable[str]], folder: str | None = None
  ):
    """Reads nothing yet.

    Args:
      ids: gives the ids of all documents, as often as it is asked.
      folder: name of the folder within which ids are paths; the file's name,
        with its ending or without, does as well where no other file has it.
        None: ids are no paths.
    """
    self._ids, self._folder = ids, folder

  def id_of(self, name: str) -> str:
    """The id of the document that a name means; itself, where it means none."""
    if self._folder is not None and name not in self._whole:
      name = name.replace('\\', '/')  # As Windows has it.
      first, slash, rest = name.removeprefix('./').partition('/')
      name = rest if slash and first in ('.', self._folder) else (
          first + slash + rest)
    found = self._paths.get(name, [])
    return found[0] if len(found) == 1 else name

  def check(
      self, rows: column_tables.Rows, column: str,
      invalid: records.InvalidRecords,
  ) -> None:
    """Tells of the first row that names no document, and of how many do.

    Args:
      rows: of the table.
      column: where names stand.
      invalid: says whether they are skipped; whoever reads them counts them.

    Raises:
      UserError: there is one, and they are not to be skipped.
    """
    wheres: dict[str, str] = {}
    counts = collections.Counter[str]()
    for where, name in named(rows, column):
      wheres.setdefault(name, where)
      counts[name] += 1
    ids = set(map(self.id_of, wheres))
    ids.difference_update(self._ids())
    unknown = [name for name in wheres if self.id_of(name) in ids]
    if not unknown:
      return
    first, number = unknown[0], sum(counts[name] for name in unknown)
    also = (f' ({number} of {counts.total()} rows name documents that are not '
            'there)' if number > 1 else '')
    message = (f'column "{column}" names "{first}", {self._fault(first)}'
               f'{also}')
    if not invalid.skips:
      invalid.report('unknown_id', wheres[first], message)
    logging.warning('%s: %s; skipped', wheres[first], message)

  def _fault(self, name: str) -> str:
    found = self._paths.get(self.id_of(name), [])
    if found:
      return (f'as {len(found)} documents are called: write '
              + ' or '.join(f'"{one}"' for one in found[:3]))
    known = itertools.islice(self._ids(), _MOST_ALIKE)
    alike = difflib.get_close_matches(name, [*known, *self._paths], 1)
    return 'which is no document' + (
        f'; did you mean "{alike[0]}"?' if alike else '')

  @functools.cached_property
  def _whole(self) -> set[str]:
    """Ids, where they are paths."""
    return set() if self._folder is None else set(self._ids())

  @functools.cached_property
  def _paths(self) -> dict[str, list[str]]:
    """Names of files, with their endings and without -> paths."""
    found: dict[str, list[str]] = {}
    if self._folder is not None:
      whole = self._whole
      for one in map(pathlib.PurePosixPath, self._ids()):
        for name in dict.fromkeys((one.name, one.stem)):
          if name not in whole:
            found.setdefault(name, []).append(str(one))
    return found
