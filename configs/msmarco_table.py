"""Table 3 of Lu et al.: MS MARCO dev and TREC DL 2019.

    python -m neg_contrast.main --config=configs/msmarco_table.py

What it trains, prints and takes is as for configs/squad_table.py, without
context negatives (which passages are of one document is not known), and with
all groups of Table 4, of which the paper has the first here. BEIR's split
`test` is TREC DL 2019. Hardware of the paper: a 4x4 TPU v3 slice; hours are not
given there, not measured here.

Arguments, as in `msmarco_table.py:size=small`:
  size: `full` (the paper's values) or `small`, for data that is.
"""

from neg_contrast import table_preset


def get_config(arg=None):
  """Takes `size`."""
  config = table_preset.make_table(
      __file__, arg, stage1='generated',
      datasets=('msmarco_dev', 'trec_dl_2019'),
      strategies=('random', 'coarse', 'fine', 'bm25', 'mixed'),
  )
  config.table.metrics = ('mrr@10', 'recall@1000', 'ndcg@10')
  config.table.more_splits = ('test',)
  return config
