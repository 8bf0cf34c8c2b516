"""A corpus that is ready to be searched, as an artifact; and what it finds."""

import numpy as np
import pytest

from neg_contrast.retrieval import corpus_index, corpus_vectors
from neg_contrast.settings import config as config_lib
from tests import tiny
from tests.retrieval import (
  test_corpus_vectors,
  test_retriever,
  test_text_encoder,
)


@pytest.fixture(scope='module')
def model(tmp_path_factory):
  folder = tmp_path_factory.mktemp('model')
  tiny.write_model(folder)
  return folder


def index(folder, model, **settings):
  data = test_corpus_vectors.data_of(folder)
  return corpus_index.CorpusIndex(
      corpus_vectors.by_checkpoint(
          data, test_text_encoder.settings(), folder / 'kept', str(model), 0,
          config_lib.ModelConfig(query_length=6, passage_length=9)),
      test_retriever.settings(**settings), folder / 'kept')


def test_building_it_encodes_the_corpus(tmp_path, model):
  made = index(tmp_path, model)
  assert not made.is_made()
  made.vectors.data.build()
  assert not made.is_made()
  made.build()
  assert made.is_made() and made.vectors.is_made()
  found = made.load().search(['word1 word2'], 2)
  vecs = made.vectors.load()
  scores = vecs.passage_vecs[:] @ vecs.encoder.encode_queries(['word1 word2']).T
  best = np.argsort(-scores[:, 0])[:2]
  assert found.rows.tolist() == [best.tolist()]


def test_an_exact_index_is_the_same_at_any_depth(tmp_path, model):
  one = index(tmp_path, model)
  assert one.identity is None
  one.vectors.data.build()
  assert one.identity == index(tmp_path, model, depth=9).identity
  scann = index(tmp_path, model, kind='scann')
  assert scann.identity != one.identity
  assert scann.identity == index(tmp_path, model, kind='scann',
                                 depth=9).identity
  assert scann.identity == index(tmp_path, model, kind='scann',
                                 depth=100).identity  # Serves all to that.
  for other in (index(tmp_path, model, kind='scann', depth=101),
                index(tmp_path, model, kind='binary'),
                index(tmp_path, model, kind='scann', target_recall=0.9)):
    assert other.identity not in (one.identity, scann.identity)
