"""Stage 1 on MS MARCO: synthetic questions, coarse negatives.

    python -m neg_contrast.main --config=configs/msmarco_stage1.py

Paper: Lu et al., Table 3, "Stage 1": MRR@10 26.4 and recall@1000 97.4 on dev,
NDCG@10 60.0 on TREC DL 2019, over 8,841,823 passages, on a 4x4 TPU v3 slice,
with 26.4 million questions. How long it trains there is not said; here one
epoch at most.
Hours: not given there, not measured here.

Which passages belong to one document is not known there, so that the negatives
are the nearest passages by a coarse encoder, trained on gold pairs (section
6.2). M = 100 of 120 candidates of each question take 22 bytes each on disk: 70
GB.

The generator of configs/msmarco_generator.py is trained first, and writes three
questions for every passage. Early stopping goes by gold questions of the tune
split, as in stage 2.

Arguments, as in `msmarco_stage1.py:stage1=no_hard_negatives`:
  size: `full` (the paper's values) or `small` (all-MiniLM-L6-v2 and a small
    generator).
  stage1: `generated`; `no_hard_negatives` (the same without coarse negatives,
    Table 4); or pairs made without a generator, and trained on without hard
    negatives: `inverse_cloze`, `crops`, `recurring_spans`, `neighbours`,
    `title`, `masked_salient_spans`, `salient_spans`, `spar`.
"""

from neg_contrast import presets


def get_config(arg=None):
  """Takes `size`, `stage1`."""
  config = presets.make_stage1(__file__, arg, negatives='coarse', epochs=1)
  config.negatives.depth = 120  # The positive and its copies drop out.
  return config
