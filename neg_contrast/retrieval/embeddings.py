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
    layout = _begin(folder, identity, layout)
    _fill(folder, layout, encode, ticker)
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


def _begin(
    folder: pathlib.Path, identity: dict[str, Any], layout: vector_table.Layout
) -> vector_table.Layout:
  """Makes the folder, or joins in; the layout that it has."""
  with folders.only_one(folder):
    for name in (folders.MANIFEST, folders.UNFINISHED):
      begun = _read_layout(folder, name, identity)
      if begun is not None:
        return begun
    manifest = {'identity': identity, 'layout': dataclasses.asdict(layout)}
    with folders.writing(folder, manifest, folders.UNFINISHED, FORMAT):
      pass
  return layout


def _read_layout(
    folder: pathlib.Path, name: str, identity: dict[str, Any]
) -> vector_table.Layout | None:
  """What a manifest says, if it is there and of this identity."""
  made = folders.read_manifest(folder, FORMAT, name)
  if made is None or not _is_of(made, identity):
    return None
  return vector_table.Layout(**made['layout'])


def _fill(
    folder: pathlib.Path,
    layout: vector_table.Layout,
    encode: Encode,
    ticker: Callable[[int], OnProgress],
) -> None:
  """Makes the shards that are missing."""
  is_made = lambda shard: vector_table.shard_file(folder, shard).exists()
  rows_there = lambda: sum(
      len(layout.rows_of(shard)) for shard in range(layout.shards)
      if is_made(shard)
  )
  say = ticker(rows_there())

  def make(shard: int) -> None:
    before = rows_there()
    with failures.while_writing(folder):
      writer = vector_table.ShardWriter(folder, layout, shard)
      try:
        encode(layout.rows_of(shard), writer, lambda done: say(before + done))
        writer.close()
      finally:
        writer.discard()

  parts.make_all(
      [folder.with_name(f'{folder.name}-{shard:05d}')
       for shard in range(layout.shards)],
      is_made, make,
  )


def _is_of(manifest: dict[str, Any], identity: dict[str, Any]) -> bool:
  return manifest.get('identity') == folders.as_json(identity)
