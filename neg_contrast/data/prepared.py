"""A source read once, checked, and stored for random access.

Passages and queries are tensorflow-datasets ArrayRecord data sets (no
TensorFlow needed), in source order: a row number is a place in the corpus.
Beside them lie, as .npy files, the judgements by row and what is asked of all
passages at once.
"""

import contextlib
import dataclasses
import fcntl
import functools
import hashlib
import itertools
import os
import pathlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from absl import logging
from jaxtyping import Bool, Int

from neg_contrast import artifacts, errors
from neg_contrast.data import records, sources

Record = TypeVar('Record')
_FORMAT = 2  # Of the folder; another one is prepared anew.
_PROGRESS_EVERY = 100_000


@dataclasses.dataclass(frozen=True)
class Judgements:
  """Graded judgements of a split, sorted by query and passage.

  Attributes:
    query_rows: `[judgements] int32`.
    passage_rows: `[judgements] int32`.
    grades: `[judgements] int32`; above 0 is a positive.
  """

  query_rows: Int[np.ndarray, ' judgements']
  passage_rows: Int[np.ndarray, ' judgements']
  grades: Int[np.ndarray, ' judgements']

  def select(self, keep: Bool[np.ndarray, ' judgements']) -> 'Judgements':
    """Those where `keep` is True."""
    return Judgements(
        self.query_rows[keep], self.passage_rows[keep], self.grades[keep]
    )


class Records(Sequence, Generic[Record]):
  """Random access to stored records."""

  def __init__(self, source: Any, decode: Callable[[dict], Record]):
    """Wraps a tensorflow-datasets data source."""
    self._source, self._decode = source, decode

  def __len__(self) -> int:
    return len(self._source)

  def __getitem__(self, row):
    if isinstance(row, slice):
      return [self[i] for i in range(*row.indices(len(self)))]
    return self._decode(self._source[int(row)])

  def __iter__(self) -> Iterator[Record]:
    return (self[row] for row in range(len(self)))


class Prepared:
  """Reads a prepared corpus.

  Attributes:
    folder: where it lies.
    manifest: its counts and fingerprints.
    passages: rows of the corpus.
    queries: all queries with a judgement in some split.
  """

  passages: Records[records.Passage]
  queries: Records[records.Query]

  def __init__(self, folder: pathlib.Path):
    """Opens a finished folder.

    Raises:
      UserError: it is not finished.
    """
    manifest = artifacts.read_manifest(folder)
    if manifest is None:
      raise errors.UserError(f'{folder}: not a prepared corpus')
    self.folder, self.manifest = folder, manifest
    self.passages = Records(_open(folder / 'passages'), _to_passage)
    self.queries = Records(_open(folder / 'queries'), _to_query)

  @property
  def splits(self) -> tuple[str, ...]:
    """Names of the splits."""
    return tuple(self.manifest['counts']['judgements'])

  @property
  def fingerprint(self) -> str:
    """Of the passages, the queries and their judgements together."""
    return self.manifest['fingerprint']

  @functools.cached_property
  def query_ids(self) -> np.ndarray:
    """`[queries]` UTF-8 bytes."""
    return np.load(self.folder / 'query_ids.npy', mmap_mode='r')

  @functools.cached_property
  def passage_ids(self) -> np.ndarray:
    """`[passages]` UTF-8 bytes."""
    return np.load(self.folder / 'passage_ids.npy', mmap_mode='r')

  @functools.cached_property
  def passage_groups(self) -> Int[np.ndarray, ' passages']:
    """`[passages] int32`: the first row with equal title and text.

    Equal after folding case and white space.
    """
    return np.load(self.folder / 'passage_groups.npy', mmap_mode='r')

  @functools.cached_property
  def passage_documents(self) -> Int[np.ndarray, ' passages']:
    """`[passages] int32`: number of the document, -1 where unknown."""
    return np.load(self.folder / 'passage_documents.npy', mmap_mode='r')

  def judgements(self, split: str) -> Judgements:
    """The judgements of a split.

    Raises:
      UserError: there is no such split.
    """
    if split not in self.splits:
      raise errors.UserError(
          f'{self.manifest["spec"]}: no split "{split}"; it has '
          f'{", ".join(self.splits)}. Name one with --config.data.train_split, '
          'data.tune_split, data.test_split or data.split'
      )
    table = np.load(self.folder / f'judgements-{split}.npy')
    return Judgements(*np.ascontiguousarray(table.T))


