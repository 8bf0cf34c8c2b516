"""Several models as one (Lu et al., section 4.4), beside BM25 and each of them.

    python -m neg_contrast.main --config=configs/ensemble.py \
        --config.ensemble.members="('workdirs/fine','workdirs/bm25')" \
        --config.data.source=squad:data/squad --config.data.test_split=dev

Systems, evaluated on `data.test_split`:
  fusion_embedding: Σ w_k · score_k over concatenated embeddings, one search;
    weights are tuned on the tune split (or `ensemble.weights`).
  fusion_rank: reciprocal rank fusion of the members' rankings, and of TREC
    files with `--config.ensemble.runs="('theirs.trec',)"`.
  hybrid: the top 2,000 of BM25, ranked anew by BM25's score and a weight times
    the dense score (section 6.1), where the dense score is that of
    fusion_embedding, or of the only member.
  hybrid_scores, hybrid_ranks: BM25 and the dense ranking put together by
    weighted min-max scores, and by ranks.

The workdir is a checkpoint afterwards, for configs/evaluate.py, search.py and
export.py: `--config.checkpoint=workdirs/ensemble`.
"""

from neg_contrast.settings import config as config_lib


def get_config(arg=None):
  """Takes no argument."""
  config_lib.arguments(arg)
  config = config_lib.base_config()
  config.job = 'ensemble'
  return config
