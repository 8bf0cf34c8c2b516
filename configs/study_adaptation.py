"""A study: a retriever taken to a domain that nobody judged.

    python -m neg_contrast.main --config=configs/study_adaptation.py \\
        --config.data.source=beir:DATA --config.data.train_split=train \\
        --config.data.test_split=test

The start is trained on gold pairs of another domain. Every row goes on from it
on pairs of one kind that are made of the passages of `data.source` alone, and
all are evaluated there, beside the start (`initial`), without hard negatives.
`generated` trains a generator on those gold pairs first, or has one;
`round_trip` are those of its questions for which BM25 finds their passage among
its first five. `--config.study.rows` can leave both out. `written` are queries
that something else wrote, such as launch/studies/language_model.py.

Arguments, as in `study_adaptation.py:gold=beir:DATA,split=split-train`:
  gold: the source of the gold pairs.
  split: of them that the start is trained on.
  generator: a trained one, which writes the questions of these two; trained on
    other domains, or this one was judged.
  written: the split of `data.source` that the row `written` trains on; without
    one there is no such row.
  steps: of each row.

Source: Wang et al. (2022), GPL, section 1, for the setting; Lu et al. (2021),
section 4.1, for the questions; launch/studies/RESULTS.md has ours.
"""

import functools

from neg_contrast import presets, study_preset
from neg_contrast.settings import config as config_lib


def get_config(arg=None):
  """Takes `gold`, `split`, `generator`, `written` and `steps`."""
  args = config_lib.arguments(
      arg, gold='squad:data/squad', split='train', generator='', written='',
      steps='60')
  config = study_preset.make_whole(__file__, baseline='initial')
  config.compare.systems = ('trained', 'initial')
  config.checkpointing.save_steps = 10**6
  config.data.batch_size = 32
  config.model.layers = 3
  config.optim.steps, config.optim.warmup_steps = int(args['steps']), 6
  config.optim.schedule = 'linear'
  kinds = [*config_lib.PRETEXTS.names, 'generated', 'round_trip']
  return study_preset.make_study(config, {'pairs': {
      kind: functools.partial(_set_adapted, kind=kind, **args)
      for kind in kinds + ['written'] * bool(args['written'])
  }}, seeds=(0, 1))


def _set_adapted(config, kind, gold, split, generator, written, steps):
  del steps
  is_generated = kind in ('generated', 'round_trip')
  made = presets.beside(
      __file__, 'squad_stage1', size='small',
      stage1=kind if kind in config_lib.PRETEXTS.names else 'no_hard_negatives',
  )
  if kind == 'written':
    config.data.train_split = written
  else:
    for name in ('synthetic', 'negatives'):
      config[name] = made[name]
  if kind == 'round_trip':
    config.synthetic.round_trip_rank = 5
  first = presets.beside(__file__, 'squad_stage2', size='small', stage1='none',
                         negatives='random')
  first.evaluation.eval_steps = 0
  for inner in (first, made.generator):
    if inner is not None:
      inner.data.source, inner.data.train_split = gold, split
      inner.data.test_split = ''
  first.seed = study_preset.START_SEED
  presets.set_first(config, first, is_same_data=False)
  if is_generated and generator:
    config.checkpoint = generator
  elif is_generated:
    config.generator = made.generator
