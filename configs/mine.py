"""Mines a pool of hard negatives, for this or any other trainer.

    python -m neg_contrast.main --config=configs/mine.py:negatives=bm25 \\
        --config.data.source=beir:DATA --workdir=workdirs/mine

Arguments:
  negatives: `bm25` (default), `context`, `given`, `coarse`, `fine`, `mixed`,
    several of them joined by + (`bm25+given`), or `model`: nearest passages by
    `--config.checkpoint`, a trained workdir or a BERT-family or
    sentence-transformers folder or hub name; or `run`: those of the TREC files
    `--config.negatives.runs="('theirs.trec',)"`.

Every query of `--config.data.train_split` gets its best 100 candidates that are
no positive and that no filter of `config.negatives` drops. The pool is
`<workdir>/pool`; the job ends with the keys to train with it.
`--config.negatives.formats="('dpr','tevatron','flag_embedding','triplets')"`
writes it for other trainers too, into `<workdir>/for_trainers`; every negative
stands there with its whole text (8,204 queries of SQuAD with 100 negatives of
770 characters: 0.8 GB a format, 1.5 GB as triplets), so choose
`--config.negatives.pool_size` by what they draw.

`coarse` and `fine` train their miners first, from `--config.model.init`, for
`--config.negatives.miner_steps` steps.

Paper: Lu et al., section 4.2.
"""

from neg_contrast import presets
from neg_contrast.settings import config as config_lib


def get_config(arg=None):
  """Takes `negatives`."""
  args = config_lib.arguments(arg, negatives='bm25')
  config = config_lib.base_config()
  config.job = 'mine'
  presets.set_negatives(config, args['negatives'], 1)
  config.model.init = 'minilm'
  config.model.passage_length = 256
  config.optim.optimizer = 'adamw'
  config.optim.learning_rate = 3e-5
  return config
