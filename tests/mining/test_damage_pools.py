"""Damaged pools, candidates, shards and draws are refused, in one line.

Every damage either leaves the same numbers (a manifest's layout, say) or is a
`UserError` that names a file of the folder and what to remove.
"""

import pathlib
import shutil
import types

import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.artifacts import checksums, folders
from neg_contrast.data import synthetic_pairs
from neg_contrast.mining import analysis, candidates, pool_files
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.negatives import sources
from neg_contrast.negatives.sources import sampled_source
from neg_contrast.settings import config as config_lib
from neg_contrast.stage1 import question_shards
from tests import tiny

QUERIES, PASSAGES, DEPTH, DAMAGES = 17, 40, 12, 60
GROUPS = np.arange(PASSAGES, dtype=np.int32)
HALVES = np.array([[3, 0, 4], [5, 2, 9]], np.int32)


def found(seed):
  rng = np.random.default_rng(seed)
  rows = np.stack([rng.permutation(PASSAGES + len(HALVES))[:DEPTH]
                   for _ in range(QUERIES)]).astype(np.int32)
  scores = -np.sort(-rng.normal(size=rows.shape), axis=1).astype(np.float32)
  return candidates.Candidates(rows, scores, np.full(QUERIES, 9, np.float32))


def write_candidates(folder):
  manifest = {'identity': 1}
  with folders.writing(folder, manifest, format=candidates.FORMAT) as scratch:
    candidates.write(
        scratch, manifest, QUERIES, DEPTH, [(slice(None), found(0))],
        HALVES.ravel().tolist(),
    )


def read_candidates(folder):
  made, halves = candidates.read(folder, PASSAGES)
  return [made.rows, made.scores, made.positive_scores, halves]


def write_pool(folder):
  manifest = {'identity': 1}
  with folders.writing(folder, manifest, format=pool_lib.FORMAT) as scratch:
    queries = np.arange(QUERIES, dtype=np.int32) * 2
    mined = {'bm25': found(0), 'context': found(1)}
    corpus = pool_files.Corpus(
        GROUPS, tiny.positives([[n % 7] for n in range(2 * QUERIES)]),
        lambda _, rows, where: where & (rows % 11 == 5),
    )
    config = config_lib.NegativesConfig(
        sources=('bm25+context:2',), pool_size=4,
        depth=DEPTH, first_rank=2,
    )
    pool_files.write(
        scratch, manifest, queries, mined, HALVES, len(GROUPS),
        pool_files.drop_all(queries, mined, corpus, config),
    )


def read_pool(folder):
  pool = pool_lib.read(folder)
  drawn = pool.listed(pool.query_rows).draw(2, 0, 0, np.arange(QUERIES))
  summary = analysis.summarize(pool, GROUPS)
  return [drawn.rows, drawn.sources, summary.shared, pool.score, pool.rank,
          pool.positive_scores, pool.halves, pool.query_rows]


def shards_in(folder):
  return question_shards.shards_of(folder, PASSAGES, 16)


def write_shards(folder):
  shards = shards_in(folder)
  for number in range(len(shards)):
    shards.place(number).parent.mkdir(exist_ok=True)
    with shards.writing(number, {'counts': {'kept': number}}) as f:
      for row in shards.rows(number):
        synthetic_pairs.write_pair(f, f'Who made ä {row}?', f'p{row}')


def read_shards(folder):
  shards = shards_in(folder)
  return [np.array([(pair['query'], pair['passage_id']) for pair in
                    synthetic_pairs.read_pairs(shards.all_pairs())]),
          np.array([shards.manifest(n)['counts']['kept']
                    for n in range(len(shards))])]


def write_draws(folder):
  rng = np.random.default_rng(0)
  for epoch in range(2):
    place = folder / 'sampled' / f'{epoch:05d}'
    place.parent.mkdir(parents=True, exist_ok=True)
    with folders.writing(place, {'step': epoch, 'scale': 20.0, 'run': 'this'},
                         format=sampled_source.FORMAT) as scratch:
      np.save(scratch / 'rows.npy', rng.integers(
          -1, PASSAGES, (QUERIES, 3)).astype(np.int32))
      np.save(scratch / 'log_proposal.npy', rng.normal(
          size=(QUERIES, 3)).astype(np.float32))


def read_draws(folder):
  """What a training of two epochs draws."""
  material = object.__new__(sources.Material)  # Without model and data.
  for name, value in {
      'settings': config_lib.NegativesConfig(sources=('sampled:3',)),
      'pairs': range(QUERIES), 'batch_size': QUERIES, 'workdir': folder,
      'count': 3, 'run': 'this',
      'dataset': types.SimpleNamespace(
          prepared=types.SimpleNamespace(passages=range(PASSAGES))),
  }.items():
    object.__setattr__(material, name, value)
  source = sampled_source.Sampled(material)
  numbers = np.arange(QUERIES)
  drawn = [source.draw(step, numbers, numbers) for step in (0, 1)]
  return [values for one in drawn for values in (
      one.rows, one.sources, one.log_proposal)]


