"""Which index a corpus gets."""

from unittest import mock

import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.retrieval import search_settings
from neg_contrast.settings import config as config_lib


def test_which_kind():
  assert search_settings.index_kind(49_999, 'auto') == 'exact'
  assert search_settings.index_kind(50_000, 'auto') == 'scann'
  assert search_settings.index_kind(10**8, 'exact') == 'exact'
  assert search_settings.index_kind(100, 'scann') == 'scann'
  with pytest.raises(ValueError, match='hnsw'):
    search_settings.index_kind(100, 'hnsw')


def make(depth=5, **index):
  return search_settings.SearchSettings(
      config_lib.IndexConfig(**index), config_lib.MeshConfig(), depth
  )


def corpus(passages, worlds=()):
  made = mock.Mock(spec=prepared_lib.Prepared)
  made.passages, made.worlds = range(passages), worlds
  made.manifest = {'spec': 'a:b'}
  return made


def test_small_corpora_are_searched_exactly():
  assert make().index_identity(corpus(49_999)) == 'exact'
  scann = make(depth=300, target_recall=0.9).scann(corpus(50_000))
  assert scann.target_recall == 0.9 and scann.recall_k == 300
  assert make(depth=3).scann(corpus(50_000)).recall_k == 100
  assert make().scann(corpus(50_000), np.arange(10, dtype=np.int32)) is None
  assert make(kind='scann').index_identity(corpus(7))['shard_rows'] == 10**6


def test_approximate_search_is_another():
  approx = make(kind='approx', target_recall=0.9)
  assert approx.scann(corpus(10**6)) is None
  assert approx.index_identity(corpus(10**6)) == {
      'approx': 0.9, 'block_rows': 4096}
  assert approx.recall == 0.9 and make(kind='exact').recall is None


def test_worlds_are_searched_exactly():
  assert make().scann(corpus(10**6, ('one',))) is None
  with pytest.raises(errors.UserError, match='a:b has worlds'):
    make(kind='scann').scann(corpus(10, ('one',)))
