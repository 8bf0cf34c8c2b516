"""A study: strategies for hard negatives, equal in all else.

    python -m neg_contrast.main --config=configs/study_negatives.py \\
        --config.data.source=beir:DATA --config.data.train_split=train \\
        --config.data.test_split=test

A warm start is trained on in-batch negatives, and from it every strategy goes
on. The miners of `coarse` and `fine` start where the warm start did, and are
trained once for all seeds. `same_document` takes examples in pairs of one
document, `same_topic` a batch from one cluster of queries (TAS); both have no
other negatives than the batch.

Arguments, as in `study_negatives.py:size=whole`:
  size: `small`, the first two layers of all-MiniLM-L6-v2, 100 steps of 16 and
    then 16 with each strategy; or `whole`, all six layers and an epoch of
    batch 64 for the start, the miners and each row, with two rows more:
    `fine_refreshed` and `mixed_refreshed`, whose candidates the model finds
    again every 40 steps. 128 tokens.

Every row is a config: `--config.cells.strategies.fine.optim.steps=...`; what
all share is set at the top (`--config.optim.steps=...`; the warm start has its
own steps). `--config.study.rows="('warm_start','random','bm25')"` chooses rows.

Paper: Lu et al., section 4; launch/studies/RESULTS.md has ours.
"""

import functools

from neg_contrast import presets, study_preset
from neg_contrast.settings import config as config_lib

_STRATEGIES = ('random', 'coarse', 'fine', 'bm25', 'context', 'mixed')
_TOGETHER = {'document': 'document:2', 'topic': 'topic:64'}
_REFRESHED, _REFRESH_STEPS = ('fine', 'mixed'), 40


def get_config(arg=None):
  """Takes `size`."""
  size = config_lib.arguments(arg, size='small')['size']
  if size not in _SIZES:
    raise config_lib.unknown_argument('size', size, _SIZES)
  make, set_warm_start, refreshed = _SIZES[size]
  config = make(__file__, baseline='random')
  rows: study_preset.Rows = {
      'warm_start': set_warm_start,
      **{name: functools.partial(presets.set_negatives, strategy=name)
         for name in _STRATEGIES},
      **{f'same_{name}': functools.partial(_set_together, together=value)
         for name, value in _TOGETHER.items()},
      **{f'{name}_refreshed': functools.partial(_set_refreshed, strategy=name)
         for name in refreshed},
  }
  return study_preset.start_from(
      study_preset.make_study(config, {'strategies': rows}, seeds=(0, 1)),
      'warm_start',
  )


def _set_together(config, together):
  presets.set_negatives(config, 'random')
  config.data.together = together


def _set_refreshed(config, strategy):
  presets.set_negatives(config, strategy)
  config.negatives.refresh_steps = _REFRESH_STEPS


_SIZES = {
    'small': (study_preset.make_small, study_preset.set_warm_start, ()),
    'whole': (study_preset.make_whole, lambda config: None, _REFRESHED),
}
