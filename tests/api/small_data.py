"""Objects and a model that train in seconds."""

import numpy as np

from tests import tiny


def objects(passages=40, queries=30):
  """(queries, passages, judgements): a query is three words of its passage."""
  rng = np.random.default_rng(0)
  texts = {f'p{n}': ' '.join(rng.choice(tiny.WORDS, 8, replace=False))
           for n in range(passages)}
  asked = {f'q{n}': ' '.join(texts[f'p{n}'].split()[:3])
           for n in range(queries)}
  return asked, texts, {f'q{n}': f'p{n}' for n in range(queries)}


def settings(root):
  """Of `api.train`, with a model of random weights in the folder."""
  if not (root / 'model').exists():
    tiny.write_model(root / 'model')
  return dict(
      model=str(root / 'model'), model__query_length=16,
      model__passage_length=24, data__batch_size=8, data__groups=8,
      optim__steps=6, optim__learning_rate=1e-3, evaluation__eval_steps=3,
      evaluation__hybrid=False, checkpointing__log_steps=2,
      index__chunk_tokens=64,
  )
