"""`scheme:place` -> reader. A new format is one file and one line here."""

import fnmatch
import pathlib
from collections.abc import Callable

from neg_contrast import errors
from neg_contrast.artifacts import folders
from neg_contrast.data import records
from neg_contrast.data.formats import (
  beir,
  dpr,
  files,
  flag_embedding,
  kilt,
  msmarco,
  python_docs,
  squad,
  tevatron,
  text,
  tfds_source,
  zeshel,
)

_READERS: dict[
    str, Callable[[str, records.InvalidRecords], records.Source]
] = {
    'squad': squad.Squad,
    'beir': beir.Beir,
    'dpr': dpr.Dpr,
    'msmarco': msmarco.MsMarco,
    'tevatron': tevatron.Tevatron,
    'flag_embedding': flag_embedding.FlagEmbedding,
    'zeshel': zeshel.Zeshel,
    'kilt': kilt.Kilt,
    'tfds': tfds_source.open_tfds,
    'text': text.Text,
    'python_docs': lambda place, invalid: python_docs.PythonDocs(
        pathlib.Path(place) if place else None
    ),
}
_EXAMPLES = (
    'squad:data/squad, beir:data/scifact, dpr:data/nq, msmarco:data/msmarco, '
    'tevatron:data/rows, flag_embedding:data/rows, '
    'zeshel:data/zeshel, kilt:data/kilt, tfds:squad, text:documents, '
    'python_docs'
)
# Files by whose names a format is recognised, `.gz` or not.
_NAMES = {
    'collection.tsv': 'msmarco', 'qrels.*': 'msmarco', '*triples.*': 'msmarco',
    'psgs*.tsv': 'dpr', '*.qa.csv': 'dpr', 'biencoder-*': 'dpr',
    'dataset_info.json': 'tfds', 'kilt_knowledgesource.json': 'kilt',
    '*-kilt.jsonl': 'kilt', 'mentions': 'zeshel',
}
# Else by keys near the start of a json file.
_KEYS = {
    '_id': 'beir', 'positive_ctxs': 'dpr', 'docid': 'tevatron',
    'positive_document_ids': 'tevatron', 'pos': 'flag_embedding',
    'data': 'squad', 'wikipedia_title': 'kilt',
}
# They read no single file.
_FOLDERS = ('beir', 'kilt', 'msmarco', 'text', 'tfds', 'zeshel')


def open_source(
    spec: str, invalid: records.InvalidRecords
) -> records.Source:
  """The reader of `scheme:place`.

  Args:
    spec: for instance `beir:data/msmarco`.
    invalid: what to do with records that can't be used.

  Raises:
    UserError: the scheme is unknown, or the place lacks a file.
  """
  scheme, _, place = spec.partition(':')
  if scheme not in _READERS:
    raise errors.UserError(
        f'config.data.source="{spec}": unknown scheme "{scheme}"; write one of '
        f'{_EXAMPLES}{_hint(spec) or _hint(place)}'
    )
  if not place and scheme != 'python_docs':
    raise errors.UserError(
        f'config.data.source="{spec}": names no file or folder, as in '
        f'{_EXAMPLES}'
    )
  try:
    return _READERS[scheme](place, invalid)
  except OSError as e:
    raise errors.UserError(
        f'config.data.source="{spec}": {e.filename}: {e.strerror}'
    ) from None


def _hint(place: str) -> str:
  """The likeliest reader of a place, if there is one."""
  path = pathlib.Path(place)
  try:
    scheme = _likely(path) if place and path.exists() else ''
  except OSError:  # A name too long, or not to be read.
    scheme = ''
  if not scheme:
    return ''
  if path.is_file() and (scheme in _FOLDERS or '.csv' in path.suffixes):
    path = path.parent
  return f'. {place} exists; did you mean {scheme}:{path}?'


def _likely(place: pathlib.Path) -> str:
  """The reader that file names, or else the first keys, speak for, if any."""
  found = [place] if place.is_file() else sorted(place.glob('*'))
  for pattern, scheme in _NAMES.items():
    if any(fnmatch.fnmatch(files.plain_name(file), pattern) for file in found):
      return scheme
  for file in files.listing(place, '.jsonl', '.json'):
    try:
      start = files.start_of(file, 4096).decode('utf-8', 'replace')
    except errors.UserError:
      continue  # A damaged file tells nothing.
    for key, scheme in _KEYS.items():
      if f'"{key}"' in start:
        return scheme
  if any(file.name == folders.MANIFEST for file in found):
    return 'tfds'
  is_text = any(file.suffix.lower() in text.SUFFIXES for file in found)
  return 'text' if is_text else ''
