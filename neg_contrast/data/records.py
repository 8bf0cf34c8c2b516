"""The canonical form that every data format is read into."""

import collections
import contextlib
import dataclasses
import pathlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol, runtime_checkable

from neg_contrast import errors

MOST_WEIGHT = 1e9
"""Of a judgement: the sum of a batch's weights has to be a float32."""


@dataclasses.dataclass(frozen=True, slots=True)
class Passage:
  """A retrievable text.

  Attributes:
    id: unique in the corpus.
    title: may be empty.
    text: may be empty if there is a title.
    document_id: the document it was cut from; empty when unknown.
    where: `file:line` (or the like) it was read from, for error messages.
    world: the part of the corpus that it belongs to, see `Source`; empty: there
      are no parts.
  """

  id: str
  title: str
  text: str
  document_id: str = ''
  where: str = dataclasses.field(default='', compare=False)
  world: str = ''


@dataclasses.dataclass(frozen=True, slots=True)
class Query:
  """A question, or a mention of an entity.

  Attributes:
    id: unique among the queries.
    text: not empty; of a mention, its own words.
    answers: strings (or patterns) that a passage may hold.
    where: as in `Passage`.
    split: the split it belongs to although nothing may be judged for it, as in
      files of questions and answers; empty: the splits that judge it.
    context: what stands before and after a mention, either may be empty; None:
      it is a question.
    world: the part of the corpus that it is searched in; empty: all of it.
  """

  id: str
  text: str
  answers: tuple[str, ...] = ()
  where: str = dataclasses.field(default='', compare=False)
  split: str = dataclasses.field(default='', compare=False)
  context: tuple[str, str] | None = None
  world: str = ''


@dataclasses.dataclass(frozen=True, slots=True)
class Judgement:
  """A graded judgement: above 0 a positive, 0 or below a known negative.

  Attributes:
    query_id: of the query.
    passage_id: of the passage.
    grade: whole number of at most nine digits.
    where: as in `Passage`.
    is_example: whether a positive is trained on, or only known as one (DPR's
      files train on the first positive of a question).
    weight: from 0 to `MOST_WEIGHT`: how much a positive counts in
      training; 0: it is known and not trained on. Of negatives it says nothing.
  """

  query_id: str
  passage_id: str
  grade: int
  where: str = dataclasses.field(default='', compare=False)
  is_example: bool = True
  weight: float = 1.0


def is_weight(value: float) -> bool:
  """Whether a number may be a `Judgement.weight`."""
  return 0 <= value <= MOST_WEIGHT  # False for NaN.


class InvalidRecords:
  """What to do with a record that can't be used: raise, or count and skip.

  Attributes:
    skips: whether they are counted and skipped.
    can_skip: whether a setting decides that.
    counts: how many records were skipped, by kind.
  """

  def __init__(self, skip: bool, can_skip: bool = True):
    self.skips, self.can_skip = skip, can_skip
    self.counts: collections.Counter[str] = collections.Counter()

  def report(self, kind: str, where: str, message: str) -> None:
    """Counts the record under `kind` where config says skip, else raises.

    Args:
      kind: `broken_record`, `empty_passage`, `empty_query`, `duplicate_id` or
        `unknown_id`.
      where: `file:line` of the record.
      message: what is wrong, naming the id.

    Raises:
      UserError: unless invalid records are to be skipped.
    """
    if not self.skips:
      stop = '' if message.endswith('?') else '.'
      raise errors.UserError(f'{where}: {message}{stop} Repair it' + (
          ', or count and skip such records with '
          f'--{errors.key("data.on_invalid")}=skip' if self.can_skip else ''))
    self.counts[kind] += 1

  def __str__(self) -> str:
    """What was skipped: `3 broken records, 1 unknown id`; empty: nothing."""
    return ', '.join(
        f'{count} {kind.replace("_", " ")}{"s" if count > 1 else ""}'
        for kind, count in sorted(self.counts.items())
    ).replace('querys', 'queries')

  @contextlib.contextmanager
  def quiet(self) -> Iterator[None]:
    """Records that are read once more are not counted a second time."""
    before = self.counts.copy()
    yield
    self.counts = before


