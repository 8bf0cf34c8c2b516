"""A source read once, checked, and stored for random access.

Passages and queries are tensorflow-datasets ArrayRecord data sets (no
TensorFlow needed), in source order: a row number is a place in the corpus.
Beside them lie their ids, and, as .npy files, the judgements by row and what is
asked of all passages at once. Memory does not hold the texts: preparing takes
less than 24 bytes a passage, or 48 a judgement of a split, and the ids of the
judged queries beside a constant.
"""

import array
import contextlib
import dataclasses
import functools
import hashlib
import itertools
import os
import pathlib
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from absl import logging
from jaxtyping import Bool, Int

from neg_contrast import errors
from neg_contrast.artifacts import arrays, folders
from neg_contrast.data import id_table, records, sources

Record = TypeVar('Record')
FORMAT = 5  # Of the folder; another one is refused.
CORPUS = folders.Format('a prepared corpus', FORMAT)
QUERIES = folders.Format('queries of a prepared corpus', FORMAT)
_TITLES = folders.Format('the documents of titles', 1)
_DOCUMENTS = 'documents.npy'
_PROGRESS_EVERY = 100_000
_READ_AT_ONCE = 1024
_SINGULAR = {'passages': 'passage', 'queries': 'query'}


@dataclasses.dataclass(frozen=True)
class Judgements:
  """Graded judgements of a split, sorted by query and passage.

  Attributes:
    query_rows: `[judgements] int32`.
    passage_rows: `[judgements] int32`.
    grades: `[judgements] int32`; above 0 is a positive.
    is_example: `[judgements] bool`; whether a positive is trained on.
    unjudged: `[unjudged] int32`, queries of the split that nothing is judged
      for: they have answers alone.
  """

  query_rows: Int[np.ndarray, ' judgements']
  passage_rows: Int[np.ndarray, ' judgements']
  grades: Int[np.ndarray, ' judgements']
  is_example: Bool[np.ndarray, ' judgements']
  unjudged: Int[np.ndarray, ' unjudged']

  @property
  def queries(self) -> Int[np.ndarray, ' queries']:
    """`[queries] int32`, all queries of the split, ascending."""
    return np.union1d(self.query_rows, self.unjudged)

  def select(self, keep: Bool[np.ndarray, ' judgements']) -> 'Judgements':
    """Those where `keep` is True, without unjudged queries."""
    return Judgements(
        self.query_rows[keep], self.passage_rows[keep], self.grades[keep],
        self.is_example[keep], self.unjudged[:0],
    )


class Records(Sequence, Generic[Record]):
  """Random access to stored records."""

  def __init__(self, source: Sequence, decode: Callable[[dict], Record]):
    """Wraps rows."""
    self._source, self._decode = source, decode

  def __len__(self) -> int:
    return len(self._source)

  def __getitem__(self, row):
    if isinstance(row, slice):
      return [self[i] for i in range(*row.indices(len(self)))]
    return self._decode(self._source[int(row)])

  def __iter__(self) -> Iterator[Record]:
    for start in range(0, len(self), _READ_AT_ONCE):
      rows = range(start, min(start + _READ_AT_ONCE, len(self)))
      yield from map(self._decode, self._source[rows.start : rows.stop])


