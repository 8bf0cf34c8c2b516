"""Memory, time and disk of BM25, for corpora of growing size.

    .venv/bin/pip install psutil
    .venv/bin/python launch/benchmarks/benchmark_bm25.py 1000000 2000000
        [--cores 0] [--queries 1000] [--folder DIR]

Prepares synthetic passages of 100 words under --folder, counts their words, and
searches the top 100 for queries of 9 words. Words have the frequencies of
Zipf's law, and the most frequent are English stop words. Each step runs in a
process of its own. --cores is how many processes count; 0: all that there are.

* count: seconds, and CPU seconds of all processes; with reading the passages.
* memory: peak of the process's own memory above that of the imports. Mapped
  files are not in it: the system can drop them. Where several processes count,
  each takes as much.
* disk: bytes of the postings.
* queries: CPU seconds of all queries together, after the postings were read
  once; and of the first query alone, by a new process.

21,015,324 passages are extrapolated from the last size, or with memory from
the first and the last.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import peak_memory

_WIKIPEDIA = 21_015_324  # Passages of Lu et al. and of Karpukhin et al.
_VOCABULARY = 1_000_000
_WORDS, _QUERY_WORDS, _DEPTH = 100, 9, 100
_AT_ONCE = 10_000
_PLACE = 'launch/benchmarks/benchmark_bm25.py'


def main() -> None:
  """Measures and prints a Markdown table."""
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawTextHelpFormatter
  )
  parser.add_argument('passages', type=int, nargs='*')
  parser.add_argument('--cores', type=int, default=0)
  parser.add_argument('--queries', type=int, default=1000)
  parser.add_argument('--folder', type=pathlib.Path)
  parser.add_argument('--step', choices=('count', 'search', 'first'),
                      help=argparse.SUPPRESS)
  args = parser.parse_args()
  sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))
  if args.step:
    print(json.dumps(_STEPS[args.step](args)))
    return
  print('| passages | count, s | CPU s | µs a passage | memory, MiB | disk, MB '
        '| bytes a passage | queries | CPU s | memory, MiB | first, s |')
  print('|---:' * 11 + '|')
  rows = [_measure(args, passages) for passages in args.passages]
  if len(rows) > 1:
    _extrapolate(args, rows)


def words() -> np.ndarray:
  """The vocabulary: `[words] str`, the most frequent first."""
  from bm25s import stopwords

  rng = np.random.default_rng(0)
  letters = rng.integers(97, 123, (_VOCABULARY, 8), dtype=np.uint8)
  lengths = rng.integers(3, 9, (_VOCABULARY, 1))
  letters[np.arange(8) >= lengths] = 0  # Cut off when bytes become text.
  made = letters.view('S8')[:, 0].astype(str)
  stop = list(stopwords.STOPWORDS_EN)
  return np.concatenate([stop, made[len(stop):]])


def texts(count: int, length: int, seed: int) -> Iterator[str]:
  """Texts of so many words by Zipf's law."""
  rng, known = np.random.default_rng(seed), words()
  ends = np.cumsum(1 / np.arange(1, _VOCABULARY + 1))
  for first in range(0, count, _AT_ONCE):
    some = min(_AT_ONCE, count - first)
    drawn = np.searchsorted(ends, rng.random((some, length)) * ends[-1])
    yield from map(' '.join, known[drawn])


def prepare(folder: pathlib.Path, passages: int) -> None:
  """A prepared corpus, without what BM25 does not read of a source."""
  from neg_contrast.artifacts import folders
  from neg_contrast.data import packed_records, records, tfds_records
  from neg_contrast.data import prepared as prepared_lib

  manifest = {'spec': 'synthetic', 'worlds': [], 'mentions': False,
              'corpus_fingerprint': f'{passages:064d}',
              'counts': {'passages': passages, 'queries': 0, 'judgements': {}}}
  with folders.writing(folder, manifest,
                       format=prepared_lib.CORPUS) as scratch:
    np.save(scratch / 'passages.tie_ranks.npy',
            np.arange(passages, dtype=np.int32))
    write = tfds_records.Writer(
        scratch / 'passages', packed_records.PASSAGE_FIELDS
    )
    for number, text in enumerate(texts(passages, _WORDS, 1)):
      passage = records.Passage(f'wiki:{number}', '', text)
      write([packed_records.pack_passage(passage).row])
    write(None)


