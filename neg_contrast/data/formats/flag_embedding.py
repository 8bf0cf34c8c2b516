"""FlagEmbedding jsonl: texts of a query, its positives and its negatives."""

import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

from neg_contrast.data import records
from neg_contrast.data.formats import files
from neg_contrast.data.formats import given_pairs as pairs

_QUERY_IDS = ('query_id', 'qid', 'id')
_PASSAGE_IDS = ('docid', 'doc_id', 'id')


class FlagEmbedding(pairs.Pairs):
  """A folder of FlagEmbedding's jsonl files, or one; any may be gzipped.

  What a file holds is seen from its first row: one with `pos` is a query, one
  with `text` a passage of the candidate pool, which joins the passages of the
  queries in the corpus. Ids are `query_id`, `pos_id` and `neg_id` where they
  are given; else equal texts have equal ids, so that a query that stands on
  several lines is one query. Scores and prompts are not read.
  """

  def __init__(self, place: str, invalid: records.InvalidRecords):
    """Lists the files.

    Raises:
      UserError: there are none, or one is neither queries nor candidates.
    """
    queries, pool = pairs.by_first_row(
        f'flag_embedding:{place}', 'pos', 'text',
        'rows {"query": ..., "pos": [...], "neg": [...]}, or {"text": ...} of '
        'a candidate pool',
    )
    super().__init__(pool, queries, invalid)

  @property
  def passage_files(self) -> tuple[pathlib.Path, ...]:
    """None: passages of the queries follow the candidate pool."""
    return ()

  def passages(self) -> Iterator[records.Passage]:
    """The candidate pool, then every passage of every query."""
    for file in self._corpus:
      yield from self.passages_of(file)
    for item in self._items(files.unheard()):
      yield from item.passages

  def _item(
      self, file: pathlib.Path, row: Any, name: str, where: str
  ) -> pairs.Item:
    row = pairs.get_object(row)
    text = pairs.get_text(row, 'query')
    name = pairs.get_id(row, *_QUERY_IDS) or files.content_id(text)
    query = records.Query(name, text, pairs.get_texts(row, 'answers'), where)
    positives = _texts(row, 'pos', where, needed=True)
    negatives = _texts(row, 'neg', where)
    return pairs.Item(query, [passage.id for passage in positives],
                      [passage.id for passage in negatives],
                      [*positives, *negatives])

  def _passage(self, row: Any, where: str) -> records.Passage:
    row = pairs.get_object(row)
    title, text = pairs.get_title(row), pairs.get_text(row, 'text')
    # An item's passages have no titles, and must match those of the pool.
    name = pairs.get_id(row, *_PASSAGE_IDS) or files.content_id(
        *filter(None, (title, text))
    )
    return records.Passage(name, title, text, where=where)


def _texts(
    row: dict[str, Any], key: str, where: str, needed: bool = False
) -> Sequence[records.Passage]:
  """The passages under a key."""
  texts = pairs.get_list(row, key, needed)
  names = pairs.get_texts(row, f'{key}_id')
  if names and len(names) != len(texts):
    raise pairs.Unusable(
        f'key "{key}_id" holds {len(names)} ids for {len(texts)} texts'
    )
  for number, text in enumerate(texts):
    if not isinstance(text, str):
      raise pairs.Unusable(
          f'{key}[{number}] holds {pairs.kind_of(text)}, not text'
      )
  return [records.Passage(name or files.content_id(text), '', text, where=where)
          for name, text in zip(names or [''] * len(texts), texts, strict=True)]


FORMAT = records.SourceFormat(
    'flag_embedding:data/rows', FlagEmbedding, keys=('pos',),
    reading=2,  # A positive of any item of a query is no negative.
)
