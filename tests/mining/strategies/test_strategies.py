"""The table of strategies, and what follows from a line in it."""

import types

import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.artifacts import artifact, plan
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import prepared
from neg_contrast.jobs import mine
from neg_contrast.jobs.common import declared_pools
from neg_contrast.mining import candidates, strategies
from neg_contrast.mining.strategies import context_negatives
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.settings import config as config_lib
from tests import tiny


def test_every_one_is_known_by_its_name():
  assert tuple(strategies.STRATEGIES) == config_lib.MINED.names
  for name, strategy in strategies.STRATEGIES.items():
    assert strategy.name == name
    assert strategies.is_ranked(name) == (
        name in ('bm25', 'coarse', 'fine', 'model', 'run'))


class Toy(strategies.Strategy):
  """Proposes the first passages of the corpus."""

  name = 'toy'
  is_ranked = True
  reads = ('checkpoint',)

  def lacks(self):
    return self.task.checkpoint and 'toy needs no checkpoint'

  def settings(self):
    return {'toy': 1}

  def proposer(self, task):
    depth = self.task.depth

    class First:
      def mine(self, queries):
        return candidates.listed(
            [range(depth)] * len(queries), [range(depth, 0, -1)] * len(queries),
            depth)

    return strategies.Proposer(First(), {'by': 'a toy'})


@pytest.fixture
def toy(monkeypatch):
  """One line in the table."""
  monkeypatch.setitem(strategies.STRATEGIES, Toy.name, Toy)


def make_job(folder, **overrides):
  config = tiny.make_config(folder, **{
      'job': 'mine', 'negatives__sources': ('bm25+toy:2',),
      'negatives__depth': 9, 'negatives__pool_size': 4,
      'negatives__drop_answers': ('toy',),
      'negatives__mined_dir': str(folder / 'mined'), **overrides,
  })
  (folder / 'work').mkdir(exist_ok=True)
  return mine.MineJob(config_lib.parse(config), folder / 'work')


def test_a_line_is_enough(toy, tmp_path, capsys):
  job = make_job(tmp_path)
  assert 'toy        top 9 of toy for every query of train' in plan.describe(
      job.targets())
  plan.run(job.targets())
  job.finish()
  printed = capsys.readouterr().out
  assert any(line.startswith('toy ') for line in printed.splitlines())
  pool = pool_lib.read(tmp_path / 'work' / 'pool')
  assert pool.sources == ('bm25', 'toy')
  assert pool.counts()['toy']['answer'] > 0  # `drop_answers` knows it.
  assert pool.manifest['identity']['needs']['toy'][
      'settings']['toy'] == 1
  assert 'toy' in (tmp_path / 'work' / 'report.html').read_text()
  artifact.forget()
  targets = make_job(tmp_path).targets()
  assert all(one.is_made() for one in artifact.closure(targets)
             if one.is_listed)


def test_errors_offer_it_and_tell_what_is_missing(toy, tmp_path):
  with pytest.raises(errors.UserError, match='"bogus" must be .*run, toy'):
    make_job(tmp_path, negatives__sources=('bogus:2',))
  targets = make_job(tmp_path, checkpoint='some').targets()
  assert 'toy needs no checkpoint' in plan.describe(targets)


def test_what_reads_the_same_is_the_same(tmp_path):
  """Whatever else differs between the configs of two trainings."""
  def folders_of(**overrides):
    config = config_lib.parse(tiny.make_config(
        tmp_path, **{
            'negatives__sources': ('coarse+fine+bm25+context:2',),
            **overrides}))
    data = dataset_lib.data_of(config.data)
    pool = declared_pools.negatives(config, tmp_path / 'work', data, data)
    return pool.needs()

  ours = folders_of()
  theirs = folders_of(
      negatives__sources=('bm25:1', 'coarse:1', 'context:1'),
      negatives__pool_size=7, negatives__margin=0.5,
      negatives__fine_dim=7)
  assert list(ours) == ['bm25', 'context', 'coarse', 'fine']
  assert all(theirs[name] == ours[name] for name in theirs)
  assert len(artifact.closure([*ours.values(), *theirs.values()])) == len(
      artifact.closure(list(ours.values())))
  alone = folders_of(negatives__sources=('bm25:2',), loss__scale=3.0)
  assert alone['bm25'] == ours['bm25']
  other = folders_of(evaluation__bm25_k1=0.5, loss__scale=3.0)
  assert other['bm25'] != ours['bm25'] and other['coarse'] != ours['coarse']


def test_context_is_of_positives_that_are_trained_on():
  """One of weight 0 is known alone, and so is a later one of DPR."""
  judgements = prepared.Judgements(
      np.array([0, 0, 1, 1], np.int32), np.array([4, 7, 2, 3], np.int32),
      np.array([1, 1, 0, 2], np.int32), np.array([False, True, True, True]),
      np.zeros(0, np.int32), np.array([1, 0, 1, 0.5], np.float32))
  queries, passages = context_negatives._trained(
      types.SimpleNamespace(judgements=judgements))
  assert (queries.tolist(), passages.tolist()) == ([1], [3])
