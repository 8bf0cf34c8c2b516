"""A study: a mined pool that is made again as training goes on (ANCE).

    python -m neg_contrast.main --config=configs/study_ance.py \\
        --config.data.source=beir:workdirs/mentions

with splits `train`, `spare` and `dev`, as configs/study_scores.py has them.

DUAL of configs/study_scores.py, 60 steps of 8, seven negatives of the 100
nearest passages of each mention: by the model that training starts from
(`static`), or by the model as it is every 20, 10 or 5 steps (`every-20` ...).
`mixed-10` draws from those of BM25 too, which stay. Beside them stand `random`
and, of configs/study_freshness.py, `drawn-6`: six draws in proportion to
exp(score).

Paper: Xiong et al., "Approximate Nearest Neighbor Negative Contrastive Learning
for Dense Text Retrieval" (ANCE), 2021, draws from the top 200 and refreshes
every 5,000 steps or more. Minutes for a row on two cores.
"""

import functools

from neg_contrast import presets, study_preset
from neg_contrast.settings import config as config_lib

_STEPS, _MENTIONS = 60, 500


def get_config(arg=None):
  """Takes no argument."""
  config_lib.arguments(arg)
  config = study_preset.make_linking(__file__, baseline='random')
  config.checkpointing.log_steps = 1
  return study_preset.make_study(config, {
      'dual': {
          'random': functools.partial(_set_drawn, percent=0.0, draws=1),
          'drawn-6': functools.partial(_set_drawn, percent=100.0, draws=6),
          'static': functools.partial(_set_pool, every=0),
          **{f'every-{every}': functools.partial(_set_pool, every=every)
             for every in (20, 10, 5)},
          'mixed-10': functools.partial(
              _set_pool, every=10, names='bm25+model'),
      },
  }, seeds=(0, 1, 2))


def _set_drawn(config, percent, draws):
  config.negatives.hard_percent = percent
  config.negatives.refresh_epochs = (
      _STEPS / draws * config.data.batch_size / _MENTIONS
  )


def _set_pool(config, every, names='model'):
  negatives = config.negatives
  presets.set_negatives(config, names, 7)
  negatives.checkpoint = config.model.init
  negatives.refresh_steps = every
