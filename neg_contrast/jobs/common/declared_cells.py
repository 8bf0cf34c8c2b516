"""The runs of a study or a sweep: configs in one plan, each with its folder.

Stages that several of them go on from (`stage1`, `generator`) lie in folders
that their settings name, so that equal ones are made once. One that is a run of
the study itself lies in the folder of that run.
"""

import dataclasses
import hashlib
import pathlib
import re
from typing import Any

from neg_contrast import errors
from neg_contrast.artifacts import folders
from neg_contrast.settings import config as config_lib

SHARED = 'shared'
_LONGEST = 150  # Letters in a folder's name.
_STAGES = ('stage1', 'generator')
_NOT_COUNTED = ('workdir', 'mesh', 'checkpointing', 'compare', 'study')


@dataclasses.dataclass(frozen=True)
class Cell:
  """One run.

  Attributes:
    group: whose table it is in; may be empty.
    row: of that table; runs that differ in their seed share it.
    place: key of its config, and a note, as `errors.within` wants them.
    config: of the run.
    workdir: of the run.
  """

  group: str
  row: str
  place: tuple[str, str]
  config: config_lib.Config
  workdir: pathlib.Path

  def within(self):
    """What runs inside reads its config."""
    return errors.within(*self.place)

  def is_outdated(self) -> bool:
    """Whether it was evaluated since its report was written."""
    report = self.workdir / 'report.html'
    return not report.exists() or any(
        path.stat().st_mtime > report.stat().st_mtime
        for path in self.workdir.glob('evaluation/*/manifest.json')
    )


def folder_name(text: str) -> str:
  """A name as one of a folder; others have other folders."""
  plain = re.sub(r'[^\w.,=+-]+', '-', text)[:_LONGEST]
  if plain == text:
    return text
  return f'{plain}-{hashlib.sha256(text.encode()).hexdigest()[:8]}'


def cells_of(config: config_lib.Config, workdir: pathlib.Path) -> list[Cell]:
  """The runs of `job=study`: its `cells`, each with all seeds.

  Args:
    config: of the study.
    workdir: of the study.
  """
  settings = config.study
  return placed([
      _cell(group, name, seed, cells[name], settings, workdir)
      for group, cells in (config.cells or {}).items()
      for name in settings.rows or cells if name in cells
      for seed in (settings.seeds if name not in settings.once else ())
      or (cells[name].seed,)
  ], workdir)


def _cell(
    group: str, name: str, seed: int, config: config_lib.Config,
    settings: config_lib.StudyConfig, workdir: pathlib.Path,
) -> Cell:
  """A cell with a seed."""
  config = dataclasses.replace(config, seed=seed)
  if settings.seed_stage1 and config.stage1 is not None:
    config = dataclasses.replace(
        config, stage1=dataclasses.replace(config.stage1, seed=seed)
    )
  return Cell(
      group, name, (f'cells.{group}.{name}', f'seed {seed}'), config,
      workdir / folder_name(group) / f'{folder_name(name)}-seed{seed}',
  )


def placed(cells: list[Cell], workdir: pathlib.Path) -> list[Cell]:
  """Cells whose earlier stages have their folders.

  Args:
    cells: each with its workdir.
    workdir: of the study.
  """
  own = {_key(cell.config): cell.workdir for cell in reversed(cells)}

  def place(config: config_lib.Config) -> config_lib.Config:
    inner: dict[str, Any] = {}
    for name in _STAGES:
      stage = getattr(config, name)
      if stage is not None:
        code = _key(stage)
        folder = own.get(code, workdir / SHARED / f'{name}-{code[:12]}')
        inner[name] = dataclasses.replace(place(stage), workdir=str(folder))
    return dataclasses.replace(config, **inner)

  return [dataclasses.replace(cell, config=dataclasses.replace(
      place(cell.config), workdir=str(cell.workdir)
  )) for cell in cells]


def _key(config: config_lib.Config) -> str:
  """Equal for configs that train the same, wherever they do.

  Keys that have their defaults don't count, so that a new one changes nothing.
  """
  return folders.sha256_json(_counted(
      config_lib.to_dict(config), config_lib.to_dict(config_lib.Config())
  ))


def _counted(
    values: dict[str, Any], defaults: dict[str, Any]
) -> dict[str, Any]:
  changed = {}
  for name, value in values.items():
    default = defaults if name in _STAGES else defaults.get(name)
    if isinstance(value, dict) and isinstance(default, dict):
      value = _counted(value, default) or default
    if name not in _NOT_COUNTED and value != default:
      changed[name] = value
  return changed
