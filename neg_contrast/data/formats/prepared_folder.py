"""A corpus that this program prepared, as a source."""

import itertools
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from neg_contrast import errors
from neg_contrast.artifacts import arrays, folders
from neg_contrast.data import id_table, records
from neg_contrast.data import prepared as prepared_lib

_READ_AT_ONCE = 1024


class PreparedFolder:
  """What `prepared.py` wrote, read back: the same records, ids and splits."""

  def __init__(self, folder: pathlib.Path):
    """Lists the files.

    Raises:
      UserError: one is missing.
    """
    self._folder = folder
    manifest = folders.read_manifest(folder, prepared_lib.CORPUS) or {}
    counts = manifest.get('counts') or {}
    self._worlds = tuple(manifest.get('worlds') or ())
    self.splits = tuple(counts.get('judgements') or ())
    kinds = ['passages', *(['queries'] if counts.get('queries') else [])]
    self._has_queries = 'queries' in kinds
    tables = [folder / f'{what}-{split}.npy' for split in self.splits
              for what in ('judgements', 'unjudged')]
    self._weighted = tuple(manifest.get(prepared_lib.WEIGHTED) or ())
    tables += [folder / prepared_lib.weights_file(split)
               for split in self._weighted]
    ids = [folder / f'{kind}.{end}.bin' for kind in kinds
           for end in ('ids', 'ends')]
    worlds = [folder / f'{kind}_worlds.npy' for kind in ('passage', 'query')
              if self._worlds]
    stored = [path for kind in kinds
              for path in sorted((folder / kind).rglob('*')) if path.is_file()]
    self.files = (folder / folders.MANIFEST, *stored, *ids, *worlds, *tables)
    missing = [path for path in self.files if not path.is_file()]
    if missing or not stored or not counts:
      raise errors.UserError(
          f'{folder}: not a corpus that this version prepared'
          f'{f" ({missing[0].name} is missing)" if missing else ""}; prepare '
          f'{manifest.get("spec", "its source")} again'
      )

  def passages(self) -> Iterator[records.Passage]:
    """All passages, in row order."""
    for (where, row), world in zip(
        self._rows('passages'), self._worlds_of('passage'), strict=False
    ):
      yield records.Passage(
          row['id'].decode(), row['title'].decode(), row['text'].decode(),
          row['document_id'].decode(), where, world,
      )

  def queries(self) -> Iterator[records.Query]:
    """All queries, in row order; one for each split that does not judge it."""
    if not self._has_queries:
      return
    own: dict[int, list[str]] = {}
    for split in self.splits:
      for number in self._load(f'unjudged-{split}.npy').tolist():
        own.setdefault(number, []).append(split)
    for number, ((where, row), world) in enumerate(zip(
        self._rows('queries'), self._worlds_of('query'), strict=False
    )):
      answers, context = (tuple(text.decode() for text in row.get(key, ()))
                          for key in ('answers', 'context'))
      for split in own.get(number, ('',)):
        yield records.Query(row['id'].decode(), row['text'].decode(), answers,
                            where, split, context or None, world)

  def judgements(self, split: str) -> Iterator[records.Judgement]:
    """The judgements of a split, by query and passage."""
    name = f'judgements-{split}.npy'
    table = self._load(name)
    weights = self._weights(split, len(table))
    passage_ids = id_table.IdTable(self._folder / 'passages')
    query_ids = id_table.IdTable(self._folder / 'queries')
    for start in range(0, len(table), _READ_AT_ONCE):
      part = table[start : start + _READ_AT_ONCE].tolist()
      for number, row in enumerate(part, start):
        query, passage, grade, is_example = row
        names = query_ids[query].decode(), passage_ids[passage].decode()
        yield records.Judgement(*names, grade,
                                f'{self._folder / name}: row {number}',
                                bool(is_example), float(weights[number]))

  def _weights(self, split: str, count: int) -> np.ndarray:
    """`[count] float32` of the judgements of a split; 1 without any."""
    if split not in self._weighted:
      return np.ones(count, np.float32)
    return arrays.load_array(
        self._folder / prepared_lib.weights_file(split), (count,), np.float32
    )

  def _worlds_of(self, kind: str) -> Iterator[str]:
    """The world of each row; empty texts without end where there are none."""
    if not self._worlds:
      return itertools.repeat('')
    return (self._worlds[number]
            for number in self._load(f'{kind}_worlds.npy').tolist())

  def _load(self, name: str) -> np.ndarray:
    columns = (4,) if name.startswith('judgements-') else ()
    return arrays.load_array(
        self._folder / name, (None, *columns), np.int32
    )

  def _rows(self, kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    from neg_contrast.data import tfds_records  # Slow to import.

    folder = self._folder / kind
    rows = tfds_records.Rows(folder)
    for start in range(0, len(rows), _READ_AT_ONCE):
      for number, row in enumerate(rows[start : start + _READ_AT_ONCE], start):
        yield f'{folder}: row {number}', row
