"""Moves everything that a config keeps below `workdirs/` to another root.

On a slice all hosts have to see the same folders, and they have a bucket and
nothing else. Configs name folders below `workdirs/`; `--root=gs://BUCKET/DIR`
puts all of them there, those of inner configs too. `--workdir` takes along what
is trained for its run.
"""

import re
from collections.abc import Iterable
from typing import Any, TypeVar

from ml_collections import config_dict

Value = TypeVar('Value')
_BELOW = re.compile(r'(?P<scheme>(?:[\w-]+:)?)workdirs/(?P<rest>.*)', re.DOTALL)


def place(path: str, root: str) -> str:
  """The path below the root, if it begins with `workdirs/`.

  Args:
    path: such as `workdirs/prepared`, or a source such as `dpr:workdirs/nq`.
    root: of all workdirs; empty: paths stay.
  """
  match = _BELOW.fullmatch(path) if root else None
  if not match:
    return path
  return f'{match["scheme"]}{root.rstrip("/")}/{match["rest"]}'


def put_under(
    config: config_dict.ConfigDict, root: str
) -> config_dict.ConfigDict:
  """A config whose paths lie below the root, see `place`.

  Args:
    config: stays as it is; inner configs are moved too.
    root: of all workdirs; empty: paths stay.
  """
  moved = config.copy_and_resolve_references()
  _move(moved, root)
  return moved


def put_trainings_under(
    config: config_dict.ConfigDict, workdir: str, kept: Iterable[str]
) -> config_dict.ConfigDict:
  """A config whose stages and generators are trained below a workdir.

  Files of configs put them into `workdirs/`, where a second run finds them. Two
  runs with workdirs of their own would meet there.

  Args:
    config: stays as it is.
    workdir: of the command; empty: they stay where they are.
    kept: keys that the user has set, such as `stage1.workdir`.
  """
  moved = config.copy_and_resolve_references()
  _move_trainings(moved, workdir, frozenset(kept), '')
  return moved


def _move_trainings(
    config: config_dict.ConfigDict, workdir: str, kept: frozenset[str],
    where: str,
) -> None:
  for key, value in config.items():
    name = f'{where}{key}'
    if isinstance(value, config_dict.ConfigDict):
      _move_trainings(value, workdir, kept, f'{name}.')
    elif key == 'workdir' and where and name not in kept:
      config[key] = place(value, workdir)


def _move(config: config_dict.ConfigDict, root: str) -> None:
  for key, value in config.items():
    if isinstance(value, config_dict.ConfigDict):
      _move(value, root)
    else:
      config[key] = _moved(value, root)


def _moved(value: Any, root: str) -> Any:
  if isinstance(value, str):
    return place(value, root)
  if isinstance(value, tuple):
    return tuple(_moved(one, root) for one in value)
  return value
