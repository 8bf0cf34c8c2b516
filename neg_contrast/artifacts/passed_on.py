"""Files that Beam's workers pass on to each other, and to the program.

They lie where all see them: in the bucket where what they become part of will
lie, or else beside it on the disk. Each is whole or absent, and two workers may
write the same one at once.
"""

import contextlib
import pathlib
import uuid
from collections.abc import Iterator

import numpy as np

from neg_contrast.artifacts import places


@contextlib.contextmanager
def shared(folder: pathlib.Path) -> Iterator[pathlib.Path]:
  """A new folder that all workers see, until the block ends.

  Args:
    folder: its place; of what will be put in a bucket, that of this disk or of
      the bucket, where it then lies.
  """
  made = share(folder)
  try:
    yield made
  finally:
    places.remove(made)


def share(folder: pathlib.Path) -> pathlib.Path:
  """As `shared`; the caller removes it. One that was left there goes."""
  made = places.seen_by_all(folder)
  places.remove(made)
  made.mkdir()
  return made


@contextlib.contextmanager
def putting(path: pathlib.Path) -> Iterator[pathlib.Path]:
  """Yields a scratch file that becomes `path` when the block succeeds.

  Two workers may write the same file at once; each has a scratch file.
  """
  near = places.on_disk(path)
  partial = near.with_name(f'{near.name}.{uuid.uuid4()}.partial')
  if places.is_remote(path):
    partial.parent.mkdir(parents=True, exist_ok=True)
  try:
    yield partial
    places.move(partial, path)
  except BaseException:
    partial.unlink(missing_ok=True)
    raise


def save(path: pathlib.Path, values: np.ndarray) -> None:
  """Writes an array for other workers; whole or not at all."""
  with putting(path) as partial, open(partial, 'wb') as f:
    np.save(f, values, allow_pickle=False)
