"""Configs that leave nothing to compare are refused before anything runs."""

from neg_contrast import errors
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
  systems = config.compare.systems
  possible = {*names, *systems, *(
      f'{name}: {system}' for name in names for system in systems)}
  if baseline and baseline not in possible:
    raise errors.SettingError(
        'compare.baseline', baseline, 'is none of the rows: '
        + ', '.join([*sorted(names), *systems]))
  if baseline in names and rows and baseline not in rows:
    raise errors.SettingError(
        'compare.baseline', baseline, 'is left out by '
        f'{errors.key("study.rows")}; add it there, or name one of '
        + ', '.join(rows))


def check_cell(config: config_lib.Config) -> None:
  """Refuses a run that leaves nothing to compare."""
  if config.job not in EVALUATED:
    raise config.error('job', 'leaves no evaluations to compare; it must be '
                       f'one of {", ".join(EVALUATED)}')
