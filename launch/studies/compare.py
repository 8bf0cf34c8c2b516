"""Runs a study: configs that are equal but for one thing, and one table.

    python launch/studies/compare.py launch/studies/negatives.py --seeds=2 \\
        --workdir=workdirs/compare data.source=beir:DATA data.test_split=dev \\
        'warm start:optim.steps=100'

The study says which runs there are and which lines the table has; README.md
beside this file explains it. `KEY=VALUE` sets a config key in every run that
has it, `RUN:KEY=VALUE` in the runs whose name fits (`*` fits any text).
`--lines` chooses lines of the table; only what they need is run.

Differences are paired by query, means over the seeds. Their 95% intervals are a
bootstrap over the queries: they cover the choice of queries, not that of seeds.
The same command goes on where it stopped. The table, all differences and the
arguments are kept in WORKDIR/comparison.json.
"""

import argparse
import ast
import fnmatch
import json
import os
import pathlib
import re
import runpy
import string
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

import pool_ranks
import study as study_lib

from neg_contrast import api, errors
from neg_contrast.artifacts import folders
from neg_contrast.evaluation import confidence, per_query
from neg_contrast.settings import config as config_lib

CONFIGS = pathlib.Path(__file__).parents[2] / 'configs'


def main() -> None:
  """Runs what is missing, and prints the table."""
  args = _parse_arguments()
  if 'JAX_COMPILATION_CACHE_DIR' not in os.environ:
    # Runs share most of their programs.
    jax.config.update('jax_compilation_cache_dir', str(args.workdir / 'xla'))
    jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.5)
  api.show_progress()
  began = time.monotonic()
  try:
    study = load(args.study, args.lines and args.lines.split(','))
    comparison = Comparison(study, args.workdir, args.settings)
    comparison.check()
    values = comparison.measure(args.seeds)
  except errors.UserError as e:
    print(f'error: {e}', file=sys.stderr)
    sys.exit(2)
  text, differences = describe(study, values)
  print(f'\n{text}\n\n{time.monotonic() - began:.0f} s')
  folders.write_json(args.workdir / 'comparison.json', {
      'study': str(args.study), 'settings': args.settings,
      'seeds': args.seeds, 'table': text.splitlines(),
      'differences': differences, 'seconds': time.monotonic() - began,
      'environment': folders.environment(),
  })


def load(
    path: pathlib.Path, lines: list[str] | None = None
) -> study_lib.Study:
  """The study of a file, with all lines or some.

  Raises:
    UserError: there is no such file or line.
  """
  if not path.is_file():
    raise errors.UserError(f'{path}: no such file')
  study: study_lib.Study = runpy.run_path(str(path))['STUDY']
  for name in lines or ():
    if name not in study.lines:
      raise errors.UserError(
          f'--lines: {name!r} is none of {", ".join(study.lines)}'
      )
  chosen = {name: line for name, line in study.lines.items()
            if not lines or name in lines}
  return study_lib.Study(study.runs, chosen, study.metrics, study.shown,
                         study.pool)


Values = dict[str, dict[str, float]]
"""Metric -> query id -> value."""


