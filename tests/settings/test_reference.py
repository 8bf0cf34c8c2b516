"""configs/KEYS.md is what the code says."""

import dataclasses
import pathlib

from neg_contrast import jobs
from neg_contrast.settings import config as config_lib
from neg_contrast.settings import reference

FILE = pathlib.Path(__file__).parents[2] / 'configs' / 'KEYS.md'


def test_keys_md_is_up_to_date():
  assert FILE.read_text(encoding='utf-8') == reference.reference(), (
      'run python -m neg_contrast.settings.reference > configs/KEYS.md'
  )


def test_every_key_has_a_row():
  text = FILE.read_text(encoding='utf-8')
  for key in config_lib.flat(config_lib.base_config()):
    section, _, name = key.rpartition('.')
    heading = f'## `{section}`\n' if section else '## Top level\n'
    rows = text.partition(heading)[2].partition('\n## ')[0]
    assert rows.count(f'\n| `{name}` | ') == 1, key


def test_docstrings_name_the_keys_that_there_are():
  for cls in [config_lib.Config, *(
      field.type for field in dataclasses.fields(config_lib.Config)
      if dataclasses.is_dataclass(field.type)
  )]:
    meanings = reference.meanings(cls)
    assert list(meanings) == [field.name for field in dataclasses.fields(cls)]
    assert all(meanings.values())


def test_rows():
  rows = dict(line[2:].split(' | ', 1) for line in FILE.read_text().splitlines()
              if line.startswith('| `'))
  assert rows['`batch_size`'].startswith('`64` | int, [2, 1048576] | yes | ')
  assert rows['`greedy`'].startswith(
      '`False` | bool | if `sources` name `sampled` | ')
  assert rows['`layers`'].startswith('`None` | int or None, ≥ 1 | yes | ')
  assert rows['`fsdp`'].split(' | ')[2] == 'no'  # The whole section.
  assert 'each one of `dpr`' in rows['`formats`']


def test_jobs_are_named():
  meaning = reference.meanings(config_lib.Config)['job']
  assert all(f'`{name}`' in meaning for name in jobs.JOBS)
