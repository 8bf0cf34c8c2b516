"""Memory and time of preparing a corpus, for corpora of growing size.

    .venv/bin/python launch/benchmarks/benchmark_prepare.py \\
        100000 400000 1600000

Writes synthetic passages of 100 words as a BEIR folder under --folder, prepares
each in a process of its own, and prints its peak resident memory. What a corpus
adds to a constant is the slope; 21,015,324 passages are extrapolated from it.
"""

import argparse
import json
import pathlib
import random
import shutil
import string
import subprocess
import sys
import tempfile
import time

_PREPARE = '''
import pathlib, resource, sys
from neg_contrast.data import preparation
preparation.prepare(sys.argv[1], pathlib.Path(sys.argv[2]), False)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
'''
_WIKIPEDIA = 21_015_324  # Passages of Lu et al. and of Karpukhin et al.


def write_corpus(folder: pathlib.Path, passages: int) -> None:
  """Passages of 100 words, 25 of them a document, with ids like DPR's."""
  rng = random.Random(0)
  letters = string.ascii_lowercase
  words = [''.join(rng.choices(letters, k=rng.randint(2, 9)))
           for _ in range(30_000)]
  folder.mkdir(parents=True)
  with open(folder / 'corpus.jsonl', 'w', encoding='utf-8') as f:
    for number in range(passages):
      f.write(json.dumps({
          '_id': f'wiki:{number + 1}',
          'title': f'Article {number // 25}',
          'text': ' '.join(rng.choices(words, k=100)),
          'metadata': {'document_id': str(number // 25)},
      }) + '\n')


def main() -> None:
  """Measures and prints a Markdown table."""
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument('passages', type=int, nargs='+')
  parser.add_argument('--folder', type=pathlib.Path)
  args = parser.parse_args()
  rows = []
  print('| passages | source | peak memory | time | passages/s |')
  print('|---|---|---|---|---|')
  for passages in args.passages:
    root = pathlib.Path(tempfile.mkdtemp(dir=args.folder))
    try:
      write_corpus(root / 'data', passages)
      size = (root / 'data' / 'corpus.jsonl').stat().st_size
      began = time.monotonic()
      output = subprocess.run(
          [sys.executable, '-c', _PREPARE, f'beir:{root / "data"}',
           str(root / 'prepared')],
          stdout=subprocess.PIPE, text=True, check=True,
      ).stdout
      seconds = time.monotonic() - began
    finally:
      shutil.rmtree(root)
    peak = int(output) * 1024
    rows.append((passages, peak))
    print(f'| {passages:,} | {size / 1e9:.2f} GB | {peak / 2**20:.0f} MiB | '
          f'{seconds:.0f} s | {passages / seconds:,.0f} |', flush=True)
  if len(rows) > 1:
    (fewer, less), (more, much) = rows[0], rows[-1]
    slope = (much - less) / (more - fewer)
    print(f'\n{slope:.1f} bytes a passage; {_WIKIPEDIA:,} passages: '
          f'{(much + slope * (_WIKIPEDIA - more)) / 2**30:.2f} GiB, bound '
          f'{1 + 24 * _WIKIPEDIA / 2**30:.2f} GiB')


if __name__ == '__main__':
  main()