class Prepared:
  """Reads a prepared corpus.

  Attributes:
    folder: where queries and judgements lie.
    corpus_folder: where passages lie; another one where the queries were made
      for a corpus that was there before.
    manifest: its counts and fingerprints.
    passages: rows of the corpus; their worlds are `passage_worlds`.
    queries: all queries that belong to some split.
    passage_ids: UTF-8 bytes by row, and rows by id.
    query_ids: the same of queries.
  """

  passages: Records[records.Passage]
  queries: Records[records.Query]
  query_ids: Sequence[bytes]

  def __init__(
      self, folder: pathlib.Path, corpus_folder: pathlib.Path | None = None
  ):
    """Opens a finished folder.

    Args:
      folder: of queries and judgements.
      corpus_folder: of passages; default: the same.

    Raises:
      UserError: it is not finished.
    """
    manifest = folders.read_manifest(
        folder, QUERIES if corpus_folder else CORPUS
    )
    if manifest is None:
      raise errors.UserError(f'{folder}: not a prepared corpus')
    self.folder, self.manifest = folder, manifest
    self.corpus_folder = corpus = corpus_folder or folder
    self.passages = Records(_open(corpus / 'passages'), _to_passage)
    self.passage_ids = id_table.IdTable(corpus / 'passages')
    self.queries, self.query_ids = Records((), _to_query), ()
    if manifest['counts']['queries']:
      self.queries = Records(_open(folder / 'queries'), _to_query)
      self.query_ids = id_table.IdTable(folder / 'queries')

  @property
  def splits(self) -> tuple[str, ...]:
    """Names of the splits."""
    return tuple(self.manifest['counts']['judgements'])

  @property
  def fingerprint(self) -> str:
    """Of the passages, the queries and their judgements together."""
    return self.manifest['fingerprint']

  @functools.cached_property
  def tie_ranks(self) -> Int[np.ndarray, ' passages']:
    """`[passages] int32`: the order among equal scores, see `hits.py`."""
    return id_table.load_tie_ranks(self.corpus_folder / 'passages')

  @functools.cached_property
  def passage_groups(self) -> Int[np.ndarray, ' passages']:
    """`[passages] int32`: the first row with equal title and text.

    Equal after folding case and white space.
    """
    return self._passage_numbers('passage_groups')

  @property
  def has_mentions(self) -> bool:
    """Whether the queries are mentions, and not questions."""
    return self.manifest['mentions']

  @property
  def worlds(self) -> tuple[str, ...]:
    """Names of the parts that queries are searched in; empty: there are none.
    """
    return tuple(self.manifest['worlds'])

  @functools.cached_property
  def passage_worlds(self) -> Int[np.ndarray, ' passages']:
    """`[passages] int32`: numbers of `worlds`; where there are some."""
    return self._passage_numbers('passage_worlds')

  @functools.cached_property
  def query_worlds(self) -> Int[np.ndarray, ' queries']:
    """`[queries] int32`: numbers of `worlds`; where there are some."""
    return arrays.load_array(
        self.folder / 'query_worlds.npy', (len(self.queries),), np.int32
    )

  def rows_of_worlds(
      self, queries: Int[np.ndarray, ' queries']
  ) -> Int[np.ndarray, ' rows'] | None:
    """`[rows] int32`: passages of the worlds of some queries, ascending.

    None where there are no worlds, and where these are all of them. Negatives
    of training mentions are among those of the training worlds (Zhang and
    Stratos, 2021, section 6.3).
    """
    if not self.worlds:
      return None
    some = np.unique(self.query_worlds[queries])
    if len(some) == len(self.worlds):
      return None
    return np.flatnonzero(np.isin(self.passage_worlds, some)).astype(np.int32)

  @functools.cached_property
  def passage_documents(self) -> Int[np.ndarray, ' passages']:
    """`[passages] int32`: number of the document, -1 where unknown."""
    return self._passage_numbers('passage_documents')

  def _passage_numbers(self, name: str) -> Int[np.ndarray, ' passages']:
    return arrays.load_array(
        self.corpus_folder / f'{name}.npy', (len(self.passages),), np.int32
    )

  def judgements(self, split: str) -> Judgements:
    """The judgements of a split.

    Raises:
      UserError: there is no such split, or it is empty.
    """
    spec = self.manifest['spec']
    if not self.splits:
      raise errors.UserError(
          f'{spec}: no split "{split}": it is a corpus alone. Give a source '
          'with queries and judgements'
      )
    remedy = ('Name one with --config.data.train_split, data.tune_split, '
              'data.test_split or data.split')
    if split not in self.splits:
      raise errors.UserError(
          f'{spec}: no split "{split}"; it has {", ".join(self.splits)}. '
          f'{remedy}'
      )
    table = arrays.load_array(
        self.folder / f'judgements-{split}.npy', (None, 4), np.int32
    )
    unjudged = arrays.load_array(
        self.folder / f'unjudged-{split}.npy', (None,), np.int32
    )
    if not len(table) and not len(unjudged):
      raise errors.UserError(
          f'{spec}: split "{split}" holds no judgements. {remedy}'
      )
    queries, passages, grades, is_example = np.ascontiguousarray(table.T)
    return Judgements(
        queries, passages, grades, is_example.astype(bool), unjudged
    )


def documents_by_title(
    prepared: Prepared,
) -> Int[np.ndarray, ' passages']:
  """Passages of equal titles as documents; -1 where there is no title.

  Returns:
    `[passages] int32`; kept beside the corpus, since every title is read.
  """
  folder = prepared.corpus_folder / 'title_documents'
  if folders.read_manifest(folder, _TITLES) is None:
    titles = np.fromiter(
        (_title_hash(passage.title) for passage in prepared.passages),
        np.uint64, len(prepared.passages),
    )
    numbers = np.unique(titles, return_inverse=True)[1].astype(np.int32)
    with folders.writing(folder, {}, format=_TITLES) as scratch:
      np.save(scratch / _DOCUMENTS,
              np.where(titles == 0, np.int32(-1), numbers))
  return arrays.load_array(
      folder / _DOCUMENTS, (len(prepared.passages),), np.int32
  )


