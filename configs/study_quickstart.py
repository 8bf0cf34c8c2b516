"""A study: is the quick start's recipe better than plain training?

    python -m neg_contrast.main --config=configs/study_quickstart.py

Every row takes about the same seconds, on the documentation of Python:
`two_stages` is configs/quickstart.py itself, `plain` is one stage on gold pairs
with the other rows of the batch as negatives, `bm25` one stage with a BM25
negative for each query, `pretext_plain` two stages without hard negatives.
Each seed has a stage 1 of its own.

Choose on tune (`--config.data.test_split=tune`) and read test once.
launch/studies/ has ours.
"""

from neg_contrast import presets, study_preset
from neg_contrast.settings import config as config_lib


def get_config(arg=None):
  """Takes no argument."""
  config_lib.arguments(arg)
  config = presets.beside(__file__, 'quickstart')
  first, config.stage1 = config.stage1, None
  config.evaluation.untouched = config.evaluation.hybrid = False
  config.evaluation.eval_steps = 0
  config.evaluation.metrics = study_preset.METRICS
  config.compare.baseline = 'plain'
  config.study.seed_stage1 = True
  presets.set_negatives(config, 'random')

  def set_stage1(row):
    presets.set_first(row, first.copy_and_resolve_references())
    row.stage1.workdir = 'stage1'

  def set_bm25(row):
    presets.set_negatives(row, 'bm25')
    row.negatives.per_query = 1

  def set_plain(row):
    row.data.batch_size = 64
    row.optim.steps = 40

  def set_one_stage(row):
    set_bm25(row)
    row.optim.steps = 36

  def set_two_stages(row):
    set_stage1(row)
    set_bm25(row)

  def set_pretext_plain(row):
    set_stage1(row)
    row.data.batch_size = 64
    row.optim.steps = 20

  return study_preset.make_study(config, {'recipes': {
      'plain': set_plain, 'bm25': set_one_stage,
      'pretext_plain': set_pretext_plain, 'two_stages': set_two_stages,
  }}, seeds=(0, 1, 2))