def _open(args: argparse.Namespace) -> Any:
  from neg_contrast.data import prepared as prepared_lib

  return prepared_lib.Prepared(args.folder / 'corpus')


def _count(args: argparse.Namespace) -> dict[str, float]:
  from neg_contrast import hosts
  from neg_contrast.retrieval import bm25_folder, bm25_terms

  prepared = _open(args)
  bm25_terms.TermReader()  # Imports its libraries.
  if args.cores:
    hosts.usable_cores = lambda: args.cores
  began, used = time.monotonic(), sum(os.times()[:4])
  memory = peak_memory.Memory()
  bm25_folder.make(prepared)
  seconds, used = time.monotonic() - began, sum(os.times()[:4]) - used
  disk = sum(path.stat().st_size
             for path in bm25_folder.folder_of(prepared).iterdir())
  return {'seconds': seconds, 'cpu': used,
          'own': memory.end()['own'], 'disk': disk}


def _search(args: argparse.Namespace) -> dict[str, float]:
  queries = list(texts(args.queries, _QUERY_WORDS, 2))
  assert _open(args).passages  # Imports its libraries.
  memory = peak_memory.Memory()
  index = _index(args)
  index.search(queries, _DEPTH)
  began = time.process_time()
  index.search(queries, _DEPTH)
  return {'cpu': time.process_time() - began, 'own': memory.end()['own']}


def _first(args: argparse.Namespace) -> dict[str, float]:
  queries = list(texts(1, _QUERY_WORDS, 2))
  assert _open(args).passages  # Imports its libraries.
  began = time.process_time()
  _index(args).search(queries, _DEPTH)
  return {'cpu': time.process_time() - began}


_STEPS = {'count': _count, 'search': _search, 'first': _first}


def _index(args: argparse.Namespace) -> Any:
  from neg_contrast.retrieval import bm25, bm25_folder

  prepared = _open(args)
  return bm25.Bm25Index(bm25_folder.open_shards(prepared), prepared.tie_ranks)


def _measure(args: argparse.Namespace, passages: int) -> dict[str, float]:
  """A row of the table."""
  folder = pathlib.Path(tempfile.mkdtemp(dir=args.folder))
  try:
    prepare(folder / 'corpus', passages)
    count, search, first = (
        json.loads(subprocess.run(
            [sys.executable, __file__, f'--step={step}', f'--folder={folder}',
             f'--cores={args.cores}', f'--queries={args.queries}'],
            stdout=subprocess.PIPE, text=True, check=True,
        ).stdout) for step in _STEPS
    )
  finally:
    shutil.rmtree(folder)
  mib = 2**20
  print(f'| {passages:,} | {count["seconds"]:.0f} | {count["cpu"]:.0f} | '
        f'{count["cpu"] / passages * 1e6:.0f} | {count["own"] / mib:.0f} | '
        f'{count["disk"] / 1e6:.0f} | {count["disk"] / passages:.0f} | '
        f'{args.queries:,} | {search["cpu"]:.1f} | {search["own"] / mib:.0f} | '
        f'{first["cpu"]:.2f} |', flush=True)
  return {'passages': passages, 'disk': count['disk'], 'count': count['cpu'],
          'build': count['own'], 'search': search['cpu'], 'own': search['own']}


def _extrapolate(
    args: argparse.Namespace, rows: list[dict[str, float]]
) -> None:
  less, more = rows[0], rows[-1]
  times = _WIKIPEDIA / more['passages']
  grown = {
      key: more[key] + (more[key] - less[key]) * (
          (_WIKIPEDIA - more['passages'])
          / (more['passages'] - less['passages']))
      for key in ('build', 'own', 'disk', 'search')
  }
  print(f'\n{_WIKIPEDIA:,} passages: {more["count"] * times / 60:.0f} CPU '
        f'minutes to count, {grown["build"] / 2**30:.2f} GiB memory of a '
        f'process, {grown["disk"] / 1e9:.1f} GB of disk; '
        f'{grown["search"] / args.queries * 1e3:.0f} ms a query, '
        f'{grown["own"] / 2**30:.2f} GiB')


if __name__ == '__main__':
  main()
