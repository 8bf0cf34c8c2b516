"""A study: two guards against false negatives, where many passages fit.

    python -m neg_contrast.main --config=configs/study_false_negatives.py \\
        --config.data.source=beir:DATA --config.data.train_split=train \\
        --config.data.test_split=test

BM25 negatives as in configs/study_negatives.py, from the same warm start;
`unmasked`: without the mask of known positives; `margin`: without candidates
that score above 0.9 of the positive's score.

Paper: no row; launch/studies/RESULTS.md has ours.
"""

from neg_contrast import presets, study_preset
from neg_contrast.settings import config as config_lib


def get_config(arg=None):
  """Takes no argument."""
  config_lib.arguments(arg)
  config = study_preset.make_small(__file__, baseline='random')
  rows = {
      'warm_start': study_preset.set_warm_start,
      'random': _set_random, 'bm25': _set_bm25,
      'unmasked': _set_unmasked, 'margin': _set_margin,
  }
  return study_preset.start_from(
      study_preset.make_study(config, {'guards': rows}, seeds=(0, 1)),
      'warm_start',
  )


def _set_random(config):
  presets.set_negatives(config, 'random')


def _set_bm25(config):
  presets.set_negatives(config, 'bm25')


def _set_unmasked(config):
  _set_bm25(config)
  config.loss.mask_known_positives = False


def _set_margin(config):
  _set_bm25(config)
  config.negatives.relative_margin = 0.1
