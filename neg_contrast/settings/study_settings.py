"""Keys of studies: many runs that are compared."""

import dataclasses

from neg_contrast.settings import keys


@dataclasses.dataclass(frozen=True)
class StudyConfig(keys.Section):
  """Which `cells` of `job=study` run, and how often.

  Attributes:
    rows: names of the cells that run, in the order of the table; empty: all.
    seeds: each cell runs once with each of them; empty: once, with its own
      `seed`.
    once: names of cells that run once whatever `seeds` says, with their own
      seed, such as a warm start.
    seed_stage1: give each seed to `stage1` of the cell too; else all seeds go
      on from the same stage 1.
  """

  section = 'study'

  rows: tuple[str, ...] = keys.key(())
  seeds: tuple[int, ...] = keys.key((), each=keys.from_to(0, 2**32 - 1))
  once: tuple[str, ...] = keys.key(())
  seed_stage1: bool = keys.key(False)

  def __post_init__(self):
    """Checks that no seed is named twice."""
    super().__post_init__()
    if len(set(self.seeds)) < len(self.seeds):
      raise self.error('seeds', 'names each once')
