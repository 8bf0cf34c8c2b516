"""A question generator for SQuAD, and for stage 1 on its passages.

    python -m neg_contrast.main --config=configs/squad_generator.py:size=small \
        --config.data.source=squad:data/squad

OUR VARIANT, in no table of the paper: Lu et al. (section 5.1) train one
generator, on Natural Questions (configs/nq_generator.py), and use its questions
for NQ and SQuAD alike. This one learns from the questions of SQuAD themselves.
Numbers that come of it do not stand beside the paper's without that remark.

Arguments, as in `squad_generator.py:size=small`:
  size: `full` (google/t5-v1_1-base: v1.1 has seen no SQuAD, unlike T5 1.0,
    whose mixture holds it) or `small` (three layers of width 256, from
    scratch; launch/studies/RESULTS.md has what it writes).
"""

from neg_contrast import presets


def get_config(arg=None):
  """Takes `size`."""
  return presets.make_generator(__file__, arg)
