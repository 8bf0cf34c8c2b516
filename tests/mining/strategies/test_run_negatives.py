"""Candidates of run files: ranks, scores, and the score of the positive."""

import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.artifacts import bucket_path, folders, plan
from neg_contrast.evaluation import trec
from neg_contrast.mining import mined_pool
from neg_contrast.mining import mining_task as task_lib
from neg_contrast.mining.strategies import run_negatives
from neg_contrast.models import given
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.settings import config as config_lib
from tests import corpora, tiny

PASSAGES = {f'p{n}': f'text {n}' for n in range(8)} | {'copy': 'TEXT  0'}
RERANKED = {
    'a': [('p3', 0.95), ('copy', 0.9), ('p4', 0.8), ('p5', 0.5), ('p6', 0.1)],
    'b': [('p2', -1.0), ('p6', -1.05), ('p7', -2.0), ('p1', -3.0)],
    'c': [('p4', 7.0), ('p5', 6.0)],  # Its positive is not among them.
}
QRELS = {'a': {'p0': 1}, 'b': {'p1': 1, 'p2': 1}, 'c': {'p3': 1}}


def flat_data(folder):
  """A corpus without worlds, prepared."""
  data = corpora.data_of(folder, corpora.write_beir(
      folder / 'data', PASSAGES, dict.fromkeys(QRELS, 'a question'),
      train=QRELS))
  plan.run([data])
  return data


@pytest.fixture
def mine(tmp_path):
  """Settings -> the pool of a reranker's run."""
  data = flat_data(tmp_path)
  trec.write_run(tmp_path / 'run.trec', RERANKED, 'reranked')

  def make(runs=('run.trec',), **settings):
    config = config_lib.NegativesConfig(**{
        'sources': ('run:1',), 'depth': 4, 'pool_size': 4,
        'runs': tuple(str(tmp_path / name) for name in runs), **settings})
    task = task_lib.Task(data, 'train', config.depth, tmp_path / 'mined',
                         tokenizer=given.Tokenizer('minilm'), runs=config.runs)
    workdir = tmp_path / str(len(list(tmp_path.iterdir())))
    workdir.mkdir()
    negatives = mined_pool.MinedPool(task, config, workdir)
    plan.run([negatives])
    return negatives.load()

  return make


def test_a_run_may_lie_in_a_bucket(tmp_path, monkeypatch):
  place = 'gs://bucket/run.trec'
  (tmp_path / 'copy').write_text('q Q0 d 1 1 tag\n')
  is_there = lambda there: monkeypatch.setattr(
      bucket_path.BucketPath, 'is_file', lambda self: there)
  monkeypatch.setattr(bucket_path.fetched, 'current',
                      lambda address: tmp_path / 'copy')
  strategy = run_negatives.Run(task_lib.Task(
      flat_data(tmp_path), 'train', 4, tmp_path / 'mined',
      tokenizer=given.Tokenizer('minilm'), runs=(place,)))
  is_there(False)
  assert strategy.lacks() == f'{place}: no such file'
  is_there(True)
  assert strategy.lacks() is None
  assert strategy.settings() == {
      'runs': [folders.sha256_file(tmp_path / 'copy')]}


def dropped(pool):
  """The filter of every candidate, best first; '' for a negative."""
  return [[pool_lib.DROPPED_BY[code] for row, code in zip(rows, codes,
                                                          strict=True)
           if row >= 0]
          for rows, codes in zip(pool.rows, pool.dropped_by, strict=True)]


def test_the_run_scores_its_positives(mine):
  pool = mine()
  np.testing.assert_array_equal(
      pool.positive_scores[:, 0], np.float32([0.9, -1.0, np.nan]))
  assert dropped(pool) == [['', 'positive', '', ''],
                           ['positive', '', '', 'positive'], ['', '']]
  assert pool.manifest['unscored_queries'] == {}


def test_a_margin_below_the_positive(mine):
  pool = mine(margin=0.2)
  assert dropped(pool) == [
      ['margin', 'positive', 'margin', ''],
      ['positive', 'margin', '', 'positive'], ['unscored', 'unscored']]
  assert pool.manifest['unscored_queries'] == {'run': 1}
  assert dropped(mine(relative_margin=0.2))[:2] == [
      ['relative_margin', 'positive', 'relative_margin', ''],
      ['positive', 'relative_margin', '', 'positive']]


def test_a_window_of_ranks(mine):
  assert dropped(mine(first_rank=3, last_rank=3)) == [
      ['rank', 'positive', '', 'rank'],
      ['positive', 'rank', '', 'positive'], ['rank', 'rank']]


def test_a_positive_below_the_depth_has_its_score(mine):
  pool = mine(depth=1, pool_size=1, margin=0.0)
  np.testing.assert_array_equal(
      pool.positive_scores[:, 0], np.float32([0.9, -1.0, np.nan]))
  assert dropped(pool) == [['margin'], ['positive'], ['unscored']]


def test_a_passage_of_another_corpus(mine, tmp_path):
  trec.write_run(tmp_path / 'other.trec', {'a': [('nowhere', 1.0)]}, 'tag')
  with pytest.raises(errors.UserError, match='passage "nowhere" is not in'):
    mine(runs=('other.trec',))


def test_a_run_of_other_queries(mine, tmp_path):
  trec.write_run(tmp_path / 'other.trec', {'x': [('p3', 1.0)]}, 'tag')
  with pytest.raises(errors.UserError,
                     match='other.trec ranks no query of the split "train"'):
    mine(runs=('other.trec',))
  assert dropped(mine(runs=('other.trec', 'run.trec'))) == dropped(mine())


def test_passages_of_worlds_that_are_not_trained_on_are_left_out(tmp_path):
  """A run over all worlds ranks passages of the test's, too."""
  tiny.write_zeshel(tmp_path / 'worlds')
  data = corpora.data_of(tmp_path, f'zeshel:{tmp_path / "worlds"}')
  plan.run([data])
  prepared = data.load().prepared
  trained, others = (sorted(
      name for split in splits for world in tiny.WORLDS[split]
      for name in (f'{world}{d}' for d in range(6))
  ) for splits in (('train',), ('val', 'test')))
  ranked = [*others, *trained]
  trec.write_run(tmp_path / 'run.trec', {
      f'm-{name}': [(other, -float(rank)) for rank, other in enumerate(ranked)]
      for name in trained
  }, 'all')
  task = task_lib.Task(data, 'train', 5, tmp_path / 'mined',
                       tokenizer=given.Tokenizer('minilm'),
                       runs=(str(tmp_path / 'run.trec'),))
  strategy, opened = run_negatives.Run(task), task.open()
  found = strategy.proposer(opened).miner.mine(opened.query_rows)
  assert [[prepared.passage_ids[int(row)].decode() for row in rows]
          for rows in found.rows] == [trained[:5]] * len(opened.query_rows)
  assert np.isfinite(found.positive_scores).all()
  assert strategy.settings()['worlds'] == 'of the queries'
