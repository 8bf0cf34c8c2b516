"""Features beside text: where a query is asked, and what a passage is about.

    python -m neg_contrast.main --config=configs/features.py \\
        --config.data.source=beir:FOLDER --workdir=workdirs/features

A line of FOLDER's corpus.jsonl and of its queries.jsonl has a `location`, by
itself or in its `metadata`. Name your own fields with

    --config.model.features="('location:categorical', 'social:vector-64')"

Their embeddings are added to the vector of the text, as in Facebook search
(Huang et al., 2020): neg_contrast/models/README.md, "Features beside text". The
same without them, `--config.model.features="()"`, in another workdir shows what
they are worth; `initial` is the model that reads text alone.

Reproduces no row of a paper.
"""

from neg_contrast import presets
from neg_contrast.settings import config as config_lib


def get_config(arg=None):
  """Takes `negatives=`, as in configs/squad_stage2.py."""
  args = config_lib.arguments(arg, negatives='random')
  config = config_lib.base_config()
  config.data.batch_size = 32
  config.model.init = 'minilm'
  config.model.features = ('location:categorical',)
  config.model.query_length = 64
  config.model.passage_length = 128
  presets.set_negatives(config, args['negatives'], 1)
  config.optim.optimizer = 'adamw'
  config.optim.learning_rate = 5e-5
  config.optim.schedule = 'linear'
  config.optim.warmup_steps = 10
  config.optim.weight_decay = 0.01
  config.optim.epochs = 3
  config.evaluation.eval_steps = 50
  config.evaluation.patience = 3
  config.checkpointing.save_steps = 50
  return config
