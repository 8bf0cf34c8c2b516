"""Which generation of a pool serves which steps, if another program makes it.

Then that does not follow from the step: a training takes the newest one that is
whole at each of its refresh points, and writes down which. What is written down
is taken again: by a run that was stopped, and by one in another workdir that
`refreshed/` was copied to, which so repeats the first to the last bit.
"""

import functools
import pathlib
from typing import Any

from neg_contrast import errors, hosts
from neg_contrast.artifacts import folders
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.negatives import refresh

FILE = 'served.json'


class Served:
  """The choices of a training, in `refreshed/served.json`."""

  def __init__(self, workdir: pathlib.Path, run: str):
    """Reads nothing yet.

    Args:
      workdir: of the training.
      run: code of its identity.
    """
    self._workdir, self._run = workdir, run
    self._folder = workdir / refresh.FOLDER
    self._by_step: dict[int, int] | None = None

  def choose(self, step: int) -> int:
    """The generation from a refresh point on, chosen now if it never was.

    All processes come here together.

    Args:
      step: steps that are done.

    Returns:
      The step that it was made at; 0: it is the mined pool.
    """
    hosts.on_first(functools.partial(self._write, step))
    self._by_step = None
    return self.at(step)

  def at(self, step: int) -> int:
    """The generation from a refresh point on, as it was chosen.

    Raises:
      UserError: nothing says which.
    """
    if self._by_step is None:
      self._by_step = self._read()
    if step not in self._by_step:
      raise errors.UserError(
          f'{self._folder / FILE}: does not say which negatives were drawn '
          f'from step {step} on. Put it back as it was, or train in another '
          f'{errors.flag("workdir")}'
      )
    return self._by_step[step]

  def _write(self, step: int) -> None:
    known = self._read()
    if step not in known:
      newest = max((made for made in steps_of(self._workdir, self._run)
                    if made <= step), default=0)
      folders.make_folder(self._folder)
      folders.write_sealed(self._folder / FILE, {
          'run': self._run, 'served': sorted({**known, step: newest}.items()),
      })

  def _read(self) -> dict[int, int]:
    path = self._folder / FILE
    if not path.exists():
      return {}
    try:
      saved = folders.read_sealed(path)
    except errors.UserError as e:
      raise errors.UserError(
          f'{str(e).partition(". Remove")[0]}; it says which negatives were '
          'drawn. Put it back, or train in another '
          f'{errors.flag("workdir")}'
      ) from None
    if saved['run'] != self._run:
      raise errors.UserError(
          f'{path}: is of another training; remove {self._folder}, or train in '
          f'another {errors.flag("workdir")}'
      )
    return {int(at): int(made) for at, made in saved['served']}


def steps_of(workdir: pathlib.Path, run: str) -> list[int]:
  """Steps of the generations of a training that are whole, ascending.

  Args:
    workdir: of the training.
    run: code of its identity; those of others are left out.
  """
  found = []
  for folder in sorted((workdir / refresh.FOLDER).glob('*')):
    if not folder.name.isdigit():
      continue  # What is being made, or was left by a kill.
    manifest: dict[str, Any] | None = folders.read_manifest(
        folder, pool_lib.FORMAT
    )
    if manifest and manifest['identity']['settings'].get('run') == run:
      found.append(int(folder.name))
  return found
