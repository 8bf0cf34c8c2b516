"""MS MARCO passage files: collection, queries, qrels and triples."""

import collections
import pathlib
from collections.abc import Callable, Iterator

from absl import logging

from neg_contrast import errors
from neg_contrast.artifacts import places
from neg_contrast.data import records
from neg_contrast.data.formats import files, line_blocks, qrels

# Of a query, from the triples: a step draws one or two of them. There are 397
# million triples, near a thousand a query.
_MOST_NEGATIVES = 32
_HEADERS = ('passage', 'query', 'text')


class MsMarco:
  """A folder with MS MARCO's files; any may be gzipped.

  `collection.tsv` holds the passages, `queries.<split>.tsv` the queries and
  `qrels.<split>.tsv` their judgements, in TREC's columns.
  `qidpidtriples.<split>.*.tsv` add negatives to a split: the first 32 of each
  query that are not its positives; and its positives, where the split has no
  qrels. Without a collection, `triples.<split>.*.tsv` give passages and
  queries as texts; equal texts have equal ids.
  """

  def __init__(self, place: str, invalid: records.InvalidRecords):
    """Lists the files.

    Raises:
      UserError: one is missing.
    """
    self._invalid = invalid
    found = files.listing(places.path(place), '.tsv', '.txt')
    starting = lambda *starts: tuple(
        file for file in found if file.name.startswith(starts)
    )
    if places.path(place).is_file():
      raise errors.UserError(
          f'msmarco:{place}: is a file; name the folder that holds '
          'collection.tsv, queries.train.tsv and qrels.train.tsv'
      )
    self._collection = starting('collection.tsv')[:1]
    self._queries = starting('queries.')
    judged = starting('qrels.')
    by_text = starting('triples.')
    self._triples = starting('qidpidtriples.')
    self._is_text = bool(by_text) and not self._collection
    if self._is_text:
      self._queries, judged, self._triples = (), (), by_text
    elif by_text:
      logging.warning(
          'msmarco:%s: not reading %s: its texts have no ids, and the '
          'collection is here. qidpidtriples.*.tsv says the same by id', place,
          ', '.join(file.name for file in by_text),
      )
    self._qrels = {_split_of(file): file for file in judged}
    if len(self._qrels) < len(judged):
      raise errors.UserError(
          f'msmarco:{place}: a split has two files of qrels, as .tsv and as '
          '.txt; remove one of each pair'
      )
    lacking = []
    if not self._collection and not self._is_text:
      lacking.append('collection.tsv')
    if (judged or self._triples) and not (self._queries or self._is_text):
      lacking.append('queries.<split>.tsv')
    if self._queries and not (judged or self._triples):
      lacking.append('qrels.<split>.tsv')
    if lacking:
      raise errors.UserError(
          f'msmarco:{place}: no such file: {", ".join(lacking)} (or .gz). A '
          'folder holds collection.tsv, queries.<split>.tsv and '
          'qrels.<split>.tsv (collectionandqueries.tar.gz of MS MARCO), or '
          'collection.tsv alone, or triples.train.small.tsv alone'
      )
    self.files = (*self._collection, *self._queries, *judged, *self._triples)

  @property
  def splits(self) -> tuple[str, ...]:
    """Names in the file names of qrels, then of triples."""
    return tuple(dict.fromkeys(
        (*self._qrels, *map(files.split_of, self._triples))
    ))

  @property
  def passage_files(self) -> tuple[pathlib.Path, ...]:
    """The collection."""
    return self._collection

  def passages_of(self, lines: line_blocks.Lines) -> Iterator[records.Passage]:
    """Those of some lines of the collection."""
    for where, name, text in self._pairs(lines, 'passage'):
      yield records.Passage(name, '', text, where=where)

  def passages(self) -> Iterator[records.Passage]:
    """The collection, in file order; or all texts of the triples."""
    for file in self._collection:
      yield from self.passages_of(file)
    if self._is_text:
      for file in self._triples:
        for where, _, *texts in self._rows(file, self._invalid):
          for text in texts:
            yield records.Passage(files.content_id(text), '', text, where=where)

  def queries(self) -> Iterator[records.Query]:
    """All queries, in file order, judged or not."""
    for file in self._queries:
      for where, name, text in self._pairs(file, 'query'):
        yield records.Query(name, text, where=where)
    if self._is_text:
      last = ''
      for file in self._triples:
        for where, text, _, _ in self._rows(file, files.unheard()):
          if text != last:
            yield records.Query(files.content_id(text), text, where=where)
          last = text

  def judgements(self, split: str) -> Iterator[records.Judgement]:
    """The split's qrels, then what its triples add."""
    triples = [f for f in self._triples if files.split_of(f) == split]
    positives: set[str] = set()
    if split in self._qrels:
      for judgement in qrels.read(self._qrels[split], self._invalid):
        if triples and judgement.grade > 0:
          positives.add(f'{judgement.query_id}\t{judgement.passage_id}')
        yield judgement
    to_id = files.content_id if self._is_text else lambda name: name
    # Memory holds the positives and a number for each query.
    if split not in self._qrels:
      for file in triples:
        rows = self._rows(file, files.unheard())
        yield from _positives(rows, to_id, positives)
    counts: collections.Counter[str] = collections.Counter()
    for file in triples:
      # The passages' reading has reported the faults of texts.
      rows = self._rows(file, files.unheard() if self._is_text
                        else self._invalid)
      yield from _negatives(rows, to_id, positives, counts)

  def _pairs(
      self, lines: line_blocks.Lines, what: str
  ) -> Iterator[tuple[str, str, str]]:
    """(`file:line`, id, text) of two columns, a file's header left out."""
    path, is_first = line_blocks.path_of(lines), line_blocks.is_start(lines)
    for number, line in line_blocks.numbered_lines(lines):
      where = f'{path}:{number}'
      fields = line.split('\t')
      words = [word.strip().lower() for word in fields]
      may_be_header, is_first = is_first, False
      if (may_be_header and words[0].endswith('id')
          and words[-1] in _HEADERS):
        continue
      if len(fields) == 2 and fields[0]:
        yield where, fields[0], fields[1]
      else:
        self._invalid.report(
            'broken_record', where, f'expected an id, a tab and a {what}, '
            f'found {len(fields)} columns: {line[:80]!r}',
        )

  def _rows(
      self, file: pathlib.Path, invalid: records.InvalidRecords
  ) -> Iterator[tuple[str, str, str, str]]:
    """(`file:line`, query, positive, negative) of a file of triples."""
    for number, line in line_blocks.numbered_lines(file):
      where, fields = f'{file}:{number}', line.split('\t')
      if len(fields) == 3 and all(map(str.strip, fields)):
        yield where, fields[0], fields[1], fields[2]
      else:
        invalid.report(
            'broken_record', where,
            'expected a query, a positive and a negative between tabs, found '
            f'{line[:80]!r}',
        )


