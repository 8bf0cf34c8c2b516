"""Configs that leave nothing to compare are refused before anything runs."""

from collections.abc import Iterable, Sequence

from neg_contrast import errors
from neg_contrast.artifacts import artifact
from neg_contrast.evaluation import evaluations, metrics
from neg_contrast.evaluation.metrics import metric
from neg_contrast.jobs.common import declared_cells
from neg_contrast.settings import config as config_lib

EVALUATED = ('train', 'train_reranker', 'evaluate', 'rerank', 'ensemble')


def check_rows(config: config_lib.Config) -> None:
  """Refuses keys that name rows which no cell has, or that are left out.

  Raises:
    SettingError: `study.once`, `study.rows` or `compare.baseline` names one.
  """
  names = {name for cells in (config.cells or {}).values() for name in cells}
  for key in ('once', 'rows'):
    for name in getattr(config.study, key):
      if name not in names:
        raise errors.SettingError(f'study.{key}', name, 'is none of the cells: '
                                  + ', '.join(sorted(names)))
  baseline, rows = config.compare.baseline, config.study.rows
  if baseline in names and rows and baseline not in rows:
    raise errors.SettingError(
        'compare.baseline', baseline, 'is left out by '
        f'{errors.key("study.rows")}; add it there, or name one of '
        + ', '.join(rows))


def check_compared(
    settings: config_lib.CompareConfig, cells: Sequence[declared_cells.Cell]
) -> None:
  """Refuses a baseline or a metric that a table will not have.

  Args:
    settings: names them.
    cells: all runs of the study or sweep.

  Raises:
    SettingError: `compare.baseline` is no row; or a run does not measure one of
      `compare.metrics`, or what others of its table measure.
  """
  tables: dict[str, list[declared_cells.Cell]] = {}
  for cell in cells:
    tables.setdefault(cell.group, []).append(cell)
  for table in tables.values():
    _check_baseline(settings, sorted({cell.row for cell in table}))
    _check_metrics(settings, table)


def _check_baseline(
    settings: config_lib.CompareConfig, rows: Sequence[str]
) -> None:
  systems = settings.systems
  possible = ('', *rows, *systems, *(
      f'{row}: {system}' for row in rows for system in systems))
  if settings.baseline not in possible:
    raise settings.error(
        'baseline', f'is none of the rows: {"; ".join([*rows, *systems])}')


def _check_metrics(
    settings: config_lib.CompareConfig, cells: Sequence[declared_cells.Cell]
) -> None:
  wanted = settings.metrics or tuple(dict.fromkeys(
      name for cell in cells for name in cell.config.evaluation.metrics
  ))
  for cell in cells:
    ran = measured(cell.config)
    for name in wanted:
      if name not in ran:
        with cell.within():
          key = errors.key('evaluation.metrics')
        raise settings.error(
            'metrics', f'{cell.workdir.name} does not measure {name}; add it '
            f'to {key}, or name some of {", ".join(ran)}')


def measured(config: config_lib.Config) -> tuple[str, ...]:
  """Names of a run's metrics, some only where its split has what they need."""
  evaluation = config.evaluation
  has_candidates = config.job in ('rerank', 'train_reranker')
  return (
      *evaluation.metrics,
      *(f'answer_accuracy@{k}' for k in evaluation.answer_ks),
      *((f'accuracy@{evaluation.depth}',
         *metrics.names_with(metric.CANDIDATES)) if has_candidates else ()),
  )


def is_compared(
    settings: config_lib.CompareConfig, one: evaluations.Evaluation
) -> bool:
  """Whether a table has an evaluation."""
  return (one.ranking.name in settings.systems
          and settings.dataset in ('', one.dataset))


def check_evaluated(
    settings: config_lib.CompareConfig, made: Iterable[artifact.Artifact]
) -> None:
  """Refuses a run of which no table has anything.

  Args:
    settings: name systems, and a data set.
    made: by the run.

  Raises:
    UserError: says what it evaluates.
  """
  has = [one for one in made if isinstance(one, evaluations.Evaluation)]
  if not any(is_compared(settings, one) for one in has):
    asked = [f'--config.compare.{key}={value}' for key, value in (
        ('systems', settings.systems), ('dataset', settings.dataset)) if value]
    raise errors.UserError(
        f'{errors.key("job")}: evaluates '
        + ', '.join(f'{one.ranking.name} on {one.dataset}' for one in has)
        + f'; {" and ".join(asked)} name none of them')


def check_cell(config: config_lib.Config) -> None:
  """Refuses a run that leaves nothing to compare."""
  if config.job not in EVALUATED:
    raise config.error('job', 'leaves no evaluations to compare; it must be '
                       f'one of {", ".join(EVALUATED)}')
