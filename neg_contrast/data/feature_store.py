"""Features beside text, kept as plain arrays beside the tokens.

An array has a row for each passage or query of a prepared corpus. It is made
when a model first asks for it: a field of the source's records is read again,
or n-grams are made of the texts.
"""

import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from neg_contrast import errors
from neg_contrast.artifacts import arrays, folders
from neg_contrast.data import preparation, records, sources
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.data.side_features import feature_table, side_feature

_FORMAT = folders.Format('a feature of texts', 1)
_VALUES, _VOCABULARY = 'values.npy', 'vocabulary.json'


def table_of(
    prepared: prepared_lib.Prepared,
    role: str,
    features: Sequence[side_feature.SideFeature],
    skip_invalid: bool,
) -> feature_table.FeatureTable | None:
  """What a model takes of the `passage` or `query` texts of a corpus.

  Args:
    prepared: the corpus and its queries.
    role: of the texts.
    features: of the model; none: None is returned.
    skip_invalid: values that can't be used are none, instead of an error.

  Raises:
    UserError: as `kept`.
  """
  if not features:
    return None
  return feature_table.FeatureTable.of(
      features, [kept(prepared, role, one, skip_invalid) for one in features]
  )


def table_in_memory(
    features: Sequence[side_feature.SideFeature],
    role: str,
    texts: Sequence[tuple[str, str, Mapping[str, Any]]],
) -> feature_table.FeatureTable | None:
  """What a model takes of texts that are in no corpus.

  Args:
    features: of the model; none: None is returned.
    role: `passage` or `query`.
    texts: (title, text, values of features by name) of each.

  Raises:
    UserError: a value can't be used, or the model reads no such feature.
  """
  known = {one.name for one in features if not one.of_text}
  for _, _, values in texts:
    for name in values:
      if name not in known:
        raise errors.UserError(
            f'a {role} with "{name}": the model reads '
            f'{", ".join(sorted(known)) or "nothing"} beside text'
        )
  if not features:
    return None
  made = []
  for one in features:
    try:
      made.append(one.keep([_value_of(one, role, *text) for text in texts]))
    except ValueError as e:
      raise errors.UserError(f'a {role}: "{one.name}" {e}') from None
  return feature_table.FeatureTable.of(features, made)


def _value_of(
    feature: side_feature.SideFeature, role: str, title: str, text: str,
    values: Mapping[str, Any],
) -> Any:
  """The value of a text; None: it has none."""
  if not feature.of_text:
    return values.get(feature.name)
  if role == 'query':
    return text if feature.name == 'text' else None
  return text_of(feature.name, title, text)


def kept(
    prepared: prepared_lib.Prepared,
    role: str,
    feature: side_feature.SideFeature,
    skip_invalid: bool,
) -> side_feature.Kept:
  """The values of a feature in all texts of a role, made once.

  Of several processes one makes them and the others wait.

  Args:
    prepared: the corpus and its queries.
    role: `passage` or `query`.
    feature: of them.
    skip_invalid: values that can't be used are none, instead of an error.

  Raises:
    UserError: the source has no features; or a record has a value that can't be
      used, or none where others have one (names file and line).
  """
  place = prepared.corpus_folder if role == 'passage' else prepared.folder
  folder = place / 'features' / f'{role}-{feature.kept_as}'
  made = _read_manifest(folder, prepared, role, feature, skip_invalid)
  if made is None:
    folders.make_folder(folder.parent)
    with folders.only_one(folder):
      made = _read_manifest(folder, prepared, role, feature, skip_invalid)
      if made is None:  # Not made while waiting.
        _make(folder, prepared, role, feature, skip_invalid)
  values = arrays.load_array(
      folder / _VALUES, (_rows(prepared, role), feature.columns), feature.dtype
  )
  arrays.map_file(folder / _VOCABULARY).check()
  return side_feature.Kept(
      values, tuple(folders.read_json(folder / _VOCABULARY))
  )


def contents_of(
    prepared: prepared_lib.Prepared,
    features: Sequence[side_feature.SideFeature],
) -> dict[str, str]:
  """What vectors depend on beside texts, as json, without reading any value.

  Args:
    prepared: the corpus and its queries.
    features: of a model.

  Returns:
    A hash of the files that fields are read from; empty: none is.
  """
  if all(one.of_text for one in features):
    return {}
  return {'feature_files': _files_of(prepared)}


def _files_of(prepared: prepared_lib.Prepared) -> str:
  return folders.sha256_json(
      list(map(_digest, prepared.manifest.get('files', ())))
  )


def _digest(fact: dict[str, Any]) -> Any:
  """Of a file's bytes: the sha256, or what its bucket says of them by name."""
  return fact.get('sha256') or {
      key: value for key, value in fact.items() if key not in preparation.SEEN}


def _fingerprint(prepared, role, feature) -> str:
  """Of what the values are made of."""
  if not feature.of_text:
    return _files_of(prepared)
  texts = 'corpus' if role == 'passage' else 'queries'
  return prepared.manifest[f'{texts}_fingerprint']


def _rows(prepared: prepared_lib.Prepared, role: str) -> int:
  return len(prepared.passages if role == 'passage' else prepared.queries)


def _read_manifest(folder, prepared, role, feature, skip_invalid):
  """That of values which can be used as they are; None: they are to be made."""
  made = folders.read_manifest(folder, _FORMAT)
  if (made is None
      or made['fingerprint'] != _fingerprint(prepared, role, feature)
      or (made['skipped'] and not skip_invalid)
      or (made['missing'] and not (skip_invalid or feature.may_miss))):
    return None
  return made


