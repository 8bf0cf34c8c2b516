"""A study: does a first stage, or more steps, make the quick start better?

    python -m neg_contrast.main --config=configs/study_quickstart.py

On the documentation of Python, about as many tokens for each of

  plain: configs/quickstart.py, gold pairs, with the other passages of the batch
    as negatives.
  two_stages: configs/quickstart.py:stage1=inverse_cloze, a first stage for a
    seventh of the time.
  bm25: gold pairs, each with a BM25 negative;

and half as many more for each of

  plain_longer: as `plain`.
  two_stages_longer: a first stage for a third of the time, and then as many
    gold pairs as `plain` has.

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
  first = presets.beside(
      __file__, 'quickstart', stage1='inverse_cloze'
  ).stage1
  config.evaluation.hybrid = False
  config.evaluation.eval_steps = 0
  config.evaluation.metrics = study_preset.METRICS
  config.compare.baseline = 'plain'
  config.study.seed_stage1 = True
  plain = functools.partial(functools.partial, _set_steps)
  two_stages = functools.partial(functools.partial, _set_stages, first)
  return study_preset.make_study(config, {'recipes': {
      'plain': plain(40),
      'two_stages': two_stages((6, 34)),
      'bm25': _set_bm25,
      'plain_longer': plain(61),
      'two_stages_longer': two_stages((20, 40)),
  }}, seeds=(0, 1, 2))


def _set_steps(steps, config):
  config.optim.steps = steps


def _set_bm25(config):
  presets.set_negatives(config, 'bm25', 1)
  config.data.batch_size, config.optim.steps = 40, 36


def _set_stages(first, steps, config):
  first = first.copy_and_resolve_references()
  presets.follow(first, config, tuple(
      key for key in presets.leaves(first) if key.partition('.')[0] == 'optim'
  ))
  first.optim.steps, config.optim.steps = steps
  presets.set_first(config, first)
  config.stage1.workdir = 'stage1'
