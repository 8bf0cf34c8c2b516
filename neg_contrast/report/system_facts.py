"""Gathers what systems reached on the splits of a workdir, for a report."""

import dataclasses
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from neg_contrast.evaluation import confidence, per_query, summary
from neg_contrast.report import contents, figures

NOTES = {
    'bm25': 'words, no model', 'untouched': 'the model before any training',
    'initial': 'where training began', 'trained': 'after training',
    'hybrid': 'BM25 and the trained model',
}
"""System -> which model it is."""


@dataclasses.dataclass(frozen=True)
class Evaluated:
  """A folder of `evaluation/`.

  Attributes:
    folder: with `run.trec`.
    manifest: of the folder.
    per_query: metric -> query id -> value.
  """

  folder: pathlib.Path
  manifest: Mapping[str, Any]
  per_query: Mapping[str, Mapping[str, float]]

  @property
  def group(self) -> str:
    """`<dataset>/<split>`."""
    return '/'.join(self.manifest['key'].split('/', 2)[:2])

  @property
  def name(self) -> str:
    """Of the system."""
    return self.manifest['key'].split('/', 2)[2]

  @property
  def run(self) -> pathlib.Path:
    """The ranking."""
    return self.folder / 'run.trec'


def by_group(
    evaluations: Iterable[tuple[pathlib.Path, dict[str, Any]]],
) -> dict[str, list[Evaluated]]:
  """Evaluations by `<dataset>/<split>`, well-known systems first."""
  groups: dict[str, list[Evaluated]] = {}
  for folder, manifest in evaluations:
    path = folder / per_query.FILE
    found = Evaluated(
        folder, manifest, per_query.read(path) if path.exists() else {}
    )
    groups.setdefault(found.group, []).append(found)
  for systems in groups.values():
    systems.sort(key=lambda system: summary.place_of(system.name))
  return groups


def pair(systems: list[Evaluated]) -> tuple[Evaluated, Evaluated] | None:
  """Before and after: initial and trained, or else the first two of them."""
  by_name = {system.name: system for system in systems}
  if 'initial' in by_name and 'trained' in by_name:
    return by_name['initial'], by_name['trained']
  return (systems[0], systems[1]) if len(systems) > 1 else None


def summarize(
    name: str, systems: list[Evaluated], workdir: pathlib.Path,
    notes: Mapping[str, str] = NOTES,
) -> contents.Group:
  """What the page says of all systems on a split.

  Args:
    name: `<dataset>/<split>`.
    systems: in the order they are shown.
    workdir: that links are relative to.
    notes: system -> which model it is, instead of what `NOTES` says.
  """
  both = pair(systems)
  first = [metric for one in systems for metric in one.manifest['metrics']][:1]
  pairs = {
      (before.name, after.name): _compare(before, after, first)
      for before in systems for after in systems if before is not after
  }
  return contents.Group(
      name,
      tuple(
          contents.System(
              system.name,
              system.folder.relative_to(workdir).as_posix(),
              system.manifest['queries'],
              system.manifest['passages'],
              {metric: _estimate(value, system.per_query.get(metric, {}))
               for metric, value in system.manifest['metrics'].items()},
              {**NOTES, **notes}.get(system.name, ''),
          )
          for system in systems
      ),
      _compare(*both, both[0].manifest['metrics']) if both else None,
      {names: each for names, each in pairs.items() if each.metrics},
  )


def _estimate(mean: float, by_query: Mapping[str, float]) -> figures.Estimate:
  if len(by_query) < confidence.LEAST_QUERIES:
    return figures.Estimate(mean)
  values = np.array(list(by_query.values()), np.float64)
  return figures.Estimate(mean, *confidence.interval(values))


def _compare(
    before: Evaluated, after: Evaluated, names: Iterable[str]
) -> contents.Comparison:
  """Differences of metrics over the queries that both have."""
  metrics: dict[str, figures.Estimate] = {}
  signs = np.zeros(0)
  for metric in names:
    ours = after.per_query.get(metric, {})
    differences = {
        query: ours[query] - value
        for query, value in before.per_query.get(metric, {}).items()
        if query in ours
    }
    if differences and metric in after.manifest['metrics']:
      mean = float(np.mean(list(differences.values())))
      if not metrics:
        signs = np.sign(list(differences.values()))
      metrics[metric] = _estimate(mean, differences)
  return contents.Comparison(
      before.name, after.name, len(signs), metrics,
      int((signs > 0).sum()), int((signs < 0).sum()),
  )
