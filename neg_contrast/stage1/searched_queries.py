"""Queries that nobody judged, each with what a search finds: what is judged."""

import dataclasses
import functools
import pathlib
from collections.abc import Iterator
from typing import Any

from neg_contrast import errors, progress
from neg_contrast.artifacts import artifact, folders, kept_parts
from neg_contrast.data import pair_files, records, synthetic_pairs
from neg_contrast.data.formats import (
  column_tables,
  files,
  given_pairs,
  line_blocks,
)
from neg_contrast.retrieval import bm25_search
from neg_contrast.stage1 import pair_folder, question_shards

_PARTS, _FILE = 'searched', 'pairs.jsonl'


@dataclasses.dataclass(frozen=True)
class QueryFile(artifact.Given):
  """Queries of a file; loads as a list of different texts, in file order.

  A query is a line or, in a `.jsonl` file, the text under `query` or `text` of
  an object. All of them are in memory.

  Attributes:
    path: of the file, gzipped or not.
  """

  kind = 'queries'
  name = 'queries'
  path: pathlib.Path

  def describe(self) -> str:
    """Where they are."""
    return f'queries of {self.path}'

  def lacks(self) -> str | None:
    """The file."""
    return None if self.path.is_file() else (
        f'{errors.key("synthetic.queries")}: {self.path}: no such file')

  def read(self) -> list[str]:
    """The texts.

    Raises:
      UserError: a line can't be read, or there is none.
    """
    if files.plain_name(self.path).endswith('.jsonl'):
      invalid = records.InvalidRecords(skip=False, can_skip=False)
      found = given_pairs.read_each(
          files.json_lines(self.path, invalid), _text, invalid
      )
    else:
      found = self._lines()
    texts = list(dict.fromkeys(filter(None, (' '.join(text.split())
                                             for text in found))))
    if not texts:
      raise errors.UserError(f'{self.path}: holds no query; write one a line')
    return texts

  def _lines(self) -> Iterator[str]:
    """A query each.

    Raises:
      UserError: they are rows of a table, or json.
    """
    remedy = 'write a query a line, or name a .jsonl file'
    if column_tables.kind_of(self.path) or (
        files.plain_name(self.path).endswith('.json')):
      raise errors.UserError(f'{self.path}: is no list of queries; {remedy}')
    for number, text in line_blocks.numbered_lines(self.path):
      if '\t' in text:
        raise errors.UserError(f'{self.path}:{number}: has a tab, as rows of a '
                               f'table have; {remedy}')
      yield text

  def _find_contents(self, role: str) -> str | None:
    del role
    return None if self.lacks() else folders.sha256_json(self.load())


def _text(row: Any, where: str) -> str:
  """Raises Unusable where it holds no text."""
  del where
  text = given_pairs.get_text(given_pairs.get_object(row), 'query', 'text')
  if not text.strip():
    raise given_pairs.Unusable('key "query" or "text" is empty')
  return text


@dataclasses.dataclass(frozen=True)
class SearchedQueries(pair_folder.Pairs):
  """Queries, each with the first passages that BM25 finds.

  They are pairs to be judged, and not to be trained on. A generated question
  has the passage that it was made of too, whether that is found or not.

  Attributes:
    queries: a `QueryFile`, or generated questions.
    index: BM25.
  """

  name = 'candidates'
  queries: QueryFile | question_shards.ShardedQuestions
  index: bm25_search.Bm25

  @property
  def label(self) -> str:
    """Data, and what is in it."""
    return f'{self.data.load().name}-searched'

  def describe(self) -> str:
    """How many passages of each, and where."""
    return (f'the first {self.config.teacher_depth} passages of BM25 for '
            f'queries without judgements in {self.config.dir}')

  def needs(self) -> dict[str, artifact.Artifact]:
    """Passages, queries and BM25."""
    return {**super().needs(), 'queries': self.queries, 'index': self.index}

  def settings(self) -> dict[str, Any]:
    """How deep the search goes."""
    return {**super().settings(), 'depth': self.config.teacher_depth}

  @property
  def _needed(self) -> str:
    return 'queries with a word of the corpus'

  def prepare(self) -> None:
    """Searches in parts, which processes divide."""
    passages, search = self.data.load().prepared.passages, self.index.load()
    count = self._count
    say = progress.Ticker('searching parts of the queries', count)

    def fill(
        part: int, scratch: pathlib.Path, manifest: dict[str, Any]
    ) -> None:
      del manifest
      asked = list(self._asked(part))
      texts = [text for text, _ in asked]
      rows = (search.search(texts, self.config.teacher_depth).rows
              if texts else ())
      with open(scratch / _FILE, 'w', encoding='utf-8') as f:
        for (text, home), found in zip(asked, rows, strict=True):
          for row in found[found >= 0].tolist():
            synthetic_pairs.write_pair(
                f, text, passages[row].id, home_id=home
            )
      say(part + 1)

    self.parts(_PARTS, count).make(fill)
    super().prepare()

  @property
  def _count(self) -> int:
    """Number of parts."""
    if isinstance(self.queries, QueryFile):
      return len(self._blocks)
    return len(self.queries.shards)

  @property
  def _blocks(self) -> list[slice]:
    """Lines of a file's parts."""
    return kept_parts.divide(
        len(self.queries.load()), bm25_search.QUERIES_AT_ONCE
    )

  def _asked(self, part: int) -> Iterator[tuple[str, str]]:
    """(text, id of the passage it was made of, if any) of a part's queries."""
    if isinstance(self.queries, QueryFile):
      for text in self.queries.load()[self._blocks[part]]:
        yield text, ''
      return
    shard = self.queries.shards.pairs_of(part)
    for pair in synthetic_pairs.read_pairs([shard]):
      yield pair['query'], pair['passage_id']

  def _files(self) -> list[pair_files.File]:
    parts = self.parts(_PARTS, self._count)
    return [functools.partial(parts.file, number, _FILE)
            for number in range(self._count)]
