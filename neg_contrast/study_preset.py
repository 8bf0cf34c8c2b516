"""Studies: configs that are equal but for one thing; only `configs/` uses it.
"""

import copy
from collections.abc import Callable, Mapping

import ml_collections

from neg_contrast import presets

Rows = Mapping[str, Callable[[ml_collections.ConfigDict], None]]
"""Name of a row -> what makes the study's own training that of the row."""

START_SEED = 100
"""Of a row that others start from. With a seed of theirs they would have its
batches once more, in its order."""

METRICS = ('accuracy@1', 'accuracy@5', 'accuracy@20', 'accuracy@100', 'mrr@10',
           'mrr')
"""`mrr` has no cut: it moves with every rank that a positive is found at."""


def make_whole(file: str, baseline: str) -> ml_collections.ConfigDict:
  """A training of all-MiniLM-L6-v2: an epoch of batch 64.

  Args:
    file: `__file__` of the study.
    baseline: row that the others are compared to.
  """
  config = presets.beside(file, 'squad_stage2', size='small', stage1='none',
                          negatives='random')
  config.compare.baseline = baseline
  config.model.query_length, config.model.passage_length = 64, 128
  config.negatives.miner_seed = 0
  config.evaluation.metrics = METRICS
  config.evaluation.answer_ks = ()
  config.evaluation.depth = 1000
  config.evaluation.eval_steps = 0
  config.checkpointing.save_steps = 20  # Some minutes of a long row.
  return config


def make_small(file: str, baseline: str) -> ml_collections.ConfigDict:
  """A training of two layers of all-MiniLM-L6-v2: minutes for a row.

  Args:
    file: `__file__` of the study.
    baseline: row that the others are compared to.
  """
  config = make_whole(file, baseline)
  config.checkpointing.save_steps = 10**6
  config.data.batch_size = 16
  config.model.layers = 2
  config.negatives.miner_steps = 100
  config.optim.learning_rate = 1e-4
  config.optim.schedule = 'linear'
  config.optim.steps, config.optim.warmup_steps = 16, 4
  return config


def make_linking(file: str, baseline: str) -> ml_collections.ConfigDict:
  """A training of an entity retriever on 500 mentions: minutes for a row.

  From all-MiniLM-L6-v2, with [CLS] and plain dot products as in the paper; the
  split `spare` is never evaluated.

  Args:
    file: `__file__` of the study.
    baseline: row that the others are compared to.
  """
  config = presets.beside(file, 'ncbi_retriever', size='small')
  config.compare.baseline = baseline
  config.data.tune_split = 'spare'
  config.data.batch_size = 8
  config.model.query_length = config.model.passage_length = 32
  config.model.pooling, config.model.normalize = 'cls', False
  config.loss.scale = 1.0
  config.optim.steps, config.optim.warmup_steps = 60, 6
  config.optim.learning_rate = 1e-4
  config.optim.schedule = 'linear'
  config.evaluation.eval_steps = 0
  config.evaluation.metrics = ('accuracy@1', 'accuracy@10', 'accuracy@64')
  config.checkpointing.save_steps = 10**6
  config.checkpointing.log_steps = 10
  return config


def set_warm_start(config: ml_collections.ConfigDict) -> None:
  """The start of all other rows: in-batch negatives alone."""
  config.optim.steps = 100
  config.optim.schedule = 'constant'
  config.optim.warmup_steps = 0


def make_study(
    config: ml_collections.ConfigDict,
    groups: Mapping[str, Rows],
    seeds: tuple[int, ...],
) -> ml_collections.ConfigDict:
  """Makes a training's config that of a study around it.

  Keys that a row leaves as they are follow those of the study, whatever flags
  say.

  Args:
    config: of the training, changed in place.
    groups: rows of each table, by its title.
    seeds: that each row runs with.

  Returns:
    `config`.
  """
  plain = config.to_dict()
  cells: dict[str, dict[str, ml_collections.ConfigDict]] = {}
  for group, rows in groups.items():
    cells[group] = {}
    for name, change in rows.items():
      cell = copy.deepcopy(config)
      change(cell)
      presets.follow_unchanged(cell, config, plain)
      cells[group][name] = cell
  config.job = 'study'
  config.study.seeds = seeds
  config.study.rows = tuple(dict.fromkeys(
      name for rows in groups.values() for name in rows
  ))
  config.cells = ml_collections.ConfigDict(cells)
  return config


def start_from(
    config: ml_collections.ConfigDict, row: str
) -> ml_collections.ConfigDict:
  """Makes the other rows of a study go on from one of them, which runs once.

  It is stage 1 of theirs, and follows its keys. Its seed is `START_SEED`.

  Args:
    config: what `make_study` made, changed in place.
    row: its name in every group.

  Returns:
    `config`.
  """
  config.study.once = (row,)
  for cells in config.cells.values():
    cells[row].seed = START_SEED
    for name, cell in cells.items():
      if name != row:
        first = cells[row].copy_and_resolve_references()
        first.workdir = f'{row}'
        keys = [key for key in presets.leaves(first) if key != 'workdir']
        cell.stage1 = presets.follow(first, cells[row], tuple(keys))
  return config
