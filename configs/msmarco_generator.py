"""A question generator, trained on the gold pairs of MS MARCO.

    python -m neg_contrast.main --config=configs/msmarco_generator.py

Lu et al., section 4.1, after Ma et al. (2020): a T5 reads a passage and writes
its question. Which T5, and how it is trained, is not said there; this is T5 1.1
base with Adafactor. Hours: not given there, not measured here.

Arguments, as in `msmarco_generator.py:size=small`:
  size: `full`, or `small` (three layers of width 256, from scratch).
"""

from neg_contrast import presets


def get_config(arg=None):
  """Takes `size`."""
  return presets.make_generator(__file__, arg)
