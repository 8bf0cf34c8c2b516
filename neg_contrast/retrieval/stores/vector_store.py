"""What a vector database does with exported passages."""

import abc
import dataclasses
import pathlib
from collections.abc import Iterator
from typing import Any

from neg_contrast import errors
from neg_contrast.retrieval import vector_files

_ROWS_AT_ONCE = 1000  # 3 MB of 768 features; servers refuse 64 MB.


@dataclasses.dataclass(frozen=True)
class ExportedShards:
  """Parquet files of passages, as `vector_files` wrote them.

  Attributes:
    folder: of the files.
    fingerprint: of what is in them.
    rows: in all of them.
    dim: features of a vector.
  """

  folder: pathlib.Path
  fingerprint: str
  rows: int
  dim: int

  def batches(self) -> Iterator[Any]:
    """Record batches of `id`, `title` and `vector`, in order."""
    _, parquet = vector_files.import_parquet()
    for path in sorted(self.folder.glob('passages-*.parquet')):
      with parquet.ParquetFile(path) as file:
        yield from file.iter_batches(_ROWS_AT_ONCE)


class VectorStore(abc.ABC):
  """A database, or a place for one."""

  library: str
  """That it needs, as pip knows it."""

  def __init__(self, place: str):
    """Connects.

    Args:
      place: of the database.

    Raises:
      UserError: the library is missing, or nothing answers there.
    """
    try:
      self._connect(place)
    except ImportError:
      raise errors.UserError(
          f'{errors.key("export.store")}: needs {self.library}; pip install '
          '-r launch/requirements-stores.txt'
      ) from None
    except Exception as e:  # Each library has its own.
      raise errors.UserError(
          f'{errors.key("export.store_place")}={place!r}: can\'t be connected '
          f'to ({" ".join(str(e).split()):.200})'
      ) from e

  def load(self, shards: ExportedShards, name: str) -> bool:
    """Makes a collection of exported passages, unless it is there.

    Args:
      shards: what is loaded.
      name: of the collection.

    Returns:
      Whether it was loaded now.

    Raises:
      UserError: there is another collection of that name, or a part of one.
    """
    there = self._find(name)
    if there == (shards.fingerprint, shards.rows):
      return False
    if there is not None:
      raise errors.UserError(
          f'{errors.key("export.store_name")}={name!r}: is there already, with '
          f'{there[1]} rows of other vectors or of an interrupted load; drop '
          'it, or name another'
      )
    self._create(shards, name)
    return True

  @abc.abstractmethod
  def _connect(self, place: str) -> None:
    """Opens the database."""

  @abc.abstractmethod
  def _find(self, name: str) -> tuple[str, int] | None:
    """Fingerprint and rows of a collection; None: there is none."""

  @abc.abstractmethod
  def _create(self, shards: ExportedShards, name: str) -> None:
    """Makes and fills a collection."""