def is_prepared(spec: str, root: pathlib.Path) -> bool:
  """Whether `prepare` would find its work done."""
  try:
    source = sources.open_source(spec, records.InvalidRecords(skip=True))
  except errors.UserError:
    return False
  known = _known_files(_folder(spec, root), skip_invalid=True)
  return bool(known) and (
      _contents(known) == _contents(_file_facts(source, known))
  )


def prepare(spec: str, root: pathlib.Path, skip_invalid: bool) -> Prepared:
  """Reads a source into its prepared form, unless that is there already.

  The folder is kept as long as the files' sizes and times, or else their
  contents, are what they were; one with skipped records is not kept when they
  may not be skipped. Of several processes one prepares and the others wait.

  Args:
    spec: `scheme:place`.
    root: folder of all prepared corpora.
    skip_invalid: count and skip records that can't be used, instead of raising.

  Raises:
    UserError: a file is missing, or a record can't be used (names file, line
      and id).
  """
  invalid = records.InvalidRecords(skip_invalid)
  source = sources.open_source(spec, invalid)
  folder = _folder(spec, root)
  known = _known_files(folder, skip_invalid)
  if not known or known != _file_facts(source, known):
    with only_one(folder):
      # Another process may have done it while this one waited.
      known = _known_files(folder, skip_invalid)
      _update_folder(spec, source, invalid, folder, known)
  return Prepared(folder)


def _update_folder(spec, source, invalid, folder, known) -> None:
  """Prepares the source, or only notes new file times if no more changed."""
  files = _file_facts(source, known)
  if _contents(known) == _contents(files):
    path = folder / artifacts.MANIFEST
    artifacts.write_json(path, {**artifacts.read_json(path), 'files': files})
    return
  if known:
    logging.info('%s changed since it was prepared', spec)
  logging.info('preparing %s into %s', spec, folder)
  manifest = {'format': _FORMAT, 'spec': spec, 'files': files}
  with artifacts.writing(folder, manifest) as scratch:
    _Writer(source, invalid, scratch).write(manifest)
  if invalid.counts:
    logging.warning('%s: skipped %s', spec, dict(invalid.counts))


@contextlib.contextmanager
def only_one(folder: pathlib.Path) -> Iterator[None]:
  """Lets one process at a time make `folder`; the end of it frees the next.

  Raises:
    UserError: the folder around it can't be written to.
  """
  artifacts.make_folder(folder.parent)
  with open(folder.with_name(f'{folder.name}.lock'), 'w') as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    yield


