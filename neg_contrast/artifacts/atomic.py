"""Files that are there as a whole or not at all."""

import contextlib
import gzip
import io
import pathlib
from collections.abc import Iterator
from typing import TextIO

from neg_contrast.artifacts import failures, places


@contextlib.contextmanager
def writing(path: pathlib.Path) -> Iterator[TextIO]:
  """Yields a file that takes the place of `path` when the block succeeds.

  Args:
    path: written as UTF-8 with the newlines it is given, gzip if it ends in
      .gz. When the block fails, an older file stays.

  Raises:
    UserError: it can't be written, see `failures.while_writing`.
  """
  with (
      failures.while_writing(path), places.replacing(path) as partial,
      open(partial, 'wb') as f,
  ):
    # No name and no time inside: equal texts are equal files.
    stream = (
        gzip.GzipFile('', 'wb', fileobj=f, mtime=0)
        if path.suffix == '.gz' else f
    )
    with io.TextIOWrapper(stream, 'utf-8', newline='') as text:
      yield text


def write_bytes(path: pathlib.Path, content: bytes) -> None:
  """Writes a file that is no text, in the same way.

  Raises:
    UserError: it can't be written, see `failures.while_writing`.
  """
  with failures.while_writing(path), places.replacing(path) as partial:
    partial.write_bytes(content)
