"""The records of a source, written as a prepared corpus."""

import array
import contextlib
import functools
import hashlib
import pathlib
import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import numpy as np
from absl import logging

from neg_contrast import errors, hosts, workers
from neg_contrast.artifacts import folders
from neg_contrast.data import (
    id_table,
    judgement_writer,
    packed_records,
    records,
    usable_records,
)
from neg_contrast.data import prepared as prepared_lib

_PROGRESS_EVERY = 100_000
# A passage takes 20 µs to read, and as long to store in two other processes.
_MOST_READERS = 4
_ALONE_BYTES = 1 << 24  # Read in a second, as long as workers take to start.
_SINGULAR = {'passages': 'passage', 'queries': 'query'}


class CorpusWriter:
  """Writes the records of one source into a folder."""

  def __init__(
      self,
      source: records.Source,
      invalid: records.InvalidRecords,
      folder: pathlib.Path,
  ):
    """Writes nothing yet.

    Args:
      source: gives the records.
      invalid: where to report those that can't be used.
      folder: a scratch folder, see `folders.writing`.
    """
    self._source, self._invalid, self._folder = source, invalid, folder
    self._queries = usable_records.UsableQueries(source, invalid)
    self._repeated = 0
    self._worlds: dict[str, int] = {}  # Their numbers.
    self._worlds_of: dict[str, array.array] = {}  # Of the rows of a kind.

  def write(self, manifest: dict[str, Any]) -> None:
    """Writes everything and completes the manifest."""
    sorter, corpus = self._write_records(
        'passages', packed_records.PASSAGE_FIELDS, self._read_passages
    )
    passages = len(sorter)
    if not passages:
      for _ in self._source.queries():  # Faults that passages() keep quiet.
        pass
      skipped = str(self._invalid)
      raise errors.UserError(
          f'{manifest["spec"]}: holds no passages'
          f'{f" that can be used; skipped: {skipped}" if skipped else ""}'
      )
    self._save('passage_groups', sorter.groups())
    self._save('passage_documents', sorter.documents())
    sorter.close()
    if self._worlds:
      self._save('passage_worlds', np.array(self._worlds_of['passages']))
    manifest['worlds'] = list(self._worlds)
    passage_ids = id_table.IdTable(
        self._folder / 'passages', is_finished=False
    )
    self._write_queries(manifest, passage_ids, corpus)

  def _write_queries(
      self, manifest: dict[str, Any], passage_ids: id_table.IdTable,
      corpus: str,
  ) -> None:
    """Writes what refers to passages, and completes the manifest.

    Args:
      manifest: gets counts and fingerprints.
      passage_ids: of the corpus.
      corpus: its fingerprint.
    """
    sorter, queries = self._write_records(
        'queries', packed_records.QUERY_FIELDS,
        functools.partial(self._read_queries, self._queries.judged()),
    )
    sorter.close()
    if self._worlds:
      self._save('query_worlds',
                 np.array(self._worlds_of['queries'], np.int32))
    query_row = (
        id_table.IdTable(self._folder / 'queries', is_finished=False).row_of
        if len(sorter) else lambda _: None
    )
    judgements = judgement_writer.JudgementWriter(
        self._source, self._invalid, self._folder, query_row,
        passage_ids.row_of, self._worlds_of if self._worlds else {},
    )
    own = judgements.own_queries()
    counts = {split: judgements.write(split, own.get(split, ()))
              for split in self._source.splits}
    if judgements.weighted:
      manifest[prepared_lib.WEIGHTED] = judgements.weighted
    manifest |= {
        'corpus_fingerprint': corpus,
        'queries_fingerprint': queries,
        'fingerprint': folders.sha256_json(
            [corpus, queries, judgements.digest.hexdigest()]
        ),
        'mentions': bool(self._queries.has_mentions),
        'counts': {
            'passages': len(passage_ids),
            'queries': len(sorter),
            'judgements': {name: n for name, (n, _) in counts.items()},
            'unjudged': {name: n for name, (_, n) in counts.items()},
            'skipped': dict(self._invalid.counts),
            'repeated': self._repeated,
        },
    }

  def _write_records(
      self,
      kind: str,
      fields: Sequence[str],
      read: Callable[[], Iterator[list[packed_records.PackedRecord]]],
  ) -> tuple[id_table.IdSorter, str]:
    """Stores records with a row each; again without repeats, if there are any.

    Returns:
      (the sorter of their ids, their fingerprint).
    """
    before = self._invalid.counts.copy()
    sorter, digest = self._write_once(kind, fields, read())
    repeats = sorter.finish()
    if not repeats.any():
      return sorter, digest
    sorter.close()
    self._invalid.counts = before
    if (self._folder / kind).exists():
      shutil.rmtree(self._folder / kind)
    sorter, digest = self._write_once(
        kind, fields, self._without(kind, read(), repeats)
    )
    sorter.finish()
    return sorter, digest

  def _write_once(self, kind, fields, read):
    from neg_contrast.data import tfds_records  # Slow to import.

    sorter = id_table.IdSorter(self._folder / kind)
    digest = hashlib.sha256()
    worlds = self._worlds_of[kind] = array.array('i')
    writer = tfds_records.Writer(self._folder / kind, fields)
    has_helper = self._is_large() and hosts.usable_cores() > 1
    with (contextlib.closing(read),
          workers.aside(writer, has_helper) as write_rows):
      for some in filter(None, read):
        rows, names, contents, texts, documents, digested, of, _ = zip(
            *some, strict=True
        )
        write_rows(rows)
        sorter.add(names, contents, texts, documents)
        digest.update(b''.join(digested))
        worlds.extend(self._worlds.setdefault(world, len(self._worlds))
                      for world in of if world)
        if len(sorter) // _PROGRESS_EVERY > (
            (len(sorter) - len(some)) // _PROGRESS_EVERY):
          logging.info('prepared %d %s', len(sorter), kind)
      write_rows(None)
    return sorter, digest.hexdigest()

  def _is_large(self) -> bool:
    """Whether other processes are worth their start."""
    return sum(file.stat().st_size for file in self._source.files) > (
        _ALONE_BYTES)

  def _read_passages(self) -> Iterator[list[packed_records.PackedRecord]]:
    readers = min(_MOST_READERS, hosts.usable_cores())
    return packed_records.read_passages(
        self._source, self._invalid, readers if self._is_large() else 1
    )

  def _read_queries(
      self, wanted: Collection[str]
  ) -> Iterator[list[packed_records.PackedRecord]]:
    return packed_records.in_lists(map(
        packed_records.pack_query, self._queries.usable(wanted, self._worlds)
    ))

  def _without(self, kind, read, repeats):
    """The first record of each id; others are merged or reported."""
    kinds = iter(repeats)
    for some in read:
      kept = []
      for record in some:
        repeat = next(kinds)
        if repeat == 2:
          self._invalid.report(
              'duplicate_id', record.where,
              f'{_SINGULAR[kind]} id "{record.id.decode()}" was there before, '
              'with another content',
          )
        elif repeat:
          self._repeated += 1
        else:
          kept.append(record)
      yield kept

  def _save(self, name, array):
    np.save(self._folder / f'{name}.npy', array, allow_pickle=False)

