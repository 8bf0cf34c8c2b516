"""Keys of comparisons between finished runs."""

import dataclasses

from neg_contrast.settings import keys


@dataclasses.dataclass(frozen=True)
class CompareConfig(keys.Section):
  """Which runs are compared, and in what.

  Runs whose configs differ only in their seed make one row.

  Attributes:
    workdirs: of finished runs, for `job=compare`; may hold `*` and `?`, as in
      ('workdirs/random-*','workdirs/bm25-*').
    systems: whose evaluations are compared; of each run those that it has.
    metrics: columns; empty: all that the runs have.
    names: of the rows of `job=compare`, in their order; empty: the keys that
      they differ in.
    baseline: the row that all others are compared to; empty: the first.
    dataset: `<dataset>/<split>`, where a run was evaluated on several; empty:
      there is one.
  """

  section = 'compare'

  workdirs: tuple[str, ...] = keys.key(())
  systems: tuple[str, ...] = keys.key(('trained', 'reranked'))
  metrics: tuple[str, ...] = keys.key(())
  names: tuple[str, ...] = keys.key(())
  baseline: str = keys.key('')
  dataset: str = keys.key('')

  def __post_init__(self):
    """Checks that there is something to compare."""
    super().__post_init__()
    if not self.systems:
      raise self.error('systems', "names at least one, such as ('trained',)")
