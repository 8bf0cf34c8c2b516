"""A corpus and its ScaNN index, built once for all tests of ScaNN."""

import shutil

import pytest

from tests.retrieval import test_scann_index


@pytest.fixture(scope='session')
def corpus():
  """(vectors, queries, tie ranks) of 20,000 passages."""
  return test_scann_index.make(20_000)


@pytest.fixture(scope='session')
def index(corpus):
  """Their index."""
  from neg_contrast.retrieval import scann_index

  pytest.importorskip('scann')
  vecs, _, ranks = corpus
  return scann_index.build(vecs, ranks, test_scann_index.SETTINGS)


@pytest.fixture(scope='session')
def saved(index, tmp_path_factory):
  """A folder that keeps it; not to be changed."""
  from neg_contrast.retrieval import scann_files

  folder = tmp_path_factory.mktemp('scann') / 'index'
  scann_files.save(index, folder)
  return folder


@pytest.fixture
def copied(saved, tmp_path):
  """A copy of the folder, under another name."""
  return shutil.copytree(saved, tmp_path / 'elsewhere' / 'renamed')
