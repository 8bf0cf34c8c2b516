"""A reranker of disease concepts: JOINT, over the top 64 of a retriever.

    python -m neg_contrast.main --config=configs/ncbi_reranker.py:size=small \\
        --config.data.source=beir:../shared/data/ncbi-disease-el \\
        --config.checkpoint=workdirs/ncbi_retriever

The model and the training of configs/zeshel_reranker.py (Zhang and Stratos) on
the data of configs/ncbi_retriever.py, of which the paper says nothing.

Argument, as in `ncbi_reranker.py:size=small`:
  size: `full` (BERT-base, four epochs) or `small` (all-MiniLM-L6-v2, one epoch,
    7 of the 63 negatives a step, 1e-3 as learning rate of the new layer).
"""

from neg_contrast import presets
from neg_contrast.settings import config as config_lib


def get_config(arg=None):
  """Takes `size`."""
  size = config_lib.arguments(arg, size='full')['size']
  config = presets.beside(__file__, 'ncbi_retriever', size=size)
  presets.set_reranker(config, size)
  return config
