"""Zeshel: mentions of entities in the documents of fictional worlds.

Logeswaran et al., "Zero-Shot Entity Linking by Reading Entity Descriptions",
2019. The documents of a world are its entities.
"""

import collections
import dataclasses
import functools
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from neg_contrast import errors
from neg_contrast.artifacts import places
from neg_contrast.data import records
from neg_contrast.data.formats import files, line_blocks
from neg_contrast.data.formats import given_pairs as pairs


@dataclasses.dataclass(frozen=True, slots=True)
class _Mention:
  """A line of a file of mentions; places are of words, the last included."""

  id: str
  text: str
  world: str
  document: str
  label: str
  start: int
  end: int
  where: str


class Zeshel:
  """A folder with documents/<world>.json and mentions/<split>.json.

  Both are jsonl, and may be gzipped. A query is the mention; its context is
  that of its document. Memory holds the mentions, without their contexts.
  """

  def __init__(self, place: str, invalid: records.InvalidRecords):
    """Lists the files.

    Raises:
      UserError: there are no documents.
    """
    folder = places.path(place)
    self._invalid = invalid
    self._documents, self._mentions = (
        {_world_of(path): path
         for path in files.listing(folder / name, '.json')}
        for name in ('documents', 'mentions')
    )
    for name, found in (('documents/<world>', self._documents),
                        ('mentions/<split>', self._mentions)):
      if not found:
        raise errors.UserError(
            f'zeshel:{place}: no such file: {folder / name}.json. A Zeshel '
            'folder holds documents/<world>.json and mentions/<split>.json'
        )
    self.files = (*self._documents.values(), *self._mentions.values())

  @property
  def splits(self) -> tuple[str, ...]:
    """Names of the files of mentions, such as heldout_train_seen."""
    return tuple(self._mentions)

  @property
  def passage_files(self) -> tuple[pathlib.Path, ...]:
    """Those of the documents."""
    return tuple(self._documents.values())

  def passages(self) -> Iterator[records.Passage]:
    """The documents of all worlds, world after world."""
    for path in self.passage_files:
      yield from self.passages_of(path)

  def passages_of(self, lines: line_blocks.Lines) -> Iterator[records.Passage]:
    """The documents of some lines of a world."""
    world = _world_of(line_blocks.path_of(lines))
    return pairs.read_each(
        files.json_lines(lines, self._invalid),
        functools.partial(_passage, world=world), self._invalid,
    )

  def queries(self) -> Iterator[records.Query]:
    """All mentions, in the order of the documents that they stand in."""
    wanted: dict[str, dict[str, list[_Mention]]] = {}
    for split in self._mentions:
      for mention in self._read(split, self._invalid):
        wanted.setdefault(mention.world, collections.defaultdict(list))[
            mention.document
        ].append(mention)
    for world, path in self._documents.items():
      waiting = wanted.pop(world, {})
      for _, row in files.json_lines(path, files.unheard()):
        some = waiting.pop(_id_of(row), []) if waiting else []
        if some:
          yield from self._in_document(some, row)
      self._report_lost(waiting, f'not in {path}')
    for world, waiting in wanted.items():
      self._report_lost(
          waiting, f'of world "{world}", which has no file among the documents'
      )

  def judgements(self, split: str) -> Iterator[records.Judgement]:
    """The entity of each mention."""
    for mention in self._read(split, files.unheard()):
      yield records.Judgement(mention.id, mention.label, 1, mention.where)

  def _read(
      self, split: str, invalid: records.InvalidRecords
  ) -> Iterator[_Mention]:
    return pairs.read_each(
        files.json_lines(self._mentions[split], invalid), _mention, invalid
    )

  def _in_document(
      self, mentions: list[_Mention], row: dict[str, Any]
  ) -> Iterator[records.Query]:
    text = row.get('text')
    words = text.split(' ') if isinstance(text, str) else []
    for mention in mentions:
      start, end = mention.start, mention.end + 1
      found = ' '.join(words[start:end])
      is_there = start < end <= len(words)
      if not is_there or found.casefold() != mention.text.casefold():
        self._invalid.report(
            'broken_record', mention.where,
            f'words {start} to {mention.end} (keys "start_index", "end_index") '
            f'of document "{mention.document}" are {found!r:.60}, not '
            f'{mention.text!r:.60}',
        )
        continue
      most = pairs.MOST_WORDS
      context = (' '.join(words[max(0, start - most) : start]),
                 ' '.join(words[end : end + most]))
      yield records.Query(mention.id, mention.text, (), mention.where,
                          context=context, world=mention.world)

  def _report_lost(
      self, waiting: Mapping[str, list[_Mention]], why: str
  ) -> None:
    for some in waiting.values():
      for mention in some:
        self._invalid.report(
            'unknown_id', mention.where,
            f'mention "{mention.id}" stands in document "{mention.document}" '
            f'(key "context_document_id"), {why}',
        )


def _world_of(path: pathlib.Path) -> str:
  return files.plain_name(path).removesuffix('.json')


def read_candidates(path: pathlib.Path) -> dict[str, list[tuple[str, float]]]:
  """Reads tfidf_candidates/<split>.json, the candidates that Zeshel comes with.

  Returns:
    Mention id -> (document id, minus its rank), best first.

  Raises:
    UserError: the file is missing or broken; names the line and key.
  """
  invalid = records.InvalidRecords(skip=False, can_skip=False)
  key = 'tfidf_candidates'
  found: dict[str, list[tuple[str, float]]] = {}
  for where, row in files.json_lines(path, invalid):
    try:
      row = pairs.get_object(row)
      name = pairs.need_id(row, 'mention_id')
      ranking = dict.fromkeys(pairs.get_texts(row, key, needed=True))
    except pairs.Unusable as e:
      raise errors.UserError(f'{where}: {e}') from None
    if name in found:
      raise errors.UserError(f'{where}: mention "{name}" was there before')
    found[name] = [(document, -float(rank))
                   for rank, document in enumerate(ranking, start=1)]
  return found


def _passage(row: Any, where: str, world: str) -> records.Passage:
  row = pairs.get_object(row)
  return records.Passage(
      pairs.need_id(row, 'document_id'), pairs.get_title(row),
      pairs.get_text(row, 'text'), where=where, world=world,
  )


def _mention(row: Any, where: str) -> _Mention:
  row = pairs.get_object(row)
  return _Mention(
      id=pairs.need_id(row, 'mention_id'),
      text=pairs.get_text(row, 'text'),
      world=pairs.need_id(row, 'corpus'),
      document=pairs.need_id(row, 'context_document_id'),
      label=pairs.need_id(row, 'label_document_id'),
      start=pairs.get_number(row, 'start_index'),
      end=pairs.get_number(row, 'end_index'),
      where=where,
  )


def _id_of(row: Any) -> str:
  """The id of a document; empty where `_passage` says what is wrong."""
  try:
    return pairs.get_id(pairs.get_object(row), 'document_id')
  except pairs.Unusable:
    return ''


FORMAT = records.SourceFormat(
    'zeshel:data/zeshel', Zeshel, names=('mentions',), is_folder=True
)
