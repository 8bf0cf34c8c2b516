"""A path in a bucket that readers take for a path of this disk.

What asks for its name as the operating system does (`open(path)`, `np.load`,
a memory map) gets the name of a copy, fetched first. Listing and looking ask
the bucket. Writing goes through `places`; what would write to the copy alone is
refused here.
"""

import fnmatch
import os
import pathlib
import stat as stat_lib
from collections.abc import Generator
from typing import Any

from neg_contrast.artifacts import buckets, fetched

_WRITES = set('wax+')


class BucketPath(pathlib.PosixPath):
  """A path such as `gs://bucket/folder/file`."""

  __slots__ = ()

  def __str__(self) -> str:
    """The address; of a path within a folder, that."""
    parts = self.parts
    if parts and parts[0].endswith(':'):
      return f'{parts[0]}//{"/".join(parts[1:])}'
    return '/'.join(parts) or '.'

  def __fspath__(self) -> str:
    """The name of its copy on this disk, which is fetched first."""
    return str(fetched.current(str(self))) if self.is_absolute() else str(self)

  @property
  def copy(self) -> pathlib.Path:
    """What stands for it on this disk; need not be there."""
    return fetched.copy_of(str(self))

  def is_absolute(self) -> bool:
    """Whether it names a bucket."""
    return bool(self.parts) and self.parts[0].endswith(':')

  def absolute(self) -> 'BucketPath':
    """Itself."""
    return self

  def resolve(self, strict: bool = False) -> 'BucketPath':
    """Itself: buckets have no links."""
    del strict
    return self

  def expanduser(self) -> 'BucketPath':
    """Itself."""
    return self

  def exists(self, **_: Any) -> bool:
    """Whether an object or a folder is there."""
    return buckets.look(str(self)) is not None

  def is_file(self, **_: Any) -> bool:
    """Whether an object is there."""
    there = buckets.look(str(self))
    return there is not None and not there.is_folder

  def is_dir(self, **_: Any) -> bool:
    """Whether objects are there whose names begin with it."""
    there = buckets.look(str(self))
    return there is not None and there.is_folder

  def stat(self, **_: Any) -> os.stat_result:
    """Kind, size and time; everything else is 0.

    Raises:
      FileNotFoundError: nothing is there.
    """
    there = buckets.look(str(self))
    if there is None:
      raise FileNotFoundError(2, 'No such file or directory', str(self))
    mode = stat_lib.S_IFDIR if there.is_folder else stat_lib.S_IFREG
    times = (int(there.seconds),) * 3
    return os.stat_result(
        (mode | 0o644, 0, 0, 1, 0, 0, there.size, *times),
        {'st_mtime': there.seconds, 'st_mtime_ns': int(there.seconds * 1e9)},
    )

  def iterdir(self) -> Generator['BucketPath', None, None]:
    """What lies in the folder, by name."""
    for name in buckets.names(str(self)):
      yield self / name

  def glob(
      self, pattern: str, **_: Any
  ) -> Generator['BucketPath', None, None]:
    """What lies in the folder under names of a pattern, by name.

    Args:
      pattern: names with `*`, `?` and `[]`, with `/` between them; `**` as a
        name stands for folders of any depth.
    """
    first, rest = (*pattern.split('/', 1), '')[:2]
    if first == '**':
      yield from self._below(rest or '*')
      return
    is_name = not any(letter in first for letter in '*?[')
    for child in (self / first,) if is_name else self.iterdir():
      if not fnmatch.fnmatchcase(child.name, first):
        continue
      if rest:
        yield from child.glob(rest)
      elif not is_name or child.exists():
        yield child

  def rglob(
      self, pattern: str, **_: Any
  ) -> Generator['BucketPath', None, None]:
    """Objects below the folder whose last names are of a pattern."""
    yield from self._below(pattern)

  def _below(self, pattern: str) -> Generator['BucketPath', None, None]:
    for name in buckets.objects(str(self)):
      if fnmatch.fnmatchcase(name.rpartition('/')[2], pattern):
        yield self / name

  def open(self, mode: str = 'r', *args: Any, **kwargs: Any) -> Any:
    """Opens its copy for reading; `places` writes."""
    if _WRITES & set(mode):
      raise NotImplementedError(f'{self}: objects are written as a whole')
    return self.copy_now().open(mode, *args, **kwargs)

  def in_ranges(self) -> 'RangedPath':
    """The same, for who reads a part of the object alone."""
    return RangedPath(str(self))

  def copy_now(self) -> pathlib.Path:
    """Its copy, fetched unless it is here already."""
    return fetched.current(str(self))

  def write_bytes(self, data: Any) -> int:
    """Writes an object."""
    buckets.put_bytes(bytes(data), str(self))
    return len(data)

  def write_text(
      self, data: str, encoding: str | None = None, errors: str | None = None,
      newline: str | None = None,
  ) -> int:
    """Writes an object."""
    del newline
    return self.write_bytes(data.encode(encoding or 'utf-8',
                                        errors or 'strict'))

  def mkdir(self, *_: Any, **__: Any) -> None:
    """Makes the folder of copies; a bucket has no folders to make."""
    self.copy.mkdir(parents=True, exist_ok=True)

  def unlink(self, missing_ok: bool = False) -> None:
    """Removes the object and its copy."""
    if not missing_ok and not self.is_file():
      raise FileNotFoundError(2, 'No such file or directory', str(self))
    buckets.remove(str(self))
    fetched.forget(str(self))

  def rename(self, target: Any) -> Any:
    """Refused: what has another name is another object."""
    raise NotImplementedError(f'{self}: objects are not renamed')

  def replace(self, target: Any) -> Any:
    """Refused, as `rename`."""
    return self.rename(target)

  def rmdir(self) -> None:
    """Refused: `places.remove` removes folders."""
    raise NotImplementedError(f'{self}: buckets have no empty folders')


class RangedPath(BucketPath):
  """One that `open` reads in ranges: no copy is fetched."""

  __slots__ = ()

  def open(self, mode: str = 'r', *args: Any, **kwargs: Any) -> Any:
    """Opens the object for reading bytes, and its copy for reading text."""
    if mode != 'rb':
      return super().open(mode, *args, **kwargs)
    return buckets.opened(str(self))
