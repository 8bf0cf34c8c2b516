"""The commands that jobs advise, and how they are written."""

import shlex
import sys

import pytest

from neg_contrast.jobs.common import next_command
from neg_contrast.settings import config as config_lib
from tests import tiny


@pytest.mark.parametrize('program, start', [
    ('/usr/bin/neg-contrast', 'neg-contrast '),
    ('neg_contrast/main.py', 'python -m neg_contrast.main '),
])
def test_it_begins_as_this_one_did(monkeypatch, program, start):
  monkeypatch.setattr(sys, 'orig_argv', ['/elsewhere/bin/python', program])
  monkeypatch.setattr(sys, 'executable', '/elsewhere/bin/python')
  assert next_command.command('split').startswith(start + '--config=')


def test_the_python_of_this_folder_is_named(monkeypatch, tmp_path):
  monkeypatch.setattr(sys, 'argv', ['main.py'])
  monkeypatch.setattr(sys, 'executable', str(tmp_path / '.venv/bin/python'))
  monkeypatch.chdir(tmp_path)
  assert next_command.command('split').startswith(
      '.venv/bin/python -m neg_contrast.main --config=configs/split.py')


@pytest.mark.parametrize('switch', ['--plan', '-plan', '--plan=true'])
def test_a_plan_ends_with_the_command(monkeypatch, switch):
  flags = ['--config=configs/train.py', '--sweep=a=1 b=(2,3)']
  monkeypatch.setattr(sys, 'argv', ['main.py', flags[0], switch, flags[1]])
  words = shlex.split(next_command.without('plan'))
  assert words[-4:] == ['-m', 'neg_contrast.main', *flags]


def test_a_shell_reads_it_back(capsys, tmp_path):
  config = config_lib.parse(tiny.make_config(
      tmp_path, data__source='csv:my faq.csv?documents=hand&book',
      data__on_invalid='skip', data__query_prefix='find: '))
  next_command.print_search(config, tmp_path / 'a run')
  line = capsys.readouterr().out.splitlines()[-1]
  assert shlex.split(line)[-8:] == [
      '--config=configs/search.py', f'--config.checkpoint={tmp_path}/a run',
      '--config.data.source=csv:my faq.csv?documents=hand&book',
      f'--config.data.prepared_dir={tmp_path}/prepared',
      '--config.data.on_invalid=skip', '--config.data.query_prefix=find: ',
      f'--workdir={tmp_path}/a run-search', '--config.query=a question']
