"""Pairs that stage 1 can be trained on (Lu et al., section 4.1; the survey).

Every line is stage 1 on one kind of pairs and then stage 2 on gold pairs, both
without hard negatives, with equal numbers of steps and pairs. `none` is stage 2
alone. `generated` needs a trained question generator; name another one with
`generated:stage1.checkpoint=FOLDER`.
"""

from study import Line, Run, Study

METRICS = ('accuracy@1', 'accuracy@5', 'accuracy@20', 'accuracy@100', 'mrr@10')
KINDS = ('inverse_cloze', 'crops', 'recurring_spans', 'neighbours', 'title')
STEPS = {
    'data.batch_size': 32, 'optim.learning_rate': 1e-4,
    'optim.schedule': 'linear', 'optim.warmup_steps': 3,
    'evaluation.eval_steps': 0, 'checkpointing.save_steps': 10**6,
}
STAGE2 = {
    **STEPS, 'optim.steps': 12, 'model.layers': 2, 'model.query_length': 64,
    'model.passage_length': 128, 'synthetic.dir': '{workdir}/synthetic',
    'evaluation.metrics': METRICS, 'evaluation.answer_ks': (),
    'evaluation.bm25': False,
}
STAGE1 = {
    **{f'stage1.{key}': value for key, value in STEPS.items()},
    'stage1.optim.steps': 20, 'stage1.workdir': '{row}/stage1',
    'stage1.seed': '{seed}',
}


def start_from(stage1: str, **settings: object) -> Run:
  """Both stages; `stage1` as in the argument of configs/squad_stage2.py."""
  return Run(f'squad_stage2.py:stage1={stage1},negatives=random,size=small', {
      **STAGE2, **({} if stage1 == 'none' else STAGE1),
      **{key.replace('__', '.'): value for key, value in settings.items()},
  })


STUDY = Study(
    runs={
        **{name: start_from(name) for name in ('none', *KINDS)},
        'generated': start_from(
            'no_hard_negatives', stage1__generator=None,
            stage1__checkpoint='workdirs/wikipedia_generator',
        ),
    },
    lines={
        'none': Line('none'),
        **{name: Line(name, versus='none') for name in (*KINDS, 'generated')},
    },
    metrics=METRICS, shown='accuracy@1',
)
