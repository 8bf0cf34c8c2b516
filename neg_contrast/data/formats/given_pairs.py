"""Files of questions with their passages: what DPR, Tevatron and others share.

An item of such a file holds a question, its positives and its negatives, mostly
with their whole texts, so that a passage stands in many places.
"""

import abc
import collections
import dataclasses
import itertools
import pathlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from neg_contrast import errors
from neg_contrast.artifacts import places
from neg_contrast.data import records
from neg_contrast.data.formats import files, line_blocks

Record = TypeVar('Record')

MOST_WORDS = 512
"""Words that are kept of what may be very long: of a mention's context on
either side, and of a page that stands for an entity. A word has a token at
least, and no BERT reads more than 512."""
_SPLIT_BYTES = 200  # Of the 255 of a file's name.


@dataclasses.dataclass(frozen=True, slots=True)
class Item:
  """A question as it stands in a file.

  Attributes:
    query: the question.
    positives: passage ids, the first one first.
    negatives: passage ids.
    passages: all passages whose texts the item holds.
  """

  query: records.Query
  positives: Sequence[str] = ()
  negatives: Sequence[str] = ()
  passages: Sequence[records.Passage] = ()


class Pairs(abc.ABC):
  """A source of items; a corpus file, if there is one, holds the passages.

  A question without positives is left out, unless it names its split. A passage
  that is a positive of a question in any of its items is not its negative too.
  """

  only_first_trains = False

  def __init__(
      self,
      corpus: Sequence[pathlib.Path],
      questions: Sequence[pathlib.Path],
      invalid: records.InvalidRecords,
  ):
    """Takes files of passages alone, and files of items."""
    self._corpus, self._questions = tuple(corpus), tuple(questions)
    self._invalid = invalid
    self._repeated: set[str] = set()  # Questions of several items.
    self.files = (*self._corpus, *self._questions)

  @property
  def splits(self) -> tuple[str, ...]:
    """Names of the splits, by file name."""
    return tuple(dict.fromkeys(map(self._split_of, self._questions)))

  @property
  def passage_files(self) -> tuple[pathlib.Path, ...]:
    """The corpus files, if all hold lines."""
    has_array = any(map(files.is_json_array, self._corpus))
    return () if has_array else self._corpus

  def passages(self) -> Iterator[records.Passage]:
    """The corpus files, or without them every passage of every item."""
    for file in self._corpus:
      yield from self.passages_of(file)
    if not self._corpus:
      for item in self._items(files.unheard()):
        yield from item.passages

  def queries(self) -> Iterator[records.Query]:
    """All questions; faults of items are reported here."""
    seen, repeated = set[str](), set[str]()
    for item in self._items(self._invalid):
      if item.positives or item.query.split:
        yield item.query
      (repeated if item.query.id in seen else seen).add(item.query.id)
    self._repeated = repeated

  def judgements(self, split: str) -> Iterator[records.Judgement]:
    """Positives with grade 1, negatives with grade 0.

    Which questions have several items, `queries` finds: it is read before.
    """
    right = self._positives(split)
    for item in self._items(files.unheard(), split):
      if not item.positives:
        continue
      name, where = item.query.id, item.query.where
      for number, passage in enumerate(item.positives):
        yield records.Judgement(name, passage, 1, where,
                                not (number and self.only_first_trains))
      own = set(item.positives)
      for passage in item.negatives:
        if passage not in own and hash((name, passage)) not in right:
          yield records.Judgement(name, passage, 0, where)

  def _positives(self, split: str) -> set[int]:
    """Hashes of (question, positive) of questions with several items."""
    return set() if not self._repeated else {
        hash((item.query.id, passage))
        for item in self._items(files.unheard(), split)
        if item.query.id in self._repeated for passage in item.positives}

  def _items(
      self, invalid: records.InvalidRecords, split: str = ''
  ) -> Iterator[Item]:
    """The items of all files, or those of one split.

    Questions without an id are called by their number in the split.
    """
    counts: dict[str, itertools.count] = collections.defaultdict(
        lambda: itertools.count(1)
    )
    for file in self._questions:
      of_split = self._split_of(file)
      if split and of_split != split:
        continue
      for where, row in self._rows(file, invalid):
        name = f'{of_split}-{next(counts[of_split])}'
        try:
          yield self._item(file, row, name, where)
        except Unusable as e:
          invalid.report('broken_record', where, str(e))

  def _split_of(self, file: pathlib.Path) -> str:
    return files.split_of(file)

  def _rows(
      self, file: pathlib.Path, invalid: records.InvalidRecords
  ) -> Iterator[tuple[str, Any]]:
    """(`file:line`, item as it stands) of a file."""
    return files.json_items(file, invalid)

  def passages_of(self, lines: line_blocks.Lines) -> Iterator[records.Passage]:
    """The passages of a corpus file, or of some lines of it."""
    return read_each(files.json_items(lines, self._invalid), self._passage,
                     self._invalid)

  @abc.abstractmethod
  def _item(
      self, file: pathlib.Path, row: Any, name: str, where: str
  ) -> Item:
    """Reads an item.

    Args:
      file: where it stands.
      row: the item.
      name: an id for a question that has none.
      where: `file:line`.

    Raises:
      Unusable: it can't be read.
    """

  def _passage(self, row: Any, where: str) -> records.Passage:
    """Reads a passage of a corpus file or an item.

    Raises:
      Unusable: it can't be read.
    """
    raise NotImplementedError


