"""The records of a source that can be stored; the others are reported."""

from collections.abc import Collection, Iterable, Iterator

from neg_contrast.data import records


def usable_passages(
    passages: Iterable[records.Passage], invalid: records.InvalidRecords
) -> Iterator[records.Passage]:
  """Those that have an id, and a title or a text."""
  for passage in passages:
    if not _is_sound(invalid, 'passage', passage, passage.title, passage.text,
                     passage.document_id):
      continue
    if passage.title.strip() or passage.text.strip():
      yield passage
    else:
      invalid.report('empty_passage', passage.where,
                     f'passage "{passage.id}" has no title or text')


class UsableQueries:
  """Checks the queries of a source while they are read.

  Attributes:
    has_mentions: whether the queries that were read are mentions; None: there
      were none.
  """

  def __init__(self, source: records.Source, invalid: records.InvalidRecords):
    """Reads nothing yet."""
    self._source, self._invalid = source, invalid
    self.has_mentions: bool | None = None

  def usable(
      self, wanted: Collection[str], worlds: Collection[str]
  ) -> Iterator[records.Query]:
    """Those that belong to some split and have an id and a text.

    Args:
      wanted: ids of queries that are judged; others name their split.
      worlds: that have passages.
    """
    for query in self._source.queries():
      if query.id not in wanted and not query.split:
        continue
      if not _is_sound(self._invalid, 'query', query, query.text,
                       *query.answers, *(query.context or ())):
        continue
      if self.has_mentions is None and query.text.strip():
        self.has_mentions = query.context is not None
      if not query.text.strip():
        self._invalid.report('empty_query', query.where,
                             f'query "{query.id}" has no text')
      elif (query.context is not None) != self.has_mentions:
        self._invalid.report(
            'broken_record', query.where,
            f'query "{query.id}" is a question and the first one is a mention '
            'with context, or the other way round; give them as two sources',
        )
      elif query.world and query.world not in worlds:
        self._invalid.report('unknown_id', query.where,
                             f'query "{query.id}" is of world '
                             f'"{query.world}", which has no passages')
      else:
        yield query

  def judged(self) -> set[str]:
    """Ids of judged queries."""
    with self._invalid.quiet():
      return {judgement.query_id for split in self._source.splits
              for judgement in self._source.judgements(split)}


def _is_sound(
    invalid: records.InvalidRecords, kind: str,
    record: records.Passage | records.Query, *texts: str,
) -> bool:
  """Whether it has an id, and texts that files can hold.

  Json can hold half of a surrogate pair; UTF-8 can't.
  """
  if not record.id:
    invalid.report('broken_record', record.where,
                   f'the id of the {kind} is empty')
    return False
  try:
    ''.join((record.id, *texts)).encode()
  except UnicodeEncodeError as e:
    invalid.report('broken_record', record.where,
                   f'{kind} {ascii(record.id)} is no valid Unicode '
                   f'({e.reason})')
    return False
  return True
