"""Data sets of the library ir_datasets, by their names there.

    ir_datasets:beir/scifact
    ir_datasets:msmarco-passage

`NAME` has the passages; the splits are its parts with judgements, such as
NAME/train and NAME/dev, or NAME itself.
"""

import contextlib
import functools
import logging
import pathlib
from collections.abc import Iterator
from typing import Any

from neg_contrast import errors
from neg_contrast.data import records
from neg_contrast.data.formats import files

_INSTALL = 'pip install ir_datasets (or neg_contrast[ir])'
_PARTS = ('train', 'dev', 'valid', 'validation', 'test', 'dev/small',
          'train/judged', 'dev/judged', 'trec-dl-2019/judged',
          'trec-dl-2020/judged')
"""Parts that are looked for, beside those that the library lists."""


def _library() -> Any:
  """The library; it prints nothing but the bars of downloads.

  Raises:
    UserError: it is not installed.
  """
  try:
    import ir_datasets
  except ImportError:
    raise errors.UserError(
        f'ir_datasets: sources are read by a package that is not installed; '
        f'{_INSTALL}'
    ) from None
  ir_datasets.log.easy().logger()  # Made now: it sets a level of its own.
  logging.getLogger('ir_datasets').setLevel(logging.CRITICAL)
  ir_datasets.log.Logger.pbar = lambda self, items, *args, **kwargs: items
  return ir_datasets


@contextlib.contextmanager
def _reading(name: str) -> Iterator[None]:
  """Turns whatever the library raises into a message.

  All that reads may download first.

  Raises:
    UserError: a file can't be had.
  """
  try:
    yield
  except errors.UserError:
    raise
  except Exception as e:  # The library raises whatever its downloads raise.
    raise errors.UserError(
        f"ir_datasets:{name}: can't be downloaded or read "
        f'({type(e).__name__}: {e!s:.200}). Check the connection; '
        f'`ir_datasets doc_count {name}` tries it alone'
    ) from None


def _load(name: str) -> Any:
  """A data set of the library; None: it knows no such name."""
  try:
    return _library().load(name)
  except KeyError:
    return None


class IrDatasets:
  """A data set of the library; nothing is downloaded before it is read."""

  def __init__(self, name: str, invalid: records.InvalidRecords):
    """Looks the name up.

    Raises:
      UserError: there is no such data set, or it has no documents.
    """
    self._name, self._invalid = name, invalid
    self._set = _load(name)
    if self._set is None or not self._set.has_docs():
      kind = 'no such data set' if self._set is None else 'it has no documents'
      raise errors.UserError(
          f'ir_datasets:{name}: {kind}; `ir_datasets list` or '
          'https://ir-datasets.com show what there is, such as beir/scifact'
      )

  @functools.cached_property
  def _parts(self) -> dict[str, Any]:
    """Split -> the data set with its queries and judgements."""
    start, has_own = f'{self._name}/', self._set.has_qrels()
    listed = [] if has_own else [
        one.removeprefix(start) for one in _library().registry
        if one.startswith(start)]
    found = {}
    for part in dict.fromkeys((*_PARTS, *listed)):
      one = _load(start + part)
      if one is not None and one.has_qrels() and one.has_queries():
        found[part.replace('/', '-')] = one
    if found or not has_own:
      return found
    last = self._name.rpartition('/')[2]
    return {files.split_of(pathlib.Path(last)): self._set}

  @property
  def splits(self) -> tuple[str, ...]:
    """Names of the parts, / written as -."""
    return tuple(self._parts)

  @property
  def files(self) -> tuple[pathlib.Path, ...]:
    """Those that the library says it reads; they are downloaded if need be."""
    with _reading(self._name):
      found = [_path(self._set, 'docs')]
      for one in self._parts.values():
        found += [_path(one, 'queries'), _path(one, 'qrels')]
    kept = tuple(dict.fromkeys(path for path in found if path is not None))
    # Of others it does not say; a new version of it reads them again.
    return kept or (pathlib.Path(_library().__file__),)

  def passages(self) -> Iterator[records.Passage]:
    """All documents: fields `title` and `text`, or all text there is."""
    with _reading(self._name):
      for number, doc in enumerate(self._set.docs_iter(), 1):
        yield records.Passage(
            str(doc.doc_id), *_title_and_text(doc),
            where=f'ir_datasets:{self._name}: document {number}',
        )

  def queries(self) -> Iterator[records.Query]:
    """Those of all parts, each once.

    Raises:
      UserError: two parts have other queries under one id.
    """
    seen: dict[str, tuple[str, str]] = {}
    with _reading(self._name):
      for split, part in self._parts.items():
        for number, query in enumerate(part.queries_iter(), 1):
          name, text = str(query.query_id), query.default_text()
          if name in seen:
            first, known = seen[name]
            if known != text:
              raise errors.UserError(
                  f'ir_datasets:{self._name}: query "{name}" of {split} is '
                  f'another than that of {first}; read each part alone: '
                  f'ir_datasets:{self._name}/PART')
            continue
          seen[name] = split, text
          yield records.Query(
              name, text,
              where=f'ir_datasets:{self._name}: {split}, query {number}',
          )

  def judgements(self, split: str) -> Iterator[records.Judgement]:
    """Those of a part."""
    with _reading(self._name):
      for number, one in enumerate(self._parts[split].qrels_iter(), 1):
        yield records.Judgement(
            str(one.query_id), str(one.doc_id), int(one.relevance),
            f'ir_datasets:{self._name}: {split}, judgement {number}',
        )


def _title_and_text(doc: Any) -> tuple[str, str]:
  """Fields of a document; or no title, and all text there is."""
  title, texts = (getattr(doc, 'title', '') or ''), [
      getattr(doc, field) or '' for field in ('text', 'body', 'abstract')
      if hasattr(doc, field)]
  if texts and all(isinstance(one, str) for one in (title, *texts)):
    return title, next(filter(None, texts), '')
  return '', doc.default_text()


def _path(one: Any, what: str) -> pathlib.Path | None:
  """A file of a data set; None: the library does not say which."""
  ask = getattr(one, f'{what}_path', None)
  try:
    path = None if ask is None else pathlib.Path(ask())
  except (AttributeError, TypeError):
    return None
  return path if path is not None and path.is_file() else None


def is_here(name: str) -> bool:
  """Whether reading the documents downloads nothing."""
  one = _load(name)
  if one is None or not one.has_docs():
    return True  # An error says more.
  # Where BEIR's documents lie, only their download knows.
  holder = getattr(one.docs_handler(), '_dlc', None)
  ask = getattr(one, 'docs_path', getattr(holder, 'path', None))
  try:
    return ask is None or pathlib.Path(ask(force=False)).exists()
  except OSError:  # Those that can't be downloaded, such as ClueWeb.
    return False
  except (TypeError, AttributeError):
    return True  # Of others the library does not tell.


def fetch(name: str) -> None:
  """Downloads what is read.

  Raises:
    UserError: it can't be had.
  """
  source = IrDatasets(name, files.unheard())
  _ = source.files, next(source.passages(), None)


FORMAT = records.SourceFormat(
    'ir_datasets:beir/scifact', IrDatasets, is_here=is_here, fetch=fetch,
    # 2: titles of documents without text stand once. 3: sets with judgements of
    # their own have their parts.
    reading=3,
)
