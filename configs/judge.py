"""Judges candidates by a cross-encoder: which are false negatives?

    python -m neg_contrast.main --config=configs/judge.py \\
        --config.data.source=beir:DATA --config.data.train_split=split-train

Arguments:
  negatives: whose candidates, as in configs/mine.py; `bm25` (default).

Every candidate gets a calibrated probability that it is a positive. Those of at
least `--config.negatives.judge_below` (0.1) are dropped from the pool; those
above `--config.negatives.judge_above` (0.9) are trained on as positives with
`--config.negatives.judge_relabel`. Scores are kept in
`--config.negatives.mined_dir`: other thresholds, other filters and trainings
with the same `negatives.judge` judge nothing again.

The judge is what configs/judge_reranker.py trains, or with
`--config.negatives.judge` any cross-encoder of one label (a folder or hub
name), which is then calibrated on the tune split. A pool that is there already
is judged with `--config.negatives.pool=workdirs/mine/pool`. The first 64 of a
source are judged (`--config.negatives.depth`): 8,204 queries are 525,056 pairs.

Source: RocketQA (Qu et al., 2021), section 3.2; RLHN (Thakur et al., 2025).
"""

from neg_contrast import presets
from neg_contrast.settings import config as config_lib


def get_config(arg=None):
  """Takes `negatives`."""
  args = config_lib.arguments(arg, negatives='bm25')
  config = presets.beside(__file__, 'mine', negatives=args['negatives'])
  config.job = 'judge'
  config.negatives.judge = 'workdirs/judge_reranker'
  config.negatives.depth = 64
  config.negatives.pool_size = 50
  return config
