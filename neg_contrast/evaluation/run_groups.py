"""Runs that differ only in their seed, put together and named.

A row is named by the keys in which its config differs from those of the other
rows, or else by its folder.
"""

import collections
import dataclasses
import os
import pathlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from neg_contrast import errors
from neg_contrast.evaluation import finished_runs

_IGNORED = ('mesh', 'checkpointing', 'table', 'benchmark', 'compare', 'study',
            'cells', 'query')  # None of them changes a model.
_PLACES = ('workdir', 'prepared_dir', 'mined_dir', 'dir', 'how_to_get')
_SEED = 'seed'
_FIRST = {'stage1', 'generator'}  # Configs within a config.


@dataclasses.dataclass(frozen=True)
class Row:
  """What is compared: one system of a run, once with each seed.

  Attributes:
    name: unique among the rows.
    runs: a seed each.
    is_shared: whether several rows have the same, such as BM25.
  """

  name: str
  runs: tuple[finished_runs.FinishedRun, ...]
  is_shared: bool = False


def group(
    runs: Sequence[finished_runs.FinishedRun], defaults: Mapping[str, Any]
) -> list[Row]:
  """Rows of runs, in the order in which their first runs come.

  Args:
    runs: systems of finished runs.
    defaults: all keys of a config, plain json values. A run of an older
      revision had fewer.

  Raises:
    UserError: a training is there twice.
  """
  kinds: dict[str, list[finished_runs.FinishedRun]] = {}
  for run in runs:
    kind = (str(run.workdir) if run.config is None
            else repr(sorted(_changed(run.config, _flat(defaults)).items())))
    kinds.setdefault(kind, []).append(run)
  for of in kinds.values():
    _check_seeds(of)
  names = _names([*kinds.values()])
  return join([(name, run) for name, of in zip(names, kinds.values(),
                                               strict=True) for run in of])


def join(named: Iterable[tuple[str, finished_runs.FinishedRun]]) -> list[Row]:
  """Rows of runs whose rows have names already.

  The first system of a row has the row's name, others have their own behind it.
  One of these that reached the same on every query in all rows that have it is
  one row before the others, under its name alone; as `system NAME`, where a
  row has that name.

  Args:
    named: (name of the row, run).
  """
  rows: dict[tuple[str, str], list[finished_runs.FinishedRun]] = {}
  for name, run in named:
    rows.setdefault((name, run.system), []).append(run)
  first = {name: system for name, system in reversed(rows)}
  others: dict[str, list[finished_runs.FinishedRun]] = {}
  for (name, system), runs in rows.items():
    if system != first[name]:
      others.setdefault(system, []).extend(runs)
  shared = {system: runs[0] for system, runs in others.items()
            if all(_is_equal(run, runs[0]) for run in runs)}
  return [
      *(Row(f'system {system}' if system in first else system, (run,), True)
        for system, run in shared.items()),
      *(Row(name if system == first[name] else f'{name}: {system}', tuple(runs))
        for (name, system), runs in rows.items()
        if system == first[name] or system not in shared),
  ]


def _check_seeds(runs: Sequence[finished_runs.FinishedRun]) -> None:
  """Refuses runs of a row with equal seeds: one more is no other seed."""
  first: dict[Any, finished_runs.FinishedRun] = {}
  for run in runs:
    if run.config is None:  # Its row is that of its workdir.
      continue
    other = first.setdefault((run.system, seeds(run.config)), run)
    if other is not run:
      raise errors.UserError(
          f'{run.workdir}: has the settings and the seed ({run.seed}) of '
          f'{other.workdir}, and seeds count once; leave one of the two out of '
          f'--{errors.key("compare.workdirs")}'
      )


def seeds(config: Mapping[str, Any]) -> tuple[Any, ...]:
  """All seeds of a run: its own, and those of the trainings before it."""
  return tuple(
      (key, seeds(value) if isinstance(value, dict) else value)
      for key, value in sorted(config.items())
      if key == _SEED or isinstance(value, dict)
  )


def _is_equal(
    run: finished_runs.FinishedRun, other: finished_runs.FinishedRun
) -> bool:
  return run.means == other.means and run.values == other.values


def _names(
    rows: Sequence[Sequence[finished_runs.FinishedRun]]
) -> list[str]:
  """The name of each row."""
  firsts = [runs[0] for runs in rows]
  flats = [{} if run.config is None else _flat(run.config) for run in firsts]
  keys = sorted({key for flat in flats for key in flat if any(
      key in other and other[key] != flat[key] for other in flats
  )})
  names = [', '.join(f'{key}={_text(flat[key])}' for key in keys if key in flat)
           for flat in flats]
  taken = collections.Counter(names)
  folders = [_of_seeds([run.workdir for run in runs]) for runs in rows]
  return [name if name and taken[name] == 1 else _folder(folder, folders)
          for name, folder in zip(names, folders, strict=True)]


def _of_seeds(workdirs: Sequence[pathlib.Path]) -> pathlib.Path:
  """What the folders of several seeds have in common: `fine`, of `fine-seed0`.

  The first, where their names begin otherwise.
  """
  first = workdirs[0]
  common = os.path.commonprefix([one.name for one in workdirs])
  name = re.sub(r'[\W_]*(seed)?[\W_]*$', '', common)
  if len({*workdirs}) < 2 or not name:
    return first
  return first.with_name(name)


def _folder(workdir: pathlib.Path, all_of: Sequence[pathlib.Path]) -> str:
  """As much of the end of its path as no other one has."""
  ends = ('/'.join(workdir.parts[-count:])
          for count in range(1, len(workdir.parts)))
  return next((end for end in ends if not any(
      f'/{path}'.endswith(f'/{end}') for path in all_of if path != workdir
  )), str(workdir))


def _flat(config: Mapping[str, Any], prefix: str = '') -> dict[str, Any]:
  """The keys that make a run another one, but for its seed."""
  found: dict[str, Any] = {}
  is_whole = {*prefix.split('.')} <= {*_FIRST, ''}
  for key, value in config.items():
    if is_whole and key in _IGNORED or (
        key in (*_PLACES, _SEED) and not isinstance(value, dict)):
      continue
    if isinstance(value, dict):
      found |= _flat(value, f'{prefix}{key}.')
    else:
      found[prefix + key] = value
  return found


def _changed(config, defaults) -> dict[str, Any]:
  """Those that are not as by default."""
  usual = lambda key: defaults.get('.'.join(
      part for part in key.split('.') if part not in _FIRST), ...)
  return {key: value for key, value in _flat(config).items()
          if value != usual(key)}


def _text(value: Any) -> str:
  """A value, short."""
  if isinstance(value, list):
    return '(' + ','.join(map(_text, value)) + ')'
  return f'{value:g}' if isinstance(value, float) else str(value)
