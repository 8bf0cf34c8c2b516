"""A ScaNN index on disk: all but its vectors, in files with checksums."""

import dataclasses
import hashlib
import importlib.metadata
import pathlib
from typing import Any

import numpy as np

from neg_contrast import errors
from neg_contrast.artifacts import folders
from neg_contrast.retrieval import scann_index, scann_shards, vector_table

_FORMAT = 1
_TIE_RANKS = 'tie_ranks.npy'
_FINGERPRINT_ROWS = 4_096


def save(index: scann_index.ScannIndex, folder: pathlib.Path) -> None:
  """Writes all but the vectors; the folder may be moved afterwards.

  Two indexes built alike on the same machine are equal in every byte.

  Args:
    index: to be kept.
    folder: replaced if it exists.
  """
  manifest: dict[str, Any] = {
      'kind': 'scann index',
      'format': _FORMAT,
      'settings': dataclasses.asdict(index.settings),
      'measured': dataclasses.asdict(index.measured),
      'passages': len(index.passage_vecs),
      'features': index.passage_vecs.shape[1],
      'passages_sha256': _fingerprint(index.passage_vecs),
      'scann': importlib.metadata.version('scann'),
      'environment': folders.environment(),
  }
  with folders.writing(folder, manifest) as scratch:
    np.save(scratch / _TIE_RANKS, index.tie_ranks)
    shards = []
    for number, shard in enumerate(index.shards):
      part = scratch / f'shard-{number:05d}'
      part.mkdir()
      # The default is absolute paths, of the scratch folder at that.
      shard.searcher.serialize(str(part), relative_path=True)
      shards.append({'folder': part.name, 'first': shard.first,
                     'last': shard.last, 'leaves': shard.leaves})
    manifest['shards'] = shards
    manifest['files'] = {
        name: {'bytes': (scratch / name).stat().st_size,
               'sha256': folders.sha256_file(scratch / name)}
        for name in _files(scratch)
    }


def load(
    folder: pathlib.Path,
    passage_vecs: vector_table.Rows,
    threads: int = 0,
) -> scann_index.ScannIndex:
  """Reads an index that `save` wrote, wherever it lies now.

  Args:
    folder: of the index.
    passage_vecs: that it was built from; may lie on disk.
    threads: of a search; 0: one for each core that may be used. Building uses
      one, without which ScaNN is not reproducible.

  Raises:
    UserError: ScaNN is not installed; the index is missing, unfinished or
      damaged; or it belongs to other vectors.
  """
  library = scann_shards.load_library()
  manifest = folders.read_manifest(folder)
  if manifest is None:
    raise errors.UserError(
        f'{folder / folders.MANIFEST}: no such file, so there is no finished '
        'index here; build it again'
    )
  try:
    if (manifest['kind'], manifest['format']) != ('scann index', _FORMAT):
      raise ValueError('not an index of this version')
    settings = dataclasses.replace(
        scann_index.Settings(**manifest['settings']), threads=threads
    )
    measured = scann_index.Measured(**manifest['measured'])
    files = {name: (file['bytes'], file['sha256'])
             for name, file in manifest['files'].items()}
    places = [(folder / shard['folder'], shard['first'], shard['last'],
               shard['leaves']) for shard in manifest['shards']]
    wanted = manifest['passages_sha256']
  except (AttributeError, KeyError, TypeError, ValueError) as e:
    raise _broken(folder, folders.MANIFEST, repr(e)) from None
  _check_files(folder, files)
  given = _fingerprint(passage_vecs)
  if given != wanted:
    raise errors.UserError(
        f'{folder}: an index of other passages or another model: its vectors '
        f'have sha256 {wanted}, those given {given}. Remove the folder to '
        'build it again, or give the vectors it was built from'
    )
  shards = []
  for place, first, last, leaves in places:
    try:
      searcher = library.load_searcher(str(place), assets_backcompat_shim=False)
    except (IndexError, OSError, RuntimeError, ValueError) as e:
      raise _broken(folder, place.name, str(e)) from None
    shards.append(scann_shards.Shard(first, last, leaves, searcher))
  ranks = np.load(folder / _TIE_RANKS, allow_pickle=False)
  return scann_index.ScannIndex(passage_vecs, ranks, settings, shards, measured)


def _fingerprint(vecs: vector_table.Rows) -> str:
  """The sha256 of the shape and of rows spread over the whole table."""
  step = max(1, len(vecs) // _FINGERPRINT_ROWS)
  some = np.ascontiguousarray(vecs[::step], np.float32)
  digest = hashlib.sha256(repr(vecs.shape).encode())
  digest.update(some.tobytes())
  return digest.hexdigest()


def _files(folder: pathlib.Path) -> list[str]:
  """The files of an index but its manifest, as relative names in order."""
  names = (path.relative_to(folder).as_posix() for path in folder.rglob('*')
           if not path.is_dir())
  return sorted(name for name in names if name != folders.MANIFEST)


def _check_files(
    folder: pathlib.Path, files: dict[str, tuple[int, str]]
) -> None:
  """Compares what lies there with the manifest, before ScaNN reads it.

  A file too many is refused as well: ScaNN would unpickle a scann_docids.pkl.

  Raises:
    UserError: something is missing, damaged or should not be there.
  """
  there = _files(folder)
  for name in sorted(set(there) ^ set(files)):
    raise _broken(
        folder, name,
        'no such file' if name in files else 'not a file of this index',
    )
  for name, (size, sha256) in files.items():
    actual = (folder / name).stat().st_size
    if actual != size:
      raise _broken(folder, name, f'has {actual} bytes instead of {size}')
    if folders.sha256_file(folder / name) != sha256:
      raise _broken(folder, name, 'has other contents than were written')


def _broken(folder: pathlib.Path, name: str, what: str) -> errors.UserError:
  return errors.UserError(
      f'{folder / name}: {what}. Remove {folder} and build the index again'
  )
