"""A study: guards against false negatives, where many passages fit.

    python -m neg_contrast.main --config=configs/study_false_negatives.py \\
        --config.data.source=beir:DATA --config.data.train_split=train \\
        --config.data.test_split=test

BM25 negatives as in configs/study_negatives.py, from the same warm start;
`unmasked`: without the mask of known positives; `margin`: without candidates
that score above 0.9 of the positive's score. With a judge: `judge`: without
what it does not believe negative; `relabel`: what it believes positive is one,
too; `distil`: all candidates, and the judge's scores are learnt beside the
labels.

Arguments:
  judge: a cross-encoder, as `negatives.judge` has it; empty (default): the
    rows of a judge are left out.
  negatives: of BM25 for a query; 2 by default.

Source: Qu et al. (2021), section 3.2, and Ren et al. (2021), RocketQAv2;
launch/studies/RESULTS.md has ours.
"""

import functools

from neg_contrast import presets, study_preset
from neg_contrast.settings import config as config_lib


def get_config(arg=None):
  """Takes `judge` and `negatives`."""
  args = config_lib.arguments(arg, judge='', negatives='2')
  judge, count = args['judge'], int(args['negatives'])
  config = study_preset.make_small(__file__, baseline='random')
  changes = {
      'bm25': _keep, 'unmasked': _set_unmasked, 'margin': _set_margin,
      **({name: functools.partial(change, judge=judge)
          for name, change in _OF_JUDGE.items()} if judge else {}),
  }
  rows: study_preset.Rows = {
      'warm_start': study_preset.set_warm_start, 'random': _set_random,
      **{name: functools.partial(_set_bm25, count=count, change=change)
         for name, change in changes.items()},
  }
  return study_preset.start_from(
      study_preset.make_study(config, {'guards': rows}, seeds=(0, 1)),
      'warm_start',
  )


def _set_random(config):
  presets.set_negatives(config, 'random')


def _set_bm25(config, count, change):
  presets.set_negatives(config, 'bm25', count)
  change(config)


def _keep(config):
  del config


def _set_unmasked(config):
  config.loss.mask_known_positives = False


def _set_margin(config):
  config.negatives.relative_margin = 0.1


def _set_judge(config, judge):
  config.negatives.judge = judge


def _set_relabel(config, judge):
  _set_judge(config, judge)
  config.negatives.judge_relabel = True


def _set_distil(config, judge):
  _set_judge(config, judge)
  config.negatives.judge_below = config.negatives.judge_above = 1.0
  config.loss.distil = 'kl'


_OF_JUDGE = {'judge': _set_judge, 'relabel': _set_relabel,
             'distil': _set_distil}
