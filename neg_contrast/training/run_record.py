"""What a run is, in its workdir; and the refusal of what another run left."""

import pathlib
import re
from collections.abc import Mapping
from typing import Any

import jax
from absl import logging
from jax.sharding import Mesh

from neg_contrast import cpu, errors, hosts
from neg_contrast.artifacts import checkpoints, folders, places
from neg_contrast.settings import config as config_lib

FILE = 'run.json'
FORMAT = 5
"""Of trainings. Raise it when the same settings give other numbers from some
step on: other dropout masks, another order of data, another draw. A run that
was begun under another number can't go on.

1: none was written. 2: checkpoints have checksums. 3: the identity is that of
an artifact. 4: rows are as long as suits the data, and their number is rounded
up less, so that dropout masks are others. 5: `context` with a number of its own
gives what miners have found, too.
"""
_KEYS = {'identity', 'config', 'environment', 'examples', 'total_steps',
         'row_lengths'}
_OF_POOL = re.compile(r'^needs\.pool\.settings\.(?=(?:pool_size|sources|'
                      r'first_rank|last_rank|\w*margin|drop_\w+)\b)')
_CHOSEN = ('train_split', 'tune_split', 'tune_fraction')
"""Keys of `data` that choose its training pairs."""


class RunRecord:
  """The file `run.json` of a workdir."""

  def __init__(self, workdir: pathlib.Path):
    """Reads nothing yet."""
    self._workdir, self._path = workdir, workdir / FILE

  def exists(self) -> bool:
    """Whether a run was begun here.

    Raises:
      UserError: there are checkpoints, and nothing says of what run.
    """
    if self._path.exists():
      return True
    folder = self._workdir / checkpoints.FOLDER
    if folder.is_dir() and any(folder.iterdir()):
      raise errors.UserError(
          f'{self._path}: is missing, and says which run the checkpoints '
          f'beside it are of. Put it back, or remove {self._workdir} to train '
          'again'
      )
    return False

  def read(self) -> dict[str, Any]:
    """What was written when the run began.

    Raises:
      UserError: the file is damaged, or of another format.
    """
    saved = folders.read_json(self._path)
    if not isinstance(saved, dict):
      raise self._damaged()
    revision = saved.get('environment')
    revision = revision.get('git_revision') if isinstance(
        revision, dict) else None
    if saved.get('format') != FORMAT:
      raise errors.UserError(
          f'{self._path}: the run was begun with format '
          f'{saved.get("format", "1 (none is written there)")}, and this '
          f'revision trains with format {FORMAT}: the same settings give other '
          f'numbers. Remove {self._workdir}, or name another '
          f'{errors.flag("workdir")}, or go '
          f'on with the revision that began it ({revision or "not known"})'
      )
    sha256 = saved.pop('sha256', None)
    if not saved.keys() >= _KEYS or sha256 != folders.sha256_json(saved):
      raise self._damaged()
    return saved

  def write(
      self,
      identity: dict[str, Any],
      config: dict[str, Any],
      environment: dict[str, Any],
      examples: int,
      total_steps: int,
      row_lengths: Mapping[str, int],
      chosen_groups: int | None = None,
  ) -> None:
    """Writes the file.

    Args:
      identity: what the trained parameters depend on.
      config: all settings.
      environment: versions, devices, and what else may change last bits.
      examples: how many are trained on.
      total_steps: of the run.
      row_lengths: tokens of a packed row, by what is in it.
      chosen_groups: groups encoded at once, where that was chosen by memory.
    """
    record = folders.as_json({
        'format': FORMAT, 'identity': identity, 'config': config,
        'environment': environment, 'examples': examples,
        'total_steps': total_steps, 'row_lengths': row_lengths,
        'chosen_groups': chosen_groups,
    })
    folders.write_json(
        self._path, {**record, 'sha256': folders.sha256_json(record)}
    )

  def check(
      self, identity: dict[str, Any], environment: dict[str, Any]
  ) -> None:
    """Refuses a workdir that holds another run; warns of another machine.

    A key that the config did not have when the run began had its default.

    Args:
      identity: of the run that is asked for.
      environment: as it is now.

    Raises:
      UserError: names what differs; or the file is damaged, or of another
        format.
    """
    saved = self.read()
    self._refuse(differences(saved['identity'], folders.as_json(identity)))
    for key, value in folders.as_json(environment).items():
      began = saved['environment'].get(key)
      if (began or value) and began != value:  # None is as good as empty.
        logging.warning(
            '%s was %s when the run began and is %s now: results may differ '
            'in their last bits', key, began, value,
        )

  def check_settings(self, settings: Mapping[str, Any]) -> None:
    """Refuses a workdir that holds a run with other settings.

    As `check`, before data and models of the run are known.

    Args:
      settings: those that count, of the run that is asked for.

    Raises:
      UserError: as `check`.
    """
    if self.exists():
      saved = self.read()
      self._refuse(differences(saved['identity'], folders.as_json(
          {**saved['identity'], 'settings': settings}
      )))

  def chunk_groups(self, devices: dict[str, Any]) -> int | None:
    """The number of groups encoded at once that was chosen when the run began.

    Args:
      devices: as they are now.

    Returns:
      None where no run was begun, on other devices, or with a given number.

    Raises:
      UserError: the file is damaged, or of another format.
    """
    if not self.exists():
      return None
    saved = self.read()
    if any(saved['environment'].get(key) != value
           for key, value in folders.as_json(devices).items()):
      return None
    older = saved['config']['model'].get('chunk_groups', 0)  # Chosen or given.
    return saved.get('chosen_groups', older)

  def _refuse(self, differences: list[str]) -> None:
    if differences:
      raise errors.UserError(
          f'{self._path}: this workdir holds a run with other settings:\n'
          + '\n'.join(f'  {line}' for line in differences)
          + f'\nGo on with those, remove {self._workdir}, or name another '
          + errors.flag('workdir')
      )

  def _damaged(self) -> errors.UserError:
    return errors.UserError(
        f'{self._path}: damaged. Put back a copy of it, or remove '
        f'{self._workdir} to train again'
    )


