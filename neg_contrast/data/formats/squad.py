"""SQuAD json (v1.1 and v2): paragraphs are passages, articles documents."""

import pathlib
import zlib
from collections.abc import Iterator
from typing import Any

import ijson

from neg_contrast import errors
from neg_contrast.data import records
from neg_contrast.data.formats import files

_Paragraph = tuple[records.Passage, list[Any], str]


class Squad:
  """One file, or a folder of files.

  The split of a file is `train`, `dev` or `test` if its name holds that word,
  else `all`. Passage ids are `<title>#<number>`, counted over all files, since
  an article may stand in several of them. Questions without an answer (v2) have
  no positive passage and are left out. One article is in memory at a time.
  """

  def __init__(self, place: str, invalid: records.InvalidRecords):
    """Lists the files.

    Raises:
      UserError: there are none.
    """
    path = pathlib.Path(place)
    found = [path] if path.is_file() else sorted(
        [*path.glob('*.json'), *path.glob('*.json.gz')]
    )
    if not found:
      raise errors.UserError(
          f'squad:{place}: no such file, or a folder without .json or .json.gz '
          'files; train-v1.1.json and dev-v1.1.json of SQuAD are expected'
      )
    self.files = tuple(found)
    self._invalid = invalid

  @property
  def splits(self) -> tuple[str, ...]:
    """Names of the splits."""
    return tuple(dict.fromkeys(files.split_of(file) for file in self.files))

  def passages(self) -> Iterator[records.Passage]:
    """All paragraphs."""
    for passage, _, _ in self._paragraphs(self._invalid):
      yield passage

  def queries(self) -> Iterator[records.Query]:
    """All answerable questions."""
    for passage, qas, _ in self._paragraphs(_unheard()):
      yield from _questions(qas, passage, self._invalid)

  def judgements(self, split: str) -> Iterator[records.Judgement]:
    """Each question's own paragraph."""
    for passage, qas, of_split in self._paragraphs(_unheard()):
      if of_split == split:
        for question in _questions(qas, passage, _unheard()):
          yield records.Judgement(question.id, passage.id, 1, question.where)

  def _paragraphs(
      self, invalid: records.InvalidRecords
  ) -> Iterator[_Paragraph]:
    """(passage, its questions as they stand in the file, split)."""
    counts: dict[str, int] = {}
    for file in self.files:
      for number, article in self._articles(file):
        where = f'{file}: article {number}'
        try:
          title = _get(article, 'title', str)
          paragraphs = _get(article, 'paragraphs', list)
        except (KeyError, TypeError) as e:
          invalid.report('broken_record', where, _lack(e))
          continue
        for place, paragraph in enumerate(paragraphs, 1):
          count = counts[title] = counts.get(title, 0) + 1
          spot = f'{where} ("{title}"), paragraph {place}'
          try:
            text = _get(paragraph, 'context', str)
            qas = _get(paragraph, 'qas', list)
          except (KeyError, TypeError) as e:
            invalid.report('broken_record', spot, _lack(e))
            continue
          passage = records.Passage(
              f'{title}#{count}', title.replace('_', ' '), text, title, spot
          )
          yield passage, qas, files.split_of(file)

  def _articles(self, file: pathlib.Path) -> Iterator[tuple[int, Any]]:
    number = 0
    with files.open_text(file) as f:
      try:
        for number, article in enumerate(ijson.items(f, 'data.item'), 1):
          yield number, article
      except (ijson.JSONError, EOFError, OSError, zlib.error) as e:
        raise errors.UserError(
            f'{file}: not valid json after article {number}: {e}. Download the '
            'file again'
        ) from None
    if not number:
      raise errors.UserError(
          f'{file}: no articles under the key "data"; is this SQuAD json?'
      )


def _questions(
    qas: list[Any], passage: records.Passage, invalid: records.InvalidRecords
) -> Iterator[records.Query]:
  """The answerable ones; test files of v2 have no answers at all."""
  for number, question in enumerate(qas, 1):
    where = f'{passage.where}, question {number}'
    try:
      name = str(_get(question, 'id', (str, int)))
      text = _get(question, 'question', str)
      answers = dict.fromkeys(
          _get(answer, 'text', str) for answer in question.get('answers') or ()
      )
    except (KeyError, TypeError) as e:
      invalid.report('broken_record', where, _lack(e))
      continue
    if answers and not question.get('is_impossible', False):
      yield records.Query(name, text, tuple(answers), f'{where} ("{name}")')


def _unheard() -> records.InvalidRecords:
  """For all readings of a record but the one that reports its faults."""
  return records.InvalidRecords(skip=True)


def _get(record: Any, key: str, kind: type | tuple[type, ...]) -> Any:
  """A value of an object.

  Raises:
    KeyError: it is missing.
    TypeError: it, or the object, is of another type.
  """
  if not isinstance(record, dict):
    raise TypeError(f'a json object was expected, found {record!r:.40}')
  if not isinstance(record[key], kind):
    raise TypeError(f'key {key!r} holds {type(record[key]).__name__}')
  return record[key]


def _lack(error: Exception) -> str:
  if isinstance(error, KeyError):
    return f'key {error} is missing'
  return f'not of the expected form: {error}'