class Comparison:
  """A study in a folder."""

  def __init__(
      self, study: study_lib.Study, workdir: pathlib.Path, settings: list[str]
  ):
    """Does nothing yet.

    Args:
      study: with the lines that are wanted.
      workdir: keeps everything; an interrupted comparison goes on there.
      settings: `KEY=VALUE` or `RUN:KEY=VALUE`, for all runs or some.
    """
    self._study, self._workdir, self._given = study, workdir, settings
    self._done: set[tuple[str, int]] = set()
    self._values: dict[str, list[Values]] = {}

  def check(self) -> None:
    """Reads every config before anything runs.

    Raises:
      UserError: a key, a value or the name of a run is wrong.
    """
    names = {name for line in self._study.lines.values()
             for name in (line.run, *self._needs(line.run))}
    keys: set[str] = set()
    for name in names:
      config, _, settings = self._config(name, 0)
      config_lib.parse(config)
      keys |= settings.keys()
    for given in self._given:
      pattern, key, _ = _split(given)
      fits = {name for name in names if fnmatch.fnmatchcase(name, pattern)}
      if not fits or key not in keys:
        raise errors.UserError(f'{given}: fits no run; runs are '
                               f'{", ".join(sorted(names))}')

  def measure(self, seeds: int) -> dict[str, list[Values]]:
    """Line -> values of each seed; one where the run is shared."""
    for seed in range(seeds):
      for name, line in self._study.lines.items():
        if seed and self._study.runs[line.run].is_shared:
          continue
        self._run(line.run, seed)
        self._values.setdefault(name, []).append(self._measure(line, seed))
    return self._values

  def _run(self, name: str, seed: int) -> None:
    """Runs what a run needs, and then itself."""
    seed = self._seed(name, seed)
    if (name, seed) in self._done:
      return
    for other in self._needs(name):
      self._run(other, seed)
    _, file, settings = self._config(name, seed)
    api.run(file, self._folder(name, seed), **{
        key.replace('.', '__'): value for key, value in settings.items()
    })
    self._done.add((name, seed))

  def _measure(self, line: study_lib.Line, seed: int) -> Values:
    found = per_query.read(
        self._evaluation(line.run, line.system, seed) / per_query.FILE
    )
    values = {name: found[name] for name in self._study.metrics}
    if self._study.pool:
      path = self._folder(line.run, seed) / 'pool_ranks.json'
      if not path.exists():
        folders.write_json(path, self._ranks(line.run, seed))
      values[pool_ranks.NAME] = json.loads(path.read_text())
    return values

  def _ranks(self, name: str, seed: int) -> dict[str, float]:
    config, _, _ = self._config(name, seed)
    for run, _ in self._study.pool:
      self._run(run, seed)
    return pool_ranks.Pool(
        api.load_corpus(config.data.source,
                        data__prepared_dir=config.data.prepared_dir),
        config.data.test_split,
        [self._evaluation(*ranking, seed) / 'run.trec'
         for ranking in self._study.pool],
    ).ranks(config.checkpoint or self._folder(name, seed))

  def _evaluation(self, name: str, system: str, seed: int) -> pathlib.Path:
    places = self._folder(name, seed) / 'evaluation'
    found = sorted(places.glob(f'*-{system}'))
    if len(found) != 1:
      raise errors.UserError(f'{places}: holds {len(found)} evaluations of '
                             f'{system!r}, and one is needed')
    return found[0]

  def _seed(self, name: str, seed: int) -> int:
    return 0 if self._study.runs[name].is_shared else seed

  def _folder(self, name: str, seed: int) -> pathlib.Path:
    word = re.sub(r'[^\w.-]+', '-', name)
    return self._workdir / 'runs' / f'{word}-{self._seed(name, seed)}'

  def _needs(self, name: str) -> list[str]:
    """The runs that the settings of a run name."""
    if name not in self._study.runs:
      raise errors.UserError(f'{name!r} is none of the study\'s runs')
    texts = [value for value in self._study.runs[name].settings.values()
             if isinstance(value, str)]
    fields = [field for text in texts
              for _, field, _, _ in string.Formatter().parse(text) if field]
    return [field[5:-1] for field in fields if field.startswith('runs[')]

  def _config(self, name: str, seed: int) -> tuple[Any, str, dict[str, Any]]:
    """(a run's config, its file with argument, the settings that it got)."""
    run = self._study.runs[name]
    file, _, arg = run.config.partition(':')
    path = CONFIGS / file  # An absolute path stays as it is.
    config = runpy.run_path(str(path))['get_config'](arg or None)
    known = config_lib.flat(config)
    settings = {'seed': seed, **run.settings}
    for given in self._given:
      pattern, key, value = _split(given)
      if key in known and fnmatch.fnmatchcase(name, pattern):
        settings[key] = value
    marks = {
        'workdir': self._workdir, 'row': self._folder(name, seed), 'seed': seed,
        'runs': _Lookup(lambda other: self._folder(other, seed)),
        'best': _Lookup(self._best),
    }
    for key, value in settings.items():
      if value == '{seed}':
        settings[key] = seed
      elif isinstance(value, str):
        settings[key] = value.format_map(marks)
      config_lib.set_key(config, key, settings[key])
    return config, f'{path}:{arg}' if arg else str(path), settings

  def _best(self, metric: str) -> pathlib.Path:
    """The trained run whose line is best so far."""
    lines = [name for name in self._values
             if self._study.lines[name].system == 'trained']
    if not lines:  # Configs are checked before there are values.
      return self._workdir / 'runs' / 'best'
    best = max(lines, key=lambda name: _means(self._values[name])[metric])
    return self._folder(self._study.lines[best].run, 0)


