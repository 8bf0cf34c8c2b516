"""BEIR folders: corpus.jsonl, queries.jsonl, qrels/<split>.tsv."""

import pathlib
import re
from collections.abc import Iterator
from typing import Any

from neg_contrast import errors
from neg_contrast.artifacts import places
from neg_contrast.data import records
from neg_contrast.data.formats import files, line_blocks, qrels
from neg_contrast.data.formats import given_pairs as pairs

_QRELS = ('.tsv', '.trec')
_PREFIXED = re.compile(r'(.+-)(qrels|queries\.jsonl)(\.gz)?')


class Beir:
  """A folder in BEIR's layout, or its corpus alone; any file may be gzipped.

  `metadata.document_id` of a passage says which document it is from, and
  `answers` of a query (at the top or in `metadata`) which answers it has. A
  query with `left` or `right` is a mention between these texts; one with
  `mention_span`, [start, end] in characters, is that part of its `text`. Qrels
  in TREC's form (four columns, no header) are read too, called `<split>.tsv` or
  `<split>.trec`. A feature beside text is any key of a record, or of its
  `metadata`. Generated queries with a prefix (`gen-queries.jsonl`,
  `gen-qrels/train.tsv`) have splits with it (`gen-train`).
  """

  def __init__(self, place: str, invalid: records.InvalidRecords):
    """Lists the files.

    Raises:
      UserError: one is missing.
    """
    folder = places.path(place)
    self._invalid = invalid
    self._corpus = files.plain_or_gzip(folder / 'corpus.jsonl')
    lacking = [] if self._corpus.is_file() else [self._corpus]
    self._queries: list[pathlib.Path] = []
    self._qrels: dict[str, pathlib.Path] = {}
    prefixes = {found[1] for path in folder.glob('*-q*')
                if (found := _PREFIXED.fullmatch(path.name))}
    for prefix in ('', *sorted(prefixes)):
      queries = files.plain_or_gzip(folder / f'{prefix}queries.jsonl')
      judged = files.listing(folder / f'{prefix}qrels', *_QRELS)
      if queries.is_file():
        self._queries.append(queries)
      if judged and not queries.is_file():
        lacking.append(queries)
      if queries.is_file() and not judged:
        lacking.append(folder / f'{prefix}qrels' / '<split>.tsv')
      for path in judged:
        split = prefix + files.plain_name(path).rpartition('.')[0]
        if split in self._qrels:
          raise errors.UserError(
              f'beir:{place}: {prefix}qrels/ holds a split both as .tsv and as '
              '.trec; remove one of each pair'
          )
        self._qrels[split] = path
    self.files = (self._corpus, *self._queries, *self._qrels.values())
    if lacking:
      inner = folder / 'corpus'  # Of a workdir of `job=split`.
      inside = inner if (inner / 'corpus.jsonl').is_file() else None
      raise errors.UserError(
          f'beir:{place}: '
          + ('a file, not a folder' if folder.is_file() else
             f'no such file: {", ".join(map(str, lacking))}')
          + '. A BEIR folder holds corpus.jsonl, queries.jsonl and '
          'qrels/<split>.tsv, or corpus.jsonl alone'
          + (f'; did you mean beir:{inside}?' if inside else '')
      )

  @property
  def splits(self) -> tuple[str, ...]:
    """Names of the qrels files."""
    return tuple(self._qrels)

  @property
  def passage_files(self) -> tuple[pathlib.Path, ...]:
    """The corpus."""
    return (self._corpus,)

  def passages(self) -> Iterator[records.Passage]:
    """The corpus, in file order."""
    return self.passages_of(self._corpus)

  def passages_of(self, lines: line_blocks.Lines) -> Iterator[records.Passage]:
    """Those of some lines of the corpus."""
    return pairs.read_each(files.json_lines(lines, self._invalid), _passage,
                           self._invalid)

  def queries(self) -> Iterator[records.Query]:
    """All queries, in file order; none in a folder with a corpus alone."""
    for file in self._queries:
      yield from pairs.read_each(files.json_lines(file, self._invalid), _query,
                                 self._invalid)

  def side_feature(
      self, role: str, name: str
  ) -> Iterator[tuple[str, str, Any]]:
    """A key of all passages or queries, or of their `metadata`."""
    for file in self.passage_files if role == 'passage' else self._queries:
      yield from pairs.read_each(
          files.json_lines(file, files.unheard()),
          lambda row, where: (
              pairs.need_id(pairs.get_object(row), '_id'), where,
              row.get(name, _metadata(row).get(name)),
          ), files.unheard(),
      )

  def judgements(self, split: str) -> Iterator[records.Judgement]:
    """The lines of a qrels file."""
    return qrels.read(self._qrels[split], self._invalid)


def _passage(row: Any, where: str) -> records.Passage:
  row = pairs.get_object(row)
  return records.Passage(
      pairs.need_id(row, '_id'), pairs.get_title(row),
      pairs.get_text(row, 'text'), pairs.get_id(_metadata(row), 'document_id'),
      where,
  )


def _query(row: Any, where: str) -> records.Query:
  row = pairs.get_object(row)
  name = pairs.need_id(row, '_id')
  answers = (pairs.get_texts(row, 'answers')
             or pairs.get_texts(_metadata(row), 'answers'))
  text, context = _mention(row)
  return records.Query(name, text, answers, where, context=context)


def _mention(row: dict[str, Any]) -> tuple[str, tuple[str, str] | None]:
  """The query's own words, and the context of a mention."""
  text = pairs.get_text(row, 'text')
  if 'mention_span' in row:
    span = pairs.get_list(row, 'mention_span')
    if (len(span) != 2 or not all(type(place) is int for place in span)
        or not 0 <= span[0] < span[1] <= len(text)):
      raise pairs.Unusable(
          f'key "mention_span" holds {span!r:.60}, not [start, end] of a part '
          f'of the {len(text)} characters of "text"'
      )
    start, end = span
    return text[start:end], pairs.context_of(text[:start], text[end:])
  if 'left' not in row and 'right' not in row:
    return text, None
  left, right = (pairs.get_text(row, key) if row.get(key) is not None else ''
                 for key in ('left', 'right'))
  return text, pairs.context_of(left, right)


def _metadata(row: dict[str, Any]) -> dict[str, Any]:
  found = row.get('metadata') or {}
  if not isinstance(found, dict):
    raise pairs.Unusable(f'key "metadata" holds {pairs.kind_of(found)}, not a '
                         'json object')
  return found


FORMAT = records.SourceFormat(
    'beir:data/scifact', Beir, keys=('_id',), is_folder=True,
    drops_own_passage=True, has_features=True,
)
