"""Vectors of a dataset: kept or in memory, whole or in part, and of what."""

import dataclasses
import logging

import numpy as np
import pytest

from neg_contrast.data import dataset as dataset_lib
from neg_contrast.models import given
from neg_contrast.retrieval import embedder, text_encoder
from neg_contrast.settings import config as config_lib
from tests import corpora, tiny
from tests.retrieval import test_text_encoder

TEXTS = {f'p{n}': ('title', f'word{n} word{n + 1}') for n in range(9)}
QUERIES = {'q0': 'word1 word2', 'q1': 'word3'}
JUDGED = {'q0': {'p1': 1}, 'q1': {'p3': 1}}


@pytest.fixture(scope='module')
def root(tmp_path_factory):
  root = tmp_path_factory.mktemp('embedder')
  tiny.write_model(root / 'model')
  tiny.write_model(root / 'other', seed=1)
  return root


def load(root, name='model', **config):
  values = {'query_length': 6, 'passage_length': 9, **config}
  return given.Checkpoint(
      str(root / name), 0, config_lib.ModelConfig(**values)).load()


def dataset_of(folder, passages=None, queries=None, judged=None):
  return corpora.data_of(folder, corpora.write_beir(
      folder / 'data', passages or TEXTS, queries or QUERIES,
      test=judged or JUDGED)).load()


@pytest.fixture(scope='module')
def dataset(root):
  return dataset_of(root)


@pytest.fixture(scope='module')
def encoder(root):
  return text_encoder.TextEncoder(load(root), test_text_encoder.settings())


def test_vectors_are_those_of_the_texts(dataset, encoder):
  made = embedder.Embedder(dataset, encoder)
  np.testing.assert_allclose(
      made.passage_vecs, encoder.encode_passages(list(TEXTS.values())),
      atol=1e-5)
  np.testing.assert_allclose(
      made.query_vecs(np.array([1, 0, 1], np.int32)),
      encoder.encode_queries(['word3', 'word1 word2', 'word3']), atol=1e-5)
  assert not made.is_made() and made.encoder is encoder


def test_some_passages_are_kept_apart_from_all(dataset, encoder, tmp_path):
  rows = np.array([2, 7], np.int32)
  made = embedder.Embedder(dataset, encoder, tmp_path, rows)
  assert not made.is_made()
  texts = list(TEXTS.values())
  np.testing.assert_allclose(
      made.passage_vecs[:], encoder.encode_passages([texts[2], texts[7]]),
      atol=1e-5)
  assert made.is_made()
  for other in (None, np.array([2, 6], np.int32)):
    assert not embedder.Embedder(dataset, encoder, tmp_path, other).is_made()
  in_memory = embedder.Embedder(dataset, encoder, rows=rows)
  assert not in_memory.is_made()
  np.testing.assert_array_equal(made.passage_vecs[:], in_memory.passage_vecs)


def test_other_weights_have_a_table_of_their_own(dataset, encoder, tmp_path):
  of = lambda fingerprint: embedder.Embedder(
      dataset, encoder.with_params(encoder.model.params, fingerprint), tmp_path)
  _ = of('step 1').passage_vecs
  assert of('step 1').is_made()
  assert not of('step 2').is_made() and not of('').is_made()


def test_prefixes_of_the_data_set(root, dataset, encoder, tmp_path):
  config = dataclasses.replace(
      dataset._config, query_prefix='word3 ', passage_prefix='word4 ')
  other = dataset_lib.Dataset(config)
  plain = embedder.Embedder(dataset, encoder, tmp_path)
  made = embedder.Embedder(other, encoder, tmp_path)
  _ = plain.passage_vecs
  assert not made.is_made()  # Their vectors are others.
  texts, queries = list(TEXTS.values()), ['word5 word6']
  np.testing.assert_allclose(made.passage_vecs[:2], encoder.encode_passages(
      [(f'word4 {title}', text) for title, text in texts[:2]]), atol=1e-5)
  # Typed texts have them too, and those of who else uses the encoder do not.
  np.testing.assert_allclose(
      made.encoder.encode_queries(queries),
      encoder.encode_queries([f'word3 {queries[0]}']), atol=1e-5)
  np.testing.assert_allclose(
      made.encoder.encode_passages(texts[:2]), made.passage_vecs[:2], atol=1e-5)
  np.testing.assert_array_equal(
      plain.encoder.encode_queries(queries), encoder.encode_queries(queries))


