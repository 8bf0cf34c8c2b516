"""The grid of trainings behind a paper's tables; only `configs/` uses it."""

import functools
import pathlib
from collections.abc import Callable

import ml_collections

from neg_contrast import presets
from neg_contrast.settings import config as config_lib


def make_table(
    file: str,
    arg: str | None,
    stage1: str,
    datasets: tuple[str, ...],
    strategies: tuple[str, ...] = (
        'random', 'coarse', 'fine', 'bm25', 'context', 'mixed'
    ),
    **options: str,
) -> ml_collections.ConfigDict:
  """The config of a file called `NAME_table.py` (Lu et al., Tables 2 to 4).

  Cells are `NAME_stage2.py` with other arguments, and one that trains as DPR
  does.

  Args:
    file: `__file__` of the config.
    arg: its argument, with `size` and the keys of `options`.
    stage1: of the group `generated`, at `size=full`.
    datasets: what the paper calls the test split, and others.
    strategies: of each group.
    **options: more keys that `NAME_stage2.py` takes, and their defaults. The
      workdir has the name of a value that is not the default.

  Raises:
    UserError: an unknown argument.
  """
  args = config_lib.arguments(arg, size='full', **options)
  size, name = args['size'], pathlib.Path(file).stem.partition('_')[0]
  make = functools.partial(presets.beside, file, f'{name}_stage2', **args)
  config = make(stage1='none', negatives='random')
  plain = config.to_dict()
  config.job = 'table'
  config.workdir = '-'.join([f'workdirs/{name}_table', size, *(
      args[key] for key in options if args[key] != options[key]
  )])
  if size == 'small':
    _set_table_small(config)
  cells = _cells(make, 'generated' if size == 'small' else stage1, strategies)
  generator = next(iter(cells['generated'].values())).stage1.generator
  for group, of_group in cells.items():
    first = next(iter(of_group.values()))
    if size == 'small' and first.stage1 is not None:
      _set_stage1_short(first.stage1, f'{config.workdir}/stage1-{group}',
                        f'{config.workdir}/generator')
    if first.stage1 is not None and first.stage1.generator is not generator:
      presets.follow(first.stage1.generator, generator,
                     tuple(presets.leaves(generator)))
    for cell in of_group.values():
      presets.follow_unchanged(cell, config, plain)
      if cell is not first and first.stage1 is not None:
        cell.stage1 = first.stage1.copy_and_resolve_references()
        presets.follow(
            cell.stage1, first.stage1, tuple(presets.leaves(cell.stage1))
        )
  config.cells = ml_collections.ConfigDict(cells)
  config.table.paper = str(pathlib.Path(file).with_name('lu_et_al.csv'))
  config.table.datasets = datasets
  config.table.metrics = tuple(
      f'answer_accuracy@{k}' for k in config.evaluation.answer_ks
  )
  config.table.members = tuple(
      name for name in ('coarse', 'fine', 'bm25', 'context')
      if name in strategies
  )
  return config


def _cells(
    make: Callable[..., ml_collections.ConfigDict],
    stage1: str,
    strategies: tuple[str, ...],
) -> dict[str, dict[str, ml_collections.ConfigDict]]:
  """The trainings by group and name, each with all keys of its own."""
  groups = {
      'generated': stage1,
      'no_hard_negatives': 'no_hard_negatives' if stage1 == 'generated'
      else f'{stage1}_no_hard_negatives',
      'none': 'none',
  }
  cells = {
      group: {negatives: make(stage1=of, negatives=negatives)
              for negatives in strategies}
      for group, of in groups.items()
  }
  cells['baselines'] = {'dpr_single': _as_dpr(make(
      stage1='none', negatives='bm25'
  ))}
  return cells


def _as_dpr(
    config: ml_collections.ConfigDict
) -> ml_collections.ConfigDict:
  """DPR (Single): two encoders, one direction, plain dot products."""
  config.model.shared = False
  config.model.projection_dim = 0
  config.model.normalize = False
  config.loss.bidirectional = False
  config.loss.scale = 1.0
  presets.set_negatives(config, 'bm25', 1)
  return config


def _set_table_small(config: ml_collections.ConfigDict) -> None:
  """Two layers, 128 tokens, 16 steps of 16: a grid within the hour."""
  config.model.layers = 2
  config.model.query_length, config.model.passage_length = 32, 128
  config.negatives.miner_steps = 60
  _set_short(config, batch_size=16, steps=16)


def _set_short(
    config: ml_collections.ConfigDict, batch_size: int, steps: int
) -> None:
  config.data.batch_size = batch_size
  config.optim.learning_rate = 1e-4
  config.optim.schedule = 'linear'
  config.optim.steps, config.optim.warmup_steps = steps, 4
  config.evaluation.eval_steps = 0
  config.checkpointing.save_steps = 10**6


def _set_stage1_short(
    stage1: ml_collections.ConfigDict, workdir: str, generator: str
) -> None:
  stage1.workdir = workdir
  _set_short(stage1, batch_size=32, steps=24)
  if stage1.generator is not None:
    stage1.generator.workdir = generator
    stage1.generator.optim.steps = 150
    stage1.generator.evaluation.eval_steps = 150
