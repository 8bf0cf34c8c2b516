"""ScaNN against exact search: recall, order, shards, files, tiny corpora."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.retrieval import hits, scann_index, vector_table
from tests.retrieval import test_embeddings

pytest.importorskip('scann')

FEATURES = 32
SETTINGS = scann_index.Settings(
    target_recall=0.9, recall_k=20, threads=2, shard_rows=100_000
)


def make(passages, features=FEATURES, seed=0):
  """Clustered unit vectors, queries near them, and tie ranks."""
  rng = np.random.default_rng(seed)
  topics = rng.standard_normal((max(1, passages // 40), features))
  vecs = topics[rng.integers(0, len(topics), passages)]
  vecs = unit(vecs + 0.7 * rng.standard_normal(vecs.shape))
  near = vecs[rng.integers(0, passages, 200)]
  queries = unit(near + 0.15 * rng.standard_normal(near.shape))
  ids = [f'p{n}' for n in rng.permutation(passages)]
  return vecs, queries, hits.tie_ranks(ids)


def unit(vecs):
  vecs = vecs / np.linalg.norm(vecs, axis=1, keepdims=True)
  return vecs.astype(np.float32)


def exact(vecs, queries, ranks, depth):
  return hits.top_k(queries @ vecs.T, ranks, depth)


def check_valid(found, vecs, queries, ranks, depth):
  """Distinct rows, their true scores, in order, padded at the end."""
  assert found.rows.shape == found.scores.shape == (len(queries), depth)
  assert found.rows.dtype == np.int32
  assert found.scores.dtype == np.float32
  here = min(depth, len(vecs))
  assert (found.rows[:, here:] == -1).all()
  assert np.isneginf(found.scores[:, here:]).all()
  for query, rows, scores in zip(
      queries, found.rows[:, :here], found.scores, strict=True
  ):
    assert (rows >= 0).all()
    assert len(set(rows)) == here
    np.testing.assert_allclose(scores[:here], vecs[rows] @ query, atol=1e-6)
    order = np.lexsort((ranks[rows], -scores[:here]))
    np.testing.assert_array_equal(order, np.arange(here))


def same(one, other):
  np.testing.assert_array_equal(one.rows, other.rows)
  np.testing.assert_array_equal(one.scores, other.scores)


def contents(folder):
  return {path.relative_to(folder): path.read_bytes()
          for path in folder.rglob('*') if path.is_file()}


@pytest.fixture(scope='module')
def corpus():
  return make(20_000)


@pytest.fixture(scope='module')
def index(corpus):
  vecs, _, ranks = corpus
  return scann_index.build(vecs, ranks, SETTINGS)


@pytest.fixture(scope='module')
def saved(index, tmp_path_factory):
  folder = tmp_path_factory.mktemp('scann') / 'index'
  index.save(folder)
  return folder


@pytest.fixture
def copied(saved, tmp_path):
  return shutil.copytree(saved, tmp_path / 'elsewhere' / 'renamed')


@pytest.mark.parametrize('depth', [1, 20, 100])
def test_recall_and_order(corpus, index, depth):
  vecs, queries, ranks = corpus
  best = exact(vecs, queries, ranks, depth)
  found = index.search(queries, depth)
  check_valid(found, vecs, queries, ranks, depth)
  assert scann_index.recall(found, best) >= 0.9
  assert index.recall_against(queries, best) == scann_index.recall(found, best)


def test_tuning_does_not_search_everything(corpus, index):
  measured = index.measured
  assert measured.recall >= SETTINGS.target_recall
  assert measured.leaves < 141 / 2  # Of the square root of 20,000.
  assert measured.candidates < 500
  assert measured.source == 'perturbed passages'
  assert measured.queries == 256


def test_higher_target_looks_at_more(corpus, index):
  vecs, queries, ranks = corpus
  wanted = scann_index.Settings(
      target_recall=0.995, recall_k=20, threads=2, shard_rows=100_000
  )
  precise = scann_index.build(vecs, ranks, wanted, queries[::2])
  assert precise.measured.source == 'given'
  assert precise.measured.queries == 50
  assert (precise.measured.leaves, precise.measured.candidates) > (
      index.measured.leaves, index.measured.candidates
  )
  best = exact(vecs, queries[1::2], ranks, 20)
  assert precise.recall_against(queries[1::2], best) >= 0.985


def test_queries_are_independent(corpus, index):
  _, queries, _ = corpus
  whole = index.search(queries, 30)
  for rows in ([0], [5, 3], range(100, 170)):
    some = index.search(queries[list(rows)], 30)
    np.testing.assert_array_equal(some.rows, whole.rows[list(rows)])
    np.testing.assert_array_equal(some.scores, whole.scores[list(rows)])
  assert index.search(queries[:0], 30).rows.shape == (0, 30)


def test_equal_passages_are_in_order_of_their_ids(corpus):
  vecs, queries, ranks = corpus
  vecs = vecs[:2000].copy()
  vecs[::100] = vecs[0]
  ranks = hits.tie_ranks([f'{r:06d}' for r in ranks[:2000]])
  index = scann_index.build(vecs, ranks, SETTINGS)
  found = index.search(vecs[:1], 20)
  copies = np.arange(0, 2000, 100)
  assert len(np.unique(found.scores)) == 1
  np.testing.assert_array_equal(
      found.rows[0], copies[np.argsort(ranks[copies])]
  )


@pytest.mark.parametrize('scale', [0.01, 30.0])
def test_vectors_of_any_norm(corpus, scale):
  vecs, queries, ranks = corpus
  rng = np.random.default_rng(1)
  norms = scale * rng.uniform(0.3, 1, (4000, 1)).astype(np.float32)
  vecs = vecs[:4000] * norms
  vecs[::50] = 0
  index = scann_index.build(vecs, ranks[:4000], SETTINGS)
  best = exact(vecs, queries, ranks[:4000], 20)
  assert index.recall_against(queries, best) >= 0.9
  assert index.measured.candidates < 500


def test_shards_find_what_one_index_finds(corpus, index, tmp_path):
  vecs, queries, ranks = corpus
  settings = scann_index.Settings(
      target_recall=0.9, recall_k=20, threads=2, shard_rows=7_000
  )
  sharded = scann_index.build(vecs, ranks, settings)
  best = exact(vecs, queries, ranks, 20)
  found = sharded.search(queries, 20)
  check_valid(found, vecs, queries, ranks, 20)
  assert scann_index.recall(found, best) >= 0.9
  assert abs(
      scann_index.recall(found, best) - index.recall_against(queries, best)
  ) < 0.07
  sharded.save(tmp_path / 'sharded')
  parts = sorted(p.name for p in (tmp_path / 'sharded').glob('shard-*'))
  assert parts == ['shard-00000', 'shard-00001', 'shard-00002']
  same(scann_index.load(tmp_path / 'sharded', vecs).search(queries, 20), found)


@pytest.mark.parametrize('passages', [1, 2, 15, 17, 100, 999, 1000, 1001])
@pytest.mark.parametrize('depth', [1, 10, 2000])
def test_tiny_corpora(passages, depth, tmp_path):
  vecs, queries, ranks = make(passages, features=8)
  for shard_rows in (100_000, 60):
    if passages > 100 and shard_rows == 60:
      continue
    settings = scann_index.Settings(recall_k=20, shard_rows=shard_rows)
    index = scann_index.build(vecs, ranks, settings)
    found = index.search(queries, depth)
    check_valid(found, vecs, queries, ranks, depth)
    best = exact(vecs, queries, ranks, depth)
    share = scann_index.recall(found, best)
    assert share == 1 if passages < 1000 or depth >= passages else share > 0.9


def test_no_passages(tmp_path):
  vecs, ranks = np.zeros((0, 8), np.float32), np.zeros(0, np.int32)
  index = scann_index.build(vecs, ranks, SETTINGS)
  index.save(tmp_path / 'none')
  for some in (index, scann_index.load(tmp_path / 'none', vecs)):
    found = some.search(np.ones((3, 8), np.float32), 4)
    assert (found.rows == -1).all()
    assert np.isneginf(found.scores).all()


def test_moved_index_gives_the_same(corpus, index, saved, copied):
  vecs, queries, _ = corpus
  hidden = saved.rename(saved.with_name('hidden'))
  try:
    loaded = scann_index.load(copied, vecs, threads=1)
    assert loaded.measured == index.measured
    same(loaded.search(queries, 50), index.search(queries, 50))
    assert str(saved.parent).encode() not in b''.join(contents(copied).values())
  finally:
    hidden.rename(saved)


def test_saving_a_loaded_index_changes_nothing_else(corpus, copied, tmp_path):
  vecs, _, _ = corpus
  scann_index.load(copied, vecs, threads=2).save(tmp_path / 'again')
  assert contents(tmp_path / 'again') == contents(copied)


_BUILD_ELSEWHERE = """
import pathlib, sys
import numpy as np
from neg_contrast.retrieval import scann_index
folder = pathlib.Path(sys.argv[1])
vecs = np.load(folder / 'vecs.npy', mmap_mode='r')
settings = scann_index.Settings(
    target_recall=0.9, recall_k=20, threads=2, shard_rows=100_000)
