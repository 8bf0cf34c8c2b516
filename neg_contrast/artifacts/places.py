"""Where files lie: on a disk, or under `gs://`, `s3://` or (read only) `hf://`.

The one module that knows the difference. `path` makes a path of what a user
writes. Paths of a disk are as they ever were. A path in a bucket reads like
one, see `bucket_path.py`; files and folders appear in the bucket whole or not
at all, a manifest last.
"""

import concurrent.futures
import contextlib
import glob
import os
import pathlib
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from neg_contrast import errors
from neg_contrast.artifacts import bucket_path, buckets, fetched

_SCHEME = re.compile(r'(\w+)://?')
_BUCKETS = ('gs', 's3', 'hf')
COMMITTED = 'commit_success.txt'
"""Comes last into a checkpoint in a bucket; Orbax gives it that name."""
_THREADS = 8  # That talk to a bucket at the same time.
_PARTIAL, _OLD = '..partial', '..old'  # After the name; no user's file has it.


def path(place: str | os.PathLike[str]) -> pathlib.Path:
  """The path that a user's words name; `~` is the home, as shells have it.

  Raises:
    UserError: they begin with the `scheme://` of what is not supported.
  """
  if isinstance(place, pathlib.Path):
    return place
  text = str(place)
  if text == '~' or text.startswith('~/'):  # No shell expands it after `=`.
    text = os.path.expanduser(text)
  scheme = _SCHEME.match(text)
  if scheme is None:
    return pathlib.Path(text)
  problem = errors.bucket_problem(text)
  if problem:
    raise errors.UserError(f'{text}: {problem}')
  return (bucket_path.BucketPath(text) if scheme[1] in _BUCKETS
          else pathlib.Path(text))


def is_remote(place: pathlib.Path) -> bool:
  """Whether a path lies in a bucket."""
  return isinstance(place, bucket_path.BucketPath)


def local(place: pathlib.Path) -> pathlib.Path:
  """A file of this disk: itself, or the copy of an object, fetched now."""
  if isinstance(place, bucket_path.BucketPath):
    return place.copy_now()
  return place


def local_folder(folder: pathlib.Path, *suffixes: str) -> pathlib.Path:
  """A folder of this disk with the files of a folder, fetched one by one.

  Args:
    folder: itself, if it is of this disk.
    suffixes: endings of those that are fetched; default: all.
  """
  if not isinstance(folder, bucket_path.BucketPath):
    return folder
  for name in buckets.objects(str(folder)):
    if not suffixes or name.endswith(suffixes):
      fetched.current(f'{folder}/{name}')
  return folder.copy


def scratch(place: pathlib.Path) -> pathlib.Path:
  """Where a file or folder is written before it takes its place."""
  near = on_disk(place)
  return near.with_name(near.name + _PARTIAL)


def is_left(place: pathlib.Path) -> bool:
  """Whether a kill has left it: half written, or one that was replaced."""
  return place.name.endswith((_PARTIAL, _OLD))


def on_disk(place: pathlib.Path) -> pathlib.Path:
  """Itself, or a place of this disk for what need not be in the bucket."""
  return place.copy if isinstance(place, bucket_path.BucketPath) else place


def seen_by_all(near: pathlib.Path) -> pathlib.Path:
  """Where other machines see what stands on this disk for a bucket's; itself
  where it stands for nothing."""
  address = None if is_remote(near) else fetched.address_of(near)
  return near if address is None else bucket_path.BucketPath(address)


def in_ranges(place: pathlib.Path) -> pathlib.Path:
  """The same file, for who reads some of its bytes: none is fetched whole."""
  return (place.in_ranges() if isinstance(place, bucket_path.BucketPath)
          else place)


def bring(place: pathlib.Path, near: pathlib.Path) -> None:
  """Moves a file to this disk."""
  if is_remote(place):
    os.replace(local(place), near)
    place.unlink()
  else:
    os.replace(place, near)


def matching(pattern: str) -> list[pathlib.Path]:
  """What is there under names of a pattern, see `glob`, by name."""
  whole = path(pattern)
  if not is_remote(whole):
    return [pathlib.Path(name) for name in sorted(glob.glob(pattern))]
  return list(bucket_path.BucketPath(*whole.parts[:2]).glob(
      '/'.join(whole.parts[2:])))


def locks(place: pathlib.Path) -> pathlib.Path:
  """The file by which processes of this machine take turns at a place."""
  near = on_disk(place).absolute()
  return near.parent / '.locks' / near.name


@contextlib.contextmanager
def replacing(place: pathlib.Path) -> Iterator[pathlib.Path]:
  """Yields a path to write to; the file takes its place when the block ends.

  When the block fails, an older file stays.
  """
  partial = scratch(place)
  if is_remote(place):
    partial.parent.mkdir(parents=True, exist_ok=True)
  try:
    yield partial
    move(partial, place)
  finally:
    partial.unlink(missing_ok=True)


def move(partial: pathlib.Path, place: pathlib.Path) -> None:
  """Gives a file of this disk its place; `partial` is gone then."""
  if not isinstance(place, bucket_path.BucketPath):
    os.replace(partial, place)
    return
  partial = on_disk(partial)
  there = buckets.put(partial, str(place))
  os.replace(partial, place.copy)
  fetched.note_of_copy(str(place), there)


