"""`scheme:place` -> reader. A new format is one file and one line here."""

import fnmatch
import pathlib
import re
from collections.abc import Iterable

from neg_contrast import errors
from neg_contrast.artifacts import places
from neg_contrast.data import records, short_answers
from neg_contrast.data.formats import (
  beir,
  clicks,
  column_tables,
  dpr,
  files,
  flag_embedding,
  hf,
  ir_datasets_source,
  kilt,
  line_blocks,
  msmarco,
  own_data,
  python_docs,
  squad,
  tevatron,
  text,
  tfds_source,
  zeshel,
)

# In this order they are recognised, see `_likely`.
FORMATS = {one.scheme: one for one in (*(declared.FORMAT for declared in (
    clicks,
    beir,
    msmarco,
    dpr,
    tevatron,
    flag_embedding,
    squad,
    tfds_source,
    kilt,
    zeshel,
    text,
    python_docs,
    hf,
    ir_datasets_source,
)), *own_data.FORMATS)}


def open_source(
    spec: str, invalid: records.InvalidRecords, answer_words: int = 0
) -> records.Source:
  """The reader of `scheme:place`.

  Args:
    spec: for instance `beir:data/msmarco`.
    invalid: what to do with records that can't be used.
    answer_words: of the longest answer that is kept, see `short_answers.py`;
      0: all are.

  Raises:
    UserError: the scheme is unknown, or the place lacks a file.
  """
  scheme, _, place = spec.partition(':')
  examples = ', '.join(known.example for known in FORMATS.values())
  if scheme not in FORMATS:
    hint = _hint(spec) or _hint(place) or f'; write one of {examples}'
    raise errors.UserError(
        f'{errors.key("data.source")}="{spec}": unknown scheme "{scheme}"{hint}'
    )
  if not place and FORMATS[scheme].needs_place:
    raise errors.UserError(
        f'{errors.key("data.source")}="{spec}": names no file or folder, as in '
        f'{examples}'
    )
  try:
    source = FORMATS[scheme].open(place, invalid)
  except OSError as e:
    raise errors.UserError(
        f'{errors.key("data.source")}="{spec}": {e.filename}: {e.strerror}'
    ) from None
  except errors.UserError as e:
    raise errors.UserError(f'{e}{_other_scheme(scheme, place)}') from None
  if answer_words:
    return short_answers.ShortAnswers(source, answer_words, invalid)
  return source


def is_here(spec: str) -> bool:
  """Whether reading `scheme:place` downloads nothing; so is what is no source.
  """
  scheme, _, place = spec.partition(':')
  known = FORMATS.get(scheme)
  return known is None or known.is_here is None or known.is_here(place)


def fetch(spec: str) -> None:
  """Downloads `scheme:place`, where it is not here.

  Raises:
    UserError: it can't be had.
  """
  scheme, _, place = spec.partition(':')
  if not is_here(spec):
    download = FORMATS[scheme].fetch
    assert download is not None, scheme
    download(place)


def problem(spec: str) -> str | None:
  """Why what is not here can't be downloaded; None: nothing speaks against it.

  Downloads nothing.

  Args:
    spec: `scheme:place`.
  """
  scheme, _, place = spec.partition(':')
  ask = FORMATS[scheme].problem
  return None if ask is None else ask(place)


def _other_scheme(scheme: str, place: str) -> str:
  """The likeliest reader of a place, if it is another one than was asked."""
  is_table = scheme in column_tables.KINDS
  hint = _hint_of_tables(place) if is_table else _hint(place)
  return '' if re.search(f'mean "?{scheme}:', hint) else hint


def _hint(place: str) -> str:
  """The likeliest reader of a place, if there is one."""
  if not place:
    return ''
  path = places.path(place)
  try:
    likely = _likely(path) if path.exists() else None
  except OSError:  # A name too long, or not to be read.
    likely = None
  if likely is None:
    return _hint_of_tables(place)
  if path.is_file() and (likely.is_folder or '.csv' in path.suffixes):
    path = path.parent
  return f'. {place} exists; did you mean {likely.scheme}:{path}?'


def _hint_of_tables(place: str) -> str:
  """A table, options after it or not, or a folder of Parquet files, if it is.
  """
  path = places.path(place.partition('?')[0])
  try:
    kind = column_tables.kind_of(path) if path.is_file() else None
    if kind is None and path.is_dir() and any(path.rglob('*.parquet')):
      kind = hf.FORMAT.scheme
  except OSError:
    return ''
  quote = '"' if '?' in place else ''  # Of the shell.
  return (f'. {path} exists; did you mean {quote}{kind}:{place}{quote}?'
          if kind else '')


def _likely(place: pathlib.Path) -> records.SourceFormat | None:
  """The format that file names, or else the first keys, speak for, if any."""
  found = [place] if place.is_file() else sorted(place.glob('*'))
  names = [files.plain_name(file) for file in found]
  for known in FORMATS.values():
    if _match(names, known.names):
      return known
  for file in files.listing(place, '.jsonl', '.json'):
    try:
      start = line_blocks.start_of(file, 4096).decode('utf-8', 'replace')
    except errors.UserError:
      continue  # A damaged file tells nothing.
    for known in FORMATS.values():
      if any(f'"{key}"' in start for key in known.keys):
        return known
  names = [file.name.lower() for file in found]
  return next((known for known in FORMATS.values()
               if _match(names, known.last_names)), None)


def _match(names: Iterable[str], patterns: Iterable[str]) -> bool:
  return any(fnmatch.fnmatch(name, pattern)
             for name in names for pattern in patterns)
