"""A study: is the quick start's recipe better than plain training?

    python -m neg_contrast.main --config=configs/study_quickstart.py

On the documentation of Python, about as many tokens for every row but `short`:

  plain: gold pairs, with the other passages of the batch as negatives.
  bm25: gold pairs, each with a BM25 negative.
  two_stages: configs/quickstart.py, stage 1 on an inverse cloze for a third of
    the time, then gold pairs as in `short`.
  short: gold pairs for two thirds of the time.

Each seed has a stage 1 of its own. Choose on tune, where training reads none of
it (`--config.data.test_split=tune --config.data.tune_split=test`); test is read
once. launch/studies/RESULTS.md has ours.
"""

import functools

from neg_contrast import presets, study_preset
from neg_contrast.settings import config as config_lib


def get_config(arg=None):
  """Takes no argument."""
  config_lib.arguments(arg)
  config = presets.beside(__file__, 'quickstart')
  first, config.stage1 = config.stage1, None
  config.evaluation.untouched = config.evaluation.hybrid = False
  config.evaluation.eval_steps = 0
  config.evaluation.metrics = study_preset.METRICS
  config.compare.baseline = 'plain'
  config.study.seed_stage1 = True
  return study_preset.make_study(config, {'recipes': {
      'plain': functools.partial(_set_steps, steps=61),
      'bm25': _set_bm25,
      'two_stages': functools.partial(_set_stage1, first=first),
      'short': functools.partial(_set_steps, steps=40),
  }}, seeds=(0, 1, 2))


def _set_steps(config, steps):
  config.optim.steps = steps


def _set_bm25(config):
  presets.set_negatives(config, 'bm25', 1)
  config.data.batch_size, config.optim.steps = 40, 54


def _set_stage1(config, first):
  steps, first = first.optim.steps, first.copy_and_resolve_references()
  presets.follow(first, config, tuple(
      key for key in presets.leaves(first) if key.partition('.')[0] == 'optim'
  ))
  first.optim.steps = steps
  presets.set_first(config, first)
  config.stage1.workdir = 'stage1'
