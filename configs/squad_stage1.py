"""Stage 1 on the passages of SQuAD: synthetic questions, context negatives.

    python -m neg_contrast.main --config=configs/squad_stage1.py:size=small \
        --config.data.source=squad:data/squad

OUR VARIANT, in no table of the paper: Lu et al. train one stage 1, on Wikipedia
with a generator trained on Natural Questions (configs/nq_stage1.py). This one
has the generator of configs/squad_generator.py, which is trained first.

Early stopping goes by gold questions of the tune split, as in stage 2.

Arguments, as in `squad_stage1.py:stage1=crops`:
  size: `full` (the paper's values, 200 epochs with early stopping: there are
    but 63,000 questions) or `small` (all-MiniLM-L6-v2 and a small generator,
    one epoch).
  stage1: `generated`; `no_hard_negatives` (the same without context negatives,
    Table 4); or pairs made without a generator, and trained on without hard
    negatives: `inverse_cloze`, `crops`, `recurring_spans`, `neighbours`,
    `title`, `masked_salient_spans`, `salient_spans`, `spar`.
"""

from neg_contrast import presets


def get_config(arg=None):
  """Takes `size`, `stage1`."""
  return presets.make_stage1(
      __file__, arg, negatives='context', epochs=200
  )
