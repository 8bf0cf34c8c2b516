"""SQuAD json (v1.1 and v2): paragraphs are passages, articles documents."""

from collections.abc import Iterator
from typing import Any

from neg_contrast import errors
from neg_contrast.artifacts import places
from neg_contrast.data import records
from neg_contrast.data.formats import files
from neg_contrast.data.formats import given_pairs as pairs

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
    self.files = files.listing(places.path(place), '.json')
    if not self.files:
      raise errors.UserError(
          f'squad:{place}: no such file, or a folder without .json or .json.gz '
          'files; train-v1.1.json and dev-v1.1.json of SQuAD are expected'
      )
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
    for passage, qas, _ in self._paragraphs(files.unheard()):
      yield from _questions(qas, passage, self._invalid)

  def judgements(self, split: str) -> Iterator[records.Judgement]:
    """Each question's own paragraph."""
    for passage, qas, of_split in self._paragraphs(files.unheard()):
      if of_split == split:
        for question in _questions(qas, passage, files.unheard()):
          yield records.Judgement(question.id, passage.id, 1, question.where)

  def _paragraphs(
      self, invalid: records.InvalidRecords
  ) -> Iterator[_Paragraph]:
    """(passage, its questions as they stand in the file, split)."""
    counts: dict[str, int] = {}
    for file in self.files:
      where = ''
      for where, row in files.array_items(file, 'data'):
        try:
          row = pairs.get_object(row)
          title = pairs.get_text(row, 'title')
          paragraphs = pairs.get_list(row, 'paragraphs', needed=True)
        except pairs.Unusable as e:
          invalid.report('broken_record', where, str(e))
          continue
        for place, paragraph in enumerate(paragraphs, 1):
          count = counts[title] = counts.get(title, 0) + 1
          spot = f'{where} ("{title}"), paragraph {place}'
          try:
            paragraph = pairs.get_object(paragraph)
            text = pairs.get_text(paragraph, 'context')
            qas = pairs.get_list(paragraph, 'qas', needed=True)
          except pairs.Unusable as e:
            invalid.report('broken_record', spot, str(e))
            continue
          passage = records.Passage(
              f'{title}#{count}', title.replace('_', ' '), text, title, spot
          )
          yield passage, qas, files.split_of(file)
      if not where:
        raise errors.UserError(
            f'{file}: no articles under the key "data"; is this SQuAD json?'
        )


def _questions(
    qas: list[Any], passage: records.Passage, invalid: records.InvalidRecords
) -> Iterator[records.Query]:
  """The answerable ones; test files of v2 have no answers at all."""
  for number, row in enumerate(qas, 1):
    where = f'{passage.where}, question {number}'
    try:
      row = pairs.get_object(row)
      name, text = pairs.need_id(row, 'id'), pairs.get_text(row, 'question')
      answers = dict.fromkeys(
          pairs.get_text(pairs.get_object(answer), 'text')
          for answer in pairs.get_list(row, 'answers')
      )
    except pairs.Unusable as e:
      invalid.report('broken_record', where, str(e))
      continue
    if answers and not row.get('is_impossible', False):
      yield records.Query(name, text, tuple(answers), f'{where} ("{name}")')


FORMAT = records.SourceFormat('squad:data/squad', Squad, keys=('data',))
