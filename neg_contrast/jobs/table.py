"""A grid of trainings, ensembles and baselines in the layout of the paper."""

import dataclasses
import pathlib
from collections.abc import Sequence

from neg_contrast import errors
from neg_contrast.artifacts import artifact, atomic
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.evaluation import (
  evaluations,
  judged,
  metrics,
  summary,
  weight_tuning,
)
from neg_contrast.jobs import train
from neg_contrast.jobs.common import (
  checks,
  compiled,
  declared_rankings,
  reporting,
  settings_of_rooms,
  study_checks,
  table_checks,
)
from neg_contrast.report import paper_grid, tables
from neg_contrast.retrieval import bm25_search, corpus_vectors
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.settings import config as config_lib


def check(config: config_lib.Config) -> None:
  """Refuses a config that does not suit `job=table`."""
  checks.check_source(config)
  if not config.cells:
    raise config.error('cells', 'is needed: the trainings of the grid, as in '
                       'configs/squad_table.py')
  table_checks.check_columns(config.table)


class TableJob:
  """`job=table`: trains all `cells`, puts them together, prints the table."""

  def __init__(self, config: config_lib.Config, workdir: pathlib.Path):
    """Reads nothing yet.

    Raises:
      UserError: a member of the ensembles is no cell.
    """
    self._config, self._workdir = config, workdir
    self._data = dataset_lib.data_of(config.data)
    self._bm25 = bm25_search.bm25_of(config.evaluation, self._data)
    self._splits = (config.data.test_split, *config.table.more_splits)
    self._configs = {
        (group, name): cell for group, cells in (config.cells or {}).items()
        for name, cell in cells.items()
    }
    self._cells = {key: self._cell(key)
                   for key in sorted(self._configs, key=paper_grid.order)}
    for name in config.table.members:
      if ('generated', name) not in self._cells:
        raise errors.SettingError(
            'table.members', config.table.members,
            f'there is no config.cells.generated.{name}',
        )

  def targets(self) -> list[artifact.Artifact]:
    """Baselines, all trainings and their evaluations, and what joins them.

    What several cells need is declared alike by them, and made once. They
    compute the same programs, each of which is compiled once.

    Raises:
      UserError: a metric is not known, or a run does not measure a column.
    """
    self._check_metrics()
    compiled.keep(self._workdir)
    targets: list[artifact.Artifact] = [self._data]
    for key, job in self._cells.items():
      with _within(key):
        targets += [job.run, *(
            job.evaluation('trained', job.run, split, len(self._splits) > 1)
            for split in self._splits
        )]
    for split in self._splits:
      targets += self._stage1_evaluation(split)
      targets += self._fused(paper_grid.ENSEMBLE, split)
    # Those that read BM25's index are together: it is indexed once.
    targets += [self._evaluation(judged.Bm25Ranking(
        self._judged(split), 'bm25', self._bm25
    )) for split in self._splits]
    for split in self._splits:
      targets += self._fused(paper_grid.HYBRID, split)
    return targets

  def finish(self) -> None:
    """Writes `table.md` and `table.tex`, and prints the first.

    Cells get their `metrics.json`, and the ensemble becomes a checkpoint.
    """
    dataset = self._data.load()
    for key in self._cells:
      summary.gather(self._cell_folder(key), dataset, say=False)
    for name, (fused, _) in self._put_together(self._splits[0]).items():
      summary.gather(self._workdir / name, dataset, say=False)
      if name == paper_grid.ENSEMBLE:
        fused.save(self._workdir / name)
    names = dict(zip(self._splits, self._config.table.datasets, strict=False))
    made = [self._grid().table(split, names.get(split, ''))
            for split in self._splits]
    for suffix, form in (('md', tables.markdown), ('tex', tables.latex)):
      with atomic.writing(self._workdir / f'table.{suffix}') as f:
        f.write('\n'.join(map(form, made)))
    summary.gather(self._workdir, dataset)
    print('\n' + '\n'.join(map(tables.markdown, made)))
    reporting.write_report(self._workdir, self._config, dataset,
                           tables=tuple(map(tables.html, made)))

  def _check_metrics(self) -> None:
    columns = self._config.table.metrics
    metrics.check_names(columns, 'table.metrics')
    self._check_measured(self._config, columns)
    columns = columns or self._config.evaluation.metrics
    for key, config in self._configs.items():
      with _within(key):
        self._check_measured(config, columns)

  @staticmethod
  def _check_measured(
      config: config_lib.Config, columns: Sequence[str]
  ) -> None:
    names = config.evaluation.metrics
    metrics.check_names(names)
    for column in columns:
      if column not in study_checks.measured(config):
        raise config.evaluation.error(
            'metrics', f'lacks {column}, a column of the table; add it')

  def _cell(self, key: tuple[str, str]) -> train.TrainJob:
    with _within(key):
      table_checks.check_cell(self._config, self._configs[key])
      return train.TrainJob(self._configs[key], self._cell_folder(key))

  def _cell_folder(self, key: tuple[str, str]) -> pathlib.Path:
    return paper_grid.cell_folder(self._workdir, *key)

  def _judged(self, split: str) -> judged.Judged:
    return judged.Judged(self._data, split, self._config.evaluation)

  def _evaluation(self, ranking: judged.Ranking) -> evaluations.Evaluation:
    return evaluations.Evaluation(ranking, self._workdir,
                                  is_shown_with_split=len(self._splits) > 1)

  @property
  def _stage1(self) -> train.TrainJob | None:
    """The first stage 1 that cells go on from."""
    found = (job.stage1 for (group, _), job in self._cells.items()
             if group == 'generated')
    return next((job for job in found if job is not None), None)

  def _stage1_evaluation(self, split: str) -> list[evaluations.Evaluation]:
    """Of stage 1 alone, if there is one."""
    if self._stage1 is None:
      return []
    run = self._stage1.run
    folder = run.workdir / retriever_lib.FOLDER
    return [self._evaluation(judged.DenseRanking(
        self._judged(split), 'stage1', corpus_vectors.Embeddings(
            self._data, settings_of_rooms.encoding(self._config), folder, run
        ), settings_of_rooms.search(self._config), folder,
    ))]

  def _fused(self, name: str, split: str) -> list[evaluations.Evaluation]:
    """Of what fuses cells, if there is any."""
    made = self._put_together(split)
    if name not in made:
      return []
    fused, systems = made[name]
    return fused.evaluations(systems)

  def _put_together(
      self, split: str
  ) -> dict[str, tuple[declared_rankings.Ensemble, tuple[str, ...]]]:
    """Folder -> what fuses cells, and the systems that are wanted of it."""
    settings, made = self._config.ensemble, {}
    if len(self._config.table.members) > 1:
      made[paper_grid.ENSEMBLE] = self._ensemble(
          paper_grid.ENSEMBLE, split,
          [('generated', name) for name in self._config.table.members],
          dataclasses.replace(settings, hybrid=False),
      ), tuple(paper_grid.ENSEMBLES)
    single = (paper_grid.BASELINES, paper_grid.DPR)
    if single in self._cells:
      made[paper_grid.HYBRID] = self._ensemble(
          paper_grid.HYBRID, split, [single],
          dataclasses.replace(settings, hybrid=True, weights=(), runs=()),
      ), ('hybrid',)
    return made

  def _ensemble(
      self, name: str, split: str, keys: list[tuple[str, str]],
      settings: config_lib.EnsembleConfig,
  ) -> declared_rankings.Ensemble:
    """Fuses cells, in a folder of that name."""
    folders = [self._cell_folder(key) for key in keys]
    members = tuple(
        (folder.name, self._cells[key].vectors(self._cells[key].run))
        for key, folder in zip(keys, folders, strict=True)
    )
    settings = dataclasses.replace(settings, members=tuple(map(str, folders)))
    return declared_rankings.Ensemble(
        settings, members, self._bm25,
        judged.TuneJudged(self._data, self._config.evaluation, is_apart=True),
        dataclasses.replace(
            self._judged(split),
            is_apart=weight_tuning.reads_tune_split(settings),
        ),
        settings_of_rooms.search(self._config), self._workdir / name,
        len(self._splits) > 1,
    )

  def _grid(self) -> paper_grid.Grid:
    """What is to be printed."""
    firsts = [cell.stage1 for cell in self._configs.values()]
    settings = self._config.table
    settings = dataclasses.replace(
        settings, metrics=settings.metrics or self._config.evaluation.metrics
    )
    return paper_grid.Grid(
        self._workdir, tuple(self._cells), self._stage1 is not None,
        len(settings.members) > 1,
        {first.synthetic.pairs for first in firsts if first is not None},
        settings, self._config.data, self._data.load(),
    )


def _within(key: tuple[str, str]):
  """What runs inside reads the config of a cell."""
  return errors.within(f'cells.{key[0]}.{key[1]}')
