"""The table of strategies, and what follows from a line in it."""

import dataclasses
import types

import pytest

from neg_contrast import errors
from neg_contrast.artifacts import plan
from neg_contrast.jobs import mine
from neg_contrast.mining import candidates, strategies
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.settings import config as config_lib
from neg_contrast.settings import keys, negatives_settings
from tests import tiny


def test_settings_name_the_same_strategies():
  """Until settings need no list of their own."""
  assert tuple(strategies.STRATEGIES) == config_lib.MINED
  assert tuple(filter(strategies.is_ranked, strategies.STRATEGIES)) == (
      config_lib.RETRIEVED)


class Toy(strategies.Strategy):
  """Proposes the first passages of the corpus."""

  name = 'toy'
  is_ranked = True

  def lacks(self):
    return self._task.checkpoint and 'toy needs no checkpoint'

  def settings(self):
    return {'toy': 1}

  def proposer(self):
    depth = self._task.negatives.depth

    class First:
      def mine(self, queries):
        return candidates.listed(
            [range(depth)] * len(queries), [range(depth, 0, -1)] * len(queries),
            depth)

    return strategies.Proposer(First(), {'by': 'a toy'})


@pytest.fixture
def toy(monkeypatch):
  """One line in the table, and its name in the settings."""
  known = (*config_lib.MINED, Toy.name)
  monkeypatch.setitem(strategies.STRATEGIES, Toy.name, Toy)
  for module in (config_lib, negatives_settings):
    monkeypatch.setattr(module, 'MINED', known)
  fields = {field.name: field
            for field in dataclasses.fields(config_lib.NegativesConfig)}
  for name, change in (
      ('strategy', {'allowed': keys.one_of(
          'random', 'corpus', 'sampled', 'mixed', *known)}),
      ('members', {'each': keys.one_of(*known)}),
      ('drop_answers', {'each': keys.one_of(*known)}),
  ):
    monkeypatch.setattr(fields[name], 'metadata', types.MappingProxyType({
        keys._METADATA: dataclasses.replace(
            keys.declared(fields[name]), **change)}))


def make_job(folder, **overrides):
  config = tiny.make_config(folder, **{
      'job': 'mine', 'negatives__strategy': 'mixed',
      'negatives__per_query': 0, 'negatives__members': ('bm25', 'toy'),
      'negatives__depth': 9, 'negatives__pool_size': 4,
      'negatives__drop_answers': ('toy',),
      'negatives__mined_dir': str(folder / 'mined'), **overrides,
  })
  (folder / 'work').mkdir(exist_ok=True)
  return mine.MineJob(config_lib.parse(config), folder / 'work')


def test_a_line_is_enough(toy, tmp_path, capsys):
  job = make_job(tmp_path)
  assert 'toy        top 9 of toy for every query of train' in plan.describe(
      job.steps())
  plan.run(job.steps())
  job.finish()
  printed = capsys.readouterr().out
  assert any(line.startswith('toy ') for line in printed.splitlines())
  pool = pool_lib.read(tmp_path / 'work' / 'pool')
  assert pool.sources == ('bm25', 'toy')
  assert pool.counts()['toy']['answer'] > 0  # `drop_answers` knows it.
  assert pool.manifest['identity']['inputs']['toy']['toy'] == 1
  assert 'toy' in (tmp_path / 'work' / 'report.html').read_text()
  assert all(step.is_done() for step in make_job(tmp_path).steps())


def test_errors_offer_it_and_tell_what_is_missing(toy, tmp_path):
  with pytest.raises(errors.UserError, match='must be one of .*run, toy'):
    make_job(tmp_path, negatives__strategy='bogus')
  steps = make_job(tmp_path, checkpoint='some').steps()
  assert 'toy needs no checkpoint' in plan.describe(steps)
