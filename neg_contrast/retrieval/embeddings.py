"""Makes tables of embeddings on disk, shard by shard.

An interruption loses the shards that were being made, one a process; the rest
is kept. Any number of processes divide the shards, and the bytes do not depend
on how many they were. The manifest is there, as `unfinished.json`, before the
shards are, and gets its name when all of them are.
"""

import dataclasses
import pathlib
from collections.abc import Callable
from typing import Any

from neg_contrast.artifacts import failures, folders, parts
from neg_contrast.retrieval import vector_table

FORMAT = folders.Format('a table of vectors', 2)
OnProgress = Callable[[int], None]
"""Gets the number of rows that are done."""
Encode = Callable[[range, Any, OnProgress], Any]
"""(rows, out, on_progress): writes `out[i:j] = [j - i, features] float32`.

Places in `out` and progress are counted from the first of the rows.
"""


@dataclasses.dataclass(frozen=True)
class Shards:
  """The shards of a table that was begun, which anyone may make.

  Attributes:
    folder: of the table.
    layout: of the table.
    encode: encodes the rows of a shard.
  """

  folder: pathlib.Path
  layout: vector_table.Layout
  encode: Encode

  def place(self, shard: int) -> pathlib.Path:
    """What processes take turns at to make one."""
    return self.folder.with_name(f'{self.folder.name}-{shard:05d}')

  def is_made(self, shard: int) -> bool:
    """Whether it is there, whoever made it."""
    return vector_table.shard_file(self.folder, shard).exists()

  def missing(self) -> list[int]:
    """Those that are not there."""
    return [shard for shard in range(self.layout.shards)
            if not self.is_made(shard)]

  def rows_there(self) -> int:
    """Rows of those that are there."""
    return self.layout.passages - sum(
        len(self.layout.rows_of(shard)) for shard in self.missing())

  def make(self, shard: int, on_progress: OnProgress = lambda _: None) -> None:
    """Makes one; gets on with the number of its rows that are done.

    Raises:
      UserError: the disk is full.
      ValueError: a vector is not finite.
    """
    with failures.while_writing(self.folder):
      writer = vector_table.ShardWriter(self.folder, self.layout, shard)
      try:
        self.encode(self.layout.rows_of(shard), writer, on_progress)
        writer.close()
      finally:
        writer.discard()

  def make_unless_made(self, shard: int) -> None:
    """Makes one, unless another process has; raises as `make`."""
    with folders.only_one(self.place(shard)):
      if not self.is_made(shard):
        self.make(shard)

  def make_missing(self, ticker: Callable[[int], OnProgress]) -> None:
    """Makes them together with other processes; raises as `make`."""
    say = ticker(self.rows_there())

    def make(shard: int) -> None:
      before = self.rows_there()
      self.make(shard, lambda done: say(before + done))

    parts.make_all([self.place(shard) for shard in range(self.layout.shards)],
                   self.is_made, make)


def make_table(
    folder: pathlib.Path,
    identity: dict[str, Any],
    layout: vector_table.Layout,
    encode: Encode,
    ticker: Callable[[int], OnProgress] = lambda done: lambda _: None,
) -> vector_table.Table:
  """The passages' vectors; what is not there yet is encoded.

  Args:
    folder: of the table; one of another identity is replaced.
    identity: what the bytes depend on, the dtype included.
    layout: of a new table. One that was begun goes on with its own
      `shard_rows`, on which the vectors must not depend.
    encode: encodes the rows of a shard.
    ticker: given the rows that are there already, returns what is told of the
      rows that are there then, whoever made them.

  Raises:
    UserError: the folder holds something else, a damaged table or one of
      another format, or the disk is full.
    ValueError: a vector is not finite.
  """
  found = open_table(folder, identity)
  if found is None:
    shards = begin(folder, identity, layout, encode)
    layout = shards.layout
    shards.make_missing(ticker)
    with folders.only_one(folder):
      if (folder / folders.UNFINISHED).exists():  # Not yet another's work.
        folders.finish(folder)
    found = vector_table.Table(folder, layout)
  return found


def open_table(
    folder: pathlib.Path, identity: dict[str, Any]
) -> vector_table.Table | None:
  """The finished table of this identity, if it is there.

  Raises:
    UserError: its manifest is damaged or of another format.
  """
  layout = _read_layout(folder, folders.MANIFEST, identity)
  return None if layout is None else vector_table.Table(folder, layout)


def begin(
    folder: pathlib.Path,
    identity: dict[str, Any],
    layout: vector_table.Layout,
    encode: Encode,
) -> Shards:
  """Makes the folder of a table, or joins in; arguments are of `make_table`.

  Raises:
    UserError: as `make_table`.
  """
  with folders.only_one(folder):
    for name in (folders.MANIFEST, folders.UNFINISHED):
      begun = _read_layout(folder, name, identity)
      if begun is not None:
        return Shards(folder, begun, encode)
    manifest = {'identity': identity, 'layout': dataclasses.asdict(layout)}
    with folders.writing(folder, manifest, folders.UNFINISHED, FORMAT):
      pass
  return Shards(folder, layout, encode)


def _read_layout(
    folder: pathlib.Path, name: str, identity: dict[str, Any]
) -> vector_table.Layout | None:
  """What a manifest says, if it is there and of this identity."""
  made = folders.read_manifest(folder, FORMAT, name)
  if made is None or not _is_of(made, identity):
    return None
  return vector_table.Layout(**made['layout'])


def _is_of(manifest: dict[str, Any], identity: dict[str, Any]) -> bool:
  return manifest.get('identity') == folders.as_json(identity)
