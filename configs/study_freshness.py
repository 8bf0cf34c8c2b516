"""A study: how often hard negatives are drawn anew.

    python -m neg_contrast.main --config=configs/study_freshness.py \\
        --config.data.source=beir:workdirs/mentions

with splits `train`, `spare` and `dev`, as configs/study_scores.py has them.

DUAL of configs/study_scores.py, 60 steps of 8, whose negatives (none, half, or
all of them hard) are drawn by the model 1, 2, 3, 6 or 12 times. Random ones do
not age: they have one row. Names end in the number of draws.

Paper: Zhang and Stratos draw before each of four epochs; launch/studies/ has
ours.
"""

import functools

from neg_contrast import study_preset
from neg_contrast.settings import config as config_lib

_DRAWS = (1, 2, 3, 6, 12)
_STEPS, _MENTIONS = 60, 500


def get_config(arg=None):
  """Takes no argument."""
  config_lib.arguments(arg)
  config = study_preset.make_linking(__file__, baseline='random')
  config.checkpointing.log_steps = 1
  hard = {f'{name}_{draws}': functools.partial(
      _set_row, percent=percent, draws=draws)
          for name, percent in (('mixed-50', 50.0), ('hard', 100.0))
          for draws in _DRAWS}
  return study_preset.make_study(config, {
      'dual': {'random': functools.partial(_set_row, percent=0.0, draws=1),
               **hard},
  }, seeds=(0, 1, 2))


def _set_row(config, percent, draws):
  config.negatives.hard_percent = percent
  config.negatives.refresh_epochs = (
      _STEPS / draws * config.data.batch_size / _MENTIONS
  )
