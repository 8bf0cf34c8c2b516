"""Checksums of the files of a checkpoint, in each of its items.

CRC-32, which notices every flipped bit at 4 GB/s on one core; it is no proof of
origin. Files that are written after an item is finished (`commit_success.txt`)
have none, and nothing is read from them.
"""

import concurrent.futures
import json
import pathlib
import zlib
from collections.abc import Sequence

import numpy as np
from absl import logging

from neg_contrast import hosts
from neg_contrast.artifacts import places

FILE = 'checksums.json'
_READ_BYTES = 2**22


def write(folder: pathlib.Path) -> None:
  """Writes sizes and checksums of all files of an item."""
  sums = {
      path.relative_to(folder).as_posix(): (path.stat().st_size, _crc32(path))
      for path in sorted(folder.rglob('*')) if path.is_file()
  }
  text = json.dumps(sums, sort_keys=True)
  (folder / FILE).write_text(
      json.dumps({'files': sums, 'crc32': zlib.crc32(text.encode())})
  )


def verify(
    folder: pathlib.Path, every: Sequence[str], items: Sequence[str],
    divides: bool = False,
) -> None:
  """Compares files with their checksums.

  Args:
    folder: of the checkpoint.
    every: names of all its items.
    items: those that will be read.
    divides: whether all processes come here; each verifies its share then.

  Raises:
    ValueError: says what is damaged.
  """
  if not any((folder / item / FILE).exists() for item in every) and all(
      (folder / item).is_dir() for item in items
  ):
    logging.warning('%s: an earlier revision wrote no checksums, so damage '
                    'may go unnoticed', folder)
    return
  files = [(path.parent / name, size, checksum)
           for path in (folder / item / FILE for item in items)
           for name, (size, checksum) in _read(path).items()]
  share = hosts.share_of(len(files)) if divides else range(len(files))
  with concurrent.futures.ThreadPoolExecutor(8) as pool:
    found = pool.map(_is_whole, (files[number] for number in share))
    fine = np.fromiter(found, bool, len(share))
  if divides:
    fine = hosts.gather(fine)
  if not fine.all():
    path = files[int(np.argmin(fine))][0]
    raise ValueError(f'{path.relative_to(folder)} holds other bytes')


def _read(path: pathlib.Path) -> dict[str, tuple[int, int]]:
  """Name of a file -> its size and checksum.

  Raises:
    ValueError: it is damaged.
  """
  name = f'{path.parent.name}/{path.name}'
  try:
    read = json.loads(path.read_text(encoding='utf-8'))
    text = json.dumps(read['files'], sort_keys=True)
    if zlib.crc32(text.encode()) != read['crc32']:
      raise ValueError('not what was written')
    return {key: tuple(value) for key, value in read['files'].items()}
  except (OSError, RecursionError, KeyError, TypeError, ValueError) as e:
    raise ValueError(f'{name}: {e}') from None


def _is_whole(file: tuple[pathlib.Path, int, int]) -> bool:
  path, size, checksum = file
  try:
    return path.stat().st_size == size and _crc32(path) == checksum
  except OSError:
    return False


def _crc32(path: pathlib.Path) -> int:
  """Of a file's bytes; notices any flipped bit, and is no proof of origin."""
  checksum = 0
  for block in places.blocks(path, _READ_BYTES):
    checksum = zlib.crc32(block, checksum)
  return checksum
