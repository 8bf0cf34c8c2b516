"""Ranks the top 64 of any retriever anew.

    python -m neg_contrast.main --config=configs/rerank.py \\
        --config.checkpoint=workdirs/zeshel_reranker \\
        --config.candidates=workdirs/zeshel_retriever \\
        --config.data.source=zeshel:data/zeshel --config.data.split=val

`config.candidates` is `bm25`, a TREC run file, a file of Zeshel's
tfidf_candidates, or the checkpoint of a retriever. `config.checkpoint` is a
workdir of job=train_reranker, a cross-encoder of transformers with one label (a
folder or hub name), or a dual encoder with any score function, as in appendix B
of Zhang and Stratos, "Understanding Hard Negatives in Noise Contrastive
Estimation": its numbers are table B of `zhang_stratos.csv`.
`--config.evaluation.depth` is how many are ranked anew, as many as the deepest
of `--config.evaluation.metrics` needs.
"""

from neg_contrast.settings import config as config_lib


def get_config(arg=None):
  """Takes no argument."""
  config_lib.arguments(arg)
  config = config_lib.base_config()
  config.job = 'rerank'
  config.evaluation.depth = 64
  config.evaluation.metrics = ('accuracy@1', 'accuracy@64', 'mrr@10')
  return config
