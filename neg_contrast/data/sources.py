"""`scheme:place` -> reader. A new format is one file and one line here."""

import pathlib
from collections.abc import Callable

from neg_contrast import errors
from neg_contrast.data import records
from neg_contrast.data.formats import beir, files, python_docs, squad

_READERS: dict[
    str, Callable[[str, records.InvalidRecords], records.Source]
] = {
    'squad': squad.Squad,
    'beir': beir.Beir,
    'python_docs': lambda place, invalid: python_docs.PythonDocs(
        pathlib.Path(place) if place else None
    ),
}
_EXAMPLES = 'squad:data/squad, beir:data/msmarco, python_docs'


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
  return _READERS[scheme](place, invalid)


def _hint(place: str) -> str:
  """The likeliest reader of a place, if there is anything."""
  path = pathlib.Path(place)
  if not place or not path.exists():
    return ''
  has_corpus = files.plain_or_gzip(path / 'corpus.jsonl').exists()
  likely = 'beir' if has_corpus else 'squad'
  return f'. {place} exists; did you mean {likely}:{place}?'
