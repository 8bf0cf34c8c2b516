"""The runs that `--sweep` spans: configs that differ in the values of its axes.

Axes are arguments of the config file, or keys of the config.
"""

import ast
import contextlib
import dataclasses
import functools
import pathlib
import runpy
from collections.abc import Iterable, Mapping
from typing import Any

import ml_collections

from neg_contrast import errors, jobs
from neg_contrast.jobs import study
from neg_contrast.jobs.common import declared_cells, study_checks, sweep_text
from neg_contrast.settings import config as config_lib
from neg_contrast.settings import rooted, unread_keys

_INNER = ('stage1', 'generator', 'cells')  # They hold configs, not values.
_SEED = 'seed'


@dataclasses.dataclass(frozen=True)
class Source:
  """Where the config of every cell comes from.

  Attributes:
    file: of the config.
    argument: of the file, as given; may be empty.
    overrides: keys that flags set, with their values.
    root: of the workdirs, see `rooted`.
    workdir: of the command; empty: what the config says.
  """

  file: str
  argument: str
  overrides: Mapping[str, Any]
  root: str = ''
  workdir: str = ''

  def placed(
      self, config: ml_collections.ConfigDict, chosen: Iterable[str] = ()
  ) -> ml_collections.ConfigDict:
    """A config of it, all of whose paths lie where the command says.

    Args:
      config: stays as it is.
      chosen: keys that a sweep sets, which stay as those of flags do.
    """
    return rooted.put_under(rooted.put_trainings_under(
        config, self.workdir, (*self.overrides, *chosen)
    ), self.root)


def make_job(
    text: str, source: Source, config: config_lib.Config, workdir: pathlib.Path
) -> study.StudyJob:
  """The job of `--sweep`.

  Args:
    text: of the sweep.
    source: of the configs.
    config: has the keys of `compare`.
    workdir: of the job.

  Raises:
    UserError: as `cells`.
  """
  return study.StudyJob(config, workdir, cells(text, source, workdir))


def cells(
    text: str, source: Source, workdir: pathlib.Path
) -> list[declared_cells.Cell]:
  """The runs of a sweep, each checked; those of seeds alone are one row.

  Args:
    text: of the sweep.
    source: of their configs.
    workdir: has a folder for each, named by its values.

  Raises:
    UserError: names the cell and the key.
  """
  found: dict[str, declared_cells.Cell] = {}
  for chosen in sweep_text.choices(text):
    name = sweep_text.name_of(chosen)
    try:
      config = _config(chosen, source, name)
    except errors.UserError as e:
      raise errors.UserError(f'--sweep: {name}: {e}') from None
    if any(cell.config == config for cell in found.values()):
      raise errors.UserError(f'--sweep: {name}: stands there twice')
    row = sweep_text.name_of({
        key: value for key, value in chosen.items() if key != _SEED
    })
    found[name] = declared_cells.Cell(
        '', row or pathlib.Path(source.file).stem, ('', name), config,
        workdir / declared_cells.folder_name(name),
    )
  return declared_cells.placed(list(found.values()), workdir)


def _config(
    chosen: Mapping[str, str], source: Source, name: str
) -> config_lib.Config:
  """The config of a cell, checked."""
  known = config_lib.flat(config_lib.base_config())
  is_key = {key: '.' in key or (key in known and key not in _INNER)
            for key in chosen}
  given = [item for item in source.argument.split(',') if item]
  for key in chosen:
    if key in source.overrides or key in [item.partition('=')[0]
                                          for item in given]:
      raise errors.UserError(f'{key}: is set by --config too; leave it out '
                             'there')
    if key == 'workdir':
      raise errors.UserError('workdir: every cell has a folder of its own in '
                             '--workdir')
  given += [f'{key}={value}' for key, value in chosen.items()
            if not is_key[key]]
  config = runpy.run_path(source.file)['get_config'](','.join(given) or None)
  for key, value in source.overrides.items():
    config_lib.set_key(config, key, value)
  for key, value in chosen.items():
    if is_key[key]:
      config_lib.set_key(config, key, value_of(config, key, value))
  parsed = config_lib.parse(source.placed(config, chosen))
  with errors.within('', name):
    jobs.check(parsed)
    study_checks.check_cell(parsed)
  unread_keys.warn(parsed, filter(is_key.get, chosen))
  return parsed


def value_of(config: ml_collections.ConfigDict, key: str, text: str) -> Any:
  """A text as a value of a key; that of a text key is a text."""
  *sections, last = key.split('.')
  with contextlib.suppress(AttributeError, KeyError, TypeError):
    section = functools.reduce(lambda at, name: at[name], sections, config)
    if section.get_type(last) is str:
      return text
  try:
    return ast.literal_eval(text)
  except (SyntaxError, ValueError):
    return text
