"""The queries of a split, and systems that rank passages for them."""

import pathlib

import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.evaluation import judged
from neg_contrast.retrieval import bm25_search
from neg_contrast.settings import config as config_lib
from tests import corpora

PASSAGES = {f'p{n}': f'word{n} text' for n in range(12)}
QUERIES = {f'q{n}': f'word{n}' for n in range(12)}
CONFIG = config_lib.EvaluationConfig(metrics=('mrr',), depth=3)
TRAIN = {f'q{n}': {f'p{n}': 1} for n in range(8)}


def data_of(folder, test=None, tune=None, **config):
  """A train split, a test split and, unless it is None, one for tuning."""
  splits = {'train': TRAIN, 'test': test or {'q8': {'p8': 1}, 'q9': {'p9': 0}}}
  if tune:
    splits['dev'], config['tune_split'] = tune, 'dev'
  return corpora.data_of(folder, corpora.write_beir(
      folder / 'data', PASSAGES, QUERIES, **splits), **config)


def write_run(path, *passages, query='q8'):
  path.write_text(''.join(f'{query} Q0 {name} 0 {-place} tag\n'
                          for place, name in enumerate(passages)))
  return path


def test_queries_are_those_of_the_split(tmp_path):
  data = data_of(tmp_path)
  test = judged.Judged(data, 'test', CONFIG)
  assert test.judgements.queries.tolist() == [8, 9]
  assert test.open().query_rows.tolist() == [8, 9]
  assert test.open().qrels == {'q8': {'p8': 1}, 'q9': {'p9': 0}}
  with pytest.raises(errors.UserError, match='no split "other"; it has'):
    _ = judged.Judged(data, 'other', CONFIG).judgements


def test_what_is_apart_shares_no_query_with_tuning(tmp_path):
  data = data_of(tmp_path, tune={'q8': {'p8': 1}, 'q10': {'p10': 1}})
  assert len(judged.Judged(data, 'test', CONFIG).judgements.queries) == 2
  apart = judged.Judged(data, 'test', CONFIG, is_apart=True)
  with pytest.raises(errors.UserError, match=(
      'the split "test", .* have 1 queries in common, such as "q8"')):
    _ = apart.judgements
  with pytest.raises(errors.UserError, match='"q8"'):
    _ = judged.TuneJudged(data, CONFIG, is_apart=True).judgements
  assert judged.TuneJudged(data, CONFIG).judgements.queries.tolist() == [8, 10]


def test_tune_queries_may_be_a_part_of_training(tmp_path):
  data = data_of(tmp_path, tune_fraction=0.4)
  for is_apart in (False, True):
    tune = judged.TuneJudged(data, CONFIG, is_apart=is_apart)
    assert tune.split == 'tune'
    rows = tune.judgements.queries
    assert 0 < len(rows) < 8 and set(rows) <= set(range(8))


def test_settings_are_what_numbers_depend_on(tmp_path):
  data = data_of(tmp_path)
  one = judged.Judged(data, 'test', CONFIG).settings()
  make = lambda **values: judged.Judged(
      data, 'test', config_lib.EvaluationConfig(
          **{'metrics': ('mrr',), 'depth': 3, **values})).settings()
  assert one == make() == make(eval_steps=7, bm25=True, bm25_k1=2.0)
  for values in ({'metrics': ('map',)}, {'depth': 4}, {'answer_ks': (5,)},
                 {'answer_rule': 'regex'}, {'dpr_results': True}):
    assert make(**values) != one, values
  assert judged.Judged(data, 'train', CONFIG).settings() != one


def test_bm25_ranks_to_the_depth(tmp_path):
  data = data_of(tmp_path)
  ranking = judged.Bm25Ranking(judged.Judged(data, 'test', CONFIG), 'bm25',
                               bm25_search.bm25_of(CONFIG, data))
  found = ranking.load().found
  assert found.rows.tolist() == [[8, -1, -1], [9, -1, -1]]
  assert found.rows.shape == (2, 3) and (found.scores[:, 0] > 0).all()
  assert ranking.name == 'bm25' and not ranking.is_made()
  assert not ranking.is_listed


def test_a_run_is_read_to_the_depth(tmp_path):
  data = data_of(tmp_path)
  first = write_run(tmp_path / 'a.trec', 'p1', 'p2', 'p3', 'p4')
  second = write_run(tmp_path / 'b.trec', 'p5', query='q9')
  ranking = judged.RunRanking(
      judged.Judged(data, 'test', CONFIG), 'given', (first, second))
  found = ranking.load().found
  assert found.rows.tolist() == [[1, 2, 3], [5, -1, -1]]
  np.testing.assert_array_equal(
      found.scores, [[0, -1, -2], [0, -np.inf, -np.inf]])


def test_a_run_that_does_not_fit_is_named(tmp_path):
  data = data_of(tmp_path)
  path = write_run(tmp_path / 'a.trec', 'none')
  with pytest.raises(errors.UserError, match='a.trec: passage "none" is not'):
    judged.RunRanking(
        judged.Judged(data, 'test', CONFIG), 'given', (path,)).load()


def test_a_run_is_its_bytes_and_not_its_name(tmp_path):
  data = data_of(tmp_path)
  data.build()
  make = lambda path, config=CONFIG: judged.RunRanking(
      judged.Judged(data, 'test', config), 'given', (pathlib.Path(path),))
  gone = make(tmp_path / 'gone.trec')
  assert gone.lacks() == f'{tmp_path / "gone.trec"}: no such file'
  assert gone.identity is None
  one = make(write_run(tmp_path / 'a.trec', 'p1', 'p2')).identity
  assert one == make(write_run(tmp_path / 'b.trec', 'p1', 'p2')).identity
  assert one != make(write_run(tmp_path / 'c.trec', 'p2', 'p1')).identity
  deeper = config_lib.EvaluationConfig(metrics=('mrr',), depth=4)
  assert one != make(tmp_path / 'a.trec', deeper).identity
  other = config_lib.EvaluationConfig(metrics=('map',), depth=3)
  assert one == make(tmp_path / 'a.trec', other).identity
