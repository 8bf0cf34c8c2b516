"""A published recipe: BERT on SciFact, as Tevatron's example trains it.

    python -m neg_contrast.main --config=configs/scifact_tevatron.py

Published (github.com/texttron/tevatron, examples/scifact/README.md): reciprocal
rank .7322, nDCG@10 .7473 on the 300 claims of dev (BEIR's test), over 5,183
abstracts. They stand in configs/expected.csv, to which `--check` compares a
finished run. Not run here, and hours are not measured: bert-base-uncased and
SciFact have to be downloaded (`--plan` says what is missing). A step has at
most 64 claims of 64 tokens and 128 abstracts of 512; `chunk_groups=-1` encodes
as many of them at once as the device can hold.

The values are those of its command: one tower, [CLS] without projection and
normalisation, dot products without a factor, one direction, one hard negative
for each claim beside the batch of 64, Adam at 1e-5 falling to 0, gradients cut
at 1 (the default of its trainer), claims of 64 tokens, abstracts of 512, no
tuning. 80 epochs of 809 claims are 80 x 13 steps. What differs:

* Its negatives are BM25's, in its own files; ours are drawn from the first 100
  of our BM25.
* It draws one positive of a claim in each epoch; we take pairs of claim and
  positive.
* It joins title and abstract by a space; we put [SEP] between them.
* It computes in float16; accelerators compute in bfloat16 here.
"""

from neg_contrast import beir_preset, presets
from neg_contrast.settings import config as config_lib


def get_config(arg=None):
  """Takes no argument."""
  config_lib.arguments(arg)
  config = config_lib.base_config()
  config.data.tune_split = 'train'  # Nothing is tuned by it.
  config.data.drop_own_passage = False
  config.data.batch_size = 64
  config.data.groups = 8
  config.model.init = 'bert-base-uncased'
  beir_preset.set_data(config, 'scifact', config.model.init, 'model.init')
  config.model.pooling = 'cls'
  config.model.projection_dim = 0
  config.model.normalize = False
  config.model.query_length = 64
  config.model.passage_length = 512
  config.model.remat = 'attention'
  config.model.chunk_groups = -1
  config.loss.scale = 1.0
  config.loss.bidirectional = False
  config.loss.mask_known_positives = False
  presets.set_negatives(config, 'bm25', 1)
  config.optim.learning_rate = 1e-5
  config.optim.schedule = 'linear'
  config.optim.clip_norm = 1.0
  config.optim.steps = 1040
  config.evaluation.depth = 20
  config.evaluation.metrics = ('mrr', 'ndcg@10', 'accuracy@1', 'accuracy@20')
  config.checkpointing.save_steps = 260
  return config
