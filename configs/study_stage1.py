"""A study: pairs that stage 1 can be trained on.

    python -m neg_contrast.main --config=configs/study_stage1.py \\
        --config.data.source=beir:DATA --config.data.train_split=train \\
        --config.data.test_split=test

Every row is stage 1 on one kind of pairs and then stage 2 on gold pairs, both
without hard negatives, with equal numbers of steps and pairs; each seed has a
stage 1 of its own. `none` is stage 2 alone. `generated` trains a generator
first; `--config.study.rows` can leave it out. `judged` are queries that nobody
judged, with what a cross-encoder believes of passages of BM25; that row needs a
judge.

Arguments, as in `study_stage1.py:generator=workdirs/squad_generator-small`:
  generator: a trained one, which writes the questions of `generated`.
  judge: a cross-encoder, as `synthetic.judge` has it.
  queries: a file of those of `judged`, as `synthetic.queries` has it.
  steps: of stage 1.

Paper: Lu et al., section 4.1; launch/studies/RESULTS.md has ours.
"""

import functools

from neg_contrast import presets, study_preset
from neg_contrast.settings import config as config_lib


def get_config(arg=None):
  """Takes `generator`, `judge`, `queries` and `steps`."""
  args = config_lib.arguments(
      arg, generator='', judge='', queries='', steps='20')
  config = study_preset.make_small(__file__, baseline='none')
  config.data.batch_size = 32
  config.optim.steps, config.optim.warmup_steps = 12, 3
  kinds = (*config_lib.PRETEXTS.names, 'generated',
           *(['judged'] if args['judge'] or args['queries'] else []))
  rows: study_preset.Rows = {'none': _keep, **{
      kind: functools.partial(_set_stage1, kind=kind, **args)
      for kind in kinds
  }}
  config.study.seed_stage1 = True
  return study_preset.make_study(config, {'pairs': rows}, seeds=(0, 1))


def _keep(config):
  del config


def _set_stage1(config, kind, generator, judge, queries, steps):
  first = presets.beside(
      __file__, 'squad_stage1', size='small',
      stage1='no_hard_negatives' if kind == 'generated' else kind,
  )
  first.workdir = f'stage1-{kind}'
  presets.follow(first, config, ('data.batch_size', *(
      key for key in presets.leaves(first)
      if key.partition('.')[0] in ('optim', 'evaluation', 'checkpointing')
  )))
  first.optim.steps = int(steps)
  if generator and kind == 'generated':
    first.generator, first.checkpoint = None, generator
  if kind == 'judged':
    first.synthetic.judge, first.synthetic.queries = judge, queries
    if queries:
      first.generator = None
  presets.set_first(config, first)
