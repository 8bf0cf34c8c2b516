"""Tables 2 and 4 of Lu et al. for Natural Questions.

    python -m neg_contrast.main --config=configs/nq_table.py

What it trains, prints and takes is as for configs/squad_table.py. With the data
that configs/nq_stage2.py names the corpus and the test set are the paper's, and
differences to the paper are printed. Its hardware: a 4x4 TPU v3 slice; hours
are not given there, not measured here.

Arguments, as in `nq_table.py:size=small`:
  size: `full` (the paper's values) or `small`, for data that is.
"""

from neg_contrast import table_preset


def get_config(arg=None):
  """Takes `size`."""
  return table_preset.make_table(
      __file__, arg, stage1='generated', datasets=('nq',)
  )
