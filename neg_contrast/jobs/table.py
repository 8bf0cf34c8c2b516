"""A grid of trainings, ensembles and baselines in the layout of the paper."""

import dataclasses
import functools
import os
import pathlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import jax

from neg_contrast import errors, hosts
from neg_contrast.artifacts import folders, plan
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.evaluation import (
  evaluations,
  per_query,
  rankings,
  significance,
  summary,
)
from neg_contrast.jobs import (
  ensemble,
  prerequisites,
  settings_of_rooms,
  train,
)
from neg_contrast.report import paper as paper_lib
from neg_contrast.report import tables, workdir_report
from neg_contrast.retrieval import bm25_search, fused_vectors
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.retrieval import searched as searched_lib
from neg_contrast.settings import config as config_lib

_TITLES = {
    'generated': 'Stage 1 with hard negatives',
    'no_hard_negatives': 'No hard negatives in stage 1',
    'none': 'No stage 1',
}
_LABELS = {
    'random': 'Rnd', 'coarse': 'Rnd + Coarse', 'fine': 'Rnd + Fine',
    'bm25': 'Rnd + BM25', 'context': 'Rnd + Context', 'mixed': 'Rnd + Mixed',
}
_ENSEMBLES = {'fusion_embedding': 'Ensemble (embedding)',
              'fusion_rank': 'Ensemble (rank)'}
_BASELINES, _ENSEMBLE, _HYBRID = 'baselines', 'ensemble', 'hybrid'
_DPR = 'dpr_single'
_MARK, _ALPHA = '†', 0.05
_OTHER_NAMES = {'BM25': 'BM25-Anserini'}  # Of Table 3.
_T = TypeVar('_T')


@dataclasses.dataclass(frozen=True)
class _Entry:
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


