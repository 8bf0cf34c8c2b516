"""Data sets of the Hugging Face hub, or a folder of their Parquet files.

    hf:sentence-transformers/natural-questions?text=answer
    hf:mteb/scifact
    hf:downloads/gooaq?text=answer&answer=

Either rows hold a question and what answers it, or there are three tables:
`corpus`, `queries`, and judgements (`qrels` or `default`), as BEIR, MTEB and
NanoBEIR have them.
"""

import pathlib
import re
from typing import TypeVar

from neg_contrast import errors
from neg_contrast.artifacts import places
from neg_contrast.data import hub_snapshots, records
from neg_contrast.data.formats import files, hf_columns, hf_pairs, hf_tables

Splits = dict[str, list[pathlib.Path]]  # Name -> files.
_Source = TypeVar('_Source', hf_pairs.QuestionPairs, hf_tables.ThreeTables)
_CONFIG = 'config'
_CORPUS, _QUERIES, _JUDGEMENTS = 'corpus', 'queries', ('qrels', 'default')
_CONVERTED = 'refs/convert/parquet'  # Where the hub keeps them of any data set.
_NAME = re.compile(r'[\w.-]+(/[\w.-]+)?')
_FILES = ('*.parquet',)


def open_hf(place: str, invalid: records.InvalidRecords) -> records.Source:
  """The reader of a data set.

  Args:
    place: its name on the hub or a folder, with options after a `?`.
    invalid: hears of records that can't be used.

  Raises:
    UserError: it can't be had, or its columns are not known.
  """
  name, _, asked = place.partition('?')
  options, folder = _parse(place, asked), locate(name)
  tables = _tables(folder, place)
  config = options.pop(_CONFIG, '')
  judged = next((one for one in _JUDGEMENTS if one in tables), '')
  if {_CORPUS, _QUERIES} <= tables.keys() and judged and not config:
    corpus, queries = (
        [path for some in tables[name].values() for path in some]
        for name in (_CORPUS, _QUERIES))
    return _looked_at(hf_tables.ThreeTables(
        place, corpus, queries, tables[judged], options, invalid), folder)
  if not config and len(tables) == 1:
    [config] = tables
  if config not in tables:
    raise errors.UserError(
        f'hf:{place}: has the configurations {", ".join(sorted(tables))}; '
        f'name one of them: hf:{name}?{_CONFIG}={min(tables)}'
    )
  return _looked_at(hf_pairs.QuestionPairs(
      place, tables[config], options, invalid), folder)


def _looked_at(source: _Source, folder: pathlib.Path) -> _Source:
  """A source whose columns are known, where that downloads nothing."""
  if not places.is_remote(folder):
    _ = source.columns
  return source


def locate(name: str) -> pathlib.Path:
  """The folder of a data set; what is no folder here is downloaded.

  Of a data set that is not stored as Parquet, the hub's own copy is taken that
  is.

  Raises:
    UserError: it can't be downloaded.
  """
  folder = places.path(name)
  if folder.is_dir():
    return folder
  if _NAME.fullmatch(name) is None:
    raise errors.UserError(
        f'hf:{name}: neither a folder here nor a name of the hub, such as '
        'hf:sentence-transformers/natural-questions'
    )
  return _cached(name) or _download(name)


def _cached(name: str) -> pathlib.Path | None:
  """The folder of an earlier download; None: there is none."""
  for revision in (None, _CONVERTED):
    found = hub_snapshots.cached(name, 'dataset', _FILES, revision)
    if found is not None and _has_tables(found):
      return found
  return None


def _download(name: str) -> pathlib.Path:
  """The folder of a download; raises as `locate`."""
  found = hub_snapshots.download(name, 'dataset', _FILES, scheme='hf:')
  return found if _has_tables(found) else hub_snapshots.download(
      name, 'dataset', _FILES, _CONVERTED, scheme='hf:'
  )


def _has_tables(folder: pathlib.Path) -> bool:
  return next(folder.rglob('*.parquet'), None) is not None


def is_here(place: str) -> bool:
  """Whether reading a place downloads nothing."""
  name = place.partition('?')[0]
  return (places.path(name).is_dir() or _NAME.fullmatch(name) is None
          or _cached(name) is not None)


def fetch(place: str) -> None:
  """Downloads a place; raises as `locate`."""
  locate(place.partition('?')[0])


def problem(place: str) -> str | None:
  """Why a place can't be downloaded now; None: the hub has it."""
  return hub_snapshots.problem(place.partition('?')[0], 'dataset', 'hf:')


def _parse(place: str, asked: str) -> dict[str, str]:
  """Column, or `config`, -> name.

  Raises:
    UserError: an option is not known.
  """
  options = {}
  for one in filter(None, asked.split('&')):
    key, equals, value = one.partition('=')
    if key not in (*hf_columns.USUAL, _CONFIG) or not equals:
      raise errors.UserError(
          f'hf:{place}: "{one}" is none of {_CONFIG}=NAME, '
          + ', '.join(f'{name}=COLUMN' for name in hf_columns.USUAL)
      )
    options[key] = value
  return options


def _tables(folder: pathlib.Path, place: str) -> dict[str, Splits]:
  """Configuration -> its splits.

  Files lie as `data/train-00000-of-00001.parquet`, with a folder for each
  configuration, or with folders of configuration and split.

  Raises:
    UserError: there are none.
  """
  found: dict[str, Splits] = {}
  for path in sorted(folder.rglob('*.parquet')):
    parts = path.relative_to(folder).parts
    split = files.split_of(path)
    if split == 'all' and len(parts) > 1:
      split = files.split_of(pathlib.Path(parts[-2]))
    is_split = len(parts) == 2 and files.split_of(
        pathlib.Path(parts[0])) != 'all'
    named = '' if len(parts) == 1 or parts[0] == 'data' or is_split else (
        parts[0])
    found.setdefault(named, {}).setdefault(split, []).append(path)
  if not found:
    raise errors.UserError(
        f'hf:{place}: {folder} holds no .parquet files; tables of other kinds '
        'are csv:FILE, tsv:FILE and jsonl:FILE'
    )
  return found


FORMAT = records.SourceFormat(
    'hf:mteb/scifact', open_hf, is_here=is_here, fetch=fetch, problem=problem,
    reading=3,  # Names of columns in any case.
)
