"""A quantized index on disk, all but its vectors: built by many processes.

Each shard is a folder of its own in that of the index, with the exact hits of
the sample queries among its rows. Processes divide the shards, and an
interruption loses those that were being built, one a process. The manifest is
there before the shards are, as `unfinished.json`; when all are, one process
tunes the index, adds what it found, and gives the manifest its name. The bytes
are the same for any number of processes and threads.

Building reads the table of vectors once, from the first row to the last.
"""

import dataclasses
import functools
import hashlib
import importlib.metadata
import pathlib
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from neg_contrast import errors, progress
from neg_contrast.artifacts import arrays, checksums, folders, parts, places
from neg_contrast.retrieval import (
  hits,
  quantized_index,
  quantized_shard,
  quantized_tuning,
  vector_table,
)

FORMAT = folders.Format('a quantized index', 2)
_SHARD = folders.Format('a shard of a quantized index', 1)
_TIE_RANKS, _SAMPLE = 'tie_ranks.npy', 'sample_queries.npy'
_EXACT_ROWS, _EXACT_SCORES = 'exact_rows.npy', 'exact_scores.npy'
_FINGERPRINT_ROWS = 4_096


def is_made(folder: pathlib.Path, settings: quantized_index.Settings) -> bool:
  """Whether the folder has an index of these settings, with all its shards.

  Raises:
    UserError: its manifest is damaged or of another format.
  """
  manifest = _read_manifest(folder, folders.MANIFEST, settings)
  return manifest is not None and all(
      _has_shard(folder, number)
      for number in range(len(settings.divide(manifest['passages'])))
  )


def make(
    folder: pathlib.Path,
    passage_vecs: vector_table.Rows,
    tie_ranks: Int[np.ndarray, ' passages'],
    settings: quantized_index.Settings,
    sample_queries: Float[np.ndarray, 'queries features'] | None = None,
) -> None:
  """Builds the shards that are missing, and tunes the index, if nobody has.

  Two indexes built alike on the same machine are equal in every byte.

  Args:
    folder: of the index, which may be moved afterwards. One that was begun goes
      on with its own sample queries; one of other settings is replaced.
    passage_vecs: `[passages, features] float32`; may lie on disk.
    tie_ranks: `[passages] int32`, see `hits.tie_ranks`.
    settings: what is wanted.
    sample_queries: see `quantized_index.build`.

  Raises:
    UserError: a library is not installed, what is there is damaged or of
      another format, or the disk is full.
    ValueError: a vector is not finite, or `sample_queries` is empty.
  """
  library = settings.quantizer.library()
  if is_made(folder, settings):
    return
  _begin(folder, passage_vecs, tie_ranks, settings, sample_queries)
  spans = settings.divide(len(passage_vecs))
  missing = lambda: [rows for number, rows in enumerate(spans)
                     if not _has_shard(folder, number)]
  done = lambda: len(passage_vecs) - sum(map(len, missing()))
  say = progress.Ticker(f'building a {settings.kind} index', len(passage_vecs),
                        before=done())
  queries = functools.cache(functools.partial(_load_samples, folder))

  def make_shard(number: int) -> None:
    _save_shard(_shard_folder(folder, number), quantized_index.build_part(
        library, passage_vecs, tie_ranks, settings, spans[number], queries()
    ))
    say(done())

  parts.make_all(
      [_shard_folder(folder, number) for number in range(len(spans))],
      functools.partial(_has_shard, folder), make_shard,
  )
  with folders.only_one(folder):
    if (folder / folders.UNFINISHED).exists():  # Not yet another's work.
      _finish(library, folder, passage_vecs, settings)


def load(
    folder: pathlib.Path,
    passage_vecs: vector_table.Rows,
    threads: int = 0,
) -> quantized_index.QuantizedIndex:
  """Reads an index that `make` built, wherever it lies now.

  Args:
    folder: of the index.
    passage_vecs: that it was built from; may lie on disk.
    threads: of a search; 0: one for each core that may be used.

  Raises:
    UserError: a library is not installed; the index is missing, unfinished or
      damaged; or it belongs to other vectors.
  """
  manifest = folders.read_manifest(folder, FORMAT)
  if manifest is None:
    raise errors.UserError(
        f'{folder / folders.MANIFEST}: no such file, so there is no finished '
        'index here; build it again'
    )
  try:
    settings = dataclasses.replace(
        quantized_index.Settings(**manifest['settings']), threads=threads
    )
    measured = quantized_index.Measured(**manifest['measured'])
    count = len(settings.divide(manifest['passages']))
    wanted = manifest['passages_sha256']
  except (AttributeError, KeyError, TypeError, ValueError) as e:
    raise checksums.damaged(folder / folders.MANIFEST, repr(e)) from None
  library = settings.quantizer.library()
  given = _fingerprint(passage_vecs)
  if given != wanted:
    raise errors.UserError(
        f'{folder}: an index of other passages or another model: its vectors '
        f'have sha256 {wanted}, those given {given}. Remove the folder to '
        'build it again, or give the vectors it was built from'
    )
  shards = [_load_shard(settings, library, _shard_folder(folder, number))
            for number in range(count)]
  ranks = arrays.load_array(folder / _TIE_RANKS, (None,), np.int32)
  _load_samples(folder)  # Whole, or an error.
  return quantized_index.QuantizedIndex(
      passage_vecs, ranks, settings, shards, measured
  )


