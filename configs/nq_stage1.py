"""Stage 1 on Natural Questions: synthetic questions, context negatives.

    python -m neg_contrast.main --config=configs/nq_stage1.py

Paper: Lu et al., Table 2, "Stage 1": NQ 31.6 / 59.2 / 68.1 / 74.7 / 84.7 and
SQuAD 22.3 / 44.6 / 54.2 / 61.9 / 75.9 (top-1/5/10/20/100 answer accuracy over
21,015,324 passages), on a 4x4 TPU v3 slice, with 62 million questions. How long
it trains there is not said; here one epoch at most.
Hours: not given there, not measured here.

The generator of configs/nq_generator.py is trained first, and writes three
questions for every passage. Early stopping goes by gold questions of the tune
split, as in stage 2.

Arguments, as in `nq_stage1.py:stage1=no_hard_negatives`:
  size: `full` (the paper's values) or `small` (all-MiniLM-L6-v2 and a small
    generator).
  stage1: `generated`; `no_hard_negatives` (the same without context negatives,
    Table 4); or pairs made without a generator, and trained on without hard
    negatives: `inverse_cloze`, `crops`, `recurring_spans`, `neighbours`,
    `title`, `masked_salient_spans`, `salient_spans`, `spar`.
"""

from neg_contrast import presets


def get_config(arg=None):
  """Takes `size`, `stage1`."""
  config = presets.make_stage1(__file__, arg, negatives='context', epochs=1)
  config.evaluation.eval_steps = 1000
  return config