class Growing:
  """Files that are appended to on this disk, and put in a bucket as a whole.

  Where their places are on this disk, there is nothing to do.
  """

  def __init__(self, *places: pathlib.Path):
    """Puts nothing yet; `places` are files, or folders of such files."""
    self._places = [place for place in places if is_remote(place)]
    self._sizes: dict[pathlib.Path, int] = {}
    self._last = time.monotonic()

  def put(self, seconds: float = 0.0) -> None:
    """Puts what has grown, unless that was done so many seconds ago.

    Raises:
      UserError: it can't be put there.
    """
    if not self._places or time.monotonic() - self._last < seconds:
      return
    self._last = time.monotonic()
    for place in self._places:
      near = on_disk(place)
      for file in sorted(near.rglob('*')) if near.is_dir() else [near]:
        size = file.stat().st_size
        if file.is_file() and self._sizes.get(file) != size:
          with tempfile.TemporaryDirectory() as still:  # It may grow meanwhile.
            copy = shutil.copyfile(file, os.path.join(still, 'copy'))
            buckets.put(pathlib.Path(copy), str(place / file.relative_to(near)))
          self._sizes[file] = size


def move_folder(partial: pathlib.Path, folder: pathlib.Path, last: str) -> None:
  """Gives a folder of this disk its place, where there may be an older one.

  Args:
    partial: the folder; gone when this returns.
    folder: its place. In a bucket, the manifests of an older one are removed
      before anything else, and the new one comes last: what is there with a
      manifest is whole.
    last: name of the manifest.
  """
  if not isinstance(folder, bucket_path.BucketPath):
    old = folder.with_name(folder.name + _OLD)
    shutil.rmtree(old, ignore_errors=True)  # Of a process that was killed.
    if folder.exists():
      os.replace(folder, old)
    os.replace(partial, folder)
    shutil.rmtree(old, ignore_errors=True)
    return
  remove(folder)
  there = _put_files(partial, folder, last)
  os.replace(partial, folder.copy)
  for address, found in there.items():
    fetched.note_of_copy(address, found)


def put_copies(folder: pathlib.Path, last: str) -> None:
  """Puts what stands on this disk for a folder in a bucket, which is not there.

  Args:
    folder: in the bucket.
    last: name of the file that comes last: what is there with it is whole.
  """
  for address, found in _put_files(on_disk(folder), folder, last).items():
    fetched.note_of_copy(address, found)


def _put_files(
    near: pathlib.Path, folder: pathlib.Path, last: str
) -> dict[str, buckets.Found]:
  """Puts the files of a folder; returns what then lies at their addresses."""
  files = (one for one in near.rglob('*') if one.is_file())
  names = sorted(one.relative_to(near).as_posix() for one in files)
  names.remove(last)
  put = lambda name: buckets.put(near / name, f'{folder}/{name}')
  with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
    there = list(pool.map(put, names))
  return {f'{folder}/{name}': found for name, found in zip(
      (*names, last), (*there, put(last)), strict=True)}


def rename(place: pathlib.Path, name: str) -> None:
  """Gives a small file another name in its folder."""
  if not is_remote(place):
    os.replace(place, place.with_name(name))
    return
  address = str(place.with_name(name))
  with contextlib.suppress(FileNotFoundError):  # Another process was first.
    buckets.put_bytes(buckets.get_bytes(str(place)), address)
  place.unlink(missing_ok=True)


def remove(folder: pathlib.Path) -> None:
  """Removes a folder with all that is in it; in a bucket, manifests first."""
  if not isinstance(folder, bucket_path.BucketPath):
    shutil.rmtree(folder, ignore_errors=True)
    return
  names = sorted(buckets.objects(str(folder)), key=_is_no_manifest)
  manifests = [name for name in names if not _is_no_manifest(name)]
  for name in manifests:
    buckets.remove(f'{folder}/{name}')
  with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
    list(pool.map(lambda name: buckets.remove(f'{folder}/{name}'),
                  names[len(manifests):]))
  for name in names:
    fetched.forget(f'{folder}/{name}')
  shutil.rmtree(folder.copy, ignore_errors=True)


def _is_no_manifest(name: str) -> bool:
  return name not in ('manifest.json', 'unfinished.json', COMMITTED)


def resolved(place: pathlib.Path) -> str:
  """The one name of a file or folder, without links."""
  return str(place) if is_remote(place) else os.path.realpath(place)


def blocks(place: pathlib.Path, size: int) -> Iterator[bytes]:
  """A file in blocks of so many bytes: no copy of an object is kept."""
  if isinstance(place, bucket_path.BucketPath):
    yield from buckets.blocks(str(place), size)
    return
  with open(place, 'rb') as f:
    while block := f.read(size):
      yield block


def digest(place: pathlib.Path) -> dict[str, str]:
  """What a bucket says of an object's bytes, by the name of what it says.

  No byte is fetched. Empty: it says nothing, or the file is on a disk.
  """
  there = buckets.look(str(place)) if is_remote(place) else None
  return dict([there.digest] if there and there.digest else [])


def is_out_of_reach_of_orbax(folder: pathlib.Path) -> bool:
  """Whether Orbax, which knows disks and gs://, can't write there by itself."""
  return is_remote(folder) and not str(folder).startswith('gs://')


def for_orbax(folder: pathlib.Path) -> Any:
  """The folder as Orbax takes it, which talks to gs:// by itself.

  Of other buckets it has what stands for them here, see `checkpoint_copies.py`.
  """
  if not is_remote(folder) or is_out_of_reach_of_orbax(folder):
    return on_disk(folder)
  from etils import epath
  from etils.epath import backend

  from neg_contrast import hosts  # It imports JAX, which workers do without.

  # It keeps listings, in which what was removed since is still there.
  system = backend.fsspec_backend.fs(str(folder))
  system.invalidate_cache()
  if hosts.are_several():  # What others write would not be in a listing.
    system.dircache.use_listings_cache = False
  return epath.Path(str(folder))
