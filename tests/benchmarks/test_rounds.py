"""Rounds of a task: what is counted of them, and what of the first one."""

import time

import numpy as np
import pytest

from neg_contrast.benchmarks import peer as peer_lib
from neg_contrast.benchmarks import profile, rounds, task
from neg_contrast.settings import config as config_lib

PEER = 'sentence-transformers'


class Sleeper(task.Task):
  """Sleeps longer in its first round, as if it compiled."""

  def __init__(self, told=()):
    """Counts rounds from 0."""
    super().__init__()
    self.number, self.agreed = 0, []
    self.facts = dict(told)

  def round(self):
    """Its number is what it measures."""
    time.sleep(0.01 if self.number else 0.2)
    self.number += 1
    return {task.QUERIES: float(self.number)}

  def agreement(self, peer, losses, vecs):
    """What it was given."""
    return {f'losses of {peer}': losses, 'vecs': [float(vecs().sum())]}


class Other(peer_lib.Peer):
  """A peer without a process, of a loss for every round."""

  versions = 'other 1'
  vecs = np.ones((2, 3), np.float32)

  def __init__(self, **told):
    """Counts rounds from 0."""
    self.number, self.told = 0, told

  def round(self):
    """Takes half a second of CPU time."""
    self.number += 1
    return {'cpu_seconds': 0.5, 'losses': [float(self.number)], **self.told}


def run(made, peer=None, count=3):
  return rounds.run(made, peer, config_lib.BenchmarkConfig(
      versus=PEER if peer else '', rounds=count))


def test_the_first_round_compiles_and_does_not_count():
  made = Sleeper()
  made.reasons['some'] = 'none'
  found = run(made)
  rows = found['rows']
  assert rows[task.QUERIES] == [2, 3, 4]
  assert len(rows['round, s']) == 3 and min(rows['round, s']) >= 0.01
  first, = rows['first round, with compilation, s']
  assert 0.2 <= first < 5
  assert found['reasons'] == {'some': 'none'}
  assert not any(PEER in name for name in rows)


def test_facts_and_memory_are_told_once():
  rows = run(Sleeper({'passages': 40}), count=2)['rows']
  assert rows['passages'] == [40]
  memory, = rows['peak memory of the process, MiB']
  assert 50 < memory < 200_000


def test_agreement_is_of_its_first_loss_and_last_vectors():
  rows = run(Sleeper(), Other())['rows']
  assert rows[f'losses of {PEER}'] == [1.0] and rows['vecs'] == [6.0]
  assert len(rows[f'round of {PEER}, s']) == 3


def test_a_peer_may_have_no_loss():
  class Encoding(Other):
    """Says nothing of a loss."""

    def round(self):
      """Seconds alone."""
      return {'cpu_seconds': 0.5}

  rows = run(Sleeper(), Encoding())['rows']
  assert rows[f'losses of {PEER}'] == []


def test_notes_name_versions():
  assert 'other 1' not in run(Sleeper(), count=1)['notes']['versions']
  notes = run(Sleeper(), Other(), count=1)['notes']
  assert notes['versions'].endswith(', other 1')
  assert notes['devices'].startswith('8 x cpu, ')


@pytest.mark.parametrize('told', [{'dot': 1.0}, {}])
def test_one_more_round_is_profiled(tmp_path, monkeypatch, told):
  def busiest(work, folder, count):
    assert folder == tmp_path / profile.FOLDER and count == 7
    work()
    return told

  monkeypatch.setattr(profile, 'busiest', busiest)
  made, sleeper = {'notes': {}}, Sleeper()
  rounds.add_profile(made, sleeper, 7, tmp_path)
  assert sleeper.number == 1 and made['profile'] == told
  assert ('profile' in made['notes']) == (not told)