class _Writer:
  """Writes the records of one source into a folder."""

  def __init__(self, source, invalid, folder):
    self._source, self._invalid, self._folder = source, invalid, folder
    self._passage_rows: dict[str, int] = {}
    self._query_rows: dict[str, int] = {}
    self._tables = hashlib.sha256()

  def write(self, manifest: dict[str, Any]) -> None:
    """Writes everything and completes the manifest."""
    spec = manifest['spec']
    manifest['corpus_fingerprint'] = self._write_passages()
    if not self._passage_rows:
      raise errors.UserError(f'{spec}: holds no passages')
    wanted = self._judged_queries()
    manifest['queries_fingerprint'] = self._write_queries(wanted)
    counts = {split: self._write_judgements(split)
              for split in self._source.splits}
    if not any(counts.values()):
      raise errors.UserError(f'{spec}: holds no judgements')
    manifest['fingerprint'] = artifacts.sha256_json([
        manifest['corpus_fingerprint'], manifest['queries_fingerprint'],
        self._tables.hexdigest(),
    ])
    manifest['counts'] = {
        'passages': len(self._passage_rows),
        'queries': len(self._query_rows),
        'judgements': counts,
        'skipped': dict(self._invalid.counts),
    }

  def _write_passages(self) -> str:
    digest = hashlib.sha256()
    groups: dict[bytes, int] = {}
    documents: dict[str, int] = {}
    group_of, document_of = [], []

    def usable():
      for passage in self._source.passages():
        name = passage.document_id
        if not self._is_utf8('passage', passage, passage.title, passage.text,
                             name):
          continue
        if not (passage.title.strip() or passage.text.strip()):
          self._invalid.report('empty_passage', passage.where,
                               f'passage "{passage.id}" has no title or text')
          continue
        if not self._is_new('passage', passage, self._passage_rows):
          continue
        row = self._passage_rows[passage.id]
        key = hashlib.sha256(_folded(passage).encode()).digest()
        group_of.append(groups.setdefault(key, row))
        document_of.append(
            documents.setdefault(name, len(documents)) if name else -1
        )
        _update(digest, passage.id, passage.title, passage.text, name)
        yield {'id': passage.id, 'title': passage.title, 'text': passage.text,
               'document_id': name}
        if (row + 1) % _PROGRESS_EVERY == 0:
          logging.info('prepared %d passages', row + 1)

    _store(self._folder / 'passages',
           ('id', 'title', 'text', 'document_id'), usable())
    self._save('passage_groups', np.array(group_of, np.int32))
    self._save('passage_documents', np.array(document_of, np.int32))
    self._save('passage_ids', _as_bytes(self._passage_rows))
    return digest.hexdigest()

  def _judged_queries(self) -> set[str]:
    return {judgement.query_id for split in self._source.splits
            for judgement in self._quietly(split)}

  def _quietly(self, split):
    """Judgements, without counting their broken lines a second time."""
    before = self._invalid.counts.copy()
    yield from self._source.judgements(split)
    self._invalid.counts = before

  def _write_queries(self, wanted: set[str]) -> str:
    digest = hashlib.sha256()

    def usable():
      for query in self._source.queries():
        if query.id not in wanted:
          continue
        if not self._is_utf8('query', query, query.text, *query.answers):
          continue
        if not query.text.strip():
          self._invalid.report('empty_query', query.where,
                               f'query "{query.id}" has no text')
          continue
        if self._is_new('query', query, self._query_rows):
          _update(digest, query.id, query.text, *query.answers)
          yield {'id': query.id, 'text': query.text,
                 'answers': list(query.answers)}

    _store(self._folder / 'queries', ('id', 'text', 'answers'), usable())
    self._save('query_ids', _as_bytes(self._query_rows))
    return digest.hexdigest()

  def _write_judgements(self, split: str) -> int:
    grades: dict[tuple[int, int], int] = {}
    for judgement in self._source.judgements(split):
      rows = []
      for kind, name, known in (
          ('query', judgement.query_id, self._query_rows),
          ('passage', judgement.passage_id, self._passage_rows),
      ):
        if name not in known:
          self._invalid.report('unknown_id', judgement.where,
                               f'judgement of an unknown {kind} "{name}"')
          break
        rows.append(known[name])
      else:
        pair = (rows[0], rows[1])
        if grades.setdefault(pair, judgement.grade) != judgement.grade:
          self._invalid.report(
              'duplicate_id', judgement.where,
              f'query "{judgement.query_id}" and passage '
              f'"{judgement.passage_id}" are judged twice, with grades '
              f'{grades[pair]} and {judgement.grade}',
          )
    table = np.array([(*pair, grade) for pair, grade in sorted(grades.items())],
                     np.int32).reshape(-1, 3)
    self._save(f'judgements-{split}', table)
    _update(self._tables, split)
    self._tables.update(table.tobytes())
    return len(table)

  def _is_utf8(self, kind, record, *texts) -> bool:
    """Json can hold half of a surrogate pair; UTF-8 and files can't."""
    try:
      ''.join((record.id, *texts)).encode()
    except UnicodeEncodeError as e:
      self._invalid.report('broken_record', record.where,
                           f'{kind} {ascii(record.id)} is no valid Unicode '
                           f'({e.reason})')
      return False
    return True

  def _is_new(self, kind, record, rows) -> bool:
    """Gives the record a row, unless its id has one."""
    if record.id in rows:
      self._invalid.report('duplicate_id', record.where,
                           f'{kind} id "{record.id}" was there before')
      return False
    rows[record.id] = len(rows)
    return True

  def _save(self, name, array):
    np.save(self._folder / f'{name}.npy', array, allow_pickle=False)


