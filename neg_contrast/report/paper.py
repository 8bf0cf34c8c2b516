"""The numbers of Lu et al., Tables 2, 3 and 4, to hold ours against.

They are data, in `configs/lu_et_al.csv`: in percent, as printed.
"""

import csv
import dataclasses
import math
import pathlib
from collections.abc import Mapping

from neg_contrast import errors
from neg_contrast.data.formats import line_blocks

COLUMNS = ('table', 'dataset', 'stage1', 'row', 'metric', 'value')
TABLES = ('2', '3', '4')
STAGE1 = ('', 'generated', 'no_hard_negatives', 'none')
"""What the rows started from; nothing is said of baselines."""

METRICS = (
    *(f'answer_accuracy@{k}' for k in (1, 5, 10, 20, 100)),
    'mrr@10', 'recall@1000', 'ndcg@10',
)


@dataclasses.dataclass(frozen=True)
class Size:
  """What was measured on.

  Attributes:
    passages: of the corpus.
    queries: of the test set.
  """

  passages: int
  queries: int

  def __str__(self) -> str:
    return f'{self.passages:,} passages, {self.queries:,} queries'


SIZES = {
    'nq': Size(21_015_324, 3_610),
    'squad': Size(21_015_324, 10_570),
    'msmarco_dev': Size(8_841_823, 6_980),
    'trec_dl_2019': Size(8_841_823, 43),
}
"""Of each dataset: section 5.1 and Table 1. MS MARCO's corpus is "about 8.8
million" there; the number is that of its collection.tsv. Of the 200 queries of
TREC DL 2019 in Table 1 only 43 are judged (Craswell et al., 2020), and means
are over these."""


@dataclasses.dataclass(frozen=True)
class Place:
  """Where a row is printed.

  Attributes:
    table: 2, 3 or 4. Rows 1 to 6 of Table 4 are in Table 2 as well.
    dataset: one of `SIZES`.
    stage1: one of `STAGE1`.
    row: what was fine-tuned with (`random`, `coarse`, `fine`, `bm25`,
      `context`, `mixed`), `fusion_embedding`, `fusion_rank`, `Stage 1` or the
      name of a baseline as printed.
  """

  table: int
  dataset: str
  stage1: str
  row: str


@dataclasses.dataclass(frozen=True)
class Paper:
  """What the paper says.

  Attributes:
    rows: place -> metric -> percent, in the order of the paper.
  """

  rows: Mapping[Place, Mapping[str, float]]

  def find(
      self, table: int, dataset: str, stage1: str, row: str
  ) -> Mapping[str, float]:
    """Metric -> percent of a row; empty where the paper has no such row."""
    return self.rows.get(Place(table, dataset, stage1, row), {})


def read(path: pathlib.Path) -> Paper:
  """Reads the numbers from a csv file with `COLUMNS`.

  Raises:
    UserError: the file is missing, has another header, or a line is damaged or
      repeats a cell: file, line, column and what is allowed there.
  """
  rows: dict[Place, dict[str, float]] = {}
  header = False
  for number, line in line_blocks.numbered_lines(path):
    where = f'{path}:{number}'
    fields = tuple(next(csv.reader([line])))
    if not header:
      header = True
      if fields != COLUMNS:
        raise errors.UserError(f'{where}: the header is not {COLUMNS}')
      continue
    place, metric, value = _parse(fields, where)
    cells = rows.setdefault(place, {})
    if metric in cells:
      raise errors.UserError(f'{where}: {place} has {metric} already')
    cells[metric] = value
  if not rows:
    raise errors.UserError(f'{path}: no rows')
  return Paper(rows)


def _parse(fields: tuple[str, ...], where: str) -> tuple[Place, str, float]:
  if len(fields) != len(COLUMNS):
    raise errors.UserError(
        f'{where}: {len(fields)} fields, not {", ".join(COLUMNS)}'
    )
  table, dataset, stage1, row, metric, text = fields
  for name, found, known in (
      ('table', table, TABLES), ('dataset', dataset, tuple(SIZES)),
      ('stage1', stage1, STAGE1), ('metric', metric, METRICS),
  ):
    if found not in known:
      raise errors.UserError(
          f'{where}: {name} is {found!r}; there are {", ".join(known)}'
      )
  try:
    value = float(text)
  except ValueError:
    value = math.nan
  if not 0 <= value <= 100:
    raise errors.UserError(f'{where}: value is {text!r}, no number of percent')
  return Place(int(table), dataset, stage1, row), metric, value
