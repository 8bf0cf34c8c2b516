"""A corpus and its ScaNN index, built once for all tests of indexes."""

import shutil

import pytest

from tests.retrieval import test_quantized_index


@pytest.fixture(scope='session')
def corpus():
  """(vectors, queries, tie ranks) of 20,000 passages."""
  return test_quantized_index.make(20_000)


@pytest.fixture(scope='session')
def index(corpus):
  """Their index."""
  from neg_contrast.retrieval import quantized_index

  pytest.importorskip('scann')
  vecs, _, ranks = corpus
  return quantized_index.build(vecs, ranks, test_quantized_index.SETTINGS)


@pytest.fixture(scope='session')
def saved(corpus, tmp_path_factory):
  """A folder that keeps the same; not to be changed."""
  from neg_contrast.retrieval import quantized_files

  pytest.importorskip('scann')
  vecs, _, ranks = corpus
  folder = tmp_path_factory.mktemp('scann') / 'index'
  quantized_files.make(folder, vecs, ranks, test_quantized_index.SETTINGS)
  return folder


@pytest.fixture
def copied(saved, tmp_path):
  """A copy of the folder, under another name."""
  return shutil.copytree(saved, tmp_path / 'elsewhere' / 'renamed')
