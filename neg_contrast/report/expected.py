"""The scores that recipes should reach, from a csv file, beside those of a run.

A row is one score of one recipe: a config with its argument and flags. It was
measured here, and has a tolerance; or it was published, and was not run here.
"""

import collections
import csv
import dataclasses
import datetime
import io
import math
import pathlib
import re
import shlex
import statistics
from collections.abc import Iterable, Mapping, Sequence

from neg_contrast import errors
from neg_contrast.data.formats import line_blocks

FILE = 'expected.csv'
"""Its name, beside the config files that it is about."""

COLUMNS = ('config', 'flags', 'dataset', 'system', 'metric', 'value',
           'tolerance', 'data', 'seconds', 'machine', 'revision', 'date',
           'source')
RUN_HERE = 'run here'
PUBLISHED = 'published, not run here'
"""Values of `source`; the second goes on with a colon and the place."""

INSIDE, OUTSIDE, MISSING = 'inside', 'outside', 'missing'
"""Verdicts; a published number without a tolerance has `PUBLISHED`."""

_CONFIG = re.compile(r'[^/\s:]+\.py(:\S+)?')
_FLAG = re.compile(r'--(config\.[\w.]+|sweep)=.+', re.DOTALL)
_DEVIATIONS = 2.0  # Over seeds, that a proposed tolerance has.
_LEAST = 1e-4  # Of a proposed tolerance: values have so many digits.

Key = tuple[str, str, str]


@dataclasses.dataclass(frozen=True)
class Row:
  """One expected score.

  Attributes:
    where: file and line, for messages.
    config: name of the file, with the argument after a colon if it has one.
    flags: beside `--config=`; of paths in them only the last part counts.
    dataset: `<dataset>/<split>`, as in `metrics.json`.
    system: as in `metrics.json`; of a study or sweep the name of the row.
    metric: its name.
    value: of the metric; of several seeds the mean.
    tolerance: how far a run may be off; None: a published number has none.
    data: the state of the data that it holds for, as `Score.data`; empty: any.
    seconds: that the run took; None: nobody wrote them down.
    machine: that it ran on.
    revision: of the code.
    date: of the run, or of the publication; year, month and day.
    source: `RUN_HERE`, or `PUBLISHED` with the place.
  """

  where: str
  config: str
  flags: tuple[str, ...]
  dataset: str
  system: str
  metric: str
  value: float
  tolerance: float | None
  data: str
  seconds: float | None
  machine: str
  revision: str
  date: str
  source: str

  @property
  def key(self) -> Key:
    """Data set, system and metric."""
    return self.dataset, self.system, self.metric

  @property
  def is_run_here(self) -> bool:
    """Whether it was measured, and not published."""
    return self.source == RUN_HERE


@dataclasses.dataclass(frozen=True)
class Score:
  """What a run reached.

  Attributes:
    dataset: as of `Row`.
    system: as of `Row`.
    metric: its name.
    by_seed: one value, or one for each seed.
    data: the state of its data; empty: it has none.
    revision: of the code that made it; empty: not known.
    date: year, month and day.
  """

  dataset: str
  system: str
  metric: str
  by_seed: tuple[float, ...]
  data: str = ''
  revision: str = ''
  date: str = ''

  @property
  def key(self) -> Key:
    """Data set, system and metric."""
    return self.dataset, self.system, self.metric

  @property
  def value(self) -> float:
    """Mean over the seeds."""
    return statistics.fmean(self.by_seed)

  @property
  def proposed_tolerance(self) -> float | None:
    """Two standard deviations over the seeds, of a sample; None for one."""
    if len(self.by_seed) < 2:
      return None
    return max(_DEVIATIONS * statistics.stdev(self.by_seed), _LEAST)


@dataclasses.dataclass(frozen=True)
class Outcome:
  """A row beside what a run reached.

  Attributes:
    row: what is expected.
    found: what was reached; None: the run has no such score.
    verdict: `INSIDE`, `OUTSIDE`, `MISSING` or `PUBLISHED`.
  """

  row: Row
  found: float | None
  verdict: str

  @property
  def is_right(self) -> bool:
    """Whether nothing speaks against the run."""
    return self.verdict in (INSIDE, PUBLISHED)


def read(path: pathlib.Path) -> tuple[Row, ...]:
  """Reads the rows of a csv file with `COLUMNS`.

  Returns:
    Its rows; none if the file is empty.

  Raises:
    UserError: the file is missing, has another header, or a line is damaged or
      says what another line says: file, line, column and what is allowed there.
  """
  rows: list[Row] = []
  known: dict[tuple, str] = {}
  has_header = False
  for number, line in line_blocks.numbered_lines(path):
    where = f'{path}:{number}'
    fields = _split(line, where)
    if not has_header:
      has_header = True
      if tuple(fields) != COLUMNS:
        raise errors.UserError(
            f'{where}: the header is not {",".join(COLUMNS)}'
        )
      continue
    row = _parse(fields, where)
    what = (row.config, row.flags, *row.key, row.data, row.is_run_here)
    if what in known:
      raise errors.UserError(f'{where}: metric is {row.metric!r}; the same is '
                             f'expected in {known[what]}: remove one of them')
    known[what] = where
    rows.append(row)
  return tuple(rows)


def judge(rows: Iterable[Row], scores: Iterable[Score]) -> list[Outcome]:
  """Holds each row against the score of the same key.

  Args:
    rows: of the run's recipe.
    scores: of the run.
  """
  values = {score.key: score.value for score in scores}
  return [Outcome(row, values.get(row.key), _verdict(row, values))
          for row in rows]