KINDS = {'candidates': (write_candidates, read_candidates),
         'draws': (write_draws, read_draws),
         'pool': (write_pool, read_pool),
         'shards': (write_shards, read_shards)}


def files_of(folder):
  return sorted(path for path in folder.rglob('*')
                if path.is_file() and '.locks' not in path.parts)


def damage(folder, rng) -> pathlib.Path:
  """Flips a bit, cuts, lengthens, empties, removes or exchanges a file."""
  files = files_of(folder)
  path = files[rng.integers(len(files))]
  data = bytearray(path.read_bytes())
  how = rng.choice(['flip', 'flip', 'flip', 'cut', 'longer', 'empty', 'swap',
                    'removed'])
  if how == 'flip' and data:
    data[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
  elif how == 'cut':
    del data[rng.integers(max(1, len(data))):]
  elif how == 'longer':
    data += bytes(rng.integers(0, 256, 8).tolist())
  elif how == 'swap':
    other = files[(files.index(path) + 1) % len(files)]
    theirs = other.read_bytes()
    other.write_bytes(data)
    data = bytearray(theirs)
  else:
    data.clear()
  path.write_bytes(data)
  if how == 'removed' and path.name != folders.MANIFEST:
    path.unlink()
  return path


def outcome(read, folder, want):
  """`same`, or the error; fails where there are other numbers."""
  try:
    now = read(folder)
  except errors.UserError as e:
    assert str(folder) in str(e) and 'Remove' in str(e), e
    assert '\n' not in str(e)
    return str(e)
  for ours, theirs in zip(now, want, strict=True):
    np.testing.assert_array_equal(ours, theirs)
  return 'same'


@pytest.mark.parametrize('kind', KINDS)
def test_damage_is_no_traceback_and_no_other_number(kind, tmp_path):
  write, read = KINDS[kind]
  write(tmp_path / 'whole')
  want = [np.array(values) for values in read(tmp_path / 'whole')]
  rng, refused = np.random.default_rng(0), 0
  for number in range(DAMAGES):
    folder = tmp_path / f'{number}'
    shutil.copytree(tmp_path / 'whole', folder)
    path = damage(folder, rng)
    said = outcome(read, folder, want)
    refused += said != 'same'
    assert said != 'same' or path.name == folders.MANIFEST or (
        path.read_bytes() == (tmp_path / 'whole' / path.relative_to(folder)
                              ).read_bytes())
  assert refused >= 0.8 * DAMAGES


def sealed_again(folder):
  """Gives a folder the checksums of what is in it."""
  manifest = folders.read_sealed(folder / folders.MANIFEST)
  (folder / folders.MANIFEST).unlink()
  folders.write_sealed(folder / folders.MANIFEST, {
      **manifest, 'checksums': checksums.of_folder(folder)})


@pytest.mark.parametrize(('kind', 'name', 'value'), [
    *(('pool', name, value) for name, values in {
        'rows': (-2, PASSAGES + len(HALVES), 10**9), 'source': (2, 255),
        'rank': (0, -1, 2 * DEPTH + 1),
        'dropped_by': (len(pool_lib.DROPPED_BY), 255),
        'halves': (-1, PASSAGES), 'query_rows': (-1, 10**9),
    }.items() for value in values),
    *(('candidates', 'rows', value)
      for value in (-2, PASSAGES + len(HALVES), 10**9)),
])
def test_values_out_of_range_are_refused(kind, name, value, tmp_path):
  """Though their checksums are right."""
  write, read = KINDS[kind]
  write(tmp_path / 'it')
  values = np.load(tmp_path / 'it' / f'{name}.npy')
  values.reshape(-1)[0] = value
  np.save(tmp_path / 'it' / f'{name}.npy', values)
  sealed_again(tmp_path / 'it')
  said = outcome(read, tmp_path / 'it', [None])
  assert f'{name}.npy' in said and 'the same command makes it again' in said


@pytest.mark.parametrize('kind', KINDS)
def test_other_formats_are_refused(kind, tmp_path):
  write, read = KINDS[kind]
  write(tmp_path / 'it')
  place = files_of(tmp_path / 'it')[0].parent
  manifest = folders.read_sealed(place / folders.MANIFEST)
  folders.write_sealed(place / folders.MANIFEST, {**manifest, 'format': 0})
  said = outcome(read, tmp_path / 'it', [None])
  assert 'of format 0' in said
  assert f'of format {manifest["format"]}' in said
