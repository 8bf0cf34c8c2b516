"""Several vectors a passage, in files: encoded, interrupted and searched."""

import jax.numpy as jnp
import numpy as np
import pytest

from neg_contrast import sharding
from neg_contrast.retrieval import embedder, hits, mesh_search, text_encoder
from neg_contrast.settings import config as config_lib
from tests import tiny
from tests.retrieval import test_embedder, test_embeddings, test_text_encoder

PASSAGES, DEPTH = 150, 9  # A file has 64 at least.
SCORES = ['dual', 'multi-5', 'som']


@pytest.fixture(scope='module')
def root(tmp_path_factory):
  root = tmp_path_factory.mktemp('several')
  tiny.write_model(root / 'model')
  return root


@pytest.fixture(scope='module')
def dataset(root):
  """Passages of one to seven words: some have fewer vectors than others."""
  rng = np.random.default_rng(0)
  return test_embedder.dataset_of(root, {
      f'p{n}': ' '.join(rng.choice(tiny.WORDS, rng.integers(1, 8)))
      for n in range(PASSAGES)})


@pytest.fixture(scope='module', params=SCORES)
def made(request, root, dataset):
  """The vectors by a score function: in memory, and in files of a folder."""
  encoder = text_encoder.TextEncoder(
      test_embedder.load(root, score=request.param),
      test_text_encoder.settings(chunk_tokens=1, table_rows=1))
  folder = root / request.param
  in_files = embedder.Embedder(dataset, encoder, folder)
  _ = in_files.passage_vecs
  return embedder.Embedder(dataset, encoder), in_files, folder


def test_files_hold_what_memory_holds(made):
  in_memory, in_files, folder = made
  encoder = in_files.encoder
  assert len(list(folder.rglob('passages-*.npy'))) == 3
  np.testing.assert_array_equal(
      in_files.passage_vecs[:], in_memory.passage_vecs)
  several = in_memory.passage_vecs.reshape(
      PASSAGES, encoder.score.passage_vectors, -1)
  counts = np.any(several, axis=2).sum(axis=1)
  assert counts.max() == encoder.score.passage_vectors
  assert encoder.score.is_dot or counts.min() < counts.max()


@pytest.mark.parametrize('on_devices', [False, True])
def test_search_finds_the_same_in_files(made, dataset, on_devices):
  """In blocks that begin in one file and end in the next."""
  in_memory, in_files, _ = made
  score, ranks = in_files.encoder.score, dataset.prepared.tie_ranks
  queries = in_files.query_vecs(np.array([0, 1], np.int32))
  mesh = sharding.make_mesh(config_lib.MeshConfig())
  found, expected = (
      mesh_search.MeshSearch(
          vecs, ranks, mesh, 40, score, on_devices=on_devices
      ).search(queries, DEPTH)
      for vecs in (in_files.passage_vecs, in_memory.passage_vecs))
  np.testing.assert_array_equal(found.rows, expected.rows)
  np.testing.assert_array_equal(found.scores, expected.scores)
  best = hits.top_k(
      np.asarray(score(*map(jnp.asarray, (queries, in_memory.passage_vecs)))),
      ranks, DEPTH)
  np.testing.assert_allclose(found.scores, best.scores, rtol=1e-5)


def test_an_interrupted_encoding_ends_in_the_same_bytes(
    made, dataset, tmp_path, monkeypatch
):
  _, in_files, folder = made
  encoder, spans = in_files.encoder, []
  encode = encoder.encode

  def encode_one(*args, span, **kwargs):
    if len(spans) == 1:
      raise KeyboardInterrupt
    spans.append(span)
    return encode(*args, span=span, **kwargs)

  with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
    patch.setattr(encoder, 'encode', encode_one)
    _ = embedder.Embedder(dataset, encoder, tmp_path).passage_vecs
  (kept,) = tmp_path.rglob('passages-*.npy')
  changed = kept.stat().st_mtime_ns
  _ = embedder.Embedder(dataset, encoder, tmp_path).passage_vecs
  assert kept.stat().st_mtime_ns == changed
  assert test_embeddings.contents(tmp_path) == test_embeddings.contents(folder)
