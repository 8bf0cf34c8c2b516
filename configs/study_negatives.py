"""A study: strategies for hard negatives, equal in all else.

    python -m neg_contrast.main --config=configs/study_negatives.py \\
        --config.data.source=beir:DATA --config.data.train_split=train \\
        --config.data.test_split=test

A warm start is trained on in-batch negatives: the first two layers of
all-MiniLM-L6-v2, 128 tokens, 100 steps of 16. From it every strategy goes on
for 16 steps. The miners of `coarse` and `fine` start where the warm start did,
and are trained once for all seeds.

Every row is a config: `--config.cells.strategies.fine.optim.steps=...`; what
all share is set at the top (`--config.optim.steps=...`; the warm start has its
own steps). `--config.study.rows="('warm_start','random','bm25')"` chooses rows.

Paper: Lu et al., section 4; launch/studies/RESULTS.md has ours.
"""

import functools

from neg_contrast import presets, study_preset
from neg_contrast.settings import config as config_lib

_STRATEGIES = ('random', 'coarse', 'fine', 'bm25', 'context', 'mixed')


def get_config(arg=None):
  """Takes no argument."""
  config_lib.arguments(arg)
  config = study_preset.make_small(__file__, baseline='random')
  rows: study_preset.Rows = {
      'warm_start': study_preset.set_warm_start,
      **{name: functools.partial(presets.set_negatives, strategy=name)
         for name in _STRATEGIES},
  }
  return study_preset.start_from(
      study_preset.make_study(config, {'strategies': rows}, seeds=(0, 1)),
      'warm_start',
  )
