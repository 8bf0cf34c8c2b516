"""Questions in numbered folders, which hold those of so many passages each.

A shard has a manifest of its own, so that an interruption loses at most one,
and any number of processes divide them.
"""

import abc
import contextlib
import dataclasses
import pathlib
from collections.abc import Iterator
from typing import Any, TextIO

from neg_contrast.artifacts import artifact, folders, kept_parts

FORMAT = folders.Format('a shard of questions', 1)
_PAIRS = 'pairs.jsonl'


@dataclasses.dataclass(frozen=True)
class Shards(kept_parts.KeptParts):
  """The shards of a corpus, made or not; `shards_of` makes them.

  Attributes:
    passages: of the corpus.
    size: passages of a shard.
  """

  passages: int = dataclasses.field(kw_only=True)
  size: int = dataclasses.field(kw_only=True)

  def __len__(self) -> int:
    return self.count

  def rows(self, number: int) -> range:
    """The passages of a shard."""
    return range(number * self.size,
                 min((number + 1) * self.size, self.passages))

  def made(self) -> list[int]:
    """Those that are there."""
    return list(filter(self.is_made, range(self.count)))

  def beside(self, name: str) -> 'Shards':
    """Shards of the same passages, in a folder with a longer name."""
    return dataclasses.replace(
        self, folder=self.folder.with_name(f'{self.folder.name}-{name}')
    )

  def pairs_of(self, number: int) -> pathlib.Path:
    """The pairs of a shard, verified; see `data/synthetic_pairs.py`.

    Raises:
      UserError: they are damaged, or of another format.
    """
    self.manifest(number)
    return self.file(number, _PAIRS)

  def all_pairs(self) -> list[pathlib.Path]:
    """`pairs_of` all shards."""
    return list(map(self.pairs_of, range(self.count)))

  @contextlib.contextmanager
  def writing(self, number: int, manifest: dict[str, Any]) -> Iterator[TextIO]:
    """Yields the file of a shard's pairs; the shard is whole or not there."""
    with (
        folders.writing(
            self.place(number), manifest, format=self.format
        ) as scratch,
        open(scratch / _PAIRS, 'w', encoding='utf-8') as f,
    ):
      yield f


def shards_of(folder: pathlib.Path, passages: int, size: int) -> Shards:
  """Shards of so many passages each, in one folder."""
  return Shards(folder, -(-passages // size), format=FORMAT, passages=passages,
                size=size)


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
    return self.shards.all_pairs()
