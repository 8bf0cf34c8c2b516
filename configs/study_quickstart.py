"""A study: is the quick start's recipe better than plain training?

    python -m neg_contrast.main --config=configs/study_quickstart.py

On the documentation of Python, about as many tokens for every row:

  plain: gold pairs, with the other passages of the batch as negatives.
  bm25: gold pairs, each with a BM25 negative.
  crops_plain: stage 1 on crops for two fifths of the time, then `plain`.
  crops_bm25: the same, then `bm25`. This was the quick start before.
  two_stages: configs/quickstart.py, stage 1 on an inverse cloze for a seventh
    of the time, then `plain`.

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
  row = functools.partial(functools.partial, _set_row, first=first)
  return study_preset.make_study(config, {'recipes': {
      'plain': row(steps=40),
      'bm25': row(steps=36, with_bm25=True),
      'crops_plain': row(steps=20, crops=12),
      'crops_bm25': row(steps=20, crops=12, with_bm25=True),
      'two_stages': functools.partial(_set_stage1, first=first),
  }}, seeds=(0, 1, 2))


def _set_row(config, first, steps, crops=0, with_bm25=False):
  config.optim.steps = steps
  if crops:
    _set_stage1(config, first)
    config.stage1.synthetic.pairs = 'crops'
    config.stage1.optim.steps = crops
  if with_bm25:
    presets.set_negatives(config, 'bm25', 1)
    config.data.batch_size = 40


def _set_stage1(config, first):
  steps, first = first.optim.steps, first.copy_and_resolve_references()
  presets.follow(first, config, tuple(
      key for key in presets.leaves(first) if key.partition('.')[0] == 'optim'
  ))
  first.optim.steps = steps
  presets.set_first(config, first)
  config.stage1.workdir = 'stage1'
