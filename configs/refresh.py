"""Makes the negatives of a training again while it goes on: asynchronous ANCE.

A training that is begun with

    --config.negatives.refresh=asynchronous --config.negatives.refresh_steps=100

and sources of which one is `coarse`, `fine` or `model`, never waits for its
negatives. This program reads its checkpoints, encodes and searches the corpus
by each, as soon as it has done so by the one before, and filters what it finds:

    python -m neg_contrast.main --config=configs/refresh.py \\
        --config.checkpoint=workdirs/squad_stage2

It ends when the training does. Start it in the same folder, in any order; on
another machine, where that is the same folder of a shared disk. A training in a
bucket, where one program works at a time, is refused.
`--config.mesh.*` is its own. At each of its refresh
points the training takes the newest pool that is whole.

Paper: Xiong et al., "Approximate Nearest Neighbor Negative Contrastive Learning
for Dense Text Retrieval", 2021, section 4.
"""

from neg_contrast.settings import config as config_lib


def get_config(arg=None):
  """Takes no argument."""
  config_lib.arguments(arg)
  config = config_lib.base_config()
  config.job = 'follow'
  config.workdir = config.get_oneway_ref('checkpoint')
  return config
