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
  config = presets.beside(__file__, 'own_data', negatives=args['negatives'])
  config.data.batch_size = 32
  config.model.features = ('location:categorical',)
  config.model.passage_length = 128
  config.optim.learning_rate = 5e-5
  config.evaluation.hybrid = False
  config.evaluation.criterion = config_lib.base_config().evaluation.criterion
  return config
