"""A ScaNN index on disk: all but its vectors, in files with checksums."""

import dataclasses
import hashlib
import importlib.metadata
import pathlib
from typing import Any

import numpy as np

from neg_contrast import errors
from neg_contrast.artifacts import arrays, checksums, folders
from neg_contrast.retrieval import scann_index, scann_shards, vector_table

FORMAT = folders.Format('a ScaNN index', 1)
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
      'settings': dataclasses.asdict(index.settings),
      'measured': dataclasses.asdict(index.measured),
      'passages': len(index.passage_vecs),
      'features': index.passage_vecs.shape[1],
      'passages_sha256': _fingerprint(index.passage_vecs),
      'scann': importlib.metadata.version('scann'),
      'environment': folders.environment(),
  }
  with folders.writing(folder, manifest, format=FORMAT) as scratch:
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
  manifest = folders.read_manifest(folder, FORMAT)
  if manifest is None:
    raise errors.UserError(
        f'{folder / folders.MANIFEST}: no such file, so there is no finished '
        'index here; build it again'
    )
  _check_files(folder)
  try:
    settings = dataclasses.replace(
        scann_index.Settings(**manifest['settings']), threads=threads
    )
    measured = scann_index.Measured(**manifest['measured'])
    places = [(folder / shard['folder'], shard['first'], shard['last'],
               shard['leaves']) for shard in manifest['shards']]
    wanted = manifest['passages_sha256']
  except (AttributeError, KeyError, TypeError, ValueError) as e:
    raise checksums.damaged(folder / folders.MANIFEST, repr(e)) from None
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
      raise checksums.damaged(place, e, folder) from None
    shards.append(scann_shards.Shard(first, last, leaves, searcher))
  ranks = arrays.load_array(folder / _TIE_RANKS, (None,), np.int32)
  return scann_index.ScannIndex(passage_vecs, ranks, settings, shards, measured)


def _fingerprint(vecs: vector_table.Rows) -> str:
  """The sha256 of the shape and of rows spread over the whole table."""
  step = max(1, len(vecs) // _FINGERPRINT_ROWS)
  some = np.ascontiguousarray(vecs[::step], np.float32)
  digest = hashlib.sha256(repr(vecs.shape).encode())
  digest.update(some.tobytes())
  return digest.hexdigest()


def _check_files(folder: pathlib.Path) -> None:
  """Verifies all files, before ScaNN reads them.

  A file too many is refused as well: ScaNN would unpickle a scann_docids.pkl.

  Raises:
    UserError: something is missing, damaged or should not be there.
  """
  there = {path.relative_to(folder).as_posix() for path in folder.rglob('*')
           if not path.is_dir()}
  written = folders.file_names(folder)
  for name in sorted(there - written - {folders.MANIFEST}):
    raise checksums.damaged(
        folder / name, 'not a file of this index', folder
    )
  for name in sorted(written):
    arrays.map_file(folder / name, folder).check()
