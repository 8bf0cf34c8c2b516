"""Time and memory of making training batches on the host, by stage.

    .venv/bin/python launch/benchmark_input.py [--batches 9] [--folder DIR]

A synthetic corpus of the size of a real one, its ids in token stores and its
hard negatives in a pool on disk; the batches are those of training: B queries,
their positives and N hard negatives each, packed, with their masks. 2,048
queries in 0.64 s (3,200 queries/s) keep a slice busy at its estimated pace.

Times are medians over batches. "wall" is what a step waits where nothing else
runs; "CPU" is of all threads of the process, and does not depend on what else
the machine does. The digest covers all arrays of the batches measured: equal
digests, equal batches.
"""

import argparse
import collections
import dataclasses
import functools
import hashlib
import pathlib
import resource
import tempfile
import time
from collections.abc import Callable
from typing import Any
from unittest import mock

import jax
import numpy as np

from neg_contrast import artifacts
from neg_contrast.data import batches, examples, packing, token_store, tokenized
from neg_contrast.negatives import pool as pool_lib

_TARGET = 3200  # Queries/s, see above.
_VOCABULARY = 30_522
_LENGTHS = {'query': 64, 'passage': 384}  # Of Lu et al.


@dataclasses.dataclass(frozen=True)
class Sizes:
  """What is measured.

  Attributes:
    passages: of the corpus.
    queries: with one example each.
    known: known positives of a query, at most; from 1, all as likely.
    depth: candidates of a query in the pool; the first half of them are its
      negatives.
    batch_size: B.
    negatives: N.
    groups: groups a batch is packed into.
    towers: whether queries and passages are packed apart.
    processes: that share a batch; what the first does is measured.
  """

  passages: int = 200_000
  queries: int = 60_000
  known: int = 8
  depth: int = 200
  batch_size: int = 2048
  negatives: int = 2
  groups: int = 32
  towers: bool = False
  processes: int = 1


class _RandomIds:
  """Stands for a tokenizer: a text is (tokens it has, seed of its ids)."""

  vocab_size, cls_id, sep_id, sha256 = _VOCABULARY, 101, 102, 'random'

  def encode_batch(self, texts):
    return [np.random.default_rng(seed).integers(1000, _VOCABULARY, count)
            for count, seed in texts]