def repeats(identity: Mapping[str, Any], start: str) -> bool:
  """Whether a run has the data and the seed of the one that it goes on from.

  Then its batches are those of that run once more, in the same order.

  Args:
    identity: of the run.
    start: name of what it starts from: a workdir, or anything else.
  """
  try:
    earlier = folders.read_json(places.path(start) / FILE)['identity']
    found = [
        (one['needs']['data'], one['settings']['seed'],
         *map(one['settings']['data'].get, _CHOSEN))
        for one in (folders.as_json(identity), earlier)
    ]
  except (OSError, errors.UserError, KeyError, TypeError):
    return False  # It is no training of ours.
  return found[0] == found[1]


def environment(mesh: Mesh, dtype: Any) -> dict[str, Any]:
  """What may change last bits: versions, settings, devices, the compiler.

  Args:
    mesh: that is trained on.
    dtype: that layers compute in.
  """
  return {**folders.environment(), **devices(mesh),
          'compiler_options': cpu.compiler_options(mesh, dtype)}


def devices(mesh: Mesh) -> dict[str, Any]:
  """Devices and the mesh of them, as `environment` has them."""
  several = (f' of {jax.process_count()} processes' if hosts.are_several()
             else '')
  return {
      'devices': f'{len(jax.devices())} x {jax.devices()[0].device_kind}'
                 f'{several}',
      'mesh': dict(mesh.shape),
  }


def differences(saved: dict[str, Any], now: dict[str, Any]) -> list[str]:
  """Where two identities differ, a line each; settings as keys of the config,
  those of a pool included.
  """
  there, here = ({key: value for key, value in one.items()
                  if key != 'settings'} for one in (saved, now))
  return folders.differences(
      saved.get('settings'), now.get('settings'),
      errors.key('').removesuffix('.'),
      folders.as_json(config_lib.base_config().to_dict()),
  ) + [
      _OF_POOL.sub(errors.key('negatives.'), line)
      for line in folders.differences(there, here)
  ]
