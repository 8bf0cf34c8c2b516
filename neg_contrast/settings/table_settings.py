"""Keys of a table of trainings."""

import dataclasses

from neg_contrast.settings import keys


@dataclasses.dataclass(frozen=True)
class TableConfig(keys.Section):
  """How a grid of trainings is printed (Lu et al., Tables 2 to 4).

  Attributes:
    metrics: columns; empty: `evaluation.metrics`.
    datasets: names of the data in `paper`: of `data.test_split`, and of
      `more_splits`.
    more_splits: judgements that are reported besides `data.test_split`.
    paper: a csv file of the paper's numbers, printed beside ours; empty: none.
    members: cells of the group `generated` that the ensembles are made of;
      empty: there are no ensembles.
  """

  section = 'table'

  metrics: tuple[str, ...] = keys.key(())
  datasets: tuple[str, ...] = keys.key(())
  more_splits: tuple[str, ...] = keys.key(())
  paper: str = keys.key('')
  members: tuple[str, ...] = keys.key(())
