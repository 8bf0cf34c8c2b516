"""Reads `--sweep`: axes and their values, and the runs that they span.

    negatives=bm25,fine seed=0,1,2; negatives=random optim.steps=10,20

Axes are arguments of the config file, or keys of the config. A product of axes
is written with spaces; several products are joined with `;`.
"""

import ast
import dataclasses
import itertools
import pathlib
import runpy
from collections.abc import Mapping
from typing import Any

import ml_collections

from neg_contrast import errors, jobs
from neg_contrast.jobs import study
from neg_contrast.jobs.common import declared_cells
from neg_contrast.settings import config as config_lib

_INNER = ('stage1', 'generator', 'cells')  # They hold configs, not values.
_SEED = 'seed'


@dataclasses.dataclass(frozen=True)
class Source:
  """Where the config of every cell comes from.

  Attributes:
    file: of the config.
    argument: of the file, as given; may be empty.
    overrides: keys that flags set, with their values.
  """

  file: str
  argument: str
  overrides: Mapping[str, Any]


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
  """The runs of a sweep, each checked.

  Args:
    text: of the sweep.
    source: of their configs.
    workdir: has a folder for each, named by its values.

  Raises:
    UserError: names the cell and the key.
  """
  found: dict[str, declared_cells.Cell] = {}
  for product in _split(text, ';'):
    axes = _axes(product)
    for values in itertools.product(*axes.values()):
      chosen = dict(zip(axes, values, strict=True))
      name = _name(chosen)
      if name in found:
        raise errors.UserError(f'--sweep: {name}: stands there twice')
      try:
        config = _config(chosen, source, name)
      except errors.UserError as e:
        raise errors.UserError(f'--sweep: {name}: {e}') from None
      row = _name({key: value for key, value in chosen.items()
                   if key != _SEED})
      found[name] = declared_cells.Cell(
          '', row or 'all', ('', name), config,
          workdir / declared_cells.folder_name(name),
      )
  if not found:
    raise errors.UserError('--sweep: is empty; write it as in '
                           '--sweep="negatives=bm25,fine seed=0,1,2"')
  return declared_cells.placed(list(found.values()), workdir)


def _axes(product: str) -> dict[str, list[str]]:
  """Key -> its values as texts."""
  axes: dict[str, list[str]] = {}
  for word in _split(product, ' '):
    key, is_axis, text = word.partition('=')
    values = _split(text, ',', keep_empty=True)
    if not is_axis or not key:
      raise errors.UserError(f'--sweep: {word!r} is no KEY=VALUE,VALUE')
    if key in axes:
      raise errors.UserError(f'--sweep: {key}: stands there twice; join its '
                             'values with commas')
    for value in values:
      if not value:
        raise errors.UserError(f'--sweep: {key}: has an empty value')
      if values.count(value) > 1:
        raise errors.UserError(f'--sweep: {key}={value}: stands there twice')
    axes[key] = values
  return axes


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
  config = runpy.run_path(source.file)['get_config'](
      ','.join(given) or None
  )
  for key, value in source.overrides.items():
    config_lib.set_key(config, key, value)
  for key, value in chosen.items():
    if is_key[key]:
      config_lib.set_key(config, key, _value(config, key, value))
  parsed = config_lib.parse(config)
  with errors.within('', name):
    jobs.check(parsed)
    study.check_cell(parsed)
  return parsed


def _value(config: ml_collections.ConfigDict, key: str, text: str) -> Any:
  """A text as a value of a key; that of a text key is a text."""
  place: Any = config
  for name in key.split('.'):
    place = place.get(name) if isinstance(
        place, ml_collections.ConfigDict) else None
  if isinstance(place, str):
    return text
  try:
    return ast.literal_eval(text)
  except (SyntaxError, ValueError):
    return text


def _name(chosen: Mapping[str, str]) -> str:
  return ','.join(f'{key}={value}' for key, value in chosen.items())


def _split(text: str, mark: str, keep_empty: bool = False) -> list[str]:
  """Parts of a text between marks that stand in no brackets."""
  parts, depth = [''], 0
  for letter in text:
    depth += (letter in '([') - (letter in ')]')
    if depth == 0 and (letter == mark or mark == ' ' and letter.isspace()):
      parts.append('')
    else:
      parts[-1] += letter
  parts = [part.strip() for part in parts]
  return parts if keep_empty else [part for part in parts if part]
