"""Time and memory of drawing context negatives, for corpora of growing size.

    .venv/bin/python launch/benchmarks/benchmark_context.py \\
        [--passages 1000000 21015324] [--pairs 10000000] [--batch 2048]

Documents have 4.2 passages on average, as Wikipedia's (21,015,324 passages in
some 5 million articles), and every pair has a question of its own. "state" is
what neighbours need beside the corpus's own arrays, "sorting" the time to make
it. "batch" is CPU time of listing M = 100 neighbours for each example of a
batch and drawing 2 of them; "alone" of finding out, for one pair, whether its
positive has any neighbour, which is done once for all pairs.
"""

import argparse
import pathlib
import sys
import time

import numpy as np

_MEAN, _M, _N, _BATCHES, _PAIRS_AT_ONCE = 4.2, 100, 2, 6, 65536


def main() -> None:
  """Measures and prints a Markdown table."""
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawTextHelpFormatter
  )
  parser.add_argument('--passages', type=int, nargs='+',
                      default=[1_000_000, 21_015_324])
  parser.add_argument('--pairs', type=int, default=10_000_000)
  parser.add_argument('--batch', type=int, default=2048)
  args = parser.parse_args()
  sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))
  print('| passages | pairs | state MB | sorting s | batch ms | alone µs |')
  print('|---:|---:|---:|---:|---:|---:|')
  for passages in args.passages:
    state, sorting, batch, alone = measure(passages, args.pairs, args.batch)
    print(f'| {passages:,} | {args.pairs:,} | {state / 1e6:.0f} | '
          f'{sorting:.1f} | {batch * 1e3:.0f} | {alone * 1e6:.2f} |',
          flush=True)


def measure(
    passages: int, pairs: int, batch: int
) -> tuple[int, float, float, float]:
  """Bytes of state, and CPU seconds: sorting, a batch, a pair."""
  from neg_contrast.data import examples
  from neg_contrast.negatives import document_neighbours, drawing

  rng = np.random.default_rng(0)
  sizes = rng.geometric(1 / _MEAN, passages)
  documents = np.repeat(np.arange(passages, dtype=np.int32), sizes)[:passages]
  groups = np.arange(passages, dtype=np.int32)
  queries = np.arange(pairs, dtype=np.int32)
  rows = (queries.astype(np.int64) * passages // pairs).astype(np.int32)
  known = examples.Positives(np.stack([queries, rows], axis=1), pairs)
  began = time.process_time()
  made = document_neighbours.Neighbours(documents.copy(), groups, known)
  sorting = time.process_time() - began
  batches = [rng.integers(0, pairs, batch) for _ in range(_BATCHES)]
  began = time.process_time()
  for step, some in enumerate(batches):
    found = made.of(some, rows[some], _M)
    drawing.Listed(found, np.zeros(found.shape, np.uint8)).draw(
        _N, 0, step, some
    )
  seconds = (time.process_time() - began) / _BATCHES
  count = min(pairs, _PAIRS_AT_ONCE)
  began = time.process_time()
  made.of(queries[:count], rows[:count], 1)
  alone = (time.process_time() - began) / count
  return made.state_bytes, sorting, seconds, alone


if __name__ == '__main__':
  main()
