"""Tevatron jsonl: training rows with passages or with their ids, corpora."""

import pathlib
from typing import Any

from neg_contrast import errors
from neg_contrast.data import records
from neg_contrast.data.formats import given_pairs as pairs

_POSITIVE, _NEGATIVE = 'positive_passages', 'negative_passages'
_POSITIVE_IDS, _NEGATIVE_IDS = 'positive_document_ids', 'negative_document_ids'


class Tevatron(pairs.Pairs):
  """A folder of Tevatron's jsonl files, or one of them; any may be gzipped.

  What a file holds is seen from its first row: one with a `query_id` is a
  question, with its passages (`positive_passages`) or their ids
  (`positive_document_ids`); one with a `docid` alone is a passage of the
  corpus. Without a corpus, the passages of the questions are. Splits are named
  by file names. A question without positives stays in its split if it has
  answers, or nothing but a text, as in files of queries to encode.
  """

  def __init__(self, place: str, invalid: records.InvalidRecords):
    """Lists the files.

    Raises:
      UserError: there are none, or one is neither questions nor a corpus.
    """
    questions, corpus = pairs.by_first_row(
        f'tevatron:{place}', 'query_id', 'docid',
        f'rows {{query_id, query, {_POSITIVE}}} in train.jsonl or {{docid, '
        'text} in corpus.jsonl',
    )
    by_id = [file for file in questions
             if _POSITIVE_IDS in pairs.first_row(file)]
    if by_id and not corpus:
      raise errors.UserError(
          f'{by_id[0]}: names passages by id, but tevatron:{place} has no '
          'corpus (jsonl with docid and text); put it into the same folder'
      )
    super().__init__(corpus, questions, invalid)

  def _item(
      self, file: pathlib.Path, row: Any, name: str, where: str
  ) -> pairs.Item:
    row = pairs.get_object(row)
    name = pairs.need_id(row, 'query_id')
    text = pairs.get_text(row, 'query', 'query_text')
    answers = pairs.get_texts(row, 'answers')
    if _POSITIVE_IDS in row:
      positives = pairs.get_texts(row, _POSITIVE_IDS)
      negatives = pairs.get_texts(row, _NEGATIVE_IDS)
      passages = []
    else:
      given = [[self._in_item(passage, f'{key}[{number}]', where)
                for number, passage in enumerate(pairs.get_list(row, key))]
               for key in (_POSITIVE, _NEGATIVE)]
      positives, negatives = (tuple(passage.id for passage in part)
                              for part in given)
      passages = [*given[0], *given[1]]
    has_key = _POSITIVE in row or _POSITIVE_IDS in row
    if not has_key and any(key.startswith(('pos', 'neg')) for key in row):
      raise pairs.Unusable(
          f'key "{_POSITIVE}" or "{_POSITIVE_IDS}" is missing; keys are '
          f'{sorted(row)}'
      )
    is_alone = not positives and (answers or not has_key)
    own = self._split_of(file) if is_alone else ''
    return pairs.Item(records.Query(name, text, answers, where, own),
                      positives, negatives, passages)

  def _in_item(self, row: Any, place: str, where: str) -> records.Passage:
    try:
      return self._passage(row, where)
    except pairs.Unusable as e:
      raise pairs.Unusable(f'{place}: {e}') from None

  def _passage(self, row: Any, where: str) -> records.Passage:
    row = pairs.get_object(row)
    name = pairs.need_id(row, 'docid')
    # Tevatron's README says document_text, its loader reads text.
    text = pairs.get_text(row, 'text', 'document_text')
    if not text.strip():
      raise pairs.Unusable(f'"{name}": key "text" or "document_text" is empty')
    return records.Passage(name, pairs.get_title(row), text, where=where)


FORMAT = records.SourceFormat(
    'tevatron:data/rows', Tevatron, keys=('docid', _POSITIVE_IDS),
    reading=2,  # A positive of any item of a query is no negative.
)
