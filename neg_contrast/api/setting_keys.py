"""Settings as Python arguments: `optim__steps=100` is `config.optim.steps`."""

import os
import runpy
from collections.abc import Mapping
from typing import Any

import ml_collections

from neg_contrast import jobs
from neg_contrast.settings import config as config_lib
from neg_contrast.settings import config_files, rooted


def keys_of(settings: Mapping[str, Any]) -> dict[str, Any]:
  """Settings by their keys, paths as text."""
  return {key.replace('__', '.'):
              os.fspath(value) if isinstance(value, os.PathLike) else value
          for key, value in settings.items()}


def parse(
    config: ml_collections.ConfigDict, keys: Mapping[str, Any],
    workdir: str = '',
) -> config_lib.Config:
  """A config with some keys set; `workdir` as for `from_file`.

  Raises:
    UserError: a key or its value is wrong.
  """
  for key, value in keys.items():
    config_lib.set_key(config, key, value)
  return config_lib.parse(rooted.put_trainings_under(config, workdir, keys))


def checked(settings: Mapping[str, Any], **values: Any) -> config_lib.Config:
  """The config of all defaults, with values and settings, checked for its job.

  Args:
    settings: of the user; these win.
    **values: of the caller, with `__` for `.` too.

  Raises:
    UserError: a key or its value is wrong, or does not suit the job.
  """
  config = parse(config_lib.base_config(), keys_of({**values, **settings}))
  jobs.check(config)
  return config


def from_file(
    config_file: str, arg: str | None, keys: Mapping[str, Any],
    workdir: str = '',
) -> config_lib.Config:
  """The config of a file, with some keys set.

  Args:
    config_file: a path, or the name of one that comes with the package.
    arg: of its `get_config`.
    keys: see `keys_of`.
    workdir: takes stage 1 and generators along; see `rooted`.

  Raises:
    UserError: there is no such file, or a key or its value is wrong.
  """
  path = config_files.find(config_file)
  config = runpy.run_path(str(path))['get_config'](arg)
  return parse(config, keys, workdir)
