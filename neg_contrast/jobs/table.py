"""A grid of trainings, ensembles and baselines in the layout of the paper."""

import dataclasses
import functools
import os
import pathlib
from collections.abc import Callable
from typing import Any, TypeVar

import jax

from neg_contrast import errors, hosts
from neg_contrast.artifacts import folders, plan
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.evaluation import (
  evaluations,
  rankings,
  summary,
)
from neg_contrast.jobs import (
  checks,
  ensemble,
  prerequisites,
  reporting,
  settings_of_rooms,
  train,
)
from neg_contrast.report import paper_grid, tables
from neg_contrast.retrieval import bm25_search
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.retrieval import searched as searched_lib
from neg_contrast.settings import config as config_lib

_T = TypeVar('_T')


def check(config: config_lib.Config) -> None:
  """Refuses a config that does not suit `job=table`."""
  checks.check_source(config)
  if not config.cells:
    raise config.error('cells', 'is needed: the trainings of the grid, as in '
                       'configs/squad_table.py')


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
        key: train.TrainJob(self._configs[key], self._cell_folder(key))
        for key in sorted(self._configs, key=paper_grid.order)
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
        self._config.data, self._config.evaluation, self._workdir,
        lambda: self._dataset, functools.partial(self._evaluation, split),
        split, lambda: self._bm25,
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
      summary.gather(self._cell_folder(key), self._dataset, say=False)
    for name, together, _ in self._put_together(self._splits[0]):
      summary.gather(self._workdir / name, self._dataset, say=False)
      if name == paper_grid.ENSEMBLE:
        together.ensemble.save(self._workdir / name)
    names = dict(zip(self._splits, self._config.table.datasets, strict=False))
    made = [self._grid().table(split, names.get(split, ''))
            for split in self._splits]
    for suffix, form in (('md', tables.markdown), ('tex', tables.latex)):
      path = self._workdir / f'table.{suffix}'
      partial = path.with_name(path.name + '.partial')
      partial.write_text('\n'.join(map(form, made)), encoding='utf-8')
      os.replace(partial, path)
    summary.gather(self._workdir, self._dataset)
    print('\n' + '\n'.join(map(tables.markdown, made)))
    reporting.write_report(self._workdir, self._config, self._dataset,
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
    evaluations[-1] = _releasing(evaluations[-1], job)
    return [_of_cell(step, key, self._workdir)
            for step in [*steps, job.training_step(), *evaluations]]

  @property
  def _stage1(self) -> str:
    """The workdir of the first stage 1; empty if there is none."""
    found = [cell.stage1.workdir for (group, _), cell in self._configs.items()
             if group == 'generated' and cell.stage1 is not None]
    return found[0] if found else ''

  def _stage1_step(self, split: str) -> plan.Step:
    folder = pathlib.Path(self._stage1) / retriever_lib.FOLDER
    vectors = functools.cache(lambda: settings_of_rooms.vectors(
        self._config, self._dataset, folder, self._stage1
    ))
    return evaluations.evaluation_step(
        'stage1', self._config.data, self._workdir,
        functools.partial(self._evaluation, split), split,
        identity=lambda: evaluations.dense_identity(
            self._dataset, self._config.evaluation, split,
            vectors().search_identity, settings_of_rooms.search(self._config),
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
      made.append((
          paper_grid.ENSEMBLE, ('weights', *paper_grid.ENSEMBLES),
          dataclasses.replace(settings, hybrid=False),
      ))
    if (paper_grid.BASELINES, paper_grid.DPR) in self._cells:
      made.append((
          paper_grid.HYBRID, ('weights', 'hybrid'),
          dataclasses.replace(settings, hybrid=True, weights=(), runs=()),
      ))
    return [
        (name, ensemble.EnsembleJob(dataclasses.replace(
            self._config, job='ensemble', cells=None,
            ensemble=dataclasses.replace(of, members=tuple(
                str(self._cell_folder(key)) for key in self._members(name)
            )),
            data=dataclasses.replace(self._config.data, test_split=split),
        ), self._workdir / name, lambda: self._bm25), systems)
        for name, systems, of in made
    ]

  def _members(self, name: str) -> list[tuple[str, str]]:
    """Cells that are put together as `ensemble` or `hybrid`."""
    if name == paper_grid.HYBRID:
      return [(paper_grid.BASELINES, paper_grid.DPR)]
    return [('generated', member) for member in self._config.table.members]

  def _cell_folder(self, key: tuple[str, str]) -> pathlib.Path:
    return paper_grid.cell_folder(self._workdir, *key)

  def _are_trained(self, keys: list[tuple[str, str]]) -> bool:
    trained = all(self._cells[key].is_trained() for key in keys)
    for key in keys:
      self._cells[key].release()
    return trained

  @functools.cached_property
  def _bm25(self) -> bm25_search.Bm25Search:
    """Of the corpus, for BM25 alone and with others."""
    return bm25_search.Bm25Search(self._config.evaluation, self._dataset)

  @functools.cached_property
  def _dataset(self) -> dataset_lib.Dataset:
    return dataset_lib.Dataset(self._config.data)

  @functools.cache  # noqa: B019 - a job lives as long as the program.
  def _evaluation(self, split: str) -> rankings.Evaluation:
    return rankings.Evaluation(
        self._config.evaluation, self._dataset,
        self._dataset.prepared.judgements(split),
    )

  def _grid(self) -> paper_grid.Grid:
    """What is to be printed."""
    return paper_grid.Grid(
        self._workdir, tuple(self._cells), bool(self._stage1),
        len(self._config.table.members) > 1,
        {cell.stage1.synthetic.pairs for cell in self._configs.values()
         if cell.stage1 is not None},
        self._config.table, self._config.data, self._dataset,
    )


def _of_cell(
    step: plan.Step, key: tuple[str, str], workdir: pathlib.Path
) -> plan.Step:
  """A step of a cell: its name and its errors say which."""
  told_as = functools.partial(prerequisites.told_as,
                              f'cells.{key[0]}.{key[1]}')
  return dataclasses.replace(
      step, name=f'{"-".join(key)}: {step.name}',
      run=told_as(_compiling(workdir, step.run)),
      share=told_as(_compiling(workdir, step.share)),
      is_done=told_as(step.is_done), missing=told_as(step.missing),
  )


def _releasing(step: plan.Step, job: train.TrainJob) -> plan.Step:
  """The last step of a cell: after it, the cell's weights are let go."""
  return dataclasses.replace(
      step, run=_then(step.run, job.release),
      is_done=_then(step.is_done, job.release),
      share=_then(step.share, job.release if hosts.are_several() else
                  plan.nothing),
  )


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


def _compiling(
    workdir: pathlib.Path, run: Callable[[], object]
) -> Callable[[], None]:
  """The cells compute the same programs: each is compiled once."""
  def with_cache() -> None:
    jax.config.update('jax_compilation_cache_dir', str(workdir / 'compiled'))
    jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.5)
    run()

  return with_cache


def _shared_settings(cell: config_lib.Config) -> dict[str, Any]:
  """What cells have to agree in to share miners, candidates and stage 1."""
  values = config_lib.to_dict(cell)
  for key in ('workdir', 'loss'):
    values.pop(key)
  for key in ('strategy', 'per_query', 'members', 'quotas'):
    values['negatives'].pop(key)
  return values
