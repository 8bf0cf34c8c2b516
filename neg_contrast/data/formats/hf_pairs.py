"""Rows of a question and texts, on the hub; equal texts are one passage."""

import dataclasses
import functools
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from neg_contrast.data import records
from neg_contrast.data.formats import files, hf_columns

_USUAL = {**hf_columns.USUAL, 'grade': ('grade', 'relevance', 'label')}
"""Without `score`: beside texts that is mostly a margin, or votes."""
_NUMBERED = re.compile(r'(?:hard_)?negatives?_\d+')


@dataclasses.dataclass(frozen=True)
class _Question:
  """A row.

  Attributes:
    query: the question.
    positives: passages that answer it.
    negatives: passages that do not.
    grade: of the positives.
  """

  query: records.Query
  positives: Sequence[records.Passage]
  negatives: Sequence[records.Passage]
  grade: int = 1


class QuestionPairs:
  """Rows of a question and what answers it, perhaps with negatives."""

  def __init__(
      self, place: str, splits: Mapping[str, Sequence[pathlib.Path]],
      options: Mapping[str, str], invalid: records.InvalidRecords,
  ):
    """Looks at nothing yet.

    Args:
      place: of the data set, as the user says it.
      splits: name -> files.
      options: what a column holds -> the name that the user gives.
      invalid: hears of records that can't be used.
    """
    self._place, self._options = place, options
    self._files, self._invalid = splits, invalid
    self.splits = tuple(splits)
    self.files = tuple(path for some in splits.values() for path in some)

  @functools.cached_property
  def columns(self) -> dict[str, hf_columns.Columns]:
    """Those of each split, by its first file.

    Raises:
      UserError: a column is not known.
    """
    found = hf_columns.find(
        (some[0] for some in self._files.values()), self._options, _USUAL)
    hf_columns.check(self._place, found, self._options, ('question', 'text'))
    return {split: found[some[0]] for split, some in self._files.items()}

  def passages(self) -> Iterator[records.Passage]:
    """Those of all rows."""
    for row in self._rows(self.splits):
      yield from (*row.positives, *row.negatives)

  def queries(self) -> Iterator[records.Query]:
    """Each question once, with the answers of all its rows."""
    found: dict[str, records.Query] = {}
    for row in self._rows(self.splits, is_first=True):
      known = found.get(row.query.id, row.query)
      answers = tuple(dict.fromkeys((*known.answers, *row.query.answers)))
      found[row.query.id] = dataclasses.replace(known, answers=answers)
    yield from found.values()

  def judgements(self, split: str) -> Iterator[records.Judgement]:
    """Of the questions of a split; what answers one is never its negative."""
    known: dict[tuple[str, str], records.Judgement] = {}
    for row in self._rows([split]):
      for grade, some in ((0, row.negatives), (row.grade, row.positives)):
        for passage in some:
          key = row.query.id, passage.id
          if key not in known or grade > known[key].grade:
            known[key] = records.Judgement(*key, grade, row.query.where)
    yield from known.values()

  def _rows(
      self, splits: Iterable[str], is_first: bool = False
  ) -> Iterator[_Question]:
    """Rows but for those with the id of another question.

    Args:
      splits: names.
      is_first: whether faults are reported.
    """
    invalid = self._invalid if is_first else files.unheard()
    for row in self._readable(splits, invalid):
      name, text = row.query.id, row.query.text
      if self._questions.get(name, text) == text:
        yield row
      else:
        invalid.report('duplicate_id', row.query.where, f'query id "{name}" '
                       'was there before, with another question; '
                       '?id=&query_id= reads no ids')

  @functools.cached_property
  def _questions(self) -> dict[str, str]:
    """Id -> the first question that has it, where questions have ids."""
    found: dict[str, str] = {}
    if any({'id', 'query_id'} & {*one.holds} for one in self.columns.values()):
      for row in self._readable(self.splits, files.unheard()):
        found.setdefault(row.query.id, row.query.text)
    return found

  def _readable(
      self, splits: Iterable[str], invalid: records.InvalidRecords
  ) -> Iterator[_Question]:
    for split in splits:
      columns = self.columns[split]
      numbered = [] if 'negative' in self._options else [
          name for name in columns.names if _NUMBERED.fullmatch(name)]
      for path in self._files[split]:
        yield from hf_columns.read(
            path, columns.holds,
            functools.partial(_question, negatives=numbered), invalid)


def _question(
    row: hf_columns.Row, where: str, negatives: Sequence[str]
) -> _Question:
  """Reads a row; `negatives` are numbered columns of such.

  Raises:
    Unusable: it can't be read.
  """
  question, title = row.question(), row.of('title')
  passages = _passages(
      row.need_texts('text'), title if isinstance(title, str) else '', where)
  others = _passages(row.texts('negative') + [
      text for name in negatives for text in row.texts_under(name)], '', where)
  query = records.Query(
      row.id('query_id', 'id') or files.content_id(question), question,
      tuple(row.texts('answer')), where)
  grade = row.grade()
  if grade > 0:
    return _Question(query, passages, others, grade)
  return _Question(query, (), passages + others)


def _passages(
    texts: Iterable[str], title: str, where: str
) -> list[records.Passage]:
  return [records.Passage(files.content_id(title, text), title, text,
                          where=where) for text in texts]
