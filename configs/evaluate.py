"""Evaluates any checkpoint on any source, beside BM25.

    python -m neg_contrast.main --config=configs/evaluate.py \
        --config.checkpoint=workdirs/quickstart \
        --config.data.source=python_docs --config.data.split=test

The checkpoint is a trained workdir of ours, or a BERT-family or
sentence-transformers folder or hub name, or `minilm`. `--config.data.source` is
`beir:DIR`, `squad:FILE` or `python_docs`.
"""

from neg_contrast import config as config_lib


def get_config(arg=None):
  """Takes no argument."""
  config_lib.arguments(arg)
  config = config_lib.base_config()
  config.job = 'evaluate'
  return config