def make_batcher(folder: pathlib.Path, sizes: Sizes) -> batches.Batcher:
  """Writes token stores and a pool, and reads them as a training does."""
  rng = np.random.default_rng(0)
  lengths = {
      'query': np.clip(rng.normal(10, 3, sizes.queries), 4, 40),
      'passage': np.clip(rng.normal(133, 25, sizes.passages), 10, 500),
  }
  texts = {
      role: _tokenize(folder / role, role, lengths[role].astype(int))
      for role in lengths
  }
  queries = np.arange(sizes.queries, dtype=np.int32)
  known = np.repeat(queries, rng.integers(1, 1 + sizes.known, len(queries)))
  known = np.stack([
      known, rng.integers(0, sizes.passages, len(known), dtype=np.int32)
  ], axis=1)
  positives = known[np.searchsorted(known[:, 0], queries), 1]
  pool = _make_pool(folder / 'pool', sizes, rng)
  longest = _LENGTHS if sizes.towers else {'shared': _LENGTHS['passage']}
  return batches.Batcher(
      examples=examples.Examples(
          queries, positives, examples.Positives(known, len(queries))
      ),
      batch_size=sizes.batch_size,
      negatives=sizes.negatives,
      groups=sizes.groups,
      row_lengths={tower: packing.default_row_length(length)
                   for tower, length in longest.items()},
      seed=0,
      draw=lambda step, numbers, rows: pool.draw(
          rows, sizes.negatives, 0, step, numbers
      ),
      query_tokens=texts['query'].tokens,
      passage_tokens=texts['passage'].tokens,
      passage_groups=np.arange(sizes.passages, dtype=np.int32),
      held=lambda count: np.arange(count // sizes.processes),
  )


def _tokenize(
    folder: pathlib.Path, role: str, lengths: np.ndarray
) -> tokenized.TokenizedTexts:
  tokenizer: Any = _RandomIds()
  titles = 4 if role == 'passage' else 0
  store = token_store.make_token_store(
      (((titles, i), (int(n), i)) for i, n in enumerate(lengths)),  # type: ignore
      tokenizer, folder, 'synthetic',
  )
  return tokenized.TokenizedTexts(store, tokenizer, _LENGTHS[role], ())


def _make_pool(
    folder: pathlib.Path, sizes: Sizes, rng: np.random.Generator
) -> pool_lib.Pool:
  count, depth = sizes.queries, sizes.depth
  arrays: dict[str, np.ndarray] = {
      'query_rows': np.arange(count, dtype=np.int32),
      'rows': rng.integers(0, sizes.passages, (count, depth), dtype=np.int32),
      'source': np.zeros((count, depth), np.uint8),
      'rank': np.tile(np.arange(1, depth + 1, dtype=np.int32), (count, 1)),
      'score': np.zeros((count, depth), np.float32),
      'dropped_by': np.tile(
          (np.arange(depth) >= depth // 2).astype(np.uint8), (count, 1)
      ),
      'positive_scores': np.zeros((count, 1), np.float32),
      'halves': np.zeros((0, 3), np.int32),
  }
  with artifacts.writing(
      folder, {'sources': ['bm25'], 'queries': count, 'depth': depth}
  ) as scratch:
    for name, values in arrays.items():
      np.save(scratch / f'{name}.npy', values)
  return pool_lib.read(folder)


class _Clock:
  """CPU milliseconds of each stage of each batch."""

  def __init__(self):
    self.stages: dict[str, list[float]] = collections.defaultdict(list)
    self._batch: dict[str, float] = collections.defaultdict(float)

  def timed(self, stage: str, function: Callable) -> Callable:
    """The same function, with its time counted as that of a stage."""
    @functools.wraps(function)
    def call(*args, **kwargs):
      began = time.process_time()
      try:
        return function(*args, **kwargs)
      finally:
        self._batch[stage] += 1000 * (time.process_time() - began)
    return call

  def end_batch(self) -> None:
    """Keeps the times of a batch."""
    for stage, milliseconds in self._batch.items():
      self.stages[stage].append(milliseconds)
    self._batch.clear()


def measure(batcher: batches.Batcher, count: int) -> dict[str, Any]:
  """Makes `count` batches after one to warm up; times in milliseconds.

  Returns:
    `cpu` and `wall` of a batch and, of the former, each of `stages`; `digest`
    of the batches.
  """
  clock, digest = _Clock(), hashlib.sha256()
  measured = dataclasses.replace(
      batcher,
      draw=clock.timed('draw', batcher.draw),
      query_tokens=clock.timed('tokens', batcher.query_tokens),
      passage_tokens=clock.timed('tokens', batcher.passage_tokens),
  )
  make = clock.timed('cpu', measured)
  wall = []
  with mock.patch.multiple(
      packing, plan=clock.timed('plan', packing.plan),
      fill=clock.timed('fill', packing.fill),
  ), mock.patch.object(
      batches.Batcher, 'example_numbers',
      clock.timed('order', batches.Batcher.example_numbers),
  ):
    for step in range(count + 1):
      began = time.perf_counter()
      batch, stats = make(step)
      wall.append(1000 * (time.perf_counter() - began))
      clock.end_batch()
      for leaf in jax.tree.leaves(batch):
        digest.update(np.ascontiguousarray(leaf).data)
  stages = {name: float(np.median(values[1:]))
            for name, values in clock.stages.items()}
  cpu = stages.pop('cpu')
  stages['masks and rest'] = cpu - sum(stages.values())
  return {'cpu': cpu, 'wall': float(np.median(wall[1:])), 'stages': stages,
          'tokens': stats.useful_tokens, 'digest': digest.hexdigest()}


def main() -> None:
  """Measures and prints a Markdown table."""
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawTextHelpFormatter
  )
  parser.add_argument('--batches', type=int, default=9)
  parser.add_argument('--folder', type=pathlib.Path)
  for field in dataclasses.fields(Sizes):
    if field.type in (int, 'int'):
      parser.add_argument(f'--{field.name}', type=int, default=field.default)
  parser.add_argument('--towers', action='store_true')
  args = vars(parser.parse_args())
  sizes = Sizes(**{f.name: args[f.name] for f in dataclasses.fields(Sizes)})
  with tempfile.TemporaryDirectory(dir=args['folder']) as scratch:
    batcher = make_batcher(pathlib.Path(scratch), sizes)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = measure(batcher, args['batches'])
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
  print('| stage | CPU ms a batch |\n|---|---:|')
  for name, milliseconds in found['stages'].items():
    print(f'| {name} | {milliseconds:.1f} |')
  print(f'| whole batch | {found["cpu"]:.1f} |')
  rate = lambda milliseconds: 1000 * sizes.batch_size / milliseconds
  print(f'\n{rate(found["cpu"]):,.0f} queries/s of CPU time, '
        f'{rate(found["wall"]):,.0f} of wall time ({found["wall"]:.1f} ms a '
        f'batch); {_TARGET:,} are needed')
  print(f'{found["tokens"]:,} tokens in the last batch; peak memory '
        f'{after / 1024:.0f} MiB, {(after - before) / 1024:.0f} above that '
        f'before the first\ndigest {found["digest"]}')


if __name__ == '__main__':
  main()
