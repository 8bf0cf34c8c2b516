"""tensorflow-datasets as a source: foreign data sets, and folders of our own.

TensorFlow is not needed, so a data set must be stored as array_record.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import re
from collections.abc import Callable, Iterator
from typing import Any

from neg_contrast import errors
from neg_contrast.artifacts import folders, places
from neg_contrast.data import records
from neg_contrast.data.formats import files, prepared_folder

_NAME = re.compile(r'(\w+)(?:/([\w.+-]+))?(?::(\d+\.\d+\.\d+))?')
_VERSION = re.compile(r'\d+\.\d+\.\d+')
_READ_AT_ONCE = 1024
_HERE = 'neg_contrast/data/formats/tfds_source.py'
_INFO, _FEATURES = 'dataset_info.json', 'features.json'


@dataclasses.dataclass(frozen=True, slots=True)
class Mapping:
  """Which features of a data set of questions with a passage hold what.

  A feature within another is written `answers/text`. An empty name: there is
  none.

  Attributes:
    query: text of the question.
    text: text of the passage.
    query_id: else equal questions have equal ids.
    passage_id: else equal titles and texts have equal ids.
    title: of the passage.
    document: names the document that the passage was cut from.
    answers: list of texts; a row without any is left out, as unanswerable.
    config: the configuration that is read when none is named.
    readable: makes a title of the feature's value.
  """

  query: str
  text: str
  query_id: str = ''
  passage_id: str = ''
  title: str = ''
  document: str = ''
  answers: str = ''
  config: str = ''
  readable: Callable[[str], str] = str


MAPPINGS = {
    'squad': Mapping(
        query='question', text='context', query_id='id', title='title',
        document='title', answers='answers/text', config='v1.1',
        readable=lambda title: title.replace('_', ' '),
    ),
}


def open_tfds(place: str, invalid: records.InvalidRecords) -> records.Source:
  """The reader of a data set.

  Args:
    place: `name`, `name/config` or `name/config:version` of a data set in
      TFDS_DATA_DIR (by default ~/tensorflow_datasets), its folder, or a folder
      that this program prepared.
    invalid: where to report records that can't be used.

  Raises:
    UserError: there is no such data set, it is not stored as array_record, or
      nothing says which feature is what.
  """
  path = places.path(place)
  if (path / folders.MANIFEST).is_file():
    return prepared_folder.PreparedFolder(path)
  if (path / _INFO).is_file():
    return Foreign(path, _mapping_of(_read_json(path / _INFO).get('name', '')),
                   invalid)
  parsed = _NAME.fullmatch(place)
  if parsed is None or os.sep in place and path.is_dir():
    raise errors.UserError(
        f'tfds:{place}: neither a folder with {folders.MANIFEST} (that this '
        f'program prepared) or {_INFO} (that tensorflow-datasets did), nor a '
        'data set like squad or squad/v1.1:3.0.0'
    )
  name, config, version = parsed.groups()
  mapping = _mapping_of(name)
  return Foreign(_find(name, config or mapping.config, version), mapping,
                 invalid)


class Foreign:
  """A data set that tensorflow-datasets prepared; its splits keep their names.

  A passage stands in the row of each of its questions.
  """

  def __init__(
      self,
      folder: pathlib.Path,
      mapping: Mapping,
      invalid: records.InvalidRecords,
  ):
    """Lists the files.

    Args:
      folder: of a version, with `dataset_info.json`.
      mapping: which feature is what.
      invalid: where to report.

    Raises:
      UserError: it is not stored as array_record, or lacks a file.
    """
    self._folder, self._mapping, self._invalid = folder, mapping, invalid
    info = _read_json(folder / _INFO)
    name = folder.parent.name
    if info.get('fileFormat') != 'array_record':
      raise errors.UserError(
          f'{folder}: stored as {info.get("fileFormat", "tfrecord")}, which '
          'only TensorFlow reads. Prepare it anew in another TFDS_DATA_DIR:\n'
          f'{_how_to_prepare(info.get("name", name))}'
      )
    with _reading(folder / _INFO):
      lengths = {split['name']: split.get('shardLengths') or ()
                 for split in info.get('splits') or ()}
    if not lengths or not (folder / _FEATURES).is_file():
      raise errors.UserError(
          f'{folder}: names no splits, or lacks {_FEATURES}; prepare it again:'
          f'\n{_how_to_prepare(info.get("name", name))}'
      )
    shards = {split: sorted(folder.glob(f'*-{split}.array_record*'))
              for split in lengths}
    for split, found in shards.items():
      if len(found) != len(lengths[split]) or not found:
        raise errors.UserError(
            f'{folder}: split "{split}" has {len(found)} of '
            f'{len(lengths[split])} files; prepare it again:\n'
            f'{_how_to_prepare(info.get("name", name))}'
        )
    self.splits = tuple(shards)
    # This file, since a corpus is stale when its mapping changes.
    self.files = (folder / _INFO, folder / _FEATURES, pathlib.Path(__file__),
                  *(path for found in shards.values() for path in found))

  def passages(self) -> Iterator[records.Passage]:
    """The passage of every row."""
    for split in self.splits:
      for where, row in self._rows(split):
        try:
          yield self._passage(row, where)
        except UnicodeDecodeError as e:
          self._invalid.report('broken_record', where, f'not UTF-8: {e.reason}')

  def queries(self) -> Iterator[records.Query]:
    """The answerable questions."""
    for split in self.splits:
      for query, _ in self._pairs(split, self._invalid):
        yield query

  def judgements(self, split: str) -> Iterator[records.Judgement]:
    """Each question's own passage."""
    for query, passage in self._pairs(split, files.unheard()):
      yield records.Judgement(query.id, passage.id, 1, query.where)

  def _pairs(
      self, split: str, invalid: records.InvalidRecords
  ) -> Iterator[tuple[records.Query, records.Passage]]:
    mapping = self._mapping
    for where, row in self._rows(split):
      try:
        passage = self._passage(row, where)
      except UnicodeDecodeError:
        continue  # Reported among the passages.
      try:
        answers = (_get(row, mapping.answers) or []) if mapping.answers else []
        answers = tuple(dict.fromkeys(map(_text, answers)))
        text = _text(_get(row, mapping.query))
        name = (_text(_get(row, mapping.query_id)) if mapping.query_id else
                files.content_id(text))
      except UnicodeDecodeError as e:
        invalid.report('broken_record', where,
                       f'not UTF-8 in the question: {e.reason}')
        continue
      if answers or not mapping.answers:
        yield records.Query(name, text, answers, f'{where} ("{name}")'), passage

  def _passage(self, row: dict[str, Any], where: str) -> records.Passage:
    mapping = self._mapping
    text = _text(_get(row, mapping.text))
    title, document, name = (
        _text(_get(row, key)) if key else ''
        for key in (mapping.title, mapping.document, mapping.passage_id)
    )
    title = mapping.readable(title)
    return records.Passage(name or files.content_id(title, text), title, text,
                           document, where)

  def _rows(self, split: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """(`folder: split, row number`, row)."""
    import tensorflow_datasets as tfds  # Slow to import.

    with _reading(self._folder):
      source = tfds.builder_from_directory(
          str(places.local_folder(self._folder))
      ).as_data_source(split)
    for number, row in _in_order(self._folder, source):
      if not number:
        self._check_features(row)
      yield f'{self._folder}: {split}, row {number}', row

  def _check_features(self, row: dict[str, Any]) -> None:
    """Refuses a mapping that does not fit the data set."""
    for key in ('query', 'text', 'query_id', 'passage_id', 'title', 'document',
                'answers'):
      feature = getattr(self._mapping, key)
      try:
        if feature:
          _get(row, feature)
      except (KeyError, TypeError):
        raise errors.UserError(
            f'{self._folder}: "{key}" is mapped to the feature "{feature}", '
            f'but there are {sorted(row)}. Correct the mapping in {_HERE}'
        ) from None


@contextlib.contextmanager
def _reading(path: pathlib.Path) -> Iterator[None]:
  """Damaged files make tensorflow-datasets and numpy raise all sorts of things.

  Raises:
    UserError: the block raised something.
  """
  try:
    yield
  except Exception as e:
    raise errors.UserError(
        f'{path}: damaged ({type(e).__name__}: {e!s:.200}); prepare it again'
    ) from e


def _in_order(
    folder: pathlib.Path, source: Any
) -> Iterator[tuple[int, dict[str, Any]]]:
  """(number, row) of all rows of a data source."""
  for start in range(0, len(source), _READ_AT_ONCE):
    numbers = range(start, min(start + _READ_AT_ONCE, len(source)))
    with _reading(folder):
      rows = source.__getitems__(list(numbers))
    yield from zip(numbers, rows, strict=True)


def _get(row: dict[str, Any], feature: str) -> Any:
  value: Any = row
  for key in feature.split('/'):
    value = value[key]
  return value


def _text(value: Any) -> str:
  """Texts come as bytes, other ids as numbers."""
  return value.decode() if isinstance(value, bytes) else str(value)


def _read_json(path: pathlib.Path) -> dict[str, Any]:
  try:
    value = json.loads(path.read_bytes())
  except ValueError as e:
    raise errors.UserError(f'{path}: not valid json: {e}') from None
  return value if isinstance(value, dict) else {}


def _mapping_of(name: str) -> Mapping:
  if name not in MAPPINGS:
    raise errors.UserError(
        f'tfds:{name}: nothing says which of its features are question and '
        f'passage; that is known of {", ".join(MAPPINGS)}. Add it to MAPPINGS '
        f'in {_HERE}, for instance\n'
        f"  '{name}': Mapping(query='question', text='context', "
        "query_id='id', answers='answers/text')"
    )
  return MAPPINGS[name]


def _find(name: str, config: str, version: str | None) -> pathlib.Path:
  """The folder of a version, the highest if none is named."""
  root = pathlib.Path(os.environ.get('TFDS_DATA_DIR')
                      or '~/tensorflow_datasets').expanduser()
  parent = root / name / config
  found = [path for path in parent.glob('*')
           if _VERSION.fullmatch(path.name) and (path / _INFO).is_file()
           and version in (None, path.name)]
  if not found:
    full = f'{name}/{config}' if config else name
    raise errors.UserError(
        f'tfds:{full}{f":{version}" if version else ""}: not found in {parent} '
        '(TFDS_DATA_DIR names another place). Download and prepare it once:\n'
        f'{_how_to_prepare(full)}'
    )
  return max(found, key=lambda path: [int(n) for n in path.name.split('.')])


def _how_to_prepare(name: str) -> str:
  return (
      '  python -c "import tensorflow_datasets as tfds; '
      f"tfds.builder('{name}').download_and_prepare("
      "file_format='array_record')\""
  )


FORMAT = records.SourceFormat(
    'tfds:squad', open_tfds, names=(_INFO,), last_names=(folders.MANIFEST,),
    is_folder=True,
)
