"""Measures encoding and training beside sentence-transformers, on CPU.

    .venv/bin/pip install -r tests/requirements.txt
    .venv/bin/python launch/benchmark_peer.py SOURCE [--tasks encode train]
        [--dtypes float32 bfloat16] [--passages 0] [--queries 0]
        [--encode_batch 32] [--batch 64] [--steps 2] [--rounds 5] [--threads 2]

SOURCE is as `config.data.source`, such as squad:data/squad/dev-v1.1.json. Both
sides have the same MiniLM (`config.model.init=minilm`), the same texts, without
titles, and the same cut to 256 tokens. Each library and dtype lives in a
process of its own, and these take turns, in reversed order every second round:
what else the machine does meets all alike. Medians over the rounds are printed,
and of ratios the median, least and most within a round. CPU time is that of all
threads, and steadier on a busy machine, with one thread above all: torch's wait
for each other in loops. The first pass, which compiles ours, is told apart.

* encode: texts to vectors, tokenising included, as `api.load_encoder` and
  `SentenceTransformer.encode` (which sorts by length) do by default;
  accuracy@1 of all queries over these passages says what a dtype costs.
* train: the same `--steps` batches of `--batch` pairs in every round: dropout,
  the softmax of both directions with scale 20 (`MultipleNegativesRankingLoss`),
  AdamW; a plain loop on either side, float32. Ours packs, theirs pads to the
  longest text of a column. Ours shuffles in its own way.

0 passages or queries are all of them.
"""

import argparse
import multiprocessing
import os
import pathlib
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

_RATE, _DECAY, _SCALE = 3e-5, 0.01, 20.0
_OURS, _THEIRS = 'neg_contrast', 'sentence-transformers'


def main() -> None:
  """Measures all tasks and prints a table for each."""
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawTextHelpFormatter
  )
  parser.add_argument('source')
  parser.add_argument('--tasks', nargs='+', default=['encode', 'train'])
  parser.add_argument(
      '--dtypes', nargs='+', default=['float32', 'bfloat16']
  )
  for name, default in (('passages', 0), ('queries', 0), ('encode_batch', 32),
                        ('batch', 64), ('steps', 2), ('rounds', 5),
                        ('threads', 2)):
    parser.add_argument(f'--{name}', type=int, default=default)
  args = parser.parse_args()
  texts = _read(args)
  if 'encode' in args.tasks:
    _compare_encoding(args, texts)
  if 'train' in args.tasks:
    _compare_training(args, texts)


