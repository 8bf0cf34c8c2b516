"""`--check`: the scores of a finished run beside those of `expected.csv`."""

from collections.abc import Sequence
from typing import Any

from neg_contrast import errors, hosts
from neg_contrast.jobs.common import recipe_scores, recipe_settings
from neg_contrast.report import expected

_MOST_KEYS = 5  # That a message names.


def check(job: Any, recipe: recipe_settings.Recipe) -> bool:
  """Prints a table of expected and found scores, and runs nothing.

  Where nothing is expected, rows are printed that can be added to the file.

  Args:
    job: of the recipe.
    recipe: its flags and places.

  Returns:
    Whether no score is outside its tolerance or missing.

  Raises:
    UserError: the run is not finished, or was changed; a line of the file is
      damaged; or it has no row of this recipe.
  """
  path = recipe.path
  if recipe.file is not None and not path.exists():
    raise errors.UserError(f'--expected={path}: no such file')
  rows = expected.read(path) if path.exists() else ()
  scores = recipe_scores.scores_of(job, recipe.config.job, recipe.workdir)
  mine = recipe_settings.belonging(rows, recipe)
  states = {score.data for score in scores}
  rows_of_data = [row for row in mine if not row.data or row.data in states]
  if not rows_of_data:
    if not rows:
      print(','.join(expected.COLUMNS))
    print(_lines(scores, recipe), end='', flush=True)
    raise errors.UserError(_no_row(recipe, rows, mine, states))
  outcomes = expected.judge(rows_of_data, scores)
  print(expected.table(outcomes), flush=True)
  if not any(row.is_run_here for row in rows_of_data):
    print('\nNone of them was run here yet. To add this run to '
          f'{path}:\n{_lines(scores, recipe)}', end='', flush=True)
  return all(outcome.is_right for outcome in outcomes)


def _lines(
    scores: Sequence[expected.Score], recipe: recipe_settings.Recipe
) -> str:
  """The scores of a run as rows."""
  return expected.lines(scores, recipe.name, recipe.flags, _machine())


def _machine() -> str:
  """What computes here."""
  import jax

  devices = jax.devices()
  if devices[0].platform == 'cpu':
    return f'{hosts.usable_cores()} CPU cores'
  return f'{len(devices)} x {devices[0].device_kind}'


def _no_row(
    recipe: recipe_settings.Recipe, rows: Sequence[expected.Row],
    mine: Sequence[expected.Row], states: set[str],
) -> str:
  """Why there is nothing to check, and what to do."""
  added = f'add the lines above to {recipe.path}, with tolerance and seconds'
  if mine:
    others = ', '.join(sorted({row.data for row in mine}))
    return (f'{recipe.path}: its rows of {recipe.name} are of other data '
            f'({others}, and this is {", ".join(sorted(states))}); {added}')
  file = recipe.name.partition(':')[0]
  of_file = [row for row in rows if row.config.partition(':')[0] == file]
  others = '; '.join(dict.fromkeys(
      ' '.join((row.config, *row.flags)) for row in of_file
  ))
  return (f'{recipe.path}: has no row of {recipe.name} with these flags'
          + (f', but of {others}' if others else '') + f'; {added}'
          + _nearest(recipe, of_file))


def _nearest(
    recipe: recipe_settings.Recipe, rows: Sequence[expected.Row]
) -> str:
  """In which keys the row that is most like the recipe differs from it."""
  found = []
  for argument, flags in dict.fromkeys(
      (row.config.partition(':')[2], row.flags) for row in rows
  ):
    (theirs, their_sweep), (ours, our_sweep) = (
        recipe_settings.settings_of(recipe.source.file, argument, flags),
        recipe.settings,
    )
    found.append([
        *(f'--config.{key}' for key in sorted({*theirs, *ours})
          if theirs.get(key) != ours.get(key)),
        *(['--sweep'] if their_sweep != our_sweep else []),
    ])
  keys = min(found, key=len, default=[])
  more = ', ...' if len(keys) > _MOST_KEYS else ''
  return ('. The nearest differs in ' + ', '.join(keys[:_MOST_KEYS]) + more
          if keys else '')