def _positives(
    rows: Iterator[tuple[str, str, str, str]],
    to_id: Callable[[str], str],
    positives: set[str],
) -> Iterator[records.Judgement]:
  """Each positive once, as its ids join `positives` with a tab between."""
  for where, query, positive, _ in rows:
    query_id, passage_id = to_id(query), to_id(positive)
    pair = f'{query_id}\t{passage_id}'
    if pair not in positives:
      positives.add(pair)
      yield records.Judgement(query_id, passage_id, 1, where)


def _negatives(
    rows: Iterator[tuple[str, str, str, str]],
    to_id: Callable[[str], str],
    positives: set[str],
    counts: collections.Counter[str],
) -> Iterator[records.Judgement]:
  """The first negatives of each query that are not among `positives`."""
  for where, query, _, negative in rows:
    query_id = to_id(query)
    if counts[query_id] >= _MOST_NEGATIVES:
      continue
    passage_id = to_id(negative)
    if f'{query_id}\t{passage_id}' not in positives:
      counts[query_id] += 1
      yield records.Judgement(query_id, passage_id, 0, where)


def _split_of(file: pathlib.Path) -> str:
  """`dev.small` of `qrels.dev.small.tsv.gz`."""
  return files.plain_name(file).rpartition('.')[0].partition('.')[2] or 'all'


FORMAT = records.SourceFormat(
    'msmarco:data/msmarco', MsMarco,
    names=('collection.tsv', 'qrels.*', '*triples.*'), is_folder=True,
)
