"""What `record.py` wrote down is still so."""

import difflib
import os

import pytest

from tests import processes
from tests.golden import record


@pytest.mark.parametrize('name', record.GOLDEN)
def test_nothing_changed(name, tmp_path):
  """In a process of its own: the tests' type checks would change messages."""
  result = processes.run(processes.Process(
      'from tests.golden import record\nrecord.main()',
      [name, f'into={tmp_path}'],
      env=dict(os.environ, XLA_FLAGS=processes.with_devices(1)),
  ))
  assert result.returncode == 0, result.stderr
  there = (record.FOLDER / name).read_text(encoding='utf-8')
  here = (tmp_path / name).read_text(encoding='utf-8')
  changes = list(difflib.unified_diff(
      there.splitlines(), here.splitlines(), 'recorded', 'now', lineterm='', n=1
  ))
  assert not changes, '\n'.join(changes[:60])
