"""Strategies for hard negatives, equal in all else (Lu et al., section 4).

A shared warm start is trained on in-batch negatives: the first two layers of
all-MiniLM-L6-v2, 128 tokens. From it every strategy goes on for the same number
of steps. Pools are mined once for all seeds; the miners of `coarse` and `fine`
start where the warm start did. Beside the usual metrics: the mean rank of the
positive among the top 100 of BM25 and of the warm start.
"""

from study import Line, Run, Study

METRICS = ('accuracy@1', 'accuracy@5', 'accuracy@20', 'accuracy@100', 'mrr@10')
MODEL = {
    'data.batch_size': 16, 'model.init': 'minilm', 'model.layers': 2,
    'model.query_length': 64, 'model.passage_length': 128,
    'optim.optimizer': 'adamw', 'optim.learning_rate': 1e-4,
    'negatives.mined_dir': '{workdir}/mined',
    'checkpointing.save_steps': 10**6,
}
TRAINING = {
    'evaluation.metrics': METRICS, 'evaluation.answer_ks': (),
    'evaluation.eval_steps': 0, 'evaluation.bm25': False,
}
CONFIG = 'squad_stage2.py:stage1=none,negatives=random,size=small'


def train(strategy: str, pool: str = '', **settings: object) -> Run:
  """The training with a strategy, from the warm start.

  Args:
    strategy: of config.negatives.
    pool: the run that mined its negatives; empty: it needs none.
    **settings: keys with `__` for `.`.
  """
  mined = {'negatives.strategy': strategy, 'negatives.per_query': 2,
           'negatives.pool': '{runs[' + pool + ']}/pool'} if pool else {}
  return Run(CONFIG, {
      **MODEL, **TRAINING, 'model.init': '{runs[warm start]}',
      'model.layers': None, 'optim.schedule': 'linear', 'optim.steps': 16,
      'optim.warmup_steps': 4, **mined,
      **{key.replace('__', '.'): value for key, value in settings.items()},
  })


def mine(strategy: str, **settings: object) -> Run:
  """The mining of a pool for all seeds."""
  return Run(f'mine.py:negatives={strategy}', {
      **MODEL, 'negatives.per_query': 2, 'negatives.miner_steps': 100,
      **{key.replace('__', '.'): value for key, value in settings.items()},
  }, is_shared=True)


WARM = Run(CONFIG, {**MODEL, **TRAINING, 'optim.steps': 100,
                    'evaluation.bm25': True}, is_shared=True)
MINED = ('coarse', 'fine', 'bm25', 'context', 'mixed')

STUDY = Study(
    runs={
        'warm start': WARM, 'train random': train('random'),
        **{f'mine {name}': mine(name) for name in MINED},
        **{f'train {name}': train(name, f'mine {name}') for name in MINED},
    },
    lines={
        'warm start': Line('warm start'), 'random': Line('train random'),
        **{name: Line(f'train {name}', versus='random') for name in MINED},
    },
    metrics=METRICS, shown='mean rank',
    pool=(('warm start', 'bm25'), ('warm start', 'trained')),
)