class TableJob:
  """`job=table`: trains all `cells`, puts them together, prints the table."""

  def __init__(self, config: config_lib.Config, workdir: pathlib.Path):
    """Reads nothing yet.

    Raises:
      UserError: a member of the ensembles is no cell.
    """
    self._config, self._workdir = config, workdir
    self._configs = {
        (group, name): cell for group, cells in (config.cells or {}).items()
        for name, cell in cells.items()
    }
    self._cells = {
        key: train.TrainJob(self._configs[key], self._cell_folder(*key))
        for key in sorted(self._configs, key=_place)
    }
    for name in config.table.members:
      if ('generated', name) not in self._cells:
        raise errors.UserError(
            f'config.table.members={config.table.members}: there is no '
            f'config.cells.generated.{name}'
        )
    self._splits = (config.data.test_split, *config.table.more_splits)

  def steps(self) -> list[plan.Step]:
    """The plan: what several cells need stands before the first of them."""
    steps = [dataset_lib.preparation_step(
        self._config.data, lambda: self._dataset
    )]
    steps += [evaluations.bm25_step(
        self._config, self._workdir, lambda: self._dataset,
        functools.partial(self._evaluation, split), split, lambda: self._bm25,
    ) for split in self._splits]
    seen: set[str] = set()
    for key, job in self._cells.items():
      steps += self._cell_steps(key, job, seen)
    for split in self._splits:
      if self._stage1:
        steps.append(self._stage1_step(split))
      for name, made, systems in self._put_together(split):
        steps += [
            dataclasses.replace(
                step, name=f'{name}: {step.name}',
                is_done=functools.partial(
                    lambda keys, done: self._are_trained(keys) and done(),
                    self._members(name), step.is_done,
                ),
            ) for step in made.steps() if step.name in systems
        ]
    return steps

  def finish(self) -> None:
    """Writes `table.md` and `table.tex`, and prints the first.

    Cells get their `metrics.json`, and the ensemble becomes a checkpoint.
    """
    for key in self._cells:
      summary.gather(self._cell_folder(*key), self._dataset, say=False)
    for name, together, _ in self._put_together(self._splits[0]):
      summary.gather(self._workdir / name, self._dataset, say=False)
      if name == _ENSEMBLE:
        together.ensemble.save(self._workdir / name)
    made = [self._table(split) for split in self._splits]
    for suffix, form in (('md', tables.markdown), ('tex', tables.latex)):
      path = self._workdir / f'table.{suffix}'
      partial = path.with_name(path.name + '.partial')
      partial.write_text('\n'.join(map(form, made)), encoding='utf-8')
      os.replace(partial, path)
    summary.gather(self._workdir, self._dataset)
    print('\n' + '\n'.join(map(tables.markdown, made)))
    workdir_report.write_report(self._workdir, self._config, self._dataset,
                        tables=tuple(map(tables.html, made)))

  def _cell_steps(
      self, key: tuple[str, str], job: train.TrainJob, seen: set[str]
  ) -> list[plan.Step]:
    """Of a cell, without what an earlier one makes for it.

    Args:
      key: group and name.
      job: of the cell.
      seen: codes of steps so far; added to.
    """
    cell = self._configs[key]
    own = _shared_settings(dataclasses.replace(cell, stage1=None))
    first = None if cell.stage1 is None else _shared_settings(cell.stage1)
    steps = []
    for step in job.before_training()[1:]:
      settings = first if step.name.startswith('stage 1') else own
      place = f'{step.makes} {folders.sha256_json(settings)}'
      if place not in seen:
        seen.add(place)
        steps.append(step)
    evaluations = [
        dataclasses.replace(step, name=f'{step.name}, {split}')
        for split in self._splits for step in [job.trained_step(split)]
    ]
    last = evaluations[-1]
    evaluations[-1] = dataclasses.replace(
        last, run=_then(last.run, job.release),
        is_done=_then(last.is_done, job.release),
        share=_then(last.share, job.release if hosts.are_several() else
                    plan.nothing),
    )
    name, at = '-'.join(key), f'cells.{key[0]}.{key[1]}'
    return [
        dataclasses.replace(
            step, name=f'{name}: {step.name}',
            run=prerequisites.told_as(at, self._compiling(step.run)),
            share=prerequisites.told_as(at, self._compiling(step.share)),
            is_done=prerequisites.told_as(at, step.is_done),
            missing=prerequisites.told_as(at, step.missing),
        ) for step in [*steps, job.training_step(), *evaluations]
    ]

  def _compiling(self, run: Callable[[], object]) -> Callable[[], None]:
    """The cells compute the same programs: each is compiled once."""
    def with_cache() -> None:
      jax.config.update('jax_compilation_cache_dir',
                        str(self._workdir / 'compiled'))
      jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.5)
      run()

    return with_cache

  @property
  def _stage1(self) -> str:
    """The workdir of the first stage 1; empty if there is none."""
    found = [cell.stage1.workdir for (group, _), cell in self._configs.items()
             if group == 'generated' and cell.stage1 is not None]
    return found[0] if found else ''

  def _stage1_step(self, split: str) -> plan.Step:
    folder = pathlib.Path(self._stage1) / retriever_lib.FOLDER
    vectors = functools.cache(lambda: fused_vectors.load_vectors(
        settings_of_rooms.encoding(self._config), self._dataset, self._stage1,
        folder, self._config.seed,
    ))
    return evaluations.evaluation_step(
        'stage1', self._config.data, self._workdir,
        functools.partial(self._evaluation, split), split,
        identity=lambda: evaluations.dense_identity(
            self._dataset, self._config, split, vectors().search_identity
        ),
        search=lambda rows: searched_lib.search_dense(
            settings_of_rooms.search(self._config), self._dataset, vectors(),
            folder, rows,
        ),
        share=lambda: vectors().passage_vecs,
    )

  def _put_together(
      self, split: str
  ) -> list[tuple[str, ensemble.EnsembleJob, tuple[str, ...]]]:
    """(name, job, those of its steps that are wanted) of fusions."""
    settings, made = self._config.ensemble, []
    if len(self._config.table.members) > 1:
      made.append((_ENSEMBLE, ('weights', *_ENSEMBLES), dataclasses.replace(
          settings, hybrid=False, members=self._workdirs(_ENSEMBLE)
      )))
    if (_BASELINES, _DPR) in self._cells:
      made.append((_HYBRID, ('weights', 'hybrid'), dataclasses.replace(
          settings, hybrid=True, members=self._workdirs(_HYBRID), weights=(),
          runs=(),
      )))
    return [
        (name, ensemble.EnsembleJob(dataclasses.replace(
            self._config, job='ensemble', cells=None, ensemble=of,
            data=dataclasses.replace(self._config.data, test_split=split),
        ), self._workdir / name, lambda: self._bm25), systems)
        for name, systems, of in made
    ]

  def _members(self, name: str) -> list[tuple[str, str]]:
    """Cells that are put together as `ensemble` or `hybrid`."""
    if name == _HYBRID:
      return [(_BASELINES, _DPR)]
    return [('generated', member) for member in self._config.table.members]

  def _workdirs(self, name: str) -> tuple[str, ...]:
    return tuple(str(self._cell_folder(*key)) for key in self._members(name))

  def _are_trained(self, keys: list[tuple[str, str]]) -> bool:
    trained = all(self._cells[key].is_trained() for key in keys)
    for key in keys:
      self._cells[key].release()
    return trained

  @functools.cached_property
  def _bm25(self) -> bm25_search.Bm25Search:
    """Of the corpus, for BM25 alone and with others."""
    return bm25_search.Bm25Search(self._config.evaluation, self._dataset)

  def _cell_folder(self, group: str, name: str) -> pathlib.Path:
    return self._workdir / 'cells' / f'{group}-{name}'

  @functools.cached_property
  def _dataset(self) -> dataset_lib.Dataset:
    return dataset_lib.Dataset(self._config.data)

  @functools.cache  # noqa: B019 - a job lives as long as the program.
  def _evaluation(self, split: str) -> rankings.Evaluation:
    return rankings.Evaluation(
        self._config.evaluation, self._dataset,
        self._dataset.prepared.judgements(split),
    )

  # The table.

  def _layout(self) -> list[tuple[str, list[_Entry]]]:
    """Titles and rows."""
    cell = lambda group, name, label: _Entry(
        label, self._cell_folder(group, name), 'trained', group, name
    )
    baselines = [_Entry('BM25', self._workdir, 'bm25', '', 'BM25')]
    if (_BASELINES, _DPR) in self._cells:
      single = cell(_BASELINES, _DPR, 'DPR (Single)')
      baselines += [
          dataclasses.replace(single, stage1='', row='DPR (Single)'),
          _Entry('BM25 + DPR', self._workdir / _HYBRID, 'hybrid', '',
                 'BM25 + DPR'),
      ]
    if ('none', 'bm25') in self._cells:
      ours = cell('none', 'bm25', 'DPR ours')
      baselines.insert(2, dataclasses.replace(ours, stage1='', row='DPR ours'))
    groups = [('Baselines', baselines)]
    for group, title in _TITLES.items():
      entries = [cell(group, name, _LABELS.get(name, name))
                 for of, name in self._cells if of == group]
      if group == 'generated' and entries:
        if self._stage1:
          entries.insert(0, _Entry('Stage 1', self._workdir, 'stage1',
                                   'generated', 'Stage 1'))
        if len(self._config.table.members) > 1:
          entries += [
              _Entry(label, self._workdir / _ENSEMBLE, name, 'generated', name)
              for name, label in _ENSEMBLES.items()
          ]
      if entries:
        groups.append((title, entries))
    return groups

  def _table(self, split: str) -> tables.Table:
    """What was measured on a split, beside the paper."""
    settings, prepared = self._config.table, self._dataset.prepared
    names = dict(zip(self._splits, settings.datasets, strict=False))
    name = names.get(split, '')
    paper = paper_lib.read(pathlib.Path(settings.paper)) if (
        settings.paper and name) else paper_lib.Paper({})
    groups, size = [], None
    for title, entries in self._layout():
      found = {entry: self._read(entry, split) for entry in entries}
      marks = _marks(found)
      rows = []
      for entry, (manifest, _) in found.items():
        size = paper_lib.Size(manifest['passages'], manifest['queries'])
        rows.append(tables.Row(
            entry.label,
            ours={metric: 100 * value
                  for metric, value in manifest['metrics'].items()},
            paper=_find(paper, name, entry.stage1, entry.row),
            size=size,
            comparable=size == paper_lib.SIZES.get(name),
            marks=marks.get(entry, {}),
        ))
      groups.append(tables.Group(title, tuple(rows)))
    pairs = {cell.synthetic.pairs for cell in self._stages()}
    made_of = f'; stage 1: {", ".join(sorted(pairs))}' if pairs else ''
    return tables.Table(
        f'{self._dataset.name}/{split}: {len(prepared.passages):,} passages'
        f'{made_of}',
        settings.metrics, tuple(groups), paper_lib.SIZES.get(name),
        {_MARK: f'differs from Rnd of its group (paired randomisation test, '
                f'p < {_ALPHA} after Holm over the group)'},
    )

  def _stages(self) -> list[config_lib.Config]:
    """All configs of stage 1."""
    return [cell.stage1 for cell in self._configs.values()
            if cell.stage1 is not None]

  def _read(
      self, entry: _Entry, split: str
  ) -> tuple[dict[str, Any], dict[str, dict[str, float]]]:
    """Manifest and values by query of a row."""
    folder = evaluations.folder_of(
        entry.workdir, self._config.data, split, entry.system
    )
    manifest = folders.read_manifest(folder)
    if manifest is None:
      raise errors.UserError(f'{folder}: the evaluation is not there any more; '
                             'run the same command again')
    return manifest, per_query.read(folder / per_query.FILE)


def _then(
    call: Callable[[], _T], release: Callable[[], object]
) -> Callable[[], _T]:
  """Lets go of what a call has read."""
  def called() -> _T:
    try:
      return call()
    finally:
      release()

  return called


def _place(key: tuple[str, str]) -> tuple[int, int, tuple[str, str]]:
  """Where a cell stands: as in the paper, others last."""
  at = lambda name, names: (
      list(names).index(name) if name in names else len(names)
  )
  return at(key[0], _TITLES), at(key[1], _LABELS), key


def _shared_settings(cell: config_lib.Config) -> dict[str, Any]:
  """What cells have to agree in to share miners, candidates and stage 1."""
  values = config_lib.to_dict(cell)
  for key in ('workdir', 'loss'):
    values.pop(key)
  for key in ('strategy', 'per_query', 'members', 'quotas'):
    values['negatives'].pop(key)
  return values


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
    found: Mapping[_Entry, tuple[Any, dict[str, dict[str, float]]]],
) -> dict[_Entry, dict[str, str]]:
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