def test_a_folder_keeps_them(dataset, encoder, tmp_path, monkeypatch):
  made = embedder.Embedder(dataset, encoder, tmp_path)
  assert not made.is_made()
  vecs = made.passage_vecs[:]
  assert made.is_made()
  monkeypatch.setattr(encoder, 'encode', None)  # No text is encoded again.
  again = embedder.Embedder(dataset, encoder, tmp_path)
  assert again.is_made()
  np.testing.assert_array_equal(again.passage_vecs[:], vecs)
  monkeypatch.undo()
  np.testing.assert_array_equal(
      vecs, embedder.Embedder(dataset, encoder).passage_vecs)


def test_several_models_share_a_folder(root, dataset, encoder, tmp_path):
  _ = embedder.Embedder(dataset, encoder, tmp_path).passage_vecs
  other = embedder.Embedder(dataset, text_encoder.TextEncoder(
      load(root, 'other'), test_text_encoder.settings()), tmp_path)
  assert not other.is_made()
  _ = other.passage_vecs
  assert len(list(tmp_path.glob('*/embeddings'))) == 2


def identity(root, dataset, model=None, model_config=None, **settings):
  made = test_text_encoder.settings(**settings)
  if model_config:
    made = dataclasses.replace(
        made, model=config_lib.ModelConfig(**model_config))
  return embedder.identity(made, dataset, model or load(root))


def test_what_changes_vectors_is_in_their_identity(root, dataset, tmp_path):
  one = identity(root, dataset)
  texts = {**TEXTS, 'p4': ('title', 'word9')}
  others = [
      identity(root, dataset_of(tmp_path / 'texts', passages=texts)),
      identity(root, dataset, load(root, 'other')),
      identity(root, dataset, load(root, passage_length=7)),
      identity(root, dataset, chunk_tokens=32),
      identity(root, dataset, row_length=40),
      identity(root, dataset, embedding_dtype='int8'),
      identity(root, dataset, model_config={'dtype': 'bfloat16'}),
  ]
  assert one not in others
  assert len({repr(other) for other in others}) == len(others)


def test_what_changes_no_vector_is_not(root, dataset, tmp_path):
  one = identity(root, dataset)
  assert one == identity(root, dataset_of(
      tmp_path / 'queries', queries={'q9': 'word7'}, judged={'q9': {'p1': 1}}))
  assert one == identity(root, dataset, table_rows=1000)
  assert one == identity(root, dataset, model_config={'remat': 'full'})
  # How they are stored changes what is kept, not what is computed.
  stored = test_text_encoder.settings(embedding_dtype='int8')
  assert embedder.vectors_identity(stored, dataset, load(root)) == one


@pytest.mark.parametrize(('length', 'is_told'), [(4, True), (5, False)])
def test_passages_that_are_cut_are_told_of(root, tmp_path, caplog, length,
                                           is_told):
  # [CLS], 3 words and [SEP] are 5 tokens.
  texts = {f'p{n}': 'word1 word2 word3' if n < 2 else 'word4' for n in range(5)}
  made = embedder.Embedder(
      dataset_of(tmp_path, texts), text_encoder.TextEncoder(
          load(root, passage_length=length), test_text_encoder.settings()))
  with caplog.at_level(logging.WARNING):
    _ = made.passage_vecs
  told = '40% of the passages are longer than 4 tokens'
  assert (told in caplog.text) == is_told
