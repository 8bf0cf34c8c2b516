"""The cheapest recipes, run whole, reach what `configs/expected.csv` says.

As commands of a user, on one device and with the compiler as it is.
"""

import os
import pathlib
import xml

import pytest

from neg_contrast.report import expected
from tests import processes

CHEAP = ('nce_synthetic.py', 'evaluate.py')
PLACES = {'python_docs:xml': f'python_docs:{pathlib.Path(xml.__file__).parent}'}
"""Sources as rows have them, and where they lie here.

The documentation of this package is the same in Python 3.11, 3.12 and 3.13;
where another Python has changed it, `--check` says that it is other data.
"""


def recipes():
  """(config, flags) of the rows that were measured."""
  rows = expected.read(processes.ROOT / 'configs' / expected.FILE)
  return list(dict.fromkeys(
      (row.config, row.flags) for row in rows
      if row.config in CHEAP and row.is_run_here))


def with_places(flag):
  name, _, value = flag.partition('=')
  return f'{name}={PLACES.get(value, value)}'


def test_each_has_rows():
  assert {config for config, _ in recipes()} == set(CHEAP)


@pytest.mark.parametrize('config, flags', recipes(), ids=CHEAP)
def test_a_recipe_reaches_what_is_expected(tmp_path, config, flags):
  command = [
      f'--config=configs/{config}', *map(with_places, flags),
      f'--workdir={tmp_path / "work"}',
      f'--config.data.prepared_dir={tmp_path / "prepared"}']
  env = {**os.environ, 'XLA_FLAGS': ''}
  ran = processes.run(processes.command(*command, env=env))
  assert ran.returncode == 0, ran.stderr
  checked = processes.run(processes.command(*command, '--check', env=env))
  assert checked.returncode == 0, checked.stdout + checked.stderr
  assert ' inside, 0 outside, 0 missing' in checked.stdout
  assert not checked.stdout.rpartition('\n')[2].startswith('0 inside')
