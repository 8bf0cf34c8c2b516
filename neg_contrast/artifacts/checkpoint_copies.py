"""Checkpoints in buckets that Orbax can't write to (all but gs://).

Orbax works on what stands for their folder on this disk. What it reads is
fetched first. A thread puts what it has saved, `places.COMMITTED` last, and
then removes what Orbax removed. Anywhere else there is nothing to do.
"""

import concurrent.futures
import pathlib
import shutil
from collections.abc import Callable, Collection

from neg_contrast import errors, hosts
from neg_contrast.artifacts import places


class Copies:
  """What stands on this disk for the folder of all checkpoints of a run."""

  def __init__(self, folder: pathlib.Path, writes: bool):
    """Looks which steps there are.

    Args:
      folder: of all checkpoints.
      writes: whether this program saves to it, as the only one; what is here
        and not there goes, and Orbax finds a folder of each step that is there.

    Raises:
      UserError: several processes would write it.
    """
    self._folder, self._near = folder, places.on_disk(folder)
    self._is_needed = places.is_out_of_reach_of_orbax(folder)
    self._putting: concurrent.futures.Future[None] | None = None
    self._thread = concurrent.futures.ThreadPoolExecutor(1)
    if not self._is_needed:
      return
    problem = writes and written_by_several(folder)
    if problem:
      raise errors.UserError(problem)
    self._steps = {int(step.name) for step in folder.iterdir()
                   if (step / places.COMMITTED).exists()}
    if writes:
      for one in self._near.glob('*'):
        if not one.name.isdigit() or int(one.name) not in self._steps:
          shutil.rmtree(one)
      for number in self._steps:
        (self._near / str(number)).mkdir(parents=True, exist_ok=True)

  def latest(self, known: int | None) -> int | None:
    """The newest finished step, where Orbax knows of this one."""
    return max(self._steps, default=None) if self._is_needed else known

  def bring(self, step: int, items: Collection[str]) -> pathlib.Path:
    """Fetches items of a step, and returns the folder that they are read from.

    Raises:
      UserError: they can't be fetched.
    """
    there = self._folder / str(step)
    if not self._is_needed:
      return there
    for one in there.rglob('*'):
      item, *rest = one.relative_to(there).parts
      if not rest or item in items:
        places.local(one)
    return places.on_disk(there)

  def put_when(self, finished: Callable[[], None]) -> None:
    """Puts and removes, in a thread, after a call that waits for Orbax."""
    if self._is_needed:
      self._putting = self._thread.submit(self._put, finished)

  def wait(self) -> None:
    """Returns when all is there; raises what went wrong, once."""
    putting, self._putting = self._putting, None
    if putting is not None:
      putting.result()

  def _put(self, finished: Callable[[], None]) -> None:
    finished()
    here = {int(one.name) for one in self._near.iterdir()
            if one.name.isdigit()}
    for step in sorted(here - self._steps):
      (self._near / str(step) / places.COMMITTED).touch()
      places.put_copies(self._folder / str(step), places.COMMITTED)
      self._steps = self._steps | {step}
    for step in self._steps - here:
      self._steps = self._steps - {step}
      places.remove(self._folder / str(step))


def written_by_several(folder: pathlib.Path) -> str | None:
  """What is wrong where several processes write checkpoints; None: nothing.

  Args:
    folder: of the checkpoints, or the workdir that it lies in.
  """
  if not hosts.are_several() or not places.is_out_of_reach_of_orbax(folder):
    return None
  return (f'{folder}: several processes can\'t write the checkpoints of a '
          f'training there; name a {errors.flag("workdir")} in gs:// or on a '
          'disk that all of them see, or start one process')
