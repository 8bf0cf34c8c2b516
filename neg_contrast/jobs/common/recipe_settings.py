"""A recipe: a config with its argument and flags, and the rows that are of it.
"""

import dataclasses
import pathlib
import re
import runpy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from neg_contrast import errors
from neg_contrast.jobs.common import sweeps
from neg_contrast.report import expected
from neg_contrast.settings import config as config_lib

# They change places, speed and memory, and no score but by rounding.
_NOT_COUNTED = ('mesh', 'checkpointing', 'workdir', 'prepared_dir', 'mined_dir',
                'dir', 'how_to_get', 'attention', 'remat', 'chunk_groups',
                'scan_unroll', 'block_rows', 'table_rows', 'on_invalid',
                'serve', 'benchmark')
_SWEEP, _KEY = '--sweep', '--config.'
_FOLDERS = re.compile('[^:]*/')  # Of a place, after its scheme.

Settings = tuple[dict[str, Any], str]


@dataclasses.dataclass(frozen=True)
class Recipe:
  """What a command runs, as its flags say.

  Attributes:
    source: of the config.
    config: the same with its flags.
    sweep: text of `--sweep`; empty: there is none.
    workdir: of the run.
    file: csv file of what is expected; None: beside the config.
  """

  source: sweeps.Source
  config: config_lib.Config
  sweep: str
  workdir: pathlib.Path
  file: str | None

  @property
  def path(self) -> pathlib.Path:
    """The csv file."""
    beside = pathlib.Path(self.source.file).with_name(expected.FILE)
    return pathlib.Path(self.file) if self.file else beside

  @property
  def name(self) -> str:
    """File and argument, as rows have them: of places what comes last."""
    name, parts = pathlib.Path(self.source.file).name, []
    for part in filter(None, self.source.argument.split(',')):
      key, equals, value = part.partition('=')
      parts.append(f'{key}{equals}{_without_folders(value)}')
    return ':'.join(filter(None, (name, ','.join(parts))))

  @property
  def flags(self) -> tuple[str, ...]:
    """Flags that count, as rows have them."""
    flags = [f'{_KEY}{key}={_without_folders(value)}'
             for key, value in self.source.overrides.items()
             if not set(key.split('.')) & set(_NOT_COUNTED)]
    return (*flags, *([f'{_SWEEP}={self.sweep}'] if self.sweep else []))

  @property
  def settings(self) -> Settings:
    """Equal for rows that belong to it."""
    return _counted(self.config), ' '.join(self.sweep.split())


def belonging(
    rows: Sequence[expected.Row], recipe: Recipe
) -> list[expected.Row]:
  """The rows whose config and flags set what those of the recipe set.

  Raises:
    UserError: the config of a row refuses its argument or its flags; names file
      and line.
  """
  name = pathlib.Path(recipe.source.file).name
  known: dict[tuple[str, tuple[str, ...]], Settings] = {}
  found = []
  for row in rows:
    file, _, argument = row.config.partition(':')
    if file != name:
      continue
    what = row.config, row.flags
    if what not in known:
      try:
        known[what] = settings_of(recipe.source.file, argument, row.flags)
      except errors.UserError as e:
        raise errors.UserError(f'{row.where}: {e}') from None
    if known[what] == recipe.settings:
      found.append(row)
  return found


def settings_of(file: str, argument: str, flags: Sequence[str]) -> Settings:
  """What a config with argument and flags sets: keys that count, and a sweep.

  Args:
    file: of the config.
    argument: of the file; may be empty.
    flags: words `--config.KEY=VALUE` and `--sweep=TEXT`.

  Raises:
    UserError: names the argument or the key.
  """
  config, sweep = runpy.run_path(file)['get_config'](argument or None), ''
  for flag in flags:
    name, _, value = flag.partition('=')
    if name == _SWEEP:
      sweep = ' '.join(value.split())
    else:
      key = name.removeprefix(_KEY)
      config_lib.set_key(config, key, sweeps.value_of(config, key, value))
  return _counted(config_lib.parse(config)), sweep


def _counted(config: config_lib.Config) -> dict[str, Any]:
  return dict(_leaves(config_lib.to_dict(config)))


def _leaves(
    values: Mapping[str, Any], prefix: str = ''
) -> Iterator[tuple[str, Any]]:
  """Keys that count, with their values."""
  for key, value in values.items():
    if key in _NOT_COUNTED:
      continue
    if isinstance(value, dict):
      yield from _leaves(value, f'{prefix}{key}.')
    else:
      yield prefix + key, _without_folders(value)


def _without_folders(value: Any) -> Any:
  """A value; of a place only what comes last, which every machine has."""
  if isinstance(value, tuple):
    return tuple(map(_without_folders, value))
  if not isinstance(value, str) or ' ' in value:
    return value
  return _FOLDERS.sub('', value.rstrip('/'))
