"""Questions in numbered folders, which hold those of so many passages each.

A shard has a manifest of its own, so that an interruption loses at most one,
and any number of processes divide them.
"""

import abc
import contextlib
import dataclasses
import pathlib
from collections.abc import Callable, Iterator
from typing import Any, TextIO

from neg_contrast.artifacts import arrays, artifact, folders, parts

FORMAT = folders.Format('a shard of questions', 1)
_PAIRS = 'pairs.jsonl'


class Shards:
  """The shards of a corpus, made or not.

  Attributes:
    folder: of all shards.
  """

  def __init__(self, folder: pathlib.Path, passages: int, size: int):
    """Reads nothing.

    Args:
      folder: of all shards.
      passages: of the corpus.
      size: passages of a shard.
    """
    self.folder, self._passages, self._size = folder, passages, size

  def __len__(self) -> int:
    return -(-self._passages // self._size)

  def rows(self, number: int) -> range:
    """The passages of a shard."""
    return range(number * self._size,
                 min((number + 1) * self._size, self._passages))

  def place(self, number: int) -> pathlib.Path:
    """The folder of a shard."""
    return self.folder / f'{number:05d}-of-{len(self):05d}'

  def is_made(self, number: int) -> bool:
    """Whether a shard is there."""
    return (self.place(number) / folders.MANIFEST).exists()

  def are_made(self) -> bool:
    """Whether all are there."""
    return all(map(self.is_made, range(len(self))))

  def made(self) -> list[int]:
    """Those that are there."""
    return list(filter(self.is_made, range(len(self))))

  def beside(self, name: str) -> 'Shards':
    """Shards of the same passages, in a folder with a longer name."""
    return Shards(self.folder.with_name(f'{self.folder.name}-{name}'),
                  self._passages, self._size)

  def make_missing(self, make: Callable[[int], None]) -> None:
    """Makes the shards that are missing, with all who do the same."""
    parts.make_all(
        list(map(self.place, range(len(self)))), self.is_made, make
    )

  def manifest(self, number: int) -> dict[str, Any]:
    """The manifest of a finished shard.

    Raises:
      UserError: it is damaged or of another format.
    """
    made = folders.read_manifest(self.place(number), FORMAT)
    assert made is not None, f'{self.place(number)}: not made'
    return made

  def file(self, number: int) -> pathlib.Path:
    """The pairs of a shard, verified; see `data/synthetic_pairs.py`.

    Raises:
      UserError: they are damaged, or of another format.
    """
    self.manifest(number)
    path = self.place(number) / _PAIRS
    arrays.map_file(path).check()
    return path

  def files(self) -> list[pathlib.Path]:
    """`file` of all shards."""
    return list(map(self.file, range(len(self))))

  @contextlib.contextmanager
  def writing(self, number: int, manifest: dict[str, Any]) -> Iterator[TextIO]:
    """Yields the file of a shard's pairs; the shard is whole or not there."""
    with (
        folders.writing(self.place(number), manifest, format=FORMAT) as scratch,
        open(scratch / _PAIRS, 'w', encoding='utf-8') as f,
    ):
      yield f


@dataclasses.dataclass(frozen=True)
class ShardedQuestions(artifact.Artifact):
  """Questions of a corpus, in shards that processes divide."""

  is_divided = True

  @property
  @abc.abstractmethod
  def shards(self) -> Shards:
    """Where they lie; what they are made from is made."""

  @property
  @abc.abstractmethod
  def written(self) -> 'ShardedQuestions':
    """All that were written, before any filter."""

  @abc.abstractmethod
  def counts(self) -> dict[str, float]:
    """Of passages, questions written, dropped and kept; seconds, padding."""

  def is_made(self) -> bool:
    """Whether all shards are there."""
    return self.identity is not None and self.shards.are_made()

  def files(self) -> list[pathlib.Path]:
    """Files of pairs, see `data/synthetic_pairs.py`.

    Raises:
      UserError: one is damaged, or of another format.
    """
    return self.shards.files()
