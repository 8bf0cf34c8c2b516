"""Sources read into their prepared form, unless that is there already."""

import hashlib
import pathlib
import re
from typing import Any

from absl import logging

from neg_contrast import beams, errors
from neg_contrast.artifacts import folders, places
from neg_contrast.data import corpus_writer, records, sources
from neg_contrast.data import prepared as prepared_lib

SEEN = 'path', 'size', 'mtime_ns'
"""Facts about a file, without reading it; others are a digest of its bytes."""


def is_prepared(
    spec: str, root: pathlib.Path, skip_invalid: bool, answer_words: int = 0
) -> bool:
  """Whether `prepare` with the same arguments would find its work done."""
  try:
    if not sources.is_here(spec):
      return False
    source = sources.open_source(spec, records.InvalidRecords(skip=True))
    known = _known_files(_folder(spec, root, answer_words), skip_invalid)
    return bool(known) and (
        _contents(known) == _contents(_file_facts(source, known))
    )
  except (errors.UserError, OSError):
    return False


def prepare(
    spec: str, root: pathlib.Path, skip_invalid: bool, answer_words: int = 0
) -> prepared_lib.Prepared:
  """Reads a source into its prepared form, unless that is there already.

  The folder is kept as long as the files' sizes and times, or else their
  contents, are what they were; one with skipped records is not kept when they
  may not be skipped. Of several processes one prepares and the others wait.

  Args:
    spec: `scheme:place`.
    root: folder of all prepared corpora.
    skip_invalid: count and skip records that can't be used, instead of raising.
    answer_words: of the longest answer that is kept; 0: all are.

  Raises:
    UserError: a file is missing or not to be read, or a record can't be used
      (names file, line and id).
  """
  invalid = records.InvalidRecords(skip_invalid)
  source = sources.open_source(spec, invalid, answer_words)
  folder = _folder(spec, root, answer_words)
  try:
    known = _known_files(folder, skip_invalid)
    if not known or known != _file_facts(source, known):
      with folders.only_one(folder):
        # Another process may have done it while this one waited.
        known = _known_files(folder, skip_invalid)
        _update_folder(spec, source, invalid, folder, known)
  except PermissionError as e:
    raise errors.UserError(f'{spec}: {e.filename}: {e.strerror}') from None
  prepared = prepared_lib.Prepared(folder)
  # It may have been prepared by a relative path, from another folder.
  prepared.manifest['spec'] = spec
  return prepared


def _update_folder(spec, source, invalid, folder, known) -> None:
  """Prepares the source, or only notes new file times if no more changed."""
  files = _file_facts(source, known)
  if known and _contents(known) == _contents(files):
    folders.update_manifest(folder, {'files': files})
    return
  if known:
    logging.info('%s changed since it was prepared', spec)
  logging.info('preparing %s into %s', spec, folder)
  manifest = {'spec': spec, 'files': files}
  with folders.writing(folder, manifest, format=prepared_lib.CORPUS) as scratch:
    _writer()(source, invalid, scratch).write(manifest)
  if invalid.counts:
    logging.warning('%s: skipped: %s', spec, invalid)


def _writer() -> type[corpus_writer.CorpusWriter]:
  if not beams.is_chosen():
    return corpus_writer.CorpusWriter
  from neg_contrast.data import beam_corpus

  return beam_corpus.BeamCorpusWriter


def _folder(
    spec: str, root: pathlib.Path, answer_words: int
) -> pathlib.Path:
  """A readable name, and a hash of where the source lies and how it is read."""
  scheme, _, place = spec.partition(':')
  resolved = _resolved(place)
  slug = re.sub(r'[^\w.-]+', '-', places.path(resolved).name)[:80]
  option = f'?answer_words={answer_words}' if answer_words else ''
  if (reading := sources.FORMATS[scheme].reading) > 1:
    option += f'#{reading}'
  read = f'{scheme}:{resolved}{option}'
  code = hashlib.sha256(read.encode()).hexdigest()[:8]
  return root / '-'.join(filter(None, (scheme, slug, code)))


def _resolved(place: str) -> str:
  """The one name of a place, if it is there."""
  there = places.path(place)
  return places.resolved(there) if there.exists() else place


def _known_files(
    folder: pathlib.Path, skip_invalid: bool
) -> list[dict[str, Any]]:
  """The files that `folder` was prepared from; none if it can't be reused."""
  manifest = folders.read_manifest(folder, prepared_lib.CORPUS)
  if manifest is None:
    return []
  if manifest['counts']['skipped'] and not skip_invalid:
    return []
  return manifest['files']


def _file_facts(
    source: records.Source, known: list[dict[str, Any]]
) -> list[dict[str, Any]]:
  """Path, size and time of the source's files, and a digest of their bytes.

  Of one with the path, size and time of a known file nothing is read again.
  """
  facts_of = {tuple(fact[key] for key in SEEN): fact for fact in known}
  facts = []
  for path in source.files:
    stat = path.stat()
    seen = places.resolved(path), stat.st_size, stat.st_mtime_ns
    facts.append(facts_of.get(seen) or {
        **dict(zip(SEEN, seen, strict=True)),
        **(places.digest(path) or {'sha256': folders.sha256_file(path)}),
    })
  return facts


def _contents(facts: list[dict[str, Any]]) -> list[dict[str, Any]]:
  """What must stay the same; names count, since splits are named by them."""
  return [{key: value for key, value in fact.items() if key != 'mtime_ns'}
          for fact in facts]