def table(outcomes: Sequence[Outcome]) -> str:
  """Metric, expected ± tolerance, found and verdict, a line each.

  Returns:
    Aligned lines and how many there are of each verdict, without a final
    newline.
  """
  cells = [('metric', 'expected', 'found', '')]
  cells += [('/'.join(one.row.key), _expectation(one.row),
             '-' if one.found is None else f'{one.found:.6g}', one.verdict)
            for one in outcomes]
  widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
  lines = ['  '.join(
      text.ljust(width) for text, width in zip(line, widths, strict=True)
  ).rstrip() for line in cells]
  count = collections.Counter(one.verdict for one in outcomes)
  said = [f'{count[verdict]} {verdict}'
          for verdict in (INSIDE, OUTSIDE, MISSING)]
  if count[PUBLISHED]:
    said.append(f'{count[PUBLISHED]} published without a tolerance: compare '
                'them yourself')
  return '\n'.join([*lines, ', '.join(said)])


def lines(
    scores: Iterable[Score], config: str, flags: Sequence[str], machine: str
) -> str:
  """Rows of a run, to be added to a csv file.

  Tolerance comes of seeds, and is empty where there is one; seconds are empty.

  Args:
    scores: of the run.
    config: as of `Row`.
    flags: as of `Row`.
    machine: as of `Row`.

  Returns:
    A line each, with their ends.
  """
  written = io.StringIO()
  writer = csv.writer(written, lineterminator='\n')
  for score in scores:
    tolerance = score.proposed_tolerance
    writer.writerow((
        config, ' '.join(map(_quoted, flags)), *score.key, f'{score.value:.6g}',
        '' if tolerance is None else f'{tolerance:.2g}', score.data, '',
        machine, score.revision, score.date, RUN_HERE,
    ))
  return written.getvalue()


def _quoted(flag: str) -> str:
  """A word as a shell reads it, with one pair of quotes if that will do."""
  if shlex.quote(flag) == flag or re.search(r'["$`\\!]', flag):
    return shlex.quote(flag)
  return f'"{flag}"'


def _verdict(row: Row, values: Mapping[Key, float]) -> str:
  if row.key not in values:
    return MISSING
  if row.tolerance is None:
    return PUBLISHED
  # The last digit of what is written may be rounded either way.
  distance = abs(values[row.key] - row.value)
  return INSIDE if distance <= row.tolerance + 1e-9 else OUTSIDE


def _expectation(row: Row) -> str:
  if row.tolerance is None:
    return f'{row.value:.6g}'
  return f'{row.value:.6g} ± {row.tolerance:.6g}'


def _split(line: str, where: str) -> list[str]:
  try:
    return next(csv.reader([line], strict=True))
  except csv.Error as e:
    raise errors.UserError(f'{where}: {e} (is a quote not closed?)') from None


def _parse(fields: Sequence[str], where: str) -> Row:
  """A row of the fields of a line."""
  if len(fields) != len(COLUMNS):
    raise errors.UserError(f'{where}: {len(fields)} fields, not '
                           f'{len(COLUMNS)}: {",".join(COLUMNS)}')
  texts = dict(zip(COLUMNS, fields, strict=True))
  is_run_here = texts['source'] == RUN_HERE

  def check(column: str, is_right: object, rule: str) -> None:
    if not is_right:
      raise errors.UserError(
          f'{where}: {column} is {texts[column]!r}; it {rule}'
      )

  published, _, place = texts['source'].partition(': ')
  check('source', is_run_here or published == PUBLISHED and place.strip(),
        f'must be "{RUN_HERE}", or "{PUBLISHED}: " and the place')
  check('config', _CONFIG.fullmatch(texts['config']), 'must be the name of a '
        'config file, with its argument after a colon if it has one')
  flags = _flags(texts['flags'])
  check('flags', flags is not None, 'must be words --config.KEY=VALUE, or '
        '--sweep="..."')
  for column in ('dataset', 'system', 'metric'):
    check(column, texts[column], 'must not be empty')
  numbers = {column: _number(texts[column])
             for column in ('value', 'tolerance', 'seconds')}
  check('value', numbers['value'] is not None, 'must be a finite number')
  for column in ('tolerance', 'seconds'):
    number = numbers[column]
    check(column, not texts[column] or number is not None and number >= 0,
          'must be a number that is not below 0, or empty')
  check('tolerance', texts['tolerance'] or not is_run_here, 'must say how far '
        'a run may be off: the spread over seeds, which --sweep="seed=0,1,2" '
        'and then --check print')
  check('date', _is_date(texts['date']) or not texts['date']
        and not is_run_here, 'must be YYYY-MM-DD')
  assert numbers['value'] is not None and flags is not None
  return Row(where, **{
      **texts, 'flags': flags, **numbers,
  })  # type: ignore[arg-type]


def _flags(text: str) -> tuple[str, ...] | None:
  """The words of `flags`; None: there is one that is none of them."""
  try:
    words = tuple(shlex.split(text))
  except ValueError:
    return None
  return words if all(map(_FLAG.fullmatch, words)) else None


def _number(text: str) -> float | None:
  try:
    value = float(text)
  except ValueError:
    return None
  return value if math.isfinite(value) else None


def _is_date(text: str) -> bool:
  try:
    return datetime.date.fromisoformat(text).isoformat() == text
  except ValueError:
    return False
