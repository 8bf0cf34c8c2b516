"""A grid of trainings in the layout of Lu et al., Tables 2 to 4.

A grid is a workdir with `cells/<group>-<name>` for each training, and the
evaluations of baselines, ensemble and hybrid beside them.
"""

import dataclasses
import pathlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from neg_contrast import errors
from neg_contrast.artifacts import places
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.evaluation import evaluations, per_query, significance
from neg_contrast.report import paper as paper_lib
from neg_contrast.report import tables
from neg_contrast.settings import config as config_lib

BASELINES, ENSEMBLE, HYBRID = 'baselines', 'ensemble', 'hybrid'
DPR = 'dpr_single'
"""The cell of `baselines` that BM25 is combined with."""

ENSEMBLES = {'fusion_embedding': 'Ensemble (embedding)',
             'fusion_rank': 'Ensemble (rank)'}
_TITLES = {
    'generated': 'Stage 1 with hard negatives',
    'no_hard_negatives': 'No hard negatives in stage 1',
    'none': 'No stage 1',
}
_LABELS = {
    'random': 'Rnd', 'coarse': 'Rnd + Coarse', 'fine': 'Rnd + Fine',
    'bm25': 'Rnd + BM25', 'context': 'Rnd + Context', 'mixed': 'Rnd + Mixed',
}
_MARK, _ALPHA = '†', 0.05
_OTHER_NAMES = {'BM25': 'BM25-Anserini'}  # Of Table 3.


@dataclasses.dataclass(frozen=True)
class Entry:
  """A row: where its evaluation lies, and what the paper calls it.

  Attributes:
    label: printed.
    workdir: with its evaluation.
    system: its name there.
    stage1: of the paper's row.
    row: of the paper.
  """

  label: str
  workdir: pathlib.Path
  system: str
  stage1: str
  row: str


@dataclasses.dataclass(frozen=True)
class Grid:
  """A finished grid of trainings.

  Attributes:
    workdir: of the job.
    cells: (group, name) of its trainings, in the order of `order`.
    has_stage1: whether stage 1 was evaluated alone.
    has_ensemble: whether members of the group `generated` were put together.
    pairs: what stage 1 was trained on, a name for each kind.
    settings: columns, and where the paper's numbers are.
    data: names the data set.
    dataset: corpus and queries.
  """

  workdir: pathlib.Path
  cells: Sequence[tuple[str, str]]
  has_stage1: bool
  has_ensemble: bool
  pairs: Collection[str]
  settings: config_lib.TableConfig
  data: config_lib.DataConfig
  dataset: dataset_lib.Dataset

  def layout(self) -> list[tuple[str, list[Entry]]]:
    """Titles and rows, as in the paper; groups of one's own come last."""
    groups = [('Baselines', self._baselines())]
    own = dict.fromkeys(group for group, _ in self.cells
                        if group not in (*_TITLES, BASELINES))
    for group, title in {**_TITLES, **{name: name for name in own}}.items():
      labels = {} if group in own else _LABELS
      entries = [self._cell(group, name, labels.get(name, name))
                 for of, name in self.cells if of == group]
      if group == 'generated' and entries:
        if self.has_stage1:
          entries.insert(0, Entry('Stage 1', self.workdir, 'stage1',
                                  'generated', 'Stage 1'))
        if self.has_ensemble:
          entries += [
              Entry(label, self.workdir / ENSEMBLE, name, 'generated', name)
              for name, label in ENSEMBLES.items()
          ]
      if entries:
        groups.append((title, entries))
    return groups

  def table(self, split: str, paper_name: str) -> tables.Table:
    """What was measured on a split, beside the paper.

    Args:
      split: name of the split.
      paper_name: what the paper calls its data set; empty: nothing.

    Raises:
      UserError: an evaluation is missing or damaged.
    """
    paper = paper_lib.read(places.path(self.settings.paper)) if (
        self.settings.paper and paper_name) else paper_lib.Paper({})
    groups = []
    for title, entries in self.layout():
      found = {entry: self._read(entry, split) for entry in entries}
      marks = _marks(found)
      groups.append(tables.Group(title, tuple(
          _row(entry, manifest, marks.get(entry, {}), paper, paper_name)
          for entry, (manifest, _) in found.items()
      )))
    passages = len(self.dataset.prepared.passages)
    made_of = (f'; stage 1: {", ".join(sorted(self.pairs))}' if self.pairs
               else '')
    return tables.Table(
        f'{self.dataset.name}/{split}: {passages:,} passages{made_of}',
        self.settings.metrics, tuple(groups), paper_lib.SIZES.get(paper_name),
        {_MARK: f'differs from Rnd of its group (paired randomisation test, '
                f'p < {_ALPHA} after Holm over the group)'},
    )

  def _baselines(self) -> list[Entry]:
    entries = [Entry('BM25', self.workdir, 'bm25', '', 'BM25')]
    if (BASELINES, DPR) in self.cells:
      single = self._cell(BASELINES, DPR, 'DPR (Single)')
      entries += [
          dataclasses.replace(single, stage1='', row='DPR (Single)'),
          Entry('BM25 + DPR', self.workdir / HYBRID, 'hybrid', '',
                'BM25 + DPR'),
      ]
    if ('none', 'bm25') in self.cells:
      ours = self._cell('none', 'bm25', 'DPR ours')
      entries.insert(2, dataclasses.replace(ours, stage1='', row='DPR ours'))
    return entries + [
        self._cell(BASELINES, name, name) for group, name in self.cells
        if group == BASELINES and name != DPR
    ]

  def _cell(self, group: str, name: str, label: str) -> Entry:
    return Entry(label, cell_folder(self.workdir, group, name), 'trained',
                 group, name)

  def _read(
      self, entry: Entry, split: str
  ) -> tuple[dict[str, Any], dict[str, dict[str, float]]]:
    """Manifest and values by query of a row."""
    folder = evaluations.folder_of(entry.workdir, self.data, split,
                                   entry.system)
    manifest = evaluations.read_manifest(folder)
    if manifest is None:
      raise errors.UserError(f'{folder}: the evaluation is not there any more; '
                             'run the same command again')
    return manifest, per_query.read(folder / per_query.FILE)


