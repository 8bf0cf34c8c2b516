"""Work in numbered parts that any number of processes divide."""

import pathlib
import time
from collections.abc import Callable, Sequence

import jax
from absl import logging

from neg_contrast.artifacts import bucket_turns, folders

_POLL_SECONDS = 1.0


def make_all(
    places: Sequence[pathlib.Path],
    is_made: Callable[[int], bool],
    make: Callable[[int], None],
) -> None:
  """Makes the parts that are missing; returns when all are there.

  A process makes what no other is making; a part is anyone's again when its
  process ends. Those of one JAX program begin with every n-th part each, and
  then help the others: none must wait for one that waits for it elsewhere.
  In a bucket they are told when a part is made; on a disk they look.

  Args:
    places: a path of each part, which `artifacts.only_one` locks.
    is_made: whether a part is there, whoever made it.
    make: makes a part, all or nothing.
  """
  index, count = jax.process_index(), jax.process_count()
  parts = sorted(range(len(places)), key=lambda part: (part - index) % count)
  is_waiting = False
  while True:
    for part in parts:
      if is_made(part):
        continue
      waits = is_waiting and bucket_turns.are_told(places[part])
      with folders.only_one(places[part], waits) as is_ours:
        if is_ours and not is_made(part):  # Not made since we looked.
          make(part)
    if all(map(is_made, parts)):
      return
    if not is_waiting:
      logging.info('%s: waiting for other processes', places[0].parent)
      is_waiting = True
    if not bucket_turns.are_told(places[0]):
      time.sleep(_POLL_SECONDS)
