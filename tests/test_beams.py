"""The choice of a runner; tests/data/test_beam.py has what Beam does."""

import importlib.util

import pytest

from neg_contrast import beams, errors, hosts


@pytest.fixture(autouse=True)
def no_runner():
  yield
  beams.choose('local')


@pytest.fixture
def has_beam(monkeypatch):
  monkeypatch.setattr(importlib.util, 'find_spec', lambda name: name)


def test_local_is_no_beam(has_beam):
  beams.choose('direct')
  assert beams.is_chosen()
  beams.choose('local')
  assert not beams.is_chosen()


def test_direct_takes_all_cores_unless_told(monkeypatch):
  monkeypatch.setattr(hosts, 'usable_cores', lambda: 3)
  assert beams.Runner('direct').all_options() == [
      '--runner=DirectRunner', '--direct_running_mode=multi_processing',
      '--default_sdk_harness_log_level=ERROR', '--direct_num_workers=3']
  # Of two options of a name, Beam takes the last one.
  options = beams.Runner('direct', ('--direct_num_workers=2',)).all_options()
  assert options[-2:] == ['--direct_num_workers=3', '--direct_num_workers=2']
  assert beams.Runner('DataflowRunner', ('--project=p',)).all_options() == [
      '--runner=DataflowRunner', '--project=p']


def test_mistakes(monkeypatch):
  with pytest.raises(errors.UserError, match='--runner=local has none'):
    beams.choose('local', '--project=p')
  monkeypatch.setattr(importlib.util, 'find_spec', lambda name: None)
  with pytest.raises(errors.UserError, match=r'install the extra \[beam\]'):
    beams.choose('FlinkRunner')
  monkeypatch.setattr(hosts, 'are_several', lambda: True)
  with pytest.raises(errors.UserError, match='by one process first'):
    beams.choose('direct')
