"""sentence-transformers at the work of `configs/benchmark.py:versus=...`.

Started by `job=benchmark` as `python peer_sentence_transformers.py FOLDER`,
where FOLDER holds `model/`, a sentence-transformers folder, and
`settings.json` with texts and settings. For every line on standard input it
trains on all batches, or encodes all passages, and answers with a line of json.

* encode: texts to vectors as `SentenceTransformer.encode` does it, which sorts
  them by length; the weights have the dtype, as its users load them.
* train: a plain loop. Every column of a batch is tokenised and padded to its
  longest text; `MultipleNegativesRankingLoss` of both directions, or with a
  mini-batch its cached one; AdamW; parameters and vectors are float32, and
  bfloat16 between them is by autocast.
"""

import json
import os
import pathlib
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import sentence_transformers
import torch
from sentence_transformers import util
from sentence_transformers.sentence_transformer import losses


def main() -> None:
  """Answers until its standard input ends."""
  answers = os.fdopen(os.dup(1), 'w')
  os.dup2(2, 1)  # What libraries print is no answer.
  folder = pathlib.Path(sys.argv[1])
  settings = json.loads((folder / 'settings.json').read_text())
  torch.set_num_threads(settings['threads'])
  work = {'train': _train, 'encode': _encode}[settings['task']](
      folder, settings
  )
  library = sentence_transformers.__version__
  print(json.dumps({'versions': f'sentence-transformers {library}, '
                                f'torch {torch.__version__}'}),
        file=answers, flush=True)
  for _ in sys.stdin:
    began = time.process_time()
    result = work()
    if settings['device'] == 'cuda':
      torch.cuda.synchronize()
    result['cpu_seconds'] = time.process_time() - began
    print(json.dumps(result), file=answers, flush=True)


def _encode(
    folder: pathlib.Path, settings: dict[str, Any]
) -> Callable[[], dict[str, Any]]:
  model = sentence_transformers.SentenceTransformer(
      str(folder / 'model'), device=settings['device'],
      model_kwargs={'dtype': getattr(torch, settings['dtype'])},
  )
  model.max_seq_length = settings['lengths']['passage']

  def work() -> dict[str, Any]:
    vecs = model.encode(
        settings['passages'], batch_size=settings['batch_size'],
        convert_to_tensor=True, show_progress_bar=False,
    )
    np.save(folder / 'vecs.npy', vecs.float().cpu().numpy())
    return {}

  return work


def _train(
    folder: pathlib.Path, settings: dict[str, Any]
) -> Callable[[], dict[str, Any]]:
  device = settings['device']
  model = sentence_transformers.SentenceTransformer(
      str(folder / 'model'), device=device
  )
  directions: Any = ('query_to_doc', 'doc_to_query')
  autocast = torch.autocast(
      device, torch.bfloat16, enabled=settings['dtype'] == 'bfloat16'
  )
  forward = autocast(model.forward)

  def in_float32(*args: Any, **kwargs: Any) -> dict[str, Any]:
    return {name: value.float() if name.endswith('embedding') else value
            for name, value in forward(*args, **kwargs).items()}

  # The backward pass of the cached loss calls it again.
  vars(model)['forward'] = in_float32
  make_loss: Any = losses.MultipleNegativesRankingLoss
  more = {}
  if settings['mini_batch']:
    make_loss = losses.CachedMultipleNegativesRankingLoss
    more = {'mini_batch_size': settings['mini_batch']}
  loss_of = make_loss(
      model, scale=settings['scale'], similarity_fct=util.dot_score,
      directions=directions if settings['bidirectional'] else directions[:1],
      partition_mode='per_direction', **more,
  )
  optimizer = torch.optim.AdamW(
      model.parameters(), lr=settings['learning_rate'],
      weight_decay=settings['weight_decay'],
  )
  model.train()

  def features(role: str, texts: list[str]) -> dict[str, Any]:
    model.max_seq_length = settings['lengths'][role]
    return util.batch_to_device(model.preprocess(texts), device)

  def step(queries: list[int], *passages: list[int]) -> float:
    columns = [features('query', [settings['queries'][i] for i in queries])]
    columns += [
        features('passage', [settings['passages'][i] for i in column])
        for column in passages
    ]
    optimizer.zero_grad()
    loss = loss_of(columns, None)
    loss.backward()
    optimizer.step()
    return loss.item()

  return lambda: {'losses': [step(*batch) for batch in settings['batches']]}


if __name__ == '__main__':
  main()
