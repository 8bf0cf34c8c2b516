"""The vectors of a corpus as artifacts, and which checkpoint has which."""

import numpy as np
import pytest

from neg_contrast.artifacts import artifact
from neg_contrast.models import given
from neg_contrast.retrieval import corpus_vectors, embedder, fused_vectors
from tests import corpora, tiny
from tests.retrieval import test_embedder, test_text_encoder


@pytest.fixture(scope='module')
def models(tmp_path_factory):
  root = tmp_path_factory.mktemp('models')
  tiny.write_model(root / 'model')
  tiny.write_model(root / 'other', seed=1)
  return root


def data_of(folder):
  return corpora.data_of(folder, corpora.write_beir(
      folder / 'data', test_embedder.TEXTS, test_embedder.QUERIES,
      test=test_embedder.JUDGED))


def vectors(folder, model, data=None, place='vectors', config=None, **settings):
  return corpus_vectors.by_checkpoint(
      data or data_of(folder), test_text_encoder.settings(**settings),
      folder / place, str(model), 0, config)


def test_they_are_made_once_their_data_are(tmp_path, models):
  made = vectors(tmp_path, models / 'model')
  assert made.identity is None and not made.is_made()
  made.data.build()
  assert made.identity is not None and not made.is_made()
  made.build()
  assert made.is_made() and made.load().passage_vecs.shape == (9, 16)
  artifact.forget()
  assert vectors(tmp_path, models / 'model').is_made()
  assert not vectors(tmp_path, models / 'model', place='elsewhere').is_made()
  assert not vectors(tmp_path, models / 'other').is_made()


def test_a_model_that_is_not_there_has_none(tmp_path, models):
  data = data_of(tmp_path)
  data.build()
  made = vectors(tmp_path, models / 'gone', data)
  assert made.identity is None and not made.is_made()


def test_their_identity_is_not_where_they_lie(tmp_path, models):
  data = data_of(tmp_path)
  data.build()
  one = vectors(tmp_path, models / 'model', data).identity
  assert one == vectors(tmp_path, models / 'model', data, 'other').identity
  assert one != vectors(tmp_path, models / 'other', data).identity
  assert one != vectors(tmp_path, models / 'model', data,
                        chunk_tokens=32).identity


def test_what_is_asked_for_them_is_told_by_needs(tmp_path, models):
  made = vectors(tmp_path, models / 'model')
  assert made.is_divided and made.is_large
  needs = made.needs()
  assert needs == {'texts': made.data, 'model': given.Checkpoint(
      str(models / 'model'), 0)}
  assert made.describe() == (
      f'vectors of all passages by {models / "model"} in '
      f'{tmp_path / "vectors"}')


def test_memory_lets_go_of_what_was_only_looked_at(tmp_path, models):
  data = data_of(tmp_path)
  data.build()
  made = vectors(tmp_path, models / 'model', data)
  model = made.needs()['model']
  assert made.contents('vectors') == made.identity
  artifact.keep_only(())
  assert not {made, model} & set(artifact._loaded)
  assert made.contents('vectors') and not {made, model} & set(artifact._loaded)
  loaded = made.load()
  assert isinstance(loaded, embedder.Embedder) and made.load() is loaded
  made.release()
  assert made.load() is not loaded


def test_a_workdir_of_an_ensemble_has_those_of_its_members(tmp_path, models):
  work = tmp_path / 'work'
  work.mkdir()
  assert isinstance(vectors(tmp_path, work), corpus_vectors.Embeddings)
  members = str(models / 'model'), str(models / 'other')
  fused_vectors.Ensemble(members, tuple(
      given.Checkpoint(member).load().fingerprint for member in members
  ), (0.25, 0.75)).save(work)
  made = vectors(tmp_path, work)
  assert isinstance(made, corpus_vectors.EnsembleEmbeddings)
  assert made.needs() == {
      'texts': made.data, 'member-0': given.Checkpoint(members[0]),
      'member-1': given.Checkpoint(members[1])}
  made.data.build()
  one, other = (
      vectors(tmp_path, member, made.data).load() for member in members)
  rows = np.array([1, 0], np.int32)
  np.testing.assert_allclose(
      made.load().query_vecs(rows) @ made.load().passage_vecs[:].T,
      0.25 * one.query_vecs(rows) @ one.passage_vecs[:].T
      + 0.75 * other.query_vecs(rows) @ other.passage_vecs[:].T, atol=1e-5)


def test_members_vectors_lie_in_their_own_workdir(tmp_path, models):
  data, settings = data_of(tmp_path), test_text_encoder.settings()
  folder = tmp_path / 'ensemble'
  made = corpus_vectors.of_member(
      data, settings, folder, str(models / 'model'), 3)
  assert made.folder == folder
  assert made.model == given.Checkpoint(str(models / 'model'), 3)
  (tmp_path / 'encoder.json').write_text('{}')
  own = corpus_vectors.of_member(data, settings, folder, str(tmp_path), 3)
  assert own.folder.is_relative_to(tmp_path)
  assert not own.folder.is_relative_to(folder)
