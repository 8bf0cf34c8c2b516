"""SQuAD json (v1.1 and v2): paragraphs are passages, articles documents."""

import pathlib
from collections.abc import Iterator
from typing import Any

import ijson

from neg_contrast import errors
from neg_contrast.data import records

_SPLITS = ('train', 'dev', 'test')


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
    return tuple(dict.fromkeys(_split_of(file) for file in self.files))

  def passages(self) -> Iterator[records.Passage]:
    """All paragraphs."""
    for passage, _, _ in self._paragraphs(report=True):
      yield passage

  def queries(self) -> Iterator[records.Query]:
    """All answerable questions."""
    for _, questions, _ in self._paragraphs(report=False):
      yield from questions

  def judgements(self, split: str) -> Iterator[records.Judgement]:
    """Each question's own paragraph."""
    for passage, questions, of_split in self._paragraphs(report=False):
      if of_split == split:
        for question in questions:
          yield records.Judgement(question.id, passage.id, 1, question.where)

  def _paragraphs(
      self, report: bool
  ) -> Iterator[tuple[records.Passage, list[records.Query], str]]:
    counts: dict[str, int] = {}
    for file in self.files:
      for number, article in self._articles(file):
        where = f'{file}: article {number}'
        try:
          title = str(article['title'])
          paragraphs = list(article['paragraphs'])
        except (KeyError, TypeError) as e:
          if report:
            self._invalid.report('broken_record', where, _lack(e))
          continue
        for place, paragraph in enumerate(paragraphs, 1):
          count = counts[title] = counts.get(title, 0) + 1
          spot = f'{where} ("{title}"), paragraph {place}'
          try:
            yield (*_paragraph(paragraph, title, count, spot), _split_of(file))
          except (KeyError, TypeError) as e:
            if report:
              self._invalid.report('broken_record', spot, _lack(e))

  def _articles(self, file: pathlib.Path) -> Iterator[tuple[int, Any]]:
    number = 0
    with records.open_text(file) as f:
      try:
        for number, article in enumerate(ijson.items(f, 'data.item'), 1):
          yield number, article
      except (ijson.JSONError, EOFError, OSError) as e:
        raise errors.UserError(
            f'{file}: not valid json after article {number}: {e}. Download the '
            'file again'
        ) from None
    if not number:
      raise errors.UserError(
          f'{file}: no articles under the key "data"; is this SQuAD json?'
      )


def _paragraph(paragraph, title, count, where):
  passage = records.Passage(
      f'{title}#{count}', title.replace('_', ' '), paragraph['context'], title,
      where,
  )
  questions = []
  for question in paragraph['qas']:
    answers = dict.fromkeys(a['text'] for a in question['answers'])
    if answers and not question.get('is_impossible', False):
      questions.append(records.Query(
          str(question['id']), question['question'], tuple(answers),
          f'{where}, question {question["id"]}',
      ))
  return passage, questions


def _lack(error: Exception) -> str:
  if isinstance(error, KeyError):
    return f'key {error} is missing'
  return f'not of the expected form ({error})'


def _split_of(file: pathlib.Path) -> str:
  name = file.name.lower()
  return next((split for split in _SPLITS if split in name), 'all')
