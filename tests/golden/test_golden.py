"""What `record.py` wrote down is still so."""

import difflib

import pytest

from tests.golden import record


@pytest.mark.parametrize('name', record.GOLDEN)
def test_nothing_changed(name):
  there = (record.FOLDER / name).read_text(encoding='utf-8')
  here = record.GOLDEN[name]()
  changes = list(difflib.unified_diff(
      there.splitlines(), here.splitlines(), 'recorded', 'now', lineterm='', n=1
  ))
  assert not changes, '\n'.join(changes[:60])
