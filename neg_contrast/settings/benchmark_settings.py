"""Keys of benchmarks."""

import dataclasses

from neg_contrast.settings import keys

BENCHMARKS = ('train', 'encode', 'search', 'mine', 'input')
"""Tasks that `job=benchmark` measures."""

PEERS = ('sentence-transformers', 'transformers')
"""Libraries that training and encoding are compared with."""


@dataclasses.dataclass(frozen=True)
class BenchmarkConfig(keys.Section):
  """What `job=benchmark` measures, and how long.

  Attributes:
    task: `train` steps, with their input; `encode` passages; `search` passages
      for queries; `mine` a pool of hard negatives; or the `input` of training
      alone.
    versus: `sentence-transformers`, or `transformers` for a plain PyTorch loop
      around it, to take turns with it at `train` or `encode`; empty: nothing.
    mini_batch: texts that `versus` encodes at once in training, by its loss
      with a gradient cache; 0: all of a batch, by its plain loss.
    rounds: rounds that are measured; one more before them compiles.
    steps: training steps, or batches, of a round: the same in each.
    passages: passages that are encoded or searched, as far as `data.source` has
      so many; without a source they are random words.
    queries: queries that are encoded or searched for, likewise.
    profile: number of operations to list, those that took most time on the
      devices, by one more round, which the workdir keeps in profile/; 0: none.
  """

  section = 'benchmark'

  task: str = keys.key('train', keys.one_of(*BENCHMARKS))
  versus: str = keys.key('', keys.one_of('', *PEERS))
  mini_batch: int = keys.key(0, keys.at_least(0))
  rounds: int = keys.key(5, keys.at_least(1))
  steps: int = keys.key(4, keys.at_least(1))
  passages: int = keys.key(1000, keys.at_least(2))
  queries: int = keys.key(1000, keys.at_least(2))
  profile: int = keys.key(0, keys.at_least(0))

  def __post_init__(self):
    """Checks ranges and that the keys agree."""
    super().__post_init__()
    if self.versus and self.task not in ('train', 'encode'):
      raise self.error('versus', 'is for train and encode, not for '
                       f'benchmark.task={self.task}; leave it out')
    if self.mini_batch and not (self.versus and self.task == 'train'):
      raise self.error('mini_batch', 'is of benchmark.versus in training; '
                       'leave it out')