def _read(args: argparse.Namespace) -> dict[str, Any]:
  """Passages, queries and the row of each query's positive."""
  sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
  from neg_contrast.data import prepared

  with tempfile.TemporaryDirectory() as scratch:
    corpus = prepared.prepare(args.source, pathlib.Path(scratch), False)
    judged = [corpus.judgements(split) for split in corpus.splits]
    count = args.passages or len(corpus.passages)
    positives = {
        int(query): int(passage) for part in judged
        for query, passage, grade in zip(
            part.query_rows, part.passage_rows, part.grades, strict=True
        ) if grade > 0 and passage < count
    }
    rows = np.array(sorted(positives))
    if args.queries:
      rows = rows[:: max(1, len(rows) // args.queries)][: args.queries]
    return {
        'passages': [corpus.passages[row].text for row in range(count)],
        'queries': [corpus.queries[int(row)].text for row in rows],
        'positives': np.array([positives[row] for row in rows.tolist()]),
    }


def _compare_encoding(args: argparse.Namespace, texts: dict[str, Any]) -> None:
  sides = {
      f'{library} {dtype}': _Side(library, dtype, args, texts)
      for dtype in args.dtypes for library in (_OURS, _THEIRS)
  }
  firsts, hits, vecs = {}, {}, {}
  for name, side in sides.items():
    firsts[name], vecs[name] = side('passages')
    queries = side('queries')[1]
    best = (queries @ vecs[name].T).argmax(-1)
    hits[name] = f'{100 * np.mean(best == texts["positives"]):.2f}'
  pairs = [(f'{_OURS} {dtype}', f'{_THEIRS} {dtype}') for dtype in args.dtypes]
  pairs += [(f'{library} {dtype}', f'{library} {args.dtypes[0]}')
            for dtype in args.dtypes[1:] for library in (_OURS, _THEIRS)]
  _compare(
      f'Encoding; accuracy@1 of {len(texts["queries"]):,} queries',
      len(texts['passages']), 'passages', sides, args.rounds, firsts, hits,
      pairs,
  )
  if 'float32' in args.dtypes:
    apart = np.abs(vecs[f'{_OURS} float32'] - vecs[f'{_THEIRS} float32']).max()
    print(f'\nfloat32 vectors of the two are {apart:.1e} apart at most')


def _compare_training(args: argparse.Namespace, texts: dict[str, Any]) -> None:
  sides = {library: _Side(library, 'float32', args, texts)
           for library in (_OURS, _THEIRS)}
  firsts, losses = {}, {}
  for name, side in sides.items():
    firsts[name], values = side('train')
    losses[name] = ', '.join(f'{value:.3f}' for value in values)
  _compare(
      f'Training; first losses at batch {args.batch}', args.batch * args.steps,
      'train', sides, args.rounds, firsts, losses, [(_OURS, _THEIRS)],
  )


def _compare(
    title: str,
    count: int,
    task: str,
    sides: dict[str, '_Side'],
    rounds: int,
    firsts: dict[str, np.ndarray],
    values: dict[str, str],
    pairs: Sequence[tuple[str, str]],
) -> None:
  """Lets the sides take turns at a task of `count` texts; prints two tables."""
  times: dict[str, list[np.ndarray]] = {name: [] for name in sides}
  for number in range(rounds):
    for name in list(sides)[:: -1 if number % 2 else 1]:
      times[name].append(sides[name](task)[0])
  for side in sides.values():
    side.close()
  print(f'\n{title}\n\n| {count:,} {task} | texts/s | per CPU second | '
        'texts/s of the first pass | |\n|---|---:|---:|---:|---:|')
  for name, runs in times.items():
    wall, cpu = count / np.median(runs, axis=0)
    print(f'| {name} | {wall:.2f} | {cpu:.2f} | {count / firsts[name][0]:.2f} '
          f'| {values[name]} |')
  print('\n| times as fast | median | least | most | by CPU time | least | '
        'most |\n|---|---:|---:|---:|---:|---:|---:|')
  for one, other in pairs:
    ratios = np.array(times[other]) / np.array(times[one])
    shown = np.stack([np.median(ratios, 0), ratios.min(0), ratios.max(0)])
    print(f'| {one} / {other} | '
          + ' | '.join(f'{value:.2f}' for value in shown.T.reshape(-1)) + ' |',
          flush=True)


class _Side:
  """One library in a process of its own."""

  def __init__(self, library: str, dtype: str, args: Any, texts: Any):
    context = multiprocessing.get_context('spawn')
    self._pipe, there = context.Pipe()
    self._process = context.Process(
        target=_serve, args=(there, library, dtype, args, texts), daemon=True
    )
    self._process.start()

  def __call__(self, task: str) -> tuple[np.ndarray, Any]:
    """Wall and CPU seconds that a task took, and its result."""
    self._pipe.send(task)
    return self._pipe.recv()

  def close(self) -> None:
    """Ends the process."""
    self._pipe.send('')
    self._process.join()


def _serve(pipe: Any, library: str, dtype: str, args: Any, texts: Any) -> None:
  """Does what it is told until it is told nothing."""
  os.environ['OMP_NUM_THREADS'] = os.environ['NPROC'] = str(args.threads)
  os.environ.update(JAX_PLATFORMS='cpu', TOKENIZERS_PARALLELISM='false')
  side: Any = {_OURS: _Ours, _THEIRS: _Theirs}[library](dtype, args, texts)
  while task := pipe.recv():
    began = np.array([time.perf_counter(), time.process_time()])
    result = side.train() if task == 'train' else side.encode(task)
    ended = np.array([time.perf_counter(), time.process_time()])
    pipe.send((ended - began, result))


class _Ours:

  def __init__(self, dtype: str, args: Any, texts: Any):
    from neg_contrast import api

    self._args, self._texts = args, texts
    self._encoder = api.load_encoder('minilm', model__dtype=dtype)
    self._training: Any = None

  def encode(self, kind: str) -> np.ndarray:
    encode = {'passages': self._encoder.encode_passages,
              'queries': self._encoder.encode_queries}[kind]
    return encode(self._texts[kind])

  def train(self) -> list[float]:
    import jax

    if self._training is None:
      self._training = self._start()
    step, trained, batcher = self._training
    losses = []
    for number in range(self._args.steps):  # The shapes of the first pass.
      trained, metrics = step(trained, batcher(number)[0])
      losses.append(float(jax.device_get(metrics['loss'])))
    self._training = step, trained, batcher
    return losses

  def _start(self) -> tuple[Any, Any, Any]:
    import functools

    import jax

    from neg_contrast import config as config_lib
    from neg_contrast.data import batches, examples, packing, tokenized
    from neg_contrast.jobs import model as model_lib
    from neg_contrast.training import optimizer, state, step

    model, texts = self._encoder.model, self._texts
    rows = np.arange(len(texts['queries']), dtype=np.int32)
    transform = optimizer.make_optimizer(config_lib.OptimConfig(
        optimizer='adamw', learning_rate=_RATE, weight_decay=_DECAY
    ), 1)
    tokens = {
        kind: tokenized.tokenize_in_memory(
            [('', text) for text in texts[kind]], model.tokenizer,
            model.text.passage_length, '',
        ).tokens for kind in ('queries', 'passages')
    }
    pairs = np.stack([rows, texts['positives']], 1).astype(np.int32)
    none = batches.Drawn(*np.zeros((2, self._args.batch, 0), np.int32))
    batcher = batches.Batcher(
        examples=examples.Examples(
            pairs[:, 0], pairs[:, 1], examples.Positives(pairs, len(rows))
        ),
        batch_size=self._args.batch, negatives=0, groups=1,
        row_lengths={'shared': packing.default_row_length(
            model.text.passage_length
        )},
        seed=0, draw=lambda *_: none, query_tokens=tokens['queries'],
        passage_tokens=lambda rows, _: tokens['passages'](rows),
        passage_groups=np.arange(len(texts['passages']), dtype=np.int32),
    )
    loss = step.contrastive_loss(
        model_lib.make_module(model.spec, config_lib.ModelConfig()), _SCALE
    )
    train_step = step.make_train_step(loss, transform, 0)
    init = functools.partial(state.init_state, optimizer=transform)
    first = jax.jit(init)(state.dual_encoder_params(model.params, None))
    return jax.jit(train_step, donate_argnums=0), first, batcher


class _Theirs:

  def __init__(self, dtype: str, args: Any, texts: Any):
    import sentence_transformers
    import torch

    from neg_contrast.models import pretrained

    torch.set_num_threads(args.threads)
    self._args, self._texts = args, texts
    self._step: Any = None
    self._model = sentence_transformers.SentenceTransformer(
        str(pretrained.locate('minilm')), device='cpu',
        model_kwargs={'dtype': getattr(torch, dtype)},
    )

  def encode(self, kind: str) -> np.ndarray:
    vecs = self._model.encode(
        self._texts[kind], batch_size=self._args.encode_batch,
        convert_to_tensor=True, normalize_embeddings=True,
    )
    return vecs.float().numpy()

  def train(self) -> list[float]:
    if self._step is None:
      self._step = self._make_step()
    order = np.random.default_rng(0).permutation(len(self._texts['queries']))
    count = self._args.batch
    return [self._step(order[number * count : (number + 1) * count].tolist())
            for number in range(self._args.steps)]

  def _make_step(self) -> Callable[[list[int]], float]:
    import torch
    from sentence_transformers.sentence_transformer import losses

    model, texts = self._model, self._texts
    loss_of = losses.MultipleNegativesRankingLoss(
        model, scale=_SCALE, directions=('query_to_doc', 'doc_to_query'),
        partition_mode='per_direction',
    )
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=_RATE, weight_decay=_DECAY
    )
    model.train()

    def step(rows: list[int]) -> float:
      columns = ([texts['queries'][row] for row in rows],
                 [texts['passages'][texts['positives'][row]] for row in rows])
      optimizer.zero_grad()
      loss = loss_of(map(model.preprocess, columns), None)
      loss.backward()
      optimizer.step()
      return loss.item()

    return step


if __name__ == '__main__':
  main()
