"""Trains a retriever on questions and passages of your own.

    python -m neg_contrast.main --config=configs/own_data.py \\
        --config.data.source=csv:FAQ.csv --workdir=workdirs/own

A row of FAQ.csv is a question and the text that answers it, in columns
`question` and `text`. Where a row names a document instead, documents are cut
into passages first: launch/tutorials/own_data.md has the whole way.

It starts from MiniLM, with BM25's best passages as hard negatives, and stops
when the questions that are set apart for tuning get no better. BM25 and the
untrained model stand beside the result, and so does the result with BM25.
Values are for hundreds or thousands of questions and a laptop; with an
accelerator take a larger batch and a larger model (`--config.model.init`).

Reproduces no row of a paper.
"""

from neg_contrast import presets
from neg_contrast.settings import config as config_lib


def get_config(arg=None):
  """Takes `negatives=`, as in configs/squad_stage2.py."""
  args = config_lib.arguments(arg, negatives='bm25')
  config = config_lib.base_config()
  config.data.batch_size = 16
  config.model.init = 'minilm'
  config.model.query_length = 64
  config.model.passage_length = 256
  presets.set_negatives(config, args['negatives'], 1)
  config.optim.optimizer = 'adamw'
  config.optim.learning_rate = 2e-5
  config.optim.schedule = 'linear'
  config.optim.warmup_steps = 10
  config.optim.weight_decay = 0.01
  config.optim.epochs = 3
  config.evaluation.eval_steps = 50
  config.evaluation.patience = 3
  config.evaluation.hybrid = True
  config.evaluation.criterion = 'mrr@10'
  config.checkpointing.save_steps = 50
  return config
