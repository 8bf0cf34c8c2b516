"""Tevatron jsonl: training rows with passages or with their ids, corpora."""

import pathlib
from typing import Any

from neg_contrast import errors
from neg_contrast.data import records
from neg_contrast.data.formats import files, pairs

_POSITIVE, _NEGATIVE = 'positive_passages', 'negative_passages'
_POSITIVE_IDS, _NEGATIVE_IDS = 'positive_document_ids', 'negative_document_ids'


class Tevatron(pairs.Pairs):
  """A folder of Tevatron's jsonl files, or one of them; any may be gzipped.

  What a file holds is seen from its first row: one with a `query_id` is a
  question, with its passages (`positive_passages`) or their ids
  (`positive_document_ids`); one with a `docid` alone is a passage of the
  corpus. Without a corpus, the passages of the questions are. Splits are named
  by file names. A question with answers and without positives stays in its
  split.
  """

  def __init__(self, place: str, invalid: records.InvalidRecords):
    """Lists the files.

    Raises:
      UserError: there are none, or one is neither questions nor a corpus.
    """
    found = files.listing(pathlib.Path(place), '.jsonl', '.json')
    first = {file: first_row(file) for file in found}
    questions = [file for file in found if 'query_id' in first[file]]
    corpus = [file for file in found
              if file not in questions and 'docid' in first[file]]
    if not found:
      raise errors.UserError(
          f'tevatron:{place}: no such file, or a folder without .jsonl files; '
          'train.jsonl and corpus.jsonl of Tevatron are expected'
      )
    for file in found:
      if file not in questions and file not in corpus:
        raise errors.UserError(
            f'{file}: neither questions (query_id, query, {_POSITIVE}) nor a '
            f'corpus (docid, text); its first row has {sorted(first[file])}'
        )
    by_id = [file for file in questions if _POSITIVE_IDS in first[file]]
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
    name = pairs.get_id(row, 'query_id')
    if not name:
      raise pairs.Unusable(f'key "query_id" is missing; keys are {sorted(row)}')
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
    own = self._split_of(file) if answers and not positives else ''
    return pairs.Item(records.Query(name, text, answers, where, own),
                      positives, negatives, passages)

  def _in_item(self, row: Any, place: str, where: str) -> records.Passage:
    try:
      return self._passage(row, where)
    except pairs.Unusable as e:
      raise pairs.Unusable(f'{place}: {e}') from None

  def _passage(self, row: Any, where: str) -> records.Passage:
    row = pairs.get_object(row)
    name = pairs.get_id(row, 'docid')
    if not name:
      raise pairs.Unusable(f'key "docid" is missing; keys are {sorted(row)}')
    # Tevatron's README says document_text, its loader reads text.
    return records.Passage(name, pairs.get_title(row),
                           pairs.get_text(row, 'text', 'document_text'),
                           where=where)


def first_row(file: pathlib.Path) -> dict[str, Any]:
  """The first object of a file; empty if there is none."""
  for _, row in files.json_items(file, files.unheard()):
    if isinstance(row, dict):
      return row
  return {}
