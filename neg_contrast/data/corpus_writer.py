"""The records of a source, written as a prepared corpus."""

import array
import functools
import hashlib
import itertools
import pathlib
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from absl import logging

from neg_contrast import errors
from neg_contrast.artifacts import folders
from neg_contrast.data import (
    fingerprints,
    id_table,
    judgement_writer,
    records,
    usable_records,
)

_PROGRESS_EVERY = 100_000
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
    self._usable = usable_records.UsableRecords(source, invalid)
    self._repeated = 0
    self._worlds: dict[str, int] = {}  # Their numbers.
    self._worlds_of: dict[str, array.array] = {}  # Of the rows of a kind.

  def write(self, manifest: dict[str, Any]) -> None:
    """Writes everything and completes the manifest."""
    sorter, corpus = self._write_records(
        'passages', self._usable.passages, _passage_row
    )
    passages = len(sorter)
    if not passages:
      for _ in self._source.queries():  # Faults that passages() keep quiet.
        pass
      skipped = dict(self._invalid.counts)
      raise errors.UserError(
          f'{manifest["spec"]}: holds no passages'
          f'{f" that can be used; skipped {skipped}" if skipped else ""}'
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
    self.write_queries(manifest, passage_ids, corpus)

  def write_queries(
      self, manifest: dict[str, Any], passage_ids: id_table.IdTable,
      corpus: str, are_all_judged: bool = False,
  ) -> None:
    """Writes what refers to passages, and completes the manifest.

    Args:
      manifest: gets counts and fingerprints.
      passage_ids: of the corpus.
      corpus: its fingerprint.
      are_all_judged: whether every query is, and names no split: then no set of
        ids is made, and nothing is read to know them.
    """
    wanted = None if are_all_judged else self._usable.judged()
    sorter, queries = self._write_records(
        'queries', functools.partial(
            self._usable.queries, wanted, self._worlds
        ), _query_row,
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
    own = {} if are_all_judged else judgements.own_queries()
    counts = {split: judgements.write(split, own.get(split, ()))
              for split in self._source.splits}
    manifest |= {
        'corpus_fingerprint': corpus,
        'queries_fingerprint': queries,
        'fingerprint': folders.sha256_json(
            [corpus, queries, judgements.digest.hexdigest()]
        ),
        'mentions': bool(self._usable.has_mentions),
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
      read: Callable[[], Iterator[Any]],
      to_row: Callable[[Any], dict[str, Any]],
  ) -> tuple[id_table.IdSorter, str]:
    """Stores records with a row each; again without repeats, if there are any.

    Returns:
      (the sorter of their ids, their fingerprint).
    """
    before = self._invalid.counts.copy()
    sorter, digest = self._write_once(kind, read(), to_row)
    repeats = sorter.finish()
    if not repeats.any():
      return sorter, digest
    sorter.close()
    self._invalid.counts = before
    if (self._folder / kind).exists():
      shutil.rmtree(self._folder / kind)
    sorter, digest = self._write_once(
        kind, self._without(kind, read(), repeats), to_row
    )
    sorter.finish()
    return sorter, digest

  def _write_once(self, kind, usable, to_row):
    sorter = id_table.IdSorter(self._folder / kind)
    digest = hashlib.sha256()
    worlds = self._worlds_of[kind] = array.array('i')

    def rows() -> Iterator[dict[str, Any]]:
      for record in usable:
        row = to_row(record)
        fields = [text for value in row.values()
                  for text in (value if isinstance(value, list) else [value])]
        if row.get('context'):
          fields.append('mention')
        if record.world:
          fields.append(f'world {record.world}')
          worlds.append(self._worlds.setdefault(record.world,
                                                len(self._worlds)))
        folded = fingerprints.folded(row.get('title', ''), record.text)
        sorter.add(record.id, '\0'.join(fields), folded,
                   row.get('document_id', ''))
        fingerprints.update(digest, *fields)
        yield row
        if len(sorter) % _PROGRESS_EVERY == 0:
          logging.info('prepared %d %s', len(sorter), kind)

    found = rows()
    first = list(itertools.islice(found, 1))
    if first:  # tfds can't store an empty set.
      from neg_contrast.data import tfds_records  # Slow to import.

      tfds_records.write(self._folder / kind, tuple(first[0]),
                         itertools.chain(first, found))
    return sorter, digest.hexdigest()

  def _without(self, kind, usable, repeats):
    """The first record of each id; others are merged or reported."""
    for number, record in enumerate(usable):
      if repeats[number] == 2:
        self._invalid.report(
            'duplicate_id', record.where,
            f'{_SINGULAR[kind]} id "{record.id}" was there before, with '
            'another content',
        )
      elif repeats[number]:
        self._repeated += 1
      else:
        yield record

  def _save(self, name, array):
    np.save(self._folder / f'{name}.npy', array, allow_pickle=False)


def _passage_row(passage: records.Passage) -> dict[str, Any]:
  return {'id': passage.id, 'title': passage.title, 'text': passage.text,
          'document_id': passage.document_id}


def _query_row(query: records.Query) -> dict[str, Any]:
  return {'id': query.id, 'text': query.text, 'answers': list(query.answers),
          'context': list(query.context or ())}
