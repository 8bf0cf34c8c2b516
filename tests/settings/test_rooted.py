import pytest

from neg_contrast.settings import config as config_lib
from neg_contrast.settings import config_files, rooted

ROOT = 'gs://bucket/nc'


@pytest.mark.parametrize('path,expected', [
    ('workdirs/prepared', f'{ROOT}/prepared'),
    ('dpr:workdirs/nq', f'dpr:{ROOT}/nq'),
    ('workdirs', 'workdirs'),
    ('my/workdirs/nq', 'my/workdirs/nq'),
    ('/workdirs/nq', '/workdirs/nq'),
    ('minilm', 'minilm')])
def test_what_lies_below_workdirs_moves(path, expected):
  assert rooted.place(path, ROOT) == expected
  assert rooted.place(path, f'{ROOT}/') == expected
  assert rooted.place(path, '') == path


def test_inner_configs_and_tuples_move_too():
  config = config_lib.base_config()
  config.compare.workdirs = ('workdirs/a-*', '/else/b')
  config.stage1 = config_lib.base_config()
  config.stage1.workdir = 'workdirs/one'
  moved = rooted.put_under(config, ROOT)
  assert moved.compare.workdirs == (f'{ROOT}/a-*', '/else/b')
  assert moved.stage1.workdir == f'{ROOT}/one'
  assert moved.stage1.data.prepared_dir == f'{ROOT}/prepared'
  assert moved.negatives.mined_dir == f'{ROOT}/mined'
  assert config.stage1.workdir == 'workdirs/one'
  assert rooted.put_under(config, '').to_dict() == config.to_dict()


def test_no_key_of_a_published_config_stays_behind():
  """What a slice keeps has to be in the bucket, every bit of it."""
  import runpy

  for name in ('quickstart', 'nq_stage2'):
    config = runpy.run_path(str(config_files.find(name)))['get_config']()
    text = str(rooted.put_under(config, ROOT).to_dict())
    assert 'workdirs/' not in text and ROOT in text, name


def test_a_workdir_takes_its_trainings_along():
  config = config_lib.base_config()
  config.workdir = 'workdirs/two'
  config.stage1 = config_lib.base_config()
  config.stage1.workdir = 'workdirs/one'
  config.stage1.generator = config_lib.base_config()
  config.stage1.generator.workdir = 'workdirs/writer'
  moved = rooted.put_trainings_under(config, 'a/run', ())
  assert moved.stage1.workdir == 'a/run/one'
  assert moved.stage1.generator.workdir == 'a/run/writer'
  assert moved.workdir == config.workdir
  assert moved.stage1.data.prepared_dir == 'workdirs/prepared'  # All share it.
  kept = rooted.put_trainings_under(config, 'a/run', ('stage1.workdir',))
  assert kept.stage1.workdir == 'workdirs/one'
  assert kept.stage1.generator.workdir == 'a/run/writer'
  assert rooted.put_trainings_under(config, '', ()).to_dict() == (
      config.to_dict())
