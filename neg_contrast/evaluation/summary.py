"""All evaluations of a workdir in one place."""

import math
import pathlib
import types
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from neg_contrast.artifacts import folders, places
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.evaluation import (
  evaluations,
  mention_categories,
  per_query,
  significance,
)
from neg_contrast.evaluation import worlds as worlds_lib

FILE = 'metrics.json'
"""In a workdir: `<dataset>/<split>/<system>/<metric>` -> value."""

_MOST_PAIRS = 4  # That a line names.
_ORDER = ('bm25', 'untouched', 'initial', 'trained', 'hybrid')


def place_of(system: str) -> int:
  """Where a system stands in tables: well-known ones in the order of work."""
  return _ORDER.index(system) if system in _ORDER else len(_ORDER)


def read_evaluations(
    workdir: pathlib.Path, dataset: dataset_lib.Dataset
) -> list[tuple[pathlib.Path, dict[str, Any]]]:
  """Folders and manifests of the evaluations that are up to date.

  Those of the data set at hand, if it changed since then, are left out; and so
  are first features and hybrids of an earlier model than that beside them.

  Raises:
    UserError: one is damaged.
  """
  place = workdir / 'evaluation'
  found = []
  for folder in sorted(place.iterdir()) if place.is_dir() else ():
    manifest = (None if places.is_left(folder)
                else evaluations.read_manifest(folder))
    if manifest is not None and not _is_outdated(manifest, dataset):
      found.append((folder, manifest))
  models = {manifest['key']: _models(manifest['identity'])
            for _, manifest in found}
  return [(folder, manifest) for folder, manifest in found
          if _is_of_one_model(manifest['key'], models)]


def _is_of_one_model(key: str, models: Mapping[str, set[str]]) -> bool:
  """Whether a system that is made of another's model has that still.

  Args:
    key: `<dataset>/<split>/<system>`.
    models: fingerprints, of each key.
  """
  group, _, system = key.rpartition('/')
  base = 'trained' if system == 'hybrid' else system.partition('@')[0]
  own, others = models[key], models.get(f'{group}/{base}', set())
  return len(own) != 1 or len(others) != 1 or own == others


def _models(identity: Any) -> set[str]:
  """The fingerprints of the models that something depends on."""
  if not isinstance(identity, dict):
    return set()
  found = identity.get('model')
  return ({found} if isinstance(found, str) else set()).union(
      *map(_models, identity.values()))


def _is_outdated(
    manifest: dict[str, Any], dataset: dataset_lib.Dataset
) -> bool:
  """Whether an evaluation is of an older state of the data set at hand."""
  here = dataset.prepared.fingerprint
  # Beside it there are rules and prompts, if any.
  there = manifest['identity'].get('needs', {}).get('data', {})
  return (manifest['key'].split('/')[0] == dataset.name
          and there.get('data', here) != here)