def _title_hash(title: str) -> int:
  """64 bits of a title; 0 for none."""
  folded = ' '.join(title.split())
  digest = hashlib.blake2b(folded.encode(), digest_size=8).digest()
  return int.from_bytes(digest, 'little') if folded else 0


def is_prepared(
    spec: str, root: pathlib.Path, skip_invalid: bool
) -> bool:
  """Whether `prepare` with the same arguments would find its work done."""
  try:
    source = sources.open_source(spec, records.InvalidRecords(skip=True))
    known = _known_files(_folder(spec, root), skip_invalid)
    return bool(known) and (
        _contents(known) == _contents(_file_facts(source, known))
    )
  except (errors.UserError, OSError):
    return False


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
    UserError: a file is missing or not to be read, or a record can't be used
      (names file, line and id).
  """
  invalid = records.InvalidRecords(skip_invalid)
  source = sources.open_source(spec, invalid)
  folder = _folder(spec, root)
  try:
    known = _known_files(folder, skip_invalid)
    if not known or known != _file_facts(source, known):
      with folders.only_one(folder):
        # Another process may have done it while this one waited.
        known = _known_files(folder, skip_invalid)
        _update_folder(spec, source, invalid, folder, known)
  except PermissionError as e:
    raise errors.UserError(f'{spec}: {e.filename}: {e.strerror}') from None
  return Prepared(folder)


def write_queries(
    base: Prepared,
    source: records.Source,
    folder: pathlib.Path,
    manifest: dict[str, Any],
) -> None:
  """Stores other queries and judgements for the passages of a prepared corpus.

  Args:
    base: has the passages, which stay where they are.
    source: gives queries and judgements; its passages are not read.
    folder: a scratch folder, see `artifacts.writing`.
    manifest: gets the counts and fingerprints.

  Raises:
    UserError: a record can't be used.
  """
  manifest |= {'spec': base.manifest['spec'], 'worlds': []}
  invalid = records.InvalidRecords(skip=False)
  _Writer(source, invalid, folder).write_queries(
      manifest, base.passage_ids, base.manifest['corpus_fingerprint']
  )


def _update_folder(spec, source, invalid, folder, known) -> None:
  """Prepares the source, or only notes new file times if no more changed."""
  files = _file_facts(source, known)
  if known and _contents(known) == _contents(files):
    folders.update_manifest(folder, {'files': files})
    return
  if known:
    logging.info('%s changed since it was prepared', spec)
  logging.info('preparing %s into %s', spec, folder)
  manifest = {'spec': spec, 'files': files}
  with folders.writing(folder, manifest, format=CORPUS) as scratch:
    _Writer(source, invalid, scratch).write(manifest)
  if invalid.counts:
    logging.warning('%s: skipped %s', spec, dict(invalid.counts))


class _Writer:
  """Writes the records of one source into a folder."""

  def __init__(self, source, invalid, folder):
    self._source, self._invalid, self._folder = source, invalid, folder
    self._repeated = 0
    self._digest = hashlib.sha256()  # Of the judgements.
    self._worlds: dict[str, int] = {}  # Their numbers.
    self._worlds_of: dict[str, array.array] = {}  # Of the rows of a kind.
    self._has_mentions: bool | None = None

  def write(self, manifest: dict[str, Any]) -> None:
    """Writes everything and completes the manifest."""
    sorter, corpus = self._write_records(
        'passages', self._usable_passages, _passage_row
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
      self, manifest: dict[str, Any], passage_ids: Any, corpus: str
  ) -> None:
    """Writes what refers to passages, and completes the manifest."""
    sorter, queries = self._write_records(
        'queries', functools.partial(self._usable_queries, self._judged()),
        _query_row,
    )
    sorter.close()
    if self._worlds:
      self._save('query_worlds',
                 np.array(self._worlds_of['queries'], np.int32))
    self._passage_ids = passage_ids
    self._query_row = (
        id_table.IdTable(self._folder / 'queries', is_finished=False).row_of
        if len(sorter) else lambda _: None
    )
    own = self._own_queries()
    counts = {split: self._write_split(split, own.get(split, ()))
              for split in self._source.splits}
    manifest |= {
        'corpus_fingerprint': corpus,
        'queries_fingerprint': queries,
        'fingerprint': folders.sha256_json(
            [corpus, queries, self._digest.hexdigest()]
        ),
        'mentions': bool(self._has_mentions),
        'counts': {
            'passages': len(passage_ids),
            'queries': len(sorter),
            'judgements': {name: n for name, (n, _) in counts.items()},
            'unjudged': {name: n for name, (_, n) in counts.items()},
            'skipped': dict(self._invalid.counts),
            'repeated': self._repeated,
        },
    }

  def _write_records(self, kind, read, to_row):
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
        sorter.add(record.id, '\0'.join(fields), _folded(record),
                   row.get('document_id', ''))
        _update(digest, *fields)
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

  def _usable_passages(self):
    for passage in self._source.passages():
      if not self._is_sound('passage', passage, passage.title, passage.text,
                            passage.document_id):
        continue
      if passage.title.strip() or passage.text.strip():
        yield passage
      else:
        self._invalid.report('empty_passage', passage.where,
                             f'passage "{passage.id}" has no title or text')

  def _usable_queries(self, wanted):
    for query in self._source.queries():
      if query.id not in wanted and not query.split:
        continue
      if not self._is_sound('query', query, query.text, *query.answers,
                            *(query.context or ())):
        continue
      if self._has_mentions is None and query.text.strip():
        self._has_mentions = query.context is not None
      if not query.text.strip():
        self._invalid.report('empty_query', query.where,
                             f'query "{query.id}" has no text')
      elif (query.context is not None) != self._has_mentions:
        self._invalid.report(
            'broken_record', query.where,
            f'query "{query.id}" is a question and the first one is a mention '
            'with context, or the other way round; give them as two sources',
        )
      elif query.world and query.world not in self._worlds:
        self._invalid.report('unknown_id', query.where,
                             f'query "{query.id}" is of world '
                             f'"{query.world}", which has no passages')
      else:
        yield query

  def _judged(self) -> set[str]:
    """Ids of judged queries."""
    with self._quiet():
      return {judgement.query_id for split in self._source.splits
              for judgement in self._source.judgements(split)}

  def _own_queries(self) -> dict[str, Any]:
    """Rows of the queries that name their split, by split."""
    rows: dict[str, Any] = {}
    with self._quiet():
      for query in self._source.queries():
        row = self._query_row(query.id) if query.split else None
        if row is not None:
          rows.setdefault(query.split, array.array('i')).append(row)
    return rows

  @contextlib.contextmanager
  def _quiet(self):
    """Broken lines are not counted a second time."""
    before = self._invalid.counts.copy()
    yield
    self._invalid.counts = before

  def _write_split(self, split, own_queries) -> tuple[int, int]:
    """Stores a split; returns how many judgements and unjudged queries."""
    pairs, grades = array.array('q'), array.array('i')
    for judgement, (query, passage) in self._known(split):
      pairs.append(query << 32 | passage)
      grades.append(judgement.grade << 1 | judgement.is_example)
    table, conflicts = _unique(np.frombuffer(pairs, np.int64),
                               np.frombuffer(grades, np.int32))
    if len(conflicts):
      self._report_conflicts(split, set(conflicts.tolist()))
    unjudged = np.setdiff1d(np.array(own_queries, np.int32), table[:, 0])
    self._save(f'judgements-{split}', table)
    self._save(f'unjudged-{split}', unjudged)
    _update(self._digest, split)
    self._digest.update(table.tobytes() + unjudged.tobytes())
    return len(table), len(unjudged)

  def _known(self, split):
    """Judgements of the split with their (query row, passage row)."""
    for judgement in self._source.judgements(split):
      query = self._query_row(judgement.query_id)
      passage = self._passage_ids.row_of(judgement.passage_id)
      if query is not None and passage is not None:
        if self._are_apart(query, passage):
          self._invalid.report(
              'unknown_id', judgement.where,
              f'passage "{judgement.passage_id}" is of another world than '
              f'query "{judgement.query_id}", which is searched in its own',
          )
        else:
          yield judgement, (query, passage)
        continue
      kind, name = (('query', judgement.query_id) if query is None else
                    ('passage', judgement.passage_id))
      self._invalid.report('unknown_id', judgement.where,
                           f'judgement of an unknown {kind} "{name}"')

  def _are_apart(self, query: int, passage: int) -> bool:
    """Whether the query and the passage of two rows are of two worlds."""
    return bool(self._worlds) and (
        self._worlds_of['queries'][query]
        != self._worlds_of['passages'][passage]
    )

  def _report_conflicts(self, split, numbers):
    with self._quiet():
      wanted = [judgement for number, (judgement, _)
                in enumerate(self._known(split)) if number in numbers]
    for judgement in wanted:
      self._invalid.report(
          'duplicate_id', judgement.where,
          f'query "{judgement.query_id}" and passage '
          f'"{judgement.passage_id}" were judged before, with another grade '
          f'than {judgement.grade}',
      )

  def _is_sound(self, kind, record, *texts) -> bool:
    """Whether it has an id, and texts that files can hold.

    Json can hold half of a surrogate pair; UTF-8 can't.
    """
    if not record.id:
      self._invalid.report('broken_record', record.where,
                           f'the id of the {kind} is empty')
      return False
    try:
      ''.join((record.id, *texts)).encode()
    except UnicodeEncodeError as e:
      self._invalid.report('broken_record', record.where,
                           f'{kind} {ascii(record.id)} is no valid Unicode '
                           f'({e.reason})')
      return False
    return True

  def _save(self, name, array):
    np.save(self._folder / f'{name}.npy', array, allow_pickle=False)


def _unique(
    pairs: Int[np.ndarray, ' judgements'],
    grades: Int[np.ndarray, ' judgements'],
) -> tuple[Int[np.ndarray, 'kept 4'], Int[np.ndarray, ' conflicts']]:
  """The first judgement of each pair, by pair; numbers of those that differ.

  Args:
    pairs: `[judgements] int64`: query row * 2**32 + passage row; is sorted, in
      place, since there may be many.
    grades: `[judgements] int32`: grade * 2 + whether it is an example.
  """
  order = np.argsort(pairs, kind='stable')
  pairs.sort()
  grades = grades[order]
  is_first = np.ones(len(pairs), bool)
  is_first[1:] = pairs[1:] != pairs[:-1]
  starts, repeats = np.flatnonzero(is_first), np.flatnonzero(~is_first)
  of = np.searchsorted(starts, repeats, 'right') - 1
  first, again = grades[starts], grades[repeats]
  conflicts = np.sort(order[repeats[again >> 1 != first[of] >> 1]])
  # A positive is trained on if any of its records says so.
  first[of[(first[of] > 1) & (again > 1) & (again & 1 == 1)]] |= 1
  del order, grades, starts
  table = np.empty((len(first), 4), np.int32)
  kept = pairs[is_first]
  table[:, 1] = kept
  kept >>= 32
  table[:, 0] = kept
  table[:, 2] = first >> 1
  table[:, 3] = first & 1
  return table, conflicts


def _passage_row(passage: records.Passage) -> dict[str, Any]:
  return {'id': passage.id, 'title': passage.title, 'text': passage.text,
          'document_id': passage.document_id}


def _query_row(query: records.Query) -> dict[str, Any]:
  return {'id': query.id, 'text': query.text, 'answers': list(query.answers),
          'context': list(query.context or ())}


def _open(folder: pathlib.Path) -> Any:
  from neg_contrast.data import tfds_records

  return tfds_records.Rows(folder)


def _to_passage(row: dict[str, Any]) -> records.Passage:
  return records.Passage(*(row[key].decode() for key in
                           ('id', 'title', 'text', 'document_id')))


def _to_query(row: dict[str, Any]) -> records.Query:
  answers, context = (tuple(text.decode() for text in row[key])
                      for key in ('answers', 'context'))
  return records.Query(row['id'].decode(), row['text'].decode(), answers,
                       context=context or None)


def _folded(record: records.Passage | records.Query) -> str:
  """What is compared: title and text, with case and white space folded."""
  fold = lambda text: ' '.join(text.casefold().split())
  return f'{fold(getattr(record, "title", ""))}\0{fold(record.text)}'


def _update(digest, *fields: str) -> None:
  for field in fields:
    data = field.encode()
    digest.update(len(data).to_bytes(8, 'little'))
    digest.update(data)
  digest.update(b'\n')


def _folder(spec: str, root: pathlib.Path) -> pathlib.Path:
  """A readable name, and a hash of where the source really lies."""
  scheme, _, place = spec.partition(':')
  resolved = os.path.realpath(place) if os.path.exists(place) else place
  slug = re.sub(r'[^\w.-]+', '-', pathlib.Path(resolved).name)[:80]
  code = hashlib.sha256(f'{scheme}:{resolved}'.encode()).hexdigest()[:8]
  return root / '-'.join(filter(None, (scheme, slug, code)))


def _known_files(
    folder: pathlib.Path, skip_invalid: bool
) -> list[dict[str, Any]]:
  """The files that `folder` was prepared from; none if it can't be reused."""
  manifest = folders.read_manifest(folder, CORPUS)
  if manifest is None:
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
        'sha256': hashes.get(values) or folders.sha256_file(path),
    })
  return facts


def _contents(facts: list[dict[str, Any]]) -> list[tuple[str, str]]:
  """What must stay the same; names count, since splits are named by them."""
  return [(fact['path'], fact['sha256']) for fact in facts]
