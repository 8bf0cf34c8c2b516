"""What `record.py` wrote down is still so."""

import difflib
import os
import subprocess
import sys

import pytest

from tests.golden import record


@pytest.mark.parametrize('name', record.GOLDEN)
def test_nothing_changed(name, tmp_path):
  """In a process of its own: the tests' type checks would change messages."""
  env = {key: value for key, value in os.environ.items() if key != 'XLA_FLAGS'}
  result = subprocess.run(
      [sys.executable, '-m', 'tests.golden.record', name, f'into={tmp_path}'],
      cwd=record.ROOT, env=env, capture_output=True, text=True, check=False,
  )
  assert result.returncode == 0, result.stderr
  there = (record.FOLDER / name).read_text(encoding='utf-8')
  here = (tmp_path / name).read_text(encoding='utf-8')
  changes = list(difflib.unified_diff(
      there.splitlines(), here.splitlines(), 'recorded', 'now', lineterm='', n=1
  ))
  assert not changes, '\n'.join(changes[:60])
