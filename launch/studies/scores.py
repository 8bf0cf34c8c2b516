"""Score functions by negatives, and a reranker (Zhang and Stratos, Table 1).

Each score function is trained with each kind of negatives for the same steps on
the same mentions, from all-MiniLM-L6-v2, with [CLS] and plain dot products as
in the paper. SOM's sum over the 32 tokens of a mention is divided by 32:
MiniLM's vectors are long, and the softmax of the plain sum is all on one
passage. JOINT, a cross-encoder, is then trained on the top entities of the cell
with the best accuracy@64 and reranks them. Choosing that cell on the queries
that JOINT is measured on favours JOINT's candidates; its own lines are fair.
"""

import csv
import pathlib

from study import Line, Run, Study

SCORES = ('dual', 'poly-16', 'multi-8', 'som')
NEGATIVES = ('random', 'hard', 'mixed-50')
METRICS = ('accuracy@1', 'accuracy@10', 'accuracy@64')
SETTINGS = {
    'data.tune_split': 'spare',  # Never evaluated.
    'data.batch_size': 8, 'data.groups': 1, 'model.query_length': 32,
    'model.passage_length': 32, 'model.dtype': 'bfloat16',
    'negatives.per_query': 7, 'optim.steps': 60, 'optim.learning_rate': 1e-4,
    'optim.schedule': 'linear', 'optim.warmup_steps': 6,
    'evaluation.eval_steps': 0, 'evaluation.metrics': METRICS,
    'checkpointing.save_steps': 10**6, 'checkpointing.log_steps': 10,
}


def _cell(score: str, negatives: str) -> Run:
  arguments = f'size=small,score={score},negatives={negatives}'
  return Run(f'ncbi_retriever.py:{arguments}', {
      **SETTINGS, 'model.pooling': 'cls', 'model.normalize': False,
      'loss.scale': 1 / 32 if score == 'som' else 1.0,
      'negatives.refresh_epochs': 0.5,
      'evaluation.bm25': (score, negatives) == ('dual', 'random'),
  })


def _paper(model: str, negatives: str = '') -> str:
  """Top-64 recall on Zeshel in percent: validation and test."""
  path = pathlib.Path(__file__).parents[2] / 'configs' / 'zhang_stratos.csv'
  with path.open() as f:
    values = {row['split']: row['value'] for row in csv.DictReader(f)
              if row['table'] == '1' and row['model'].lower() == model
              and row['negatives'].lower() == negatives}
  return ', '.join(f'{split} {values[split]}' for split in ('val', 'test')
                   if split in values)


STUDY = Study(
    runs={
        **{f'{score} {negatives}': _cell(score, negatives)
           for score in SCORES for negatives in NEGATIVES},
        'joint': Run('ncbi_reranker.py:size=small', {
            **SETTINGS, 'checkpoint': '{best[accuracy@64]}',
            'negatives.pool_size': 7, 'negatives.depth': 16,
            'negatives.mined_dir': '{workdir}/mined',
        }),
    },
    lines={
        'bm25': Line('dual random', 'bm25', note=_paper('bm25')),
        **{f'{score} untrained': Line(f'{score} random', 'initial')
           for score in SCORES},
        **{f'{score} {negatives}': Line(
            f'{score} {negatives}',
            versus='' if negatives == 'random' else f'{score} random',
            note=_paper(score, negatives),
        ) for score in SCORES for negatives in NEGATIVES},
        'joint candidates': Line('joint', 'candidates'),
        'joint reranked': Line('joint', 'reranked', versus='joint candidates'),
    },
    metrics=METRICS, shown='accuracy@64',
)