def _begin(
    folder: pathlib.Path,
    passage_vecs: vector_table.Rows,
    tie_ranks: Int[np.ndarray, ' passages'],
    settings: quantized_index.Settings,
    sample_queries: Float[np.ndarray, 'queries features'] | None,
) -> None:
  """Makes the folder, or joins in."""
  if len(passage_vecs) != len(tie_ranks):
    raise ValueError(f'{len(passage_vecs)} passages, {len(tie_ranks)} ranks')
  given = _fingerprint(passage_vecs)
  with folders.only_one(folder):
    for name in (folders.MANIFEST, folders.UNFINISHED):
      begun = _read_manifest(folder, name, settings)
      if begun is not None and begun['passages_sha256'] == given:
        return
    manifest: dict[str, Any] = {
        'settings': settings.to_json(),
        'passages': len(passage_vecs),
        'features': passage_vecs.shape[1],
        'passages_sha256': given,
        'sample': (quantized_index.PERTURBED if sample_queries is None
                   else quantized_index.GIVEN),
        **{name: importlib.metadata.version(name)
           for name in settings.quantizer.packages},
        'environment': folders.environment(),
    }
    with folders.writing(
        folder, manifest, folders.UNFINISHED, FORMAT
    ) as scratch:
      np.save(scratch / _TIE_RANKS, tie_ranks)
      np.save(scratch / _SAMPLE, quantized_tuning.sample_queries(
          passage_vecs, settings.seed, sample_queries
      ))


def _finish(
    library: Any,
    folder: pathlib.Path,
    passage_vecs: vector_table.Rows,
    settings: quantized_index.Settings,
) -> None:
  """Tunes an index whose shards are all there."""
  manifest = folders.read_manifest(folder, FORMAT, folders.UNFINISHED)
  assert manifest is not None
  built = []
  for number in range(len(settings.divide(len(passage_vecs)))):
    place = _shard_folder(folder, number)
    shape = None, settings.recall_k
    exact = hits.Hits(
        arrays.load_array(place / _EXACT_ROWS, shape, np.int32),
        arrays.load_array(place / _EXACT_SCORES, shape, np.float32),
    )
    built.append(quantized_index.Part(
        _load_shard(settings, library, place), exact
    ))
  index = quantized_index.tune(
      passage_vecs, arrays.load_array(folder / _TIE_RANKS, (None,), np.int32),
      settings, built, _load_samples(folder), manifest['sample'],
  )
  folders.update_manifest(
      folder, {'measured': dataclasses.asdict(index.measured)},
      folders.UNFINISHED,
  )
  folders.finish(folder)


def _read_manifest(
    folder: pathlib.Path, name: str, settings: quantized_index.Settings
) -> dict[str, Any] | None:
  """A manifest, if it is there and of these settings."""
  manifest = folders.read_manifest(folder, FORMAT, name)
  if manifest is None or (
      manifest.get('settings') != settings.to_json()
  ):
    return None
  return manifest


def _load_samples(folder: pathlib.Path) -> np.ndarray:
  """`[samples, features] float32`."""
  return arrays.load_array(folder / _SAMPLE, (None, None), np.float32)


def _shard_folder(folder: pathlib.Path, number: int) -> pathlib.Path:
  return folder / f'shard-{number:05d}'


def _has_shard(folder: pathlib.Path, number: int) -> bool:
  return (_shard_folder(folder, number) / folders.MANIFEST).exists()


def _save_shard(folder: pathlib.Path, part: quantized_index.Part) -> None:
  """Writes a shard, whole or not at all."""
  shard = part.shard
  manifest = {'first': shard.first, 'last': shard.last, 'leaves': shard.leaves}
  with folders.writing(folder, manifest, format=_SHARD) as scratch:
    np.save(scratch / _EXACT_ROWS, part.exact.rows)
    np.save(scratch / _EXACT_SCORES, part.exact.scores)
    shard.write(scratch)


def _load_shard(
    settings: quantized_index.Settings, library: Any, folder: pathlib.Path
) -> quantized_shard.Shard:
  """Verifies all files of a shard, before a library reads them.

  A file too many is refused as well: ScaNN would unpickle a scann_docids.pkl.

  Raises:
    UserError: something is missing, damaged or should not be there.
  """
  manifest = folders.read_manifest(folder, _SHARD)
  if manifest is None:
    raise checksums.damaged(folder, 'the shard is not there')
  there = {path.relative_to(folder).as_posix() for path in folder.rglob('*')
           if not path.is_dir()}
  written = folders.file_names(folder)
  for name in sorted(there - written - {folders.MANIFEST}):
    raise checksums.damaged(
        folder / name, 'not a file of this index', folder
    )
  for name in sorted(written):
    arrays.map_file(folder / name, folder).check()
  try:
    return settings.quantizer.read(
        library, places.local_folder(folder), manifest['first'],
        manifest['last'], manifest['leaves'],
    )
  except (IndexError, KeyError, OSError, RuntimeError, ValueError) as e:
    raise checksums.damaged(folder, e, folder) from None


def _fingerprint(vecs: vector_table.Rows) -> str:
  """The sha256 of the shape and of rows spread over the whole table."""
  step = max(1, len(vecs) // _FINGERPRINT_ROWS)
  some = np.ascontiguousarray(vecs[::step], np.float32)
  digest = hashlib.sha256(repr(vecs.shape).encode())
  digest.update(some.tobytes())
  return digest.hexdigest()
