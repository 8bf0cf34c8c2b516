"""Evaluates any checkpoint on any source, beside BM25.

    python -m neg_contrast.main --config=configs/evaluate.py \
        --config.checkpoint=workdirs/quickstart \
        --config.data.source=python_docs --config.data.split=test

The checkpoint is a trained workdir of ours, or a BERT-family or
sentence-transformers folder or hub name, or `minilm`. What
`--config.data.source` can be is in neg_contrast/data/README.md. TREC run files
of other systems are evaluated beside it with
`--config.evaluation.runs="('theirs.trec',)"`.
"""

from neg_contrast.settings import config as config_lib


def get_config(arg=None):
  """Takes no argument."""
  config_lib.arguments(arg)
  config = config_lib.base_config()
  config.job = 'evaluate'
  return config
