"""Checkpoints in a bucket that a kill left half saved.

On a disk Orbax saves to a folder of another name, and removes what is left of
one. In a bucket it saves in place, writes `commit_success.txt` last, and leaves
what has none.
"""

import pathlib

from absl import logging

from neg_contrast.artifacts import places


def remove(folder: pathlib.Path) -> None:
  """Removes them; the first process alone does. A folder on a disk has none.

  Args:
    folder: of all checkpoints of a run, which this program writes.
  """
  if not places.is_remote(folder):
    return
  for step in folder.iterdir():
    if not (step / places.COMMITTED).exists():
      logging.info('%s: was not saved to its end; removed', step)
      places.remove(step)
