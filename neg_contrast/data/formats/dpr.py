"""DPR: retriever training json, psgs_w100.tsv, and files of answers."""

import ast
import functools
import pathlib
import warnings
from collections.abc import Iterator
from typing import Any

from neg_contrast import errors
from neg_contrast.artifacts import places
from neg_contrast.data import records
from neg_contrast.data.formats import files, line_blocks
from neg_contrast.data.formats import given_pairs as pairs

_TRAINING = ('.json', '.jsonl')
_ANSWERS = '.csv'
_CORPUS = '.tsv'
_QUERY_IDS = ('question_id', 'query_id', 'qid', 'id')
_PASSAGE_IDS = ('passage_id', 'psg_id')
_POSITIVE, _HARD, _RANDOM = (
    'positive_ctxs', 'hard_negative_ctxs', 'negative_ctxs'
)
_COLUMNS = ['id', 'text', 'title']


class Dpr(pairs.Pairs):
  """A folder of DPR's files, or one of them; any may be gzipped.

  `*.json` and `*.jsonl` hold questions with their contexts. The first positive
  is trained on and the others are only known. Negatives are the hard ones, or
  the random ones of a question without hard ones. `*.csv` hold questions with
  answers, and make splits of their own (`nq-test.qa.csv`: `test-qa`). `*.tsv`
  is the corpus; without one, the contexts are.
  """

  only_first_trains = True

  def __init__(self, place: str, invalid: records.InvalidRecords):
    """Lists the files.

    Raises:
      UserError: there are none, or two that may be the corpus.
    """
    found = files.listing(places.path(place), *_TRAINING, _ANSWERS, _CORPUS)
    ending = lambda *ends: [
        file for file in found if files.plain_name(file).endswith(ends)
    ]
    corpus, training = ending(_CORPUS), ending(*_TRAINING)
    if not corpus and not training:
      raise errors.UserError(
          f'dpr:{place}: no such file, or a folder without training files '
          '(biencoder-nq-train.json.gz) and without a corpus (psgs_w100.tsv.gz)'
      )
    if len(corpus) > 1:
      raise errors.UserError(
          f'dpr:{place}: {" and ".join(file.name for file in corpus)} may both '
          'be the corpus; leave one of them'
      )
    super().__init__(corpus, [*training, *ending(_ANSWERS)], invalid)

  def _split_of(self, file: pathlib.Path) -> str:
    return files.split_of(file) + ('-qa' if _is_answers(file) else '')

  def _rows(
      self, file: pathlib.Path, invalid: records.InvalidRecords
  ) -> Iterator[tuple[str, Any]]:
    if _is_answers(file):
      return files.quoted_rows(file, invalid)
    return files.json_items(file, invalid)

  @functools.cached_property
  def _header(self) -> tuple[str, list[str]]:
    """`file:line` of the header, if there is one, and the columns."""
    rows = files.quoted_rows(self._corpus[0], files.unheard())
    where, row = next(rows, ('', []))
    words = [word.strip().lower() for word in row]
    is_header = 'id' in words and 'text' in words
    return (where, words) if is_header else ('', _COLUMNS)

  def passages_of(self, lines: line_blocks.Lines) -> Iterator[records.Passage]:
    """Columns are id, text, title, unless a header names them otherwise."""
    header, columns = self._header
    for where, row in files.quoted_rows(lines, self._invalid):
      if where == header:
        continue
      fields = dict(zip(columns, row, strict=False))
      if len(row) == len(columns) and fields['id']:
        yield records.Passage(_plain_id(fields['id']), fields.get('title', ''),
                              fields['text'], where=where)
      elif len(row) == len(columns):
        self._invalid.report('broken_record', where, 'the id is empty')
      else:
        self._invalid.report(
            'broken_record', where, f'{len(row)} columns where '
            f'{", ".join(columns)} were expected; is a quote not closed?'
        )

  def _item(
      self, file: pathlib.Path, row: Any, name: str, where: str
  ) -> pairs.Item:
    if _is_answers(file):
      return pairs.Item(_answered(row, name, where, self._split_of(file)))
    row = pairs.get_object(row)
    query = records.Query(
        pairs.get_id(row, *_QUERY_IDS) or name,
        pairs.get_text(row, 'question'), pairs.get_texts(row, 'answers'), where,
    )
    positives = self._contexts(row, _POSITIVE, where, needed=True)
    hard = self._contexts(row, _HARD, where)
    # Random ones are many, and mean nothing where the corpus has its own file.
    rest = ([] if self._corpus and hard else
            self._contexts(row, _RANDOM, where))
    return pairs.Item(
        query, [passage.id for passage in positives],
        [passage.id for passage in hard or rest], [*positives, *hard, *rest],
    )

  def _contexts(
      self, row: dict[str, Any], key: str, where: str, needed: bool = False
  ) -> list[records.Passage]:
    found = []
    for number, context in enumerate(pairs.get_list(row, key, needed)):
      try:
        found.append(self._passage(context, where))
      except pairs.Unusable as e:
        raise pairs.Unusable(f'{key}[{number}]: {e}') from None
    return found

  def _passage(self, row: Any, where: str) -> records.Passage:
    row = pairs.get_object(row)
    name = _plain_id(pairs.get_id(row, *_PASSAGE_IDS))
    if not self._corpus:
      title, text = pairs.get_title(row), pairs.get_text(row, 'text')
      return records.Passage(name or files.content_id(title, text), title, text,
                             where=where)
    if not name:
      raise pairs.Unusable(
          f'key "{_PASSAGE_IDS[0]}" or "{_PASSAGE_IDS[1]}" is missing, by '
          f'which {self._corpus[0].name} is searched; keys are {sorted(row)}'
      )
    return records.Passage(name, '', '', where=where)  # The corpus has it.


def _is_answers(file: pathlib.Path) -> bool:
  return files.plain_name(file).endswith(_ANSWERS)


def _plain_id(name: str) -> str:
  """Without the prefix that DPR's index gives to ids of psgs_w100."""
  return name.removeprefix('wiki:')


def _answered(
    row: list[str], name: str, where: str, split: str
) -> records.Query:
  """A question with the list of its answers, written as Python writes it.

  Raises:
    Unusable: the row is not that.
  """
  if len(row) != 2:
    raise pairs.Unusable(
        f'{len(row)} columns between tabs where a question and a list of '
        'answers were expected'
    )
  question, written = row
  try:
    with warnings.catch_warnings():
      warnings.simplefilter('ignore')  # '\d': answers may be expressions.
      answers = ast.literal_eval(written.strip())
  except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
    answers = None
  if not isinstance(answers, (list, tuple)):
    raise pairs.Unusable(
        f"answers are not a list like ['one', 'two']: {written[:80]!r}"
    )
  return records.Query(name, question,
                       tuple(pairs.as_texts(answers, 'answers')), where, split)


FORMAT = records.SourceFormat(
    'dpr:data/nq', Dpr, names=('psgs*.tsv', '*.qa.csv', 'biencoder-*'),
    keys=('positive_ctxs',),
    reading=2,  # A positive of any item of a query is no negative.
)
