"""A study: does a larger batch, with more negatives in it, teach more?

    python -m neg_contrast.main --config=configs/study_batch.py \\
        --config.data.source=beir:DATA --config.data.train_split=train \\
        --config.data.test_split=test

One epoch of in-batch negatives for every row, from the first two layers of
all-MiniLM-L6-v2: all see each example once, in batches of 16 to 2,048. The
learning rate follows the root of the batch. A gradient cache encodes 64 pairs
at a time, so that memory is that of 64.

Qu et al. (RocketQA) found that more negatives in the batch, up to 4,096, teach
more; launch/studies/ has ours.
"""

import functools

from neg_contrast import study_preset
from neg_contrast.settings import config as config_lib

_BATCHES = (16, 64, 256, 1024, 2048)
_AT_ONCE = 64


def get_config(arg=None):
  """Takes no argument."""
  config_lib.arguments(arg)
  config = study_preset.make_small(__file__, baseline='batch_64')
  config.optim.steps, config.optim.epochs = 0, 1.0
  config.optim.warmup_steps = 0
  return study_preset.make_study(config, {'batches': {
      f'batch_{size}': functools.partial(_set_batch, size=size)
      for size in _BATCHES
  }}, seeds=(0, 1))


def _set_batch(config, size):
  config.data.batch_size = size
  if size > _AT_ONCE:
    config.data.groups = size // _AT_ONCE
    config.model.chunk_groups = 1
  config.optim.learning_rate *= (size / _AT_ONCE) ** 0.5