def _make(
    folder: pathlib.Path,
    prepared: prepared_lib.Prepared,
    role: str,
    feature: side_feature.SideFeature,
    skip_invalid: bool,
) -> None:
  manifest: dict[str, Any] = {
      'fingerprint': _fingerprint(prepared, role, feature), 'skipped': 0,
      'missing': 0,
  }
  rows = _rows(prepared, role)
  read = _texts if feature.of_text else _fields
  with folders.writing(folder, manifest, format=_FORMAT) as scratch:
    shape = rows, feature.columns
    values = (arrays.create_array(scratch / _VALUES, feature.dtype, shape)
              if rows else np.zeros(shape, feature.dtype))
    writer = _Writer(feature, skip_invalid, values)
    for row, where, value in read(prepared, role, feature.name):
      writer.put(row, where, value)
    writer.finish(role)
    manifest |= {'skipped': writer.skipped, 'missing': writer.missing}
    if isinstance(values, np.memmap):
      values.flush()
    else:
      np.save(scratch / _VALUES, values, allow_pickle=False)
    folders.write_json(scratch / _VOCABULARY, list(writer.vocabulary))


class _Writer:
  """Values of a feature, row by row.

  Attributes:
    vocabulary: categories, by number.
    skipped: values that could not be used.
    missing: texts without a value, where others have one.
  """

  def __init__(
      self, feature: side_feature.SideFeature, skip_invalid: bool,
      values: np.ndarray,
  ):
    """Writes into `[rows, columns]` zeros."""
    self._values, rows = values, len(values)
    self.vocabulary: dict[str, int] = {}
    self.skipped = self.missing = 0
    self._feature, self._skip = feature, skip_invalid
    self._is_there, self._is_seen = np.zeros((2, rows), bool)
    self._without = ''  # Where the first text without a value stands.

  def put(self, row: int, where: str, value: Any) -> None:
    """Takes a value of a text; None: it has none there."""
    name = self._feature.name
    if value is None or (isinstance(value, str) and not value.strip()):
      if not self._is_there[row]:
        self._without = self._without or where
      elif not self._feature.of_text:
        self._report(where, f'has no "{name}", and had one before')
      self._is_seen[row] = True
      return
    try:
      read = self._feature.read(value, self.vocabulary)
    except ValueError as e:
      self._report(where, f'"{name}" {e}')
      return
    if self._is_seen[row] and (self._values[row] != read).any():
      self._report(where, f'has another "{name}" here than before')
      return
    self._values[row] = read
    self._is_seen[row] = self._is_there[row] = True

  def finish(self, role: str) -> None:
    """Checks that all texts have a value, or none has."""
    have, rows = int(self._is_there.sum()), len(self._values)
    if self._feature.of_text:
      return
    if not have and rows:
      logging.info('no %s has "%s"', role, self._feature.name)
    elif have < rows and not (self._skip or self._feature.may_miss):
      self._report(
          self._without,
          f'has no "{self._feature.name}", as {rows - have:,} of {rows:,} '
          f'{"queries" if role == "query" else "passages"}. Where that is '
          f'right, write {self._optional}',
      )
    self.missing = rows - have if have else 0

  @property
  def _optional(self) -> str:
    feature = self._feature
    return f'{feature.name}?:{feature.kind}{feature.parameters}'

  def _report(self, where: str, message: str) -> None:
    if not self._skip:
      raise errors.UserError(
          f'{where}: {message}. Repair it, or leave out values that can\'t be '
          f'used with --{errors.key("data.on_invalid")}=skip '
          f'({errors.key("model.features")})'
      )
    self.skipped += 1


def _texts(
    prepared: prepared_lib.Prepared, role: str, name: str
) -> Iterator[tuple[int, str, str]]:
  """(row, where, text) of all texts; nothing, of titles of queries."""
  if role == 'query':
    for row, query in enumerate(prepared.queries if name == 'text' else ()):
      yield row, query.id, query.text
  else:
    for row, passage in enumerate(prepared.passages):
      yield row, passage.id, text_of(name, passage.title, passage.text)


def text_of(name: str, title: str, text: str) -> str:
  """What a feature of text is made of: `title`, or `text` with the title."""
  return title if name == 'title' else f'{title} {text}'.strip()


def _fields(
    prepared: prepared_lib.Prepared, role: str, name: str
) -> Iterator[tuple[int, str, Any]]:
  """(row, where, value) of all records of the source that were kept."""
  spec = prepared.manifest['spec']
  source = sources.open_source(spec, records.InvalidRecords(skip=True))
  if not isinstance(source, records.SourceWithFeatures):
    have = ', '.join(f'{scheme}:' for scheme in _schemes())
    raise errors.UserError(
        f'{spec}: sources of this format have no features beside text, and '
        f'the model reads "{name}" ({errors.key("model.features")}); {have} '
        'have'
    )
  row_of: Callable[[str], int | None] = (
      prepared.passage_ids.row_of if role == 'passage' else
      getattr(prepared.query_ids, 'row_of', lambda _: None)
  )
  for name_of, where, value in source.side_feature(role, name):
    row = row_of(name_of)
    if row is not None:
      yield row, where, value


def _schemes() -> list[str]:
  """Formats whose records may have fields beside text."""
  return [scheme for scheme, one in sources.FORMATS.items()
          if one.has_features]