class Unusable(ValueError):
  """What is wrong with a record."""


def read_each(
    rows: Iterable[tuple[str, Any]],
    read: Callable[[Any, str], Record],
    invalid: records.InvalidRecords,
) -> Iterator[Record]:
  """What `read` makes of each (`file:line`, row); faults are reported."""
  for where, row in rows:
    try:
      record = read(row, where)
    except Unusable as e:
      invalid.report('broken_record', where, str(e))
    else:
      yield record


def by_first_row(
    spec: str, question: str, passage: str, expected: str
) -> tuple[list[pathlib.Path], list[pathlib.Path]]:
  """Files of questions and files of passages, as their first rows show.

  Args:
    spec: `scheme:place` of a file or folder.
    question: key that only a question has.
    passage: key of what is no question.
    expected: what rows look like.

  Raises:
    UserError: there are no files, or one is neither.
  """
  place = places.path(spec.partition(':')[2])
  questions, passages = [], []
  for file in files.listing(place, '.jsonl', '.json'):
    first = first_row(file)
    if question in first:
      questions.append(file)
    elif passage in first:
      passages.append(file)
    else:
      raise errors.UserError(
          f'{file}: neither questions nor passages; its first row has '
          f'{sorted(first)}, where {expected} were expected'
      )
  if not questions and not passages:
    raise errors.UserError(
        f'{spec}: no such file, or a folder without .jsonl files; {expected} '
        'are expected'
    )
  return questions, passages


def first_row(file: pathlib.Path) -> dict[str, Any]:
  """The first object of a file; empty if there is none."""
  rows = (row for _, row in files.json_items(file, files.unheard()))
  return next((row for row in rows if isinstance(row, dict)), {})


def get_object(row: Any) -> dict[str, Any]:
  """The row, if it is a json object.

  Raises:
    Unusable: it is not.
  """
  if not isinstance(row, dict):
    raise Unusable(f'a json object was expected, found {kind_of(row)}')
  return row


def get_id(row: dict[str, Any], *keys: str) -> str:
  """The first id under one of the keys; empty if there is none.

  Raises:
    Unusable: an id is neither text nor a whole number.
  """
  for key in keys:
    value = row.get(key)
    if value is None or value == '':
      continue
    if isinstance(value, bool) or not isinstance(value, (str, int)):
      raise Unusable(f'key "{key}" holds {kind_of(value)}, not an id')
    return str(value)
  return ''