def gather(
    workdir: pathlib.Path, dataset: dataset_lib.Dataset, say: bool = True,
    others: Mapping[str, float] = types.MappingProxyType({}),
) -> dict[str, float]:
  """Writes `metrics.json` from all evaluations of a workdir, and prints it.

  Where a split has several systems, `significance-<dataset>-<split>.tsv` holds
  the differences of all pairs. Where a data set has worlds,
  `worlds-<dataset>-<split>.tsv` holds the means of each; where its queries are
  mentions, `categories-<dataset>-<split>.tsv` those of each category.

  Args:
    workdir: of the job.
    dataset: what was found in an older state of it is left out.
    say: whether to print.
    others: values of no evaluation, named alike.

  Returns:
    `<dataset>/<split>/<system>/<metric>` -> value.
  """
  values: dict[str, float] = {**others}
  recalls: list[str] = []
  tables: dict[str, dict[str, dict[str, float]]] = {}
  undecided: dict[str, str] = {}
  by_query: dict[str, dict[str, dict[str, dict[str, float]]]] = {}
  worlds: dict[str, dict[str, dict[str, dict[str, float]]]] = {}
  found = read_evaluations(workdir, dataset)
  for folder, manifest in sorted(
      found, key=lambda pair: place_of(pair[1]['key'].rpartition('/')[2])
  ):
    group, _, system = manifest['key'].rpartition('/')
    title = (f'{group}: {manifest["queries"]} queries, '
             f'{manifest["passages"]} passages')
    tables.setdefault(title, {})[system] = manifest['metrics']
    if (folder / per_query.FILE).exists():
      by_query.setdefault(group, {})[system] = per_query.read(
          folder / per_query.FILE
      )
    for name, value in manifest['metrics'].items():
      values[f'{manifest["key"]}/{name}'] = value
    if 'worlds' in manifest:
      worlds.setdefault(group, {})[system] = manifest['worlds']
    if 'recall' in manifest['index']:
      recalls.append(f'{manifest["key"]}: {manifest["index"]["kind"]} found '
                     f'{manifest["index"]["recall"]:.4f} of what exact search '
                     f'finds in the top {manifest["index"]["depth"]}')
  folders.write_json(workdir / FILE, values)
  for group, systems in by_query.items():
    _write_categories(workdir, dataset, group, systems)
    if len(systems) > 1:
      pairs = significance.compare(systems)
      significance.write(
          workdir / f'significance-{group.replace("/", "-")}.tsv', pairs
      )
      undecided[group] = _undecided(pairs, systems)
    else:  # Of systems that are outdated now.
      place = workdir / f'significance-{group.replace("/", "-")}.tsv'
      place.unlink(missing_ok=True)
  for group, of_systems in worlds.items():
    worlds_lib.write_worlds(
        workdir / f'worlds-{group.replace("/", "-")}.tsv', of_systems
    )
  for title, rows in tables.items() if say else ():
    print(f'\n{title}\n{format_table(rows)}'
          + undecided.get(title.partition(':')[0], ''))
  if recalls and say:
    print('\n'.join(recalls))
  return values


def _undecided(
    pairs: Sequence[significance.Pair], systems: Collection[str]
) -> str:
  """A line that says which systems the queries don't tell apart."""
  found = [sorted(both, key=place_of) for both in significance.undecided(pairs)]
  if not found:
    return ''
  names = (', '.join(map(' and '.join, found)) if len(found) <= _MOST_PAIRS else
           f'{len(found)} of {math.comb(len(systems), 2)} pairs')
  return ('\nToo few queries, or too small a difference, to tell apart in any '
          f'metric: {names}')


def _write_categories(
    workdir: pathlib.Path, dataset: dataset_lib.Dataset, group: str,
    systems: Mapping[str, Mapping[str, Mapping[str, float]]],
) -> None:
  """Means by category of mention, where the queries at hand are mentions."""
  name, _, split = group.partition('/')
  prepared = dataset.prepared
  if name != dataset.name or not prepared.has_mentions:
    return
  categories = mention_categories.of_split(prepared, split)
  worlds_lib.write_worlds(
      workdir / f'categories-{group.replace("/", "-")}.tsv',
      {system: worlds_lib.by_world({
          metric: {query: value for query, value in of.items()
                   if query in categories} for metric, of in values.items()
      }, categories) for system, values in systems.items()}, 'category',
  )


def format_table(rows: Mapping[str, Mapping[str, float]]) -> str:
  """A plain text table: a system a line, a metric a column.

  Args:
    rows: system → metric → value; '-' stands where a system lacks a metric.

  Returns:
    Aligned lines without a final newline, values to four decimals.
  """
  metrics = list(dict.fromkeys(name for row in rows.values() for name in row))
  cells = [['system', *metrics]]
  for system, row in rows.items():
    cells.append([
        system, *(f'{row[m]:.4f}' if m in row else '-' for m in metrics)
    ])
  widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
  return '\n'.join(
      '  '.join([
          line[0].ljust(widths[0]),
          *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True)),
      ]).rstrip()
      for line in cells
  )
