"""KILT jsonl: questions and mentions whose answers are pages of Wikipedia.

Petroni et al., "KILT: a Benchmark for Knowledge Intensive Language Tasks",
2021. AIDA CoNLL-YAGO is `aidayago2-{train,dev}-kilt.jsonl` there.
"""

import pathlib
from typing import Any

from neg_contrast import errors
from neg_contrast.data import records
from neg_contrast.data.formats import files
from neg_contrast.data.formats import given_pairs as pairs

_START, _END = '[START_ENT]', '[END_ENT]'


class Kilt(pairs.Pairs):
  """A folder of `kilt_knowledgesource.json` and `<data>-<split>-kilt.jsonl`.

  A passage is the beginning of a page: its first 512 words. A positive is any
  page that a record gives as provenance; a record without any, as in KILT's
  test files, is a query of its split that nothing is judged for. A mention is
  what `meta` says, or stands between [START_ENT] and [END_ENT]; others are
  questions.
  """

  def __init__(self, place: str, invalid: records.InvalidRecords):
    """Lists the files.

    Raises:
      UserError: there are none, or no pages.
    """
    questions, corpus = pairs.by_first_row(
        f'kilt:{place}', 'input', 'wikipedia_title',
        'records with "input" or pages with "wikipedia_title"',
    )
    if not corpus:
      raise errors.UserError(
          f'kilt:{place}: no pages; put kilt_knowledgesource.json beside the '
          'records, whose lines have "wikipedia_id", "wikipedia_title", "text"'
      )
    super().__init__(corpus, questions, invalid)

  def _item(
      self, file: pathlib.Path, row: Any, name: str, where: str
  ) -> pairs.Item:
    row = pairs.get_object(row)
    outputs = [pairs.get_object(of) for of in pairs.get_list(row, 'output')]
    pages = dict.fromkeys(
        pairs.need_id(pairs.get_object(page), 'wikipedia_id')
        for output in outputs for page in pairs.get_list(output, 'provenance')
    )
    text, context = _mention(row)
    answers = () if context else tuple(dict.fromkeys(
        pairs.get_text(output, 'answer') for output in outputs
        if output.get('answer') is not None
    ))
    query = records.Query(
        pairs.get_id(row, 'id') or name, text, answers, where,
        '' if pages else files.split_of(file), context,
    )
    return pairs.Item(query, tuple(pages))

  def _passage(self, row: Any, where: str) -> records.Passage:
    row = pairs.get_object(row)
    title = pairs.get_text(row, 'wikipedia_title')
    paragraphs = pairs.get_texts(row, 'text', needed=True)
    if paragraphs and paragraphs[0].strip() == title.strip():
      paragraphs = paragraphs[1:]  # Pages begin with their titles.
    text = pairs.first_words(' '.join(map(str.strip, paragraphs)))
    return records.Passage(pairs.need_id(row, 'wikipedia_id'), title, text,
                           where=where)


def _mention(row: dict[str, Any]) -> tuple[str, tuple[str, str] | None]:
  """The query's own words, and the context of a mention."""
  meta = row.get('meta') or {}
  if isinstance(meta, dict) and meta.get('mention'):
    there = {key: '' if one is None else one for key, one in meta.items()}
    return pairs.get_text(there, 'mention'), pairs.context_of(*(
        pairs.get_text(there, key) for key in ('left_context', 'right_context')
    ))
  text = pairs.get_text(row, 'input')
  left, start, rest = text.partition(_START)
  mention, end, right = rest.partition(_END)
  if not start:
    return text, None
  if not end:
    raise pairs.Unusable(f'key "input" holds {_START} without {_END}')
  return mention.strip(), pairs.context_of(left, right)


FORMAT = records.SourceFormat(
    'kilt:data/kilt', Kilt,
    names=('kilt_knowledgesource.json', '*-kilt.jsonl'),
    keys=('wikipedia_title',), is_folder=True,
    reading=2,  # 1: an empty mention was one.
)