def _store(
    folder: pathlib.Path, fields: Sequence[str], rows: Iterable[dict[str, Any]]
) -> None:
  """Writes rows of text fields as one ArrayRecord data set; none if no rows."""
  from neg_contrast.data import tfds_records  # Slow to import.

  rows = iter(rows)
  first = list(itertools.islice(rows, 1))
  if first:  # tfds can't store an empty set, and the caller refuses it.
    tfds_records.write(folder, fields, itertools.chain(first, rows))


def _open(folder: pathlib.Path) -> Any:
  from neg_contrast.data import tfds_records

  return tfds_records.read(folder)


def _to_passage(row: dict[str, Any]) -> records.Passage:
  return records.Passage(*(row[key].decode() for key in
                           ('id', 'title', 'text', 'document_id')))


def _to_query(row: dict[str, Any]) -> records.Query:
  answers = tuple(answer.decode() for answer in row['answers'])
  return records.Query(row['id'].decode(), row['text'].decode(), answers)


def _as_bytes(ids: Iterable[str]) -> np.ndarray:
  return np.array([name.encode() for name in ids], np.bytes_)


def _folded(passage: records.Passage) -> str:
  """Title and text for comparison: case and white space folded."""
  fold = lambda text: ' '.join(text.casefold().split())
  return f'{fold(passage.title)}\0{fold(passage.text)}'


def _update(digest, *fields: str) -> None:
  for field in fields:
    data = field.encode()
    digest.update(len(data).to_bytes(8, 'little'))
    digest.update(data)
  digest.update(b'\n')


def _folder(spec: str, root: pathlib.Path) -> pathlib.Path:
  """A readable name, and a hash of where the source really lies."""
  scheme, _, place = spec.partition(':')
  resolved = os.path.realpath(place) if place else ''
  slug = re.sub(r'[^\w.-]+', '-', pathlib.Path(resolved).name)
  code = hashlib.sha256(f'{scheme}:{resolved}'.encode()).hexdigest()[:8]
  return root / '-'.join(filter(None, (scheme, slug, code)))


def _known_files(
    folder: pathlib.Path, skip_invalid: bool
) -> list[dict[str, Any]]:
  """The files that `folder` was prepared from; none if it can't be reused."""
  manifest = artifacts.read_manifest(folder)
  if manifest is None or manifest['format'] != _FORMAT:
    return []
  if manifest['counts']['skipped'] and not skip_invalid:
    return []
  return manifest['files']


def _file_facts(
    source: records.Source, known: list[dict[str, Any]]
) -> list[dict[str, Any]]:
  """Path, size, time and sha256 of the source's files.

  One with the path, size and time of a known file is not hashed again.
  """
  keys = ('path', 'size', 'mtime_ns')
  hashes = {tuple(fact[key] for key in keys): fact['sha256'] for fact in known}
  facts = []
  for path in source.files:
    stat = path.stat()
    values = os.path.realpath(path), stat.st_size, stat.st_mtime_ns
    facts.append({
        **dict(zip(keys, values, strict=True)),
        'sha256': hashes.get(values) or artifacts.sha256_file(path),
    })
  return facts


def _contents(facts: list[dict[str, Any]]) -> list[tuple[str, str]]:
  """What must stay the same; names count, since splits are named by them."""
  return [(fact['path'], fact['sha256']) for fact in facts]
