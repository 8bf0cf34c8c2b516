"""Tables of embeddings on disk: `.npy`, and ids in a text file beside them.

numpy, and any other program, maps the vectors without reading them; row i of
the vectors belongs to line i of the ids.
"""

import pathlib
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from jaxtyping import Float

from neg_contrast import artifacts, errors

_VECTORS = 'passages.npy'


def make_table(
    folder: pathlib.Path,
    identity: dict[str, Any],
    shape: tuple[int, int],
    encode: Callable[..., Any],
) -> Float[np.ndarray, 'passages features']:
  """The passages' vectors, mapped; encoded only if they are not there.

  Args:
    folder: of the table; one of another identity is replaced.
    identity: what the vectors depend on.
    shape: (passages, features).
    encode: called with `out`, `[passages, features] float32` to fill.

  Returns:
    `[passages, features] float32`, read-only.

  Raises:
    UserError: the file is damaged.
  """
  if not is_made(folder, identity):
    with artifacts.only_one(folder):
      if not is_made(folder, identity):  # Not made while waiting.
        with artifacts.writing(folder, {'identity': identity}) as scratch:
          write_vectors(scratch / _VECTORS, shape, encode)
  return artifacts.load_array(folder / _VECTORS, shape)


def is_made(folder: pathlib.Path, identity: dict[str, Any]) -> bool:
  """Whether embeddings of this identity are there."""
  manifest = artifacts.read_manifest(folder)
  return manifest is not None and (
      manifest.get('identity') == artifacts.as_json(identity)
  )


def write_vectors(
    path: pathlib.Path,
    shape: tuple[int, int],
    encode: Callable[..., Any],
) -> None:
  """Writes an `.npy` file that `encode(out=...)` fills in place."""
  vecs = artifacts.create_array(path, np.float32, shape)
  encode(out=vecs)
  vecs.flush()


def write_ids(path: pathlib.Path, ids: Iterable[bytes]) -> None:
  """Writes ids, one a line, UTF-8.

  Raises:
    UserError: one holds a line break.
  """
  with open(path, 'wb') as f:
    for name in ids:
      if b'\n' in name or b'\r' in name:
        raise errors.UserError(
            f'{path}: id {name.decode()!r} holds a line break, which a file of '
            'one id a line can not express; rename it'
        )
      f.write(name + b'\n')
