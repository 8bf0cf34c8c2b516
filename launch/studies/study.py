"""What a study is: runs of the program, and the lines of one table.

A study is a Python file that sets `STUDY`; compare.py runs it.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class Run:
  """One run of `neg_contrast.main`, in a folder of its own.

  Attributes:
    config: a file in configs/, with its argument: `mine.py:negatives=bm25`.
    settings: config keys and values. In text values `{workdir}` stands for the
      folder of the study, `{row}` for that of this run, `{seed}` for its seed,
      `{runs[NAME]}` for the folder of another run, which is done first, and
      `{best[METRIC]}` for the run of the best line above.
    is_shared: whether one run, with seed 0, serves all seeds.
  """

  config: str
  settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  is_shared: bool = False


@dataclasses.dataclass(frozen=True)
class Line:
  """A line of the table: what one system of one run reached.

  Attributes:
    run: its name.
    system: as in the run's `metrics.json`.
    versus: the line that it is compared to; empty: none.
    note: text of the last column, such as the numbers of a paper.
  """

  run: str
  system: str = 'trained'
  versus: str = ''
  note: str = ''


@dataclasses.dataclass(frozen=True)
class Study:
  """Runs that are equal but for what is studied.

  Attributes:
    runs: by name.
    lines: by name, in the order of the table.
    metrics: the columns; `evaluation.metrics` of the runs has them.
    shown: the metric whose differences are a column; all are in the json file.
    pool: (run, system) of each ranking whose first passages make the fixed pool
      in which the positive's rank is measured; empty: it is not.
  """

  runs: Mapping[str, Run]
  lines: Mapping[str, Line]
  metrics: tuple[str, ...]
  shown: str
  pool: tuple[tuple[str, str], ...] = ()
