"""Searches a corpus with any checkpoint.

    python -m neg_contrast.main --config=configs/search.py \\
        --config.checkpoint=workdirs/quickstart \\
        --config.data.source=python_docs \\
        --config.query="join two paths"

Without `--config.query` it asks for queries. The checkpoint is a trained
workdir of ours, a BERT-family or sentence-transformers folder or hub name, or
`minilm`. The first run encodes the passages and keeps them in the workdir;
later ones start at once. `--config.evaluation.depth` is how many are shown, and
`--config.evaluation.by_document=True` shows each document once, with its best
passage. `--config.evaluation.hybrid=True` ranks by BM25 and the model together,
where the checkpoint's training had that row. A workdir that has encoded this
corpus is not asked to do so again.
"""

from neg_contrast.settings import config as config_lib


def get_config(arg=None):
  """Takes no argument."""
  config_lib.arguments(arg)
  config = config_lib.base_config()
  config.job = 'search'
  config.evaluation.depth = 5
  return config