def cell_folder(
    workdir: pathlib.Path, group: str, name: str
) -> pathlib.Path:
  """The workdir of a training in a grid."""
  return workdir / 'cells' / f'{group}-{name}'


def order(key: tuple[str, str]) -> tuple[int, int, tuple[str, str]]:
  """Where a cell stands: as in the paper, others last."""
  at = lambda name, names: (
      list(names).index(name) if name in names else len(names)
  )
  return at(key[0], _TITLES), at(key[1], _LABELS), key


def _row(
    entry: Entry,
    manifest: Mapping[str, Any],
    marks: Mapping[str, str],
    paper: paper_lib.Paper,
    paper_name: str,
) -> tables.Row:
  size = paper_lib.Size(manifest['passages'], manifest['queries'])
  return tables.Row(
      entry.label,
      ours={metric: 100 * value
            for metric, value in manifest['metrics'].items()},
      paper=_find(paper, paper_name, entry.stage1, entry.row),
      size=size,
      comparable=size == paper_lib.SIZES.get(paper_name),
      marks=marks,
  )


def _find(
    paper: paper_lib.Paper, dataset: str, stage1: str, row: str
) -> Mapping[str, float]:
  """The paper's row, whichever table it is in."""
  for name in (row, _OTHER_NAMES.get(row, row)):
    for table in map(int, paper_lib.TABLES):
      if found := paper.find(table, dataset, stage1, name):
        return found
  return {}


def _marks(
    found: Mapping[Entry, tuple[Any, dict[str, dict[str, float]]]],
) -> dict[Entry, dict[str, str]]:
  """Marks of the rows of a group that differ from `random`, by metric."""
  systems = {entry.row: values for entry, (_, values) in found.items()}
  if 'random' not in systems:
    return {}
  pairs = significance.against('random', systems)
  return {
      entry: {pair.metric: _MARK for pair in pairs
              if pair.system == entry.row and pair.p_holm < _ALPHA}
      for entry in found
  }
