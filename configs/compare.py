"""Compares finished runs: means over seeds, differences, tables, figures.

    python -m neg_contrast.main --config=configs/compare.py \\
        --config.compare.workdirs="('workdirs/random-*','workdirs/bm25-*')"

Runs whose configs differ only in their seed make one row: mean ± standard
deviation. Rows are named by the keys in which their configs differ, or by their
folders. Differences to `--config.compare.baseline` (a row; default: the first)
are paired by query, with intervals, and p of the paired randomisation test
after Holm over what was compared.

`<workdir>/comparison` is written as Markdown, LaTeX without packages, one HTML
page, csv and json of all values; the figures as SVG and PDF for a paper.
Nothing is trained or searched: runs of other programs need only the
evaluations that configs/evaluate.py makes of their TREC files, with
`--config.compare.systems="('theirs',)"`.
"""

from neg_contrast.settings import config as config_lib


def get_config(arg=None):
  """Takes no argument."""
  config_lib.arguments(arg)
  config = config_lib.base_config()
  config.job = 'compare'
  return config
