"""A workdir is for one program at a time, of however many processes."""

import threading
import types

import pytest

from neg_contrast import hosts
from neg_contrast.artifacts import folders
from neg_contrast.training import run


@pytest.mark.parametrize('are_several', [False, True])
def test_others_wait_while_one_trains(tmp_path, monkeypatch, are_several):
  monkeypatch.setattr(hosts, 'are_several', lambda: are_several)
  monkeypatch.setattr(hosts, 'on_first', lambda call: bool(call()))
  turns = []

  def look():
    with folders.only_one(tmp_path / 'work', wait=False) as is_ours:
      turns.append(is_ours)

  def train():
    other = threading.Thread(target=look)
    other.start()
    other.join()

  run.Training.train_once(types.SimpleNamespace(
      workdir=tmp_path / 'work', is_trained=lambda: False, train=train))
  look()
  assert turns == [False, True]


def test_what_another_has_trained_meanwhile_stays(tmp_path):
  run.Training.train_once(types.SimpleNamespace(
      workdir=tmp_path / 'work', is_trained=lambda: True,
      train=lambda: pytest.fail('it is trained')))