def need_id(row: dict[str, Any], key: str) -> str:
  """The id under the key.

  Raises:
    Unusable: it is missing, empty, or neither text nor a whole number.
  """
  name = get_id(row, key)
  if not name:
    raise Unusable(f'key "{key}" is missing or empty; keys are {sorted(row)}')
  return name


def get_split(row: dict[str, Any], key: str) -> str:
  """The split under the key, without blanks around it; `train` if it is empty.

  Raises:
    Unusable: it can't be part of the name of a file.
  """
  value = row.get(key)
  name = '' if value is None else str(value).strip()
  name = name or 'train'
  if ('/' in name or not name.isprintable()
      or len(name.encode()) > _SPLIT_BYTES):
    raise Unusable(f'column "{key}" holds {value!r:.40}: splits are printable '
                   'names without "/", at most '
                   f'{_SPLIT_BYTES} bytes long')
  return name


def get_text(row: dict[str, Any], *keys: str) -> str:
  """The first text under one of the keys that is not empty, if any is not.

  Raises:
    Unusable: none is there, or one holds no text.
  """
  given = [row[key] for key in keys if key in row]
  for key in keys:
    if key in row and not isinstance(row[key], str):
      raise Unusable(f'key "{key}" holds {kind_of(row[key])}, not text')
  if not given:
    names = ' or '.join(f'"{key}"' for key in keys)
    raise Unusable(f'key {names} is missing; keys are {sorted(row)}')
  return next(filter(None, given), '')


def get_title(row: dict[str, Any]) -> str:
  """The text under "title"; empty if it is missing or null.

  Raises:
    Unusable: it holds something else.
  """
  return '' if row.get('title') is None else get_text(row, 'title')


def get_list(row: dict[str, Any], key: str, needed: bool = False) -> list[Any]:
  """The list under the key; an empty one if it is null, or missing.

  Raises:
    Unusable: it holds something else, or is missing but needed.
  """
  if needed and key not in row:
    raise Unusable(f'key "{key}" is missing; keys are {sorted(row)}')
  value = row.get(key)
  if value is None:
    return []
  if not isinstance(value, list):
    raise Unusable(f'key "{key}" holds {kind_of(value)}, not a list')
  return value


def get_texts(
    row: dict[str, Any], key: str, needed: bool = False
) -> tuple[str, ...]:
  """The texts in the list under the key, as `get_list`.

  Raises:
    Unusable: it holds something else.
  """
  return tuple(as_texts(get_list(row, key, needed), key))


def context_of(left: str, right: str) -> tuple[str, str]:
  """The context of a mention: the `MOST_WORDS` words on either side of it."""
  before = left.rsplit(None, MOST_WORDS)
  return (left[len(before[0]):] if len(before) > MOST_WORDS else left,
          first_words(right))


def first_words(text: str) -> str:
  """The first `MOST_WORDS` words of a text, and the space after them."""
  pieces = text.split(None, MOST_WORDS)
  if len(pieces) <= MOST_WORDS:
    return text
  return text[:len(text) - len(pieces[-1])]


def get_number(row: dict[str, Any], key: str) -> int:
  """The whole number under the key, at least 0.

  Raises:
    Unusable: it is missing, or something else.
  """
  value = row.get(key)
  if isinstance(value, bool) or not isinstance(value, int) or value < 0:
    raise Unusable(f'key "{key}" holds {value!r:.40}, not a whole number from '
                   '0' if key in row else
                   f'key "{key}" is missing; keys are {sorted(row)}')
  return value


def as_texts(values: Sequence[Any], key: str) -> Iterator[str]:
  """Texts, or numbers as they are written.

  Raises:
    Unusable: there is something else among the values.
  """
  for number, value in enumerate(values):
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
      raise Unusable(f'{key}[{number}] holds {kind_of(value)}, not text')
    try:
      yield str(value)
    except ValueError as e:
      raise Unusable(f'{key}[{number}]: {e}') from None


def kind_of(value: Any) -> str:
  """What to call a value's type in a message."""
  return 'null' if value is None else type(value).__name__