scann_index.build(vecs, np.load(folder / 'ranks.npy'), settings).save(
    folder / 'index')
"""


def test_another_process_builds_the_same_bytes_from_a_memory_map(
    corpus, saved, tmp_path
):
  vecs, _, ranks = corpus
  np.save(tmp_path / 'vecs.npy', vecs)
  np.save(tmp_path / 'ranks.npy', ranks)
  root = pathlib.Path(scann_index.__file__).parents[2]
  subprocess.run(
      [sys.executable, '-c', _BUILD_ELSEWHERE, tmp_path], check=True,
      cwd=root, env={**os.environ, 'PYTHONPATH': str(root)},
  )
  assert contents(tmp_path / 'index') == contents(saved)


def test_memory_mapped_vectors(corpus, index, copied, tmp_path):
  vecs, queries, _ = corpus
  np.save(tmp_path / 'vecs.npy', vecs)
  mapped = np.load(tmp_path / 'vecs.npy', mmap_mode='r')
  loaded = scann_index.load(copied, mapped)
  same(loaded.search(queries, 20), index.search(queries, 20))


@pytest.mark.parametrize('dtype', vector_table.DTYPES)
def test_a_table_is_searched_as_an_array(corpus, tmp_path, dtype):
  """Shards of both kinds, which end at other rows."""
  vecs, queries, ranks = corpus
  vecs, ranks = vecs[:5000], ranks[:5000]
  made = test_embeddings.write(tmp_path / 'table', vecs, dtype, 700)
  settings = scann_index.Settings(
      target_recall=0.9, recall_k=20, threads=2, shard_rows=3000
  )
  found = []
  for name, of in (('a', made), ('b', vecs if dtype == 'float32' else made[:])):
    index = scann_index.build(of, ranks, settings)
    index.save(tmp_path / name)
    found += [index.search(queries, 20),
              scann_index.load(tmp_path / name, made).search(queries, 20)]
  for one in found[1:]:
    same(one, found[0])
  check_valid(found[0], made[:], queries, ranks, 20)
  assert contents(tmp_path / 'a') == contents(tmp_path / 'b')
  best = exact(vecs, queries, ranks, 20)
  assert scann_index.recall(found[0], best) >= 0.9


def test_every_file_is_needed_and_checked(corpus, saved, copied):
  vecs, _, _ = corpus
  names = [path for path in contents(saved) if path.name != 'manifest.json']
  assert len(names) == 7
  for name in names:
    whole = (copied / name).read_bytes()
    changed = whole[:-1] + bytes([whole[-1] ^ 1])
    for broken, what in [(None, 'no such file'), (b'', 'has 0 bytes'),
                         (whole[:-1], 'bytes instead of'),
                         (changed, 'other contents')]:
      (copied / name).unlink()
      if broken is not None:
        (copied / name).write_bytes(broken)
      with pytest.raises(errors.UserError, match=what) as e:
        scann_index.load(copied, vecs)
      assert str(copied / name) in str(e.value)
      assert f'Remove {copied}' in str(e.value)
      (copied / name).write_bytes(whole)
  scann_index.load(copied, vecs)


def test_pickles_are_never_read(corpus, copied):
  vecs, _, _ = corpus
  planted = copied / 'shard-00000' / 'scann_docids.pkl'
  planted.write_bytes(b'cos\nabort\n(tR.')
  with pytest.raises(errors.UserError, match='not a file of this index'):
    scann_index.load(copied, vecs)


@pytest.mark.parametrize('change', [
    lambda m: m.update(format=99), lambda m: m.pop('shards'),
    lambda m: m.pop('files'), lambda m: m.update(measured=[]),
    lambda m: m['settings'].update(target_recall=7),
    lambda m: m['settings'].update(unknown=7),
])
def test_strange_manifest(corpus, copied, change):
  vecs, _, _ = corpus
  manifest = json.loads((copied / 'manifest.json').read_text())
  change(manifest)
  (copied / 'manifest.json').write_text(json.dumps(manifest))
  with pytest.raises(errors.UserError, match=r'manifest\.json.*Remove'):
    scann_index.load(copied, vecs)


def test_unfinished_index(corpus, copied):
  vecs, _, _ = corpus
  (copied / 'manifest.json').write_text('{"half')
  with pytest.raises(errors.UserError, match='not valid json'):
    scann_index.load(copied, vecs)
  (copied / 'manifest.json').unlink()
  with pytest.raises(errors.UserError, match='no finished index'):
    scann_index.load(copied, vecs)


def test_index_of_other_vectors(corpus, copied):
  vecs, _, _ = corpus
  for other in (vecs[:-1], np.roll(vecs, 1, axis=0), vecs * 2):
    with pytest.raises(errors.UserError, match=r'sha256 \w{64}, .* \w{64}'):
      scann_index.load(copied, other)


def test_without_scann(corpus, copied, monkeypatch):
  vecs, _, ranks = corpus
  monkeypatch.setitem(sys.modules, 'scann', None)
  for attempt in (lambda: scann_index.build(vecs, ranks, SETTINGS),
                  lambda: scann_index.load(copied, vecs)):
    with pytest.raises(errors.UserError, match=r'config\.index\.kind=exact'):
      attempt()


def test_vectors_must_be_finite(corpus, index):
  vecs, queries, ranks = corpus
  broken = vecs[:2000].copy()
  broken[1234, 5] = np.nan
  with pytest.raises(ValueError, match='passage vector is not finite'):
    scann_index.build(broken, ranks[:2000], SETTINGS)
  with pytest.raises(ValueError, match='query vector is not finite'):
    index.search(np.full_like(queries, np.inf), 5)
  with pytest.raises(ValueError, match='sample query vector'):
    scann_index.build(vecs[:50], ranks[:50], SETTINGS, queries * np.inf)
  with pytest.raises(ValueError, match='sample_queries is empty'):
    scann_index.build(vecs[:50], ranks[:50], SETTINGS, queries[:0])


def test_which_kind():
  assert scann_index.kind_for(49_999, 'auto') == 'exact'
  assert scann_index.kind_for(50_000, 'auto') == 'scann'
  assert scann_index.kind_for(10**8, 'exact') == 'exact'
  assert scann_index.kind_for(100, 'scann') == 'scann'
  with pytest.raises(ValueError, match='hnsw'):
    scann_index.kind_for(100, 'hnsw')


def test_recall_counts_what_was_found():
  def rows(*lines):
    rows = np.array(lines, np.int32)
    scores = np.where(rows < 0, -np.inf, 9 - rows)  # 0 is the best passage.
    return hits.Hits(rows, scores.astype(np.float32))

  found = rows([0, 5, 6, -1], [0, 1, 2, 3], [-1] * 4, [5, 6, 7, 8])
  best = rows([0, 1, -1, -1], [0, 1, 2, 3], [-1] * 4, [1, 2, 3, 4])
  assert scann_index.recall(found, best) == pytest.approx((0.5 + 1 + 0) / 3)


def test_recall_takes_a_copy_for_the_last_passage():
  scores = np.array([[3, 1]], np.float32)
  best = hits.Hits(np.array([[7, 8]], np.int32), scores)
  found = hits.Hits(np.array([[7, 9]], np.int32), scores)
  assert scann_index.recall(found, best) == 1
  worse = hits.Hits(found.rows, scores - np.float32([0, 0.5]))
  assert scann_index.recall(worse, best) == 0.5


@pytest.mark.parametrize('wrong', [
    {'target_recall': 0.0}, {'target_recall': 1.1}, {'recall_k': 0},
    {'shard_rows': 0}, {'threads': -1},
])
def test_settings_are_checked(wrong):
  with pytest.raises(ValueError, match=next(iter(wrong))):
    scann_index.Settings(**wrong)
