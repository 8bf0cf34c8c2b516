"""A worker of Beam that is killed on the way."""

import dataclasses
import os
import pathlib
import signal
from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class DiesOnce:
  """Loads what makes shards; its process is killed at one, the first time.

  The environment names a file, DIES_ONCE, which is there once that has been;
  `.loads` beside it has the process of each load.

  Attributes:
    load: gives a function of a shard.
    at: the shard.
  """

  load: Callable
  at: int

  def __call__(self):
    flag = pathlib.Path(os.environ['DIES_ONCE'])
    with open(f'{flag}.loads', 'a') as f:
      f.write(f'{os.getpid()}\n')
    make = self.load()

    def make_or_die(shard):
      if shard == self.at and not flag.exists():
        flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)
      make(shard)

    return make_or_die
