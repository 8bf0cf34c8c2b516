"""Memory and time of storing the pairs of stage 1 as data.

    .venv/bin/python launch/benchmarks/benchmark_pairs.py 300000 1000000

Writes synthetic questions over a corpus of 100,000 passages under --folder,
stores them in a process of its own, and prints CPU time, of what processes
divide and of what the first does alone, and peak resident memory above that of
a process that has opened the corpus; and bytes a pair on disk: of the questions
as they are written, of the parts and of what is made. Every tenth question is
one that was asked before.
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable

_ROOT = pathlib.Path(__file__).parents[2]
_PASSAGES, _AGAIN, _A_FILE = 100_000, 10, 6_144
_QUESTION = 'what is the number {} called in the passage of this name'
_STORE = '''
import functools, pathlib, resource, sys, time
from neg_contrast.artifacts import folders, kept_parts
from neg_contrast.data import pair_writer, preparation, prepared
root = pathlib.Path(sys.argv[1])
base = preparation.prepare(f'beir:{root}/data', root / 'prepared', False)
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
_ = base.passage_ids.row_of('p0'), base.passage_groups
before, began, manifest = peak(), time.process_time(), {}
writer = pair_writer.PairWriter(base, [
    functools.partial(pathlib.Path, path)
    for path in sorted(root.glob('pairs-*.jsonl'))
], lambda name, count: kept_parts.KeptParts(root / 'parts' / name, count))
writer.prepare()
divided = time.process_time()
with folders.writing(root / 'made', manifest, format=prepared.QUERIES) as made:
  writer.write(made, manifest)
print(divided - began, time.process_time() - divided, peak() - before,
      manifest['counts']['queries'])
'''


def write(root: pathlib.Path, pairs: int) -> None:
  """A corpus, and questions for its passages."""
  from neg_contrast.data import synthetic_pairs

  (root / 'data').mkdir()
  with open(root / 'data' / 'corpus.jsonl', 'w', encoding='utf-8') as f:
    for number in range(_PASSAGES):
      f.write(json.dumps({'_id': f'p{number}', 'title': '',
                          'text': f'passage {number}'}) + '\n')
  for begin in range(0, pairs, _A_FILE):
    with open(root / f'pairs-{begin:09d}.jsonl', 'w', encoding='utf-8') as f:
      for number in range(begin, min(begin + _A_FILE, pairs)):
        asked = number - 5 * (number % _AGAIN == _AGAIN - 1)
        synthetic_pairs.write_pair(f, _QUESTION.format(asked),
                                   f'p{number // 3 % _PASSAGES}')


def size_of(paths: Iterable[pathlib.Path]) -> int:
  """Bytes of files."""
  return sum(path.stat().st_size for path in paths if path.is_file())


def main() -> None:
  """Measures and prints a Markdown table."""
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawTextHelpFormatter
  )
  parser.add_argument('pairs', type=int, nargs='+')
  parser.add_argument('--folder', type=pathlib.Path)
  args = parser.parse_args()
  sys.path.insert(0, str(_ROOT))
  print('| pairs | questions | µs a pair, divided | µs a pair, by the first | '
        'memory MiB | bytes a pair | of questions | of parts | made |')
  print('|' + '---:|' * 9)
  for pairs in args.pairs:
    root = pathlib.Path(tempfile.mkdtemp(dir=args.folder))
    try:
      write(root, pairs)
      *_, last = subprocess.run(
          [sys.executable, '-c', _STORE, str(root)], stdout=subprocess.PIPE,
          text=True, check=True, cwd=_ROOT,
      ).stdout.splitlines()
      sizes = [size_of(root.glob('pairs-*.jsonl')) / pairs, *(
          size_of((root / name).rglob('*')) / pairs
          for name in ('parts', 'made'))]
    finally:
      shutil.rmtree(root)
    divided, first, kib, questions = map(float, last.split())
    print(f'| {pairs:,} | {questions:,.0f} | {divided / pairs * 1e6:.1f} | '
          f'{first / pairs * 1e6:.1f} | {kib / 1024:.0f} | '
          f'{kib * 1024 / pairs:.0f} | '
          + ' | '.join(f'{size:.0f}' for size in sizes) + ' |', flush=True)


if __name__ == '__main__':
  main()
