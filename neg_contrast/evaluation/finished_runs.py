"""Finished runs, as they lie in their workdirs, to be compared."""

import dataclasses
import datetime
import pathlib
from collections.abc import Sequence
from typing import Any

from neg_contrast import errors
from neg_contrast.artifacts import folders, places
from neg_contrast.evaluation import evaluations, per_query, significance

_RECORD = 'run.json'  # A training writes its config there.
_DIGITS = 7  # Of a revision.
# Beside the runs of a sweep or a study.
_NO_RUNS = 'compiled', 'shared'


@dataclasses.dataclass(frozen=True)
class FinishedRun:
  """What one system of a run reached on a split.

  Attributes:
    workdir: of the run.
    system: its name.
    dataset: `<dataset>/<split>`.
    state: of the data: passages, and the fingerprint where it is known.
    means: metric -> mean, as the evaluation has it.
    values: metric -> query id -> value; metrics whose mean is that of worlds
      have none.
    config: all keys of the run; None: nothing says them.
    revision: of the code that evaluated it; empty: not known.
    date: of the evaluation: year, month and day.
    rules: how it was measured: `depth` and `answer_rule`, where that is known.
  """

  workdir: pathlib.Path
  system: str
  dataset: str
  state: tuple[Any, ...]
  means: dict[str, float]
  values: significance.Values
  config: dict[str, Any] | None
  revision: str = ''
  date: str = ''
  rules: dict[str, Any] = dataclasses.field(default_factory=dict)

  @property
  def seed(self) -> int | None:
    """That of the config; None: nothing says it."""
    return None if self.config is None else self.config.get('seed')


def read(
    folder: pathlib.Path, workdir: pathlib.Path, system: str
) -> FinishedRun:
  """Reads one evaluation.

  Args:
    folder: of the evaluation.
    workdir: of the run.
    system: whose it is.

  Raises:
    UserError: it is not there, or damaged.
  """
  manifest = evaluations.read_manifest(folder)
  if manifest is None:
    raise errors.UserError(f'{folder}: the evaluation is not there any more; '
                           'run the same command again')
  dataset = manifest['key'].rpartition('/')[0]
  data = manifest['identity'].get('needs', {}).get('data')
  settings = manifest['identity'].get('settings', {})
  table = folder / per_query.FILE
  return FinishedRun(
      workdir, system, dataset, (manifest['passages'], data),
      manifest['metrics'], per_query.read(table) if table.exists() else {},
      _config(workdir),
      revision_of(manifest),
      date_of(folder / folders.MANIFEST),
      {key: settings.get(key) for key in ('depth', 'answer_rule')},
  )


def read_workdir(
    workdir: pathlib.Path, systems: Sequence[str], dataset: str = ''
) -> list[FinishedRun]:
  """The evaluations of a workdir that are compared.

  Args:
    workdir: of a run.
    systems: whose; those that it has are taken.
    dataset: `<dataset>/<split>`; empty: there is one.

  Raises:
    UserError: there is no such evaluation, there are several data sets, or a
      file is damaged; names the workdir and the remedy.
  """
  place = workdir / 'evaluation'
  found = {}
  for folder in sorted(place.iterdir()) if place.is_dir() else ():
    if places.is_left(folder):
      continue
    manifest = folders.read_manifest(folder, evaluations.FORMAT)
    if manifest is not None:
      group, _, system = manifest['key'].rpartition('/')
      found[group, system] = folder
  if not found:
    raise errors.UserError(
        f'{workdir}: holds no evaluation; finish the run first: the command '
        'that began it goes on, or configs/evaluate.py evaluates a checkpoint'
    )
  has = sorted({system for _, system in found})
  if not set(systems) & set(has):
    raise errors.UserError(
        f'{workdir}: has no evaluation of {" or ".join(systems)}, only of '
        f'{", ".join(has)}; name one with --{errors.key("compare.systems")}'
    )
  chosen = {key: folder for key, folder in found.items()
            if key[1] in systems and dataset in ('', key[0])}
  sets = sorted({group for group, system in found if system in systems})
  if not chosen or len({group for group, _ in chosen}) > 1:
    raise errors.UserError(
        f'{workdir}: was evaluated on {", ".join(sets)}; choose one that all '
        f'have with --{errors.key("compare.dataset")}'
    )
  return [read(chosen[key], workdir, key[1])
          for key in sorted(chosen, key=lambda key: systems.index(key[1]))]


def revision_of(made: dict[str, Any]) -> str:
  """The revision of the code that made a result; empty: not known.

  Args:
    made: its manifest, or another json with `environment`.
  """
  return made.get('environment', {}).get('git_revision', '')[:_DIGITS]


def date_of(path: pathlib.Path) -> str:
  """The day on which a file was written, as YYYY-MM-DD."""
  return datetime.date.fromtimestamp(path.stat().st_mtime).isoformat()


def find_workdirs(patterns: Sequence[str]) -> list[pathlib.Path]:
  """The folders that names and patterns stand for, each once.

  Raises:
    UserError: one stands for none.
  """
  found: dict[pathlib.Path, pathlib.Path] = {}
  for pattern in patterns:
    paths = [path for path in places.matching(pattern) if path.is_dir()
             and (path.name not in _NO_RUNS or path.name in pattern)]
    if not paths:
      raise errors.SettingError(
          'compare.workdirs', pattern, 'there is no such folder; name the '
          '--workdir of finished runs'
      )
    for path in paths:
      found.setdefault(path.resolve(), path)
  return list(found.values())


def _config(workdir: pathlib.Path) -> dict[str, Any] | None:
  """All keys of a training."""
  path = workdir / _RECORD
  if not path.exists():
    return None
  record = folders.read_json(path)
  config = record.get('config') if isinstance(record, dict) else None
  if not isinstance(config, dict):
    raise errors.UserError(f'{path}: damaged. Put back a copy of it, or remove '
                           f'{workdir} to train again')
  return config
