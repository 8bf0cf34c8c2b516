"""A source read once, checked, and stored for random access.

Passages and queries are tensorflow-datasets ArrayRecord data sets (no
TensorFlow needed), in source order: a row number is a place in the corpus.
Beside them lie their ids, and, as .npy files, the judgements by row and what is
asked of all passages at once. Memory does not hold the texts: preparing takes
less than 24 bytes a passage, or 48 a judgement of a split, and the ids of the
judged queries beside a constant.
"""

import dataclasses
import functools
import hashlib
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from jaxtyping import Bool, Float, Int

from neg_contrast import errors
from neg_contrast.artifacts import arrays, folders
from neg_contrast.data import id_table, records

Record = TypeVar('Record')
FORMAT = 5
"""Of the folder; another one is refused.

Up to revision 8c5490c the fields of a record were in any order; now they are in
alphabetical order. The number stayed: readers know a field by its name, and
fingerprints, which are of the texts, are the same.
"""
CORPUS = folders.Format('a prepared corpus', FORMAT)
QUERIES = folders.Format('queries of a prepared corpus', FORMAT)
_TITLES = folders.Format('the documents of titles', 1)
_DOCUMENTS = 'documents.npy'
WEIGHTED = 'weighted'
"""In the manifest: the splits whose judgements have weights, if any have."""
_READ_AT_ONCE = 1024


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
    weights: `[judgements] float32`, at least 0, how much a positive counts in
      training; None: all count alike.
  """

  query_rows: Int[np.ndarray, ' judgements']
  passage_rows: Int[np.ndarray, ' judgements']
  grades: Int[np.ndarray, ' judgements']
  is_example: Bool[np.ndarray, ' judgements']
  unjudged: Int[np.ndarray, ' unjudged']
  weights: Float[np.ndarray, ' judgements'] | None = None

  @property
  def queries(self) -> Int[np.ndarray, ' queries']:
    """`[queries] int32`, all queries of the split, ascending."""
    return np.union1d(self.query_rows, self.unjudged)

  @property
  def training_weights(self) -> Float[np.ndarray, ' judgements']:
    """`[judgements] float32`; 0 of a positive that is not trained on."""
    weights = np.ones(len(self.grades), np.float32)
    if self.weights is not None:
      weights = self.weights
    return np.where(self.is_example | (self.grades <= 0), weights, 0)

  def select(self, keep: Bool[np.ndarray, ' judgements']) -> 'Judgements':
    """Those where `keep` is True, without unjudged queries."""
    return Judgements(
        self.query_rows[keep], self.passage_rows[keep], self.grades[keep],
        self.is_example[keep], self.unjudged[:0],
        None if self.weights is None else self.weights[keep],
    )


class Records(Sequence, Generic[Record]):
  """Random access to stored records."""

  def __init__(self, source: Any, decode: Callable[[dict], Record]):
    """Wraps `tfds_records.Rows`, or nothing, `()`."""
    self._source, self._decode = source, decode

  def __len__(self) -> int:
    return len(self._source)

  def __getitem__(self, row):
    if isinstance(row, slice):
      return list(self.some(range(*row.indices(len(self)))))
    return self._decode(self._source[int(row)])

  def __iter__(self) -> Iterator[Record]:
    for start in range(0, len(self), _READ_AT_ONCE):
      rows = range(start, min(start + _READ_AT_ONCE, len(self)))
      yield from map(self._decode, self._source[rows.start : rows.stop])

  def some(self, rows: Sequence[int] | np.ndarray) -> Iterator[Record]:
    """Some rows, many read at once."""
    for start in range(0, len(rows), _READ_AT_ONCE):
      part = rows[start : start + _READ_AT_ONCE]
      yield from map(self._decode, self._source.take(list(map(int, part))))


class Prepared:
  """Reads a prepared corpus.

  Attributes:
    folder: where queries and judgements lie.
    corpus_folder: where passages lie; another one where the queries were made
      for a corpus that was there before.
    manifest: its counts and fingerprints.
  """

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
    self.corpus_folder = corpus_folder or folder

  @functools.cached_property
  def passages(self) -> Records[records.Passage]:
    """Rows of the corpus; their worlds are `passage_worlds`."""
    return Records(_open(self.corpus_folder / 'passages'), _to_passage)

  @functools.cached_property
  def passage_ids(self) -> id_table.IdTable:
    """UTF-8 bytes by row, and rows by id."""
    return id_table.IdTable(self.corpus_folder / 'passages')

  @functools.cached_property
  def queries(self) -> Records[records.Query]:
    """All queries that belong to some split."""
    has_some = self.manifest['counts']['queries']
    return Records(_open(self.folder / 'queries') if has_some else (),
                   _to_query)

  @functools.cached_property
  def query_ids(self) -> Sequence[bytes]:
    """The same as `passage_ids`, of queries."""
    has_some = self.manifest['counts']['queries']
    return id_table.IdTable(self.folder / 'queries') if has_some else ()

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
        self.folder / 'query_worlds.npy',
        (self.manifest['counts']['queries'],), np.int32,
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
        self.corpus_folder / f'{name}.npy',
        (self.manifest['counts']['passages'],),
        np.int32,
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
    remedy = (f'Name one with --{errors.key("data.train_split")}, '
              'data.tune_split, data.test_split or data.split')
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
    weights = None
    if split in self.manifest.get(WEIGHTED, ()):
      weights = arrays.load_array(
          self.folder / weights_file(split), (len(table),), np.float32
      )
    return Judgements(
        queries, passages, grades, is_example.astype(bool), unjudged, weights
    )


def weights_file(split: str) -> str:
  """Name of the file with `Judgements.weights` of a split."""
  return f'weights-{split}.npy'


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


def fold_title(title: str) -> str:
  """What titles of one document have in common; empty for none."""
  return ' '.join(title.split())


def _title_hash(title: str) -> int:
  """64 bits of a title; 0 for none."""
  folded = fold_title(title)
  digest = hashlib.blake2b(folded.encode(), digest_size=8).digest()
  return int.from_bytes(digest, 'little') if folded else 0


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
