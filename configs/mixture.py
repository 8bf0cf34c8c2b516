"""One retriever trained on two data sets, three batches of one to one of other.

    python -m neg_contrast.main --config=configs/mixture.py

Both are on this machine: the documentation strings of the Python standard
library (`library`), and those of NumPy (`numpy`), each with its own corpus and
BM25 negatives; queries of `numpy` have a prompt. A batch is of one set, so that
all its passages are of one corpus; --config.mixture.batches=mixed mixes them.
Early stopping goes by the mean of both tune splits, and each set is evaluated
at the end.

For your own data copy this file, and name your sets in `named_sets`: a name, a
source, and any key of `mixture.sets.NAME` in configs/KEYS.md. Keys of a set
that stands here can be flags: --config.mixture.sets.numpy.weight=2. Without
weights a set is drawn from as often as it has examples, to the power of
1 / mixture.temperature.

Reproduces no row of a paper. MiniLM comes with pip; some minutes on two cores.
"""

import importlib.util

from neg_contrast.settings import config as config_lib


def get_config(arg=None):
  """Takes no argument."""
  config_lib.arguments(arg)
  config = config_lib.base_config()
  config.mixture.sets = config_lib.named_sets(
      library={'source': 'python_docs', 'weight': 3.0, 'tune_split': 'tune'},
      numpy={
          'source': f'python_docs:{_folder_of("numpy")}', 'weight': 1.0,
          'tune_split': 'tune', 'query_prefix': 'numpy: ',
      },
  )
  config.data.batch_size = 32
  config.model.init = 'minilm'
  config.model.query_length = 64
  config.model.passage_length = 128
  config.negatives.sources = ('bm25:1',)
  config.optim.optimizer = 'adamw'
  config.optim.learning_rate = 2e-5
  config.optim.schedule = 'linear'
  config.optim.warmup_steps = 3
  config.optim.weight_decay = 0.01
  config.optim.steps = 24
  config.evaluation.eval_steps = 12
  config.checkpointing.save_steps = 12
  config.checkpointing.log_steps = 2
  return config


def _folder_of(package: str) -> str:
  spec = importlib.util.find_spec(package)
  assert spec is not None and spec.submodule_search_locations
  return spec.submodule_search_locations[0]
