"""Which index a corpus gets."""

import pathlib
from unittest import mock

import numpy as np
import pytest

from neg_contrast import errors, scoring
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.retrieval import search_settings
from neg_contrast.settings import config as config_lib

RESULTS = pathlib.Path(__file__).parents[2] / 'launch/benchmarks/RESULTS.md'


def test_which_kind():
  assert search_settings.index_kind(49_999, 'auto') == 'exact'
  assert search_settings.index_kind(50_000, 'auto') == 'scann'  # A service.
  assert search_settings.index_kind(10**8, 'exact') == 'exact'
  assert search_settings.index_kind(100, 'scann') == 'scann'
  with pytest.raises(ValueError, match='hnsw'):
    search_settings.index_kind(100, 'hnsw')


@pytest.mark.parametrize(('passages', 'queries'), [
    (50_000, 165_000), (100_000, 55_000), (10**6, 21_000),
    (21_015_324, 20_500),
])
def test_queries_pay_for_building(passages, queries):
  kind = lambda of: search_settings.index_kind(passages, 'auto', of)
  assert kind(int(0.99 * queries)) == 'exact'
  assert kind(int(1.01 * queries)) == 'scann'
  assert search_settings.index_kind(49_999, 'auto', 10**9) == 'exact'
  assert search_settings.index_kind(passages, 'scann', 1) == 'scann'
  assert search_settings.index_kind(passages, 'exact', 10**9) == 'exact'


def test_the_costs_are_those_that_were_measured():
  """CPU seconds of 768 features, see launch/benchmarks/RESULTS.md."""
  table = [[cell.strip() for cell in line.split('|')[1:-1]]
           for line in RESULTS.read_text().splitlines() if line[:1] == '|']
  number = lambda text: float(text.replace(',', ''))
  for passages, most in (('100,000', 0.1), ('1,000,000', 0.05)):
    [cpu_ms] = [row[4] for row in table
                if row[:3] == [passages, '768', '1,024']]
    exact = search_settings._EXACT_PAIR * 1024 * number(passages)
    assert abs(exact / (number(cpu_ms) / 1000) - 1) < most
  built = lambda passages, shards: (
      search_settings._SCANN_SHARD * shards
      + search_settings._SCANN_PASSAGE * passages)
  assert abs(built(100_000, 1) / 44 - 1) < 0.05
  assert abs(built(10**6, 1) / 244 - 1) < 0.05
  for passages, rate in ((100_000, 2_320), (10**6, 440)):  # Of 384 features.
    query = (search_settings._SCANN_QUERY
             + search_settings._SCANN_PAIR * passages)
    assert abs(query / (2 / rate) - 1) < 0.1


def test_small_shards_cost_more_training():
  kind = lambda rows: search_settings.index_kind(10**6, 'auto', 30_000, rows)
  assert kind(10**6) == 'scann' and kind(10**5) == 'exact'


def test_accelerators_search_exactly_what_has_an_end(monkeypatch):
  monkeypatch.setattr(search_settings.jax, 'default_backend', lambda: 'tpu')
  assert search_settings.index_kind(10**8, 'auto', 10**9) == 'exact'
  assert search_settings.index_kind(10**8, 'auto') == 'scann'


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
  scann = make(depth=300, target_recall=0.9).quantized(corpus(50_000))
  assert scann.target_recall == 0.9 and scann.recall_k == 300
  assert make(depth=3).quantized(corpus(50_000)).recall_k == 100
  assert make().quantized(corpus(50_000), np.arange(10, dtype=np.int32)) is None
  binary = make(kind='binary').quantized(corpus(7))
  assert binary.kind == 'binary' and scann.kind == 'scann'
  assert make(kind='scann').index_identity(corpus(7))['shard_rows'] == 10**6


def test_vectors_of_queries_count():
  few = make().of_queries(1_000)
  assert few.queries == 1_000 and few.quantized(corpus(10**6)) is None
  assert few.index_identity(corpus(10**6)) == 'exact'
  som = make().of_queries(1_000, scoring.named('som', 32, 48))
  assert som.queries == 32_000 and som.quantized(corpus(10**6)) is not None


def test_approximate_search_is_another():
  approx = make(kind='approx', target_recall=0.9)
  assert approx.quantized(corpus(10**6)) is None
  assert approx.index_identity(corpus(10**6)) == {
      'approx': 0.9, 'block_rows': 4096}
  assert approx.recall == 0.9 and make(kind='exact').recall is None


def test_worlds_are_searched_exactly():
  assert make().quantized(corpus(10**6, ('one',))) is None
  for kind in ('scann', 'binary'):
    with pytest.raises(errors.UserError, match=f'"{kind}": a:b has worlds'):
      make(kind=kind).quantized(corpus(10, ('one',)))
