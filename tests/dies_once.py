"""Workers of Beam that are killed on the way, the first time.

The environment names a file, DIES_ONCE, which is there once that has been.
"""

import dataclasses
import os
import pathlib
import re
import signal
from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class DiesOnce:
  """Loads what makes shards; its process is killed at one, the first time.

  `.loads` beside that file has the process of each load.

  Attributes:
    load: gives a function of a shard.
    at: the shard.
  """

  load: Callable
  at: int

  def __call__(self):
    with open(f'{_flag()}.loads', 'a') as f:
      f.write(f'{os.getpid()}\n')
    make = self.load()

    def make_or_die(shard):
      if shard == self.at:
        _die_once()
      make(shard)

    return make_or_die


@dataclasses.dataclass(frozen=True)
class DiesAt:
  """Calls a function; its process is killed at some value, the first time.

  Attributes:
    call: the function of a text, or of a block of one.
    pattern: of the text.
  """

  call: Callable
  pattern: str

  def __call__(self, value):
    if re.search(self.pattern, str(getattr(value, 'data', value))):
      _die_once()
    return self.call(value)


def _die_once() -> None:
  if not _flag().exists():
    _flag().touch()
    os.kill(os.getpid(), signal.SIGKILL)


def _flag() -> pathlib.Path:
  return pathlib.Path(os.environ['DIES_ONCE'])
