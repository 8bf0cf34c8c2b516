"""Records as bytes, ready to be stored, as any process can make them."""

import collections
import dataclasses
import hashlib
import itertools
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from neg_contrast import workers
from neg_contrast.data import fingerprints, records, tf_examples, usable_records
from neg_contrast.data.formats import line_blocks

PASSAGE_FIELDS = ('id', 'title', 'text', 'document_id')
QUERY_FIELDS = ('id', 'text', 'answers', 'context')
_AT_ONCE = 1 << 18  # Bytes of rows.


class PackedRecord(NamedTuple):
  """A record as bytes.

  Attributes:
    row: the record as it is stored.
    id: in UTF-8.
    content: a hash of all that two records of the same id must share.
    text: a hash of what two records of the same group share.
    document: of the record, in UTF-8; empty: unknown.
    digested: what the fingerprint is taken of.
    world: see `records.Source`.
    where: `file:line`, for error messages.
  """

  row: bytes
  id: bytes
  content: bytes
  text: bytes
  document: bytes
  digested: bytes
  world: str
  where: str


def pack_passage(passage: records.Passage) -> PackedRecord:
  """A passage as bytes."""
  texts = passage.id, passage.title, passage.text, passage.document_id
  return _pack(passage, dict(zip(PASSAGE_FIELDS, texts, strict=True)), texts,
               passage.title, passage.document_id)


def pack_query(query: records.Query) -> PackedRecord:
  """A query as bytes."""
  context = query.context or ()
  row = dict(zip(QUERY_FIELDS, (query.id, query.text, query.answers, context),
                 strict=True))
  texts = (query.id, query.text, *query.answers, *context)
  return _pack(query, row, (*texts, 'mention') if context else texts)


def in_lists(packed: Iterable[PackedRecord]) -> Iterator[list[PackedRecord]]:
  """Some records at a time, in order."""
  some: list[PackedRecord] = []
  size = 0
  for record in packed:
    some.append(record)
    size += len(record.row)
    if size >= _AT_ONCE:
      yield some
      some, size = [], 0
  yield some


@dataclasses.dataclass(frozen=True)
class PackedBlock:
  """What is read of a block of a file.

  Attributes:
    records: those that can be used.
    skipped: how many others there are, by kind.
    unread: see `line_blocks.Block`.
  """

  records: list[PackedRecord]
  skipped: collections.Counter[str]
  unread: bytes


@dataclasses.dataclass(frozen=True)
class PassageReader:
  """Reads the usable passages of blocks, in any process.

  Attributes:
    source: gives the passages.
    invalid: that the source reports to; its counts are left as they are.
  """

  source: records.SourceInLines
  invalid: records.InvalidRecords

  def __call__(self, block: line_blocks.Block) -> PackedBlock:
    """Reads a block.

    Raises:
      UserError: a record can't be used, and must not be skipped.
    """
    with self.invalid.quiet():
      self.invalid.counts = collections.Counter()
      packed = list(map(pack_passage, usable_records.usable_passages(
          self.source.passages_of(block), self.invalid
      )))
      return PackedBlock(packed, self.invalid.counts, block.unread)


def read_passages(
    source: records.Source, invalid: records.InvalidRecords, readers: int
) -> Iterator[list[PackedRecord]]:
  """All usable passages, some at a time; workers read those that lie in lines.

  Args:
    source: gives the passages.
    invalid: where to report those that can't be used; the source does so too.
    readers: number of workers; 1: this process reads.

  Raises:
    UserError: a record can't be used, or a file can't be read.
  """
  lines = records.in_lines(source)
  if lines is None:
    yield from in_lists(map(pack_passage, usable_records.usable_passages(
        source.passages(), invalid
    )))
    return
  blocks = itertools.chain.from_iterable(
      map(line_blocks.read_blocks, lines.passage_files)
  )
  for block in workers.in_order(
      PassageReader(lines, invalid), blocks, readers, 0,
      lambda before, block: line_blocks.with_unread(before.unread, block),
  ):
    invalid.counts += block.skipped
    yield block.records


def _pack(record, row, texts, title='', document='') -> PackedRecord:
  if record.world:
    texts = (*texts, f'world {record.world}')
  return PackedRecord(
      row=tf_examples.serialized(row),
      id=record.id.encode(),
      content=_hash('\0'.join(texts)),
      text=_hash(fingerprints.folded(title, record.text)),
      document=document.encode(),
      digested=fingerprints.digested(*texts),
      world=record.world,
      where=record.where,
  )


def _hash(text: str) -> bytes:
  return hashlib.blake2b(text.encode(), digest_size=16).digest()
