"""A reranker on Zeshel: JOINT, over the top 64 entities of a retriever.

    python -m neg_contrast.main --config=configs/zeshel_reranker.py \\
        --config.data.source=zeshel:data/zeshel \\
        --config.checkpoint=workdirs/zeshel_retriever

Paper: Zhang and Stratos, "Understanding Hard Negatives in Noise Contrastive
Estimation", Table 2: unnormalised accuracy (`unnormalized_accuracy` here, a
mean over worlds) of val and test:

    DUAL  Hard      base   69.14  65.42
    DUAL  Hard      large  68.31  65.32
    SOM   Hard      base   69.19  66.67
    SOM   Hard      large  70.08  65.95
    SOM   Mixed-50  base   69.22  65.37
    SOM   Mixed-50  large  70.28  67.14

One BERT-base over `[CLS] mention [SEP] title [SEP] text [SEP]`, 128 tokens for
each of the two, and a linear layer on [CLS]; the score of the positive against
those of the retriever's top 63 others (K = 64), 2 mentions a step, up to four
epochs of Adam; the learning rate is the best on val of 5e-5, 2e-5 and 1e-5.
`--config.model.init=bert-large-uncased` is large.

`pool_size=63` and the source `model:63` make the negatives of every step the
whole pool: the first 63 that are not the entity. The retriever is
`config.checkpoint`, a workdir of `zeshel_retriever.py` with any score function;
`bm25:63` in `--config.negatives.sources`, and `run:63` with
`--config.negatives.runs` (such as the three files of tfidf_candidates) are
others. Training mentions search the entities of all training worlds, test
mentions those of their own.

`candidates` in metrics.json is the retriever, `reranked` its top 64 in the new
order, on test; `configs/rerank.py` does the same of val, and of other runs.
Hours and numbers here: not measured.

Arguments, as in `zeshel_reranker.py:size=small`:
  size: `full` (the paper's values) or `small` (all-MiniLM-L6-v2, 64 tokens
    each, one epoch, 7 of the 63 negatives a step, 1e-3 as learning rate of the
    new layer), for data that is.
"""

from neg_contrast import presets
from neg_contrast.settings import config as config_lib


def get_config(arg=None):
  """Takes `size`."""
  size = config_lib.arguments(arg, size='full')['size']
  config = presets.beside(__file__, 'zeshel_retriever', size=size)
  presets.set_reranker(config, size)
  config.evaluation.eval_steps *= 2 if size == 'full' else 1  # Still an epoch.
  return config