class _Lookup:
  """Answers `{runs[NAME]}`."""

  def __init__(self, answer: Callable[[str], object]):
    self._answer = answer

  def __getitem__(self, name: str) -> object:
    return self._answer(name)


def describe(
    study: study_lib.Study, values: Mapping[str, list[Values]]
) -> tuple[str, dict[str, Any]]:
  """The table in Markdown, and every difference.

  A star marks a value whose difference to the line it is compared to has an
  interval without 0.

  Args:
    study: its lines.
    values: of each line, a seed an entry.

  Returns:
    (the table, `LINE/METRIC` -> interval and differences by seed).
  """
  names = (*study.metrics, *([pool_ranks.NAME] if study.pool else []))
  differences: dict[str, Any] = {}
  rows = [['', *names, f'{study.shown}: difference, 95%; by seed', 'note']]
  for name, runs in values.items():
    line, means = study.lines[name], _means(runs)
    base = values.get(line.versus)
    if base:
      for metric in names:
        differences[f'{name}/{metric}'] = _difference(runs, base, metric)
    cells = [
        f'{means[metric]:.{2 if metric == pool_ranks.NAME else 4}f}'
        + '*' * differences.get(f'{name}/{metric}', {}).get('separable', False)
        for metric in names
    ]
    shown = differences.get(f'{name}/{study.shown}')
    rows.append([name, *cells, _show(shown) if shown else '', line.note])
  lines = [f'| {" | ".join(row)} |' for row in rows]
  lines.insert(1, '|---' + '|---:' * len(names) + '|---|---|')
  return '\n'.join(lines), differences


def _means(runs: list[Values]) -> dict[str, float]:
  return {metric: float(np.mean([np.mean([*run[metric].values()])
                                 for run in runs])) for metric in runs[0]}


def _difference(
    runs: list[Values], base: list[Values], metric: str
) -> dict[str, Any]:
  queries = sorted(runs[0][metric].keys() & base[0][metric].keys())
  ours, theirs = (
      np.array([[run[metric][query] for query in queries] for run in side])
      for side in (runs, base)
  )
  low, high = confidence.interval(ours.mean(0) - theirs.mean(0))
  return {
      'low': low, 'high': high, 'separable': low > 0 or high < 0,
      'seeds': [float(a.mean() - b.mean()) for a, b in
                zip(ours, theirs, strict=False)],  # A shared run has one.
  }


def _show(difference: dict[str, Any]) -> str:
  each = ', '.join(f'{value:+.4f}' for value in difference['seeds'])
  return f'{difference["low"]:+.4f} to {difference["high"]:+.4f}; {each}'


def _split(given: str) -> tuple[str, str, Any]:
  """(pattern of runs, key, value) of `[RUN:]KEY=VALUE`."""
  name, is_setting, text = given.partition('=')
  if not is_setting:
    raise errors.UserError(f'{given}: is no KEY=VALUE')
  pattern, _, key = name.rpartition(':')
  try:
    value = ast.literal_eval(text)
  except (SyntaxError, ValueError):
    value = text
  return pattern or '*', key, value


def _parse_arguments() -> argparse.Namespace:
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawTextHelpFormatter
  )
  add = parser.add_argument
  add('study', type=pathlib.Path, help='a file that sets STUDY')
  add('settings', nargs='*', metavar='[RUN:]KEY=VALUE')
  add('--workdir', type=pathlib.Path, required=True)
  add('--seeds', type=int, default=1)
  add('--lines', metavar='LINE,LINE', help='of the table; default: all')
  return parser.parse_intermixed_args()


if __name__ == '__main__':
  main()
