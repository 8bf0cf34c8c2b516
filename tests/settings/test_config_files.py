"""Configs are found by path, by name, and beside an installed package."""

import pathlib
import re

import pytest

from neg_contrast import errors, main
from neg_contrast.settings import config_files

CONFIGS = pathlib.Path(__file__).parents[2] / 'configs'


@pytest.mark.parametrize('name', [
    'nq_stage2', 'nq_stage2.py', 'configs/nq_stage2.py', 'configs/nq_stage2',
    str(CONFIGS / 'nq_stage2.py'),
])
def test_names_from_any_folder(name, tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  assert config_files.find(name).samefile(CONFIGS / 'nq_stage2.py')


def test_a_file_of_the_user_comes_first(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  (tmp_path / 'configs').mkdir()
  (tmp_path / 'configs' / 'nq_stage2.py').write_text('')
  assert config_files.find('configs/nq_stage2.py') == pathlib.Path(
      'configs/nq_stage2.py')
  assert config_files.find('nq_stage2').samefile(CONFIGS / 'nq_stage2.py')


@pytest.mark.parametrize(('name', 'message'), [
    ('nq_stag2', 'nq_stag2: no such file; did you mean nq_stage2'),
    ('there/nq_stage2.py', 'there/nq_stage2.py: no such file; did you mean'),
    ('wxyz', f'wxyz: no such file; those that come with the package lie in '
             f'{CONFIGS}'),
])
def test_no_such_file(name, message, tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  with pytest.raises(errors.UserError, match=re.escape(message)):
    config_files.find(name)


_START = """from neg_contrast.settings import config as config_lib

def get_config(arg=None):
  config_lib.arguments(arg, negatives='random')
  config = config_lib.base_config()
"""


@pytest.mark.parametrize(('code', 'message'), [
    (_START + "  config.data.batch_size = '16'\n",
     "mine.py:6: batch_size can't be str 16; its default is of type int"),
    (_START + '  config.optim.learning_rat = 1\n',
     'mine.py:6: no such key: learning_rat; did you mean learning_rate?'),
    (_START + '  config.seed = (1\n', "mine.py:6: '(' was never closed"),
    (_START + '  return nothing\n', "mine.py:6: NameError: name 'nothing'"),
    (_START.replace('arg,', "'negativ=x',"),
     'mine.py:4: config argument "negativ=x": unknown key "negativ"; did you '
     'mean negatives?'),
    ('x = 1\n', 'mine.py: it has no function get_config'),
    (_START, 'mine.py: get_config must return the config that base_config() '
     'began, and returns nothing'),
    (_START + '  return config.to_dict()\n', 'and returns dict'),
])
def test_mistakes_in_a_config_file(code, message, tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  pathlib.Path('mine.py').write_text(code)
  with pytest.raises(errors.UserError, match=re.escape(message)) as caught:
    config_files.check(pathlib.Path('mine.py'), None)
  assert len(str(caught.value).splitlines()) == 1


def test_a_config_file_without_mistakes():
  config_files.check(CONFIGS / 'squad_stage2.py', 'size=small')


@pytest.mark.parametrize('flag', ['--config=', '--config=:size=small'])
def test_a_flag_without_a_file(flag):
  with pytest.raises(errors.UserError, match='--config= names no file'):
    main._with_config_paths(['main', flag])