@runtime_checkable
class Source(Protocol):
  """A data set in some format. Iterating twice gives the same records.

  Readers report lines that do not parse to the `InvalidRecords` they were made
  with. Checks that hold for all formats (empty passages, duplicate ids, unknown
  judged ids) are not theirs: `usable_records.py` and `corpus_writer.py` make
  them. A reader of pairs may give the same passage or query many times; the
  first is kept, and one with the same id but another content is an error.

  The queries of a source are questions, or all are mentions. Where a source
  has worlds, every passage and every query has one, and a query is searched in
  its own alone, as if each world were a corpus.
  """

  @property
  def files(self) -> tuple[pathlib.Path, ...]:
    """The files read, in a fixed order: what the fingerprint is taken of."""
    ...

  @property
  def splits(self) -> tuple[str, ...]:
    """Names of the splits that have judgements or queries of their own."""
    ...

  def passages(self) -> Iterator[Passage]:
    """All passages, in corpus order."""
    ...

  def queries(self) -> Iterator[Query]:
    """All queries of all splits."""
    ...

  def judgements(self, split: str) -> Iterator[Judgement]:
    """The judgements of one split."""
    ...


@runtime_checkable
class SourceInLines(Source, Protocol):
  """A source whose passages workers read, each some lines of a file."""

  @property
  def passage_files(self) -> tuple[pathlib.Path, ...]:
    """The files of passages, in corpus order; none: `passages` alone reads."""
    ...

  def passages_of(self, lines: Any) -> Iterator[Passage]:
    """Those of `line_blocks.Lines`: of a whole file, or of a block of one."""
    ...


@runtime_checkable
class SourceWithFeatures(Source, Protocol):
  """A source whose records have fields beside text."""

  def side_feature(
      self, role: str, name: str
  ) -> Iterator[tuple[str, str, Any]]:
    """A field of all records of a role, a record as often as it is there.

    What can't be read as a record is left out.

    Args:
      role: `passage` or `query`.
      name: of the field.

    Yields:
      (id, where as in `Passage`, value; None: the record has none).
    """
    ...


def in_lines(source: Source) -> SourceInLines | None:
  """The source, if the lines of some files hold all its passages."""
  if isinstance(source, SourceInLines) and source.passage_files:
    return source
  return None


@dataclasses.dataclass(frozen=True)
class SourceFormat:
  """A format of sources: how it is read, and how it is recognised.

  Attributes:
    example: `scheme:place`, as it may be written.
    open: makes the reader of a place.
    names: patterns of names of files, without `.gz`, by which it is recognised
      first.
    keys: of json files, by which it is recognised else.
    last_names: patterns of names by which it is recognised where no other
      format is.
    is_folder: whether a place is a folder, never a single file.
    needs_place: whether there must be a place after the scheme.
    drops_own_passage: whether a query never retrieves the passage with its own
      id, unless `data.drop_own_passage` says otherwise.
    is_here: whether reading a place downloads nothing.
    fetch: downloads a place. Raises UserError.
    problem: why a place can't be downloaded now; it downloads nothing.
    has_features: whether its sources are `SourceWithFeatures`.
    reading: raised when the same files give other records: what was prepared
      by an earlier one is left alone, and prepared anew.
  """

  example: str
  open: Callable[[str, InvalidRecords], Source]
  names: tuple[str, ...] = ()
  keys: tuple[str, ...] = ()
  last_names: tuple[str, ...] = ()
  is_folder: bool = False
  needs_place: bool = True
  drops_own_passage: bool = False
  is_here: Callable[[str], bool] | None = None
  fetch: Callable[[str], None] | None = None
  problem: Callable[[str], str | None] | None = None
  has_features: bool = False
  reading: int = 1

  @property
  def scheme(self) -> str:
    """What stands before the colon."""
    return self.example.partition(':')[0]
