"""Memory and time of preparing and tokenizing corpora of growing size.

    .venv/bin/python launch/benchmarks/benchmark_prepare.py \\
        100000 400000 1600000 --workers 1 2 --runners local direct

Writes synthetic passages of 100 words of MiniLM's vocabulary as a BEIR folder
under --folder. Each number of workers prepares and tokenizes it, each in a
program of its own; 1: that process alone. Prints wall and CPU time, and the
peak memory of all its processes together: their anonymous memory, and beside
it the proportional set size, which has pages of mapped files too. What a corpus
adds to a constant is the slope, which neg_contrast/data/prepared.py promises to
be below 24 bytes a passage; 21,015,324 passages are extrapolated from it.
Of the runner `direct`, Apache Beam on this machine, workers are its processes.
With --kill_after one of them is killed in each step, so many seconds from its
start, and what was made is compared all the same.
Needs the package psutil, and for `direct` launch/requirements-beam.txt.
"""

import argparse
import contextlib
import json
import os
import pathlib
import random
import shutil
import string
import subprocess
import sys
import tempfile
import threading
import time

_STEPS = {
    'prepare': '''
import pathlib, sys
from neg_contrast import beams, hosts
from neg_contrast.data import preparation
hosts.usable_cores = lambda: int(sys.argv[3])
beams.choose(sys.argv[4])
preparation.prepare(sys.argv[1], pathlib.Path(sys.argv[2]), False)
''',
    'tokenize': '''
import os, pathlib, sys
os.environ['TOKENIZERS_PARALLELISM'] = 'false'  # Workers are all there is.
from neg_contrast import beams, hosts
from neg_contrast.data import preparation, tokenized, tokenizer
from neg_contrast.models import model_names
hosts.usable_cores = lambda: int(sys.argv[3])
beams.choose(sys.argv[4])
corpus = preparation.prepare(sys.argv[1], pathlib.Path(sys.argv[2]), False)
tokenized.store_of(corpus, 'passage', tokenizer.load_tokenizer(
    str(model_names.packaged_minilm())))
''',
}
_WIKIPEDIA = 21_015_324  # Passages of Lu et al. and of Karpukhin et al.
_EVERY_SECONDS = 0.05


def write_corpus(folder: pathlib.Path, passages: int) -> None:
  """Passages of 100 words, 25 of them a document, with ids like DPR's."""
  rng, words = random.Random(0), _words()
  folder.mkdir(parents=True)
  with open(folder / 'corpus.jsonl', 'w', encoding='utf-8') as f:
    for number in range(passages):
      f.write(json.dumps({
          '_id': f'wiki:{number + 1}',
          'title': f'Article {number // 25}',
          'text': ' '.join(rng.choices(words, k=100)),
          'metadata': {'document_id': str(number // 25)},
      }) + '\n')


def _words() -> list[str]:
  """Of one token each, and one in ten of letters at random, of several."""
  from neg_contrast.data import tokenizer
  from neg_contrast.models import model_names

  known = tokenizer.load_tokenizer(str(model_names.packaged_minilm()))
  words = [word for word in known.whole_words if word.isascii()]
  rng = random.Random(0)
  words[::10] = (''.join(rng.choices(string.ascii_lowercase, k=6))
                 for _ in words[::10])
  return words


class Watch:
  """CPU time and peaks of memory of a process and those that it starts.

  It looks in a thread; what a process does after the last look is not counted.
  After so many seconds it kills a worker of Beam.
  """

  def __init__(self, process: int, kill_after: float = 0.0):
    self._process = process
    self._kill_at = time.monotonic() + kill_after if kill_after else None
    self.own = self.whole = 0
    self._cpu: dict[int, float] = {}
    self._thread = threading.Thread(target=self._watch, daemon=True)
    self._thread.start()

  @property
  def cpu(self) -> float:
    """CPU seconds."""
    return sum(self._cpu.values())

  @property
  def is_to_kill(self) -> bool:
    """Whether it has killed nothing yet, and is to."""
    return self._kill_at is not None

  def join(self) -> None:
    """Returns when the process has ended."""
    self._thread.join()

  def _watch(self) -> None:
    import psutil

    # The measured process may end between two looks.
    with contextlib.suppress(psutil.NoSuchProcess):
      parent = psutil.Process(self._process)
      while parent.status() != psutil.STATUS_ZOMBIE:
        infos = []
        for one in [parent, *parent.children(recursive=True)]:
          try:
            infos.append(one.memory_full_info())
            self._cpu[one.pid] = sum(one.cpu_times()[:2])
            if (self._kill_at and time.monotonic() > self._kill_at
                and any('sdk_worker' in part for part in one.cmdline())):
              one.kill()
              self._kill_at = None
          except psutil.Error:  # It has just ended.
            continue
        self.own = max(self.own, sum(info.rss - info.shared for info in infos))
        self.whole = max(self.whole, sum(info.pss for info in infos))
        time.sleep(_EVERY_SECONDS)


def measure(
    what: str, *arguments: str, kill_after: float = 0.0, **environment: str
) -> tuple[float, Watch]:
  """Seconds of a program of Python, and what was seen of it."""
  began = time.monotonic()
  process = subprocess.Popen([sys.executable, *arguments],
                             env={**os.environ, **environment})
  watch = Watch(process.pid, kill_after)
  process.wait()
  seconds = time.monotonic() - began
  watch.join()
  if process.returncode:
    raise SystemExit(f'{what} failed with {process.returncode}')
  if watch.is_to_kill:
    raise SystemExit(f'{what}: no worker was there to be killed')
  return seconds, watch


def _measure(
    step: str, root: pathlib.Path, kill_after: float, runner: str, workers: int
) -> tuple[float, Watch]:
  return measure(
      step, '-c', _STEPS[step], f'beir:{root / "data"}',
      str(root / f'prepared-{runner}-{workers}'), str(workers), runner,
      kill_after=kill_after if runner == 'direct' else 0.0)


def _fingerprints(root: pathlib.Path) -> set[tuple[str, ...]]:
  """Contents of what all runners and workers made; one if all agree."""
  from neg_contrast.artifacts import folders

  return {
      tuple(folders.sha256_file(path) for path in sorted(made.rglob('*'))
            if path.is_file() and '.locks' not in path.parts)
      for made in root.glob('prepared-*')
  }


def main() -> None:
  """Measures and prints a Markdown table."""
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument('passages', type=int, nargs='+')
  parser.add_argument('--workers', type=int, nargs='+', default=[1, 2])
  parser.add_argument('--runners', nargs='+', default=['local'])
  parser.add_argument('--kill_after', type=float, default=0.0)
  parser.add_argument('--folder', type=pathlib.Path)
  args = parser.parse_args()
  sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))
  rows = []
  makers = [(runner, workers) for runner in args.runners
            for workers in args.workers]
  print('| passages | source | step | runner, workers | time | CPU | '
        'passages/s | µs CPU a passage | memory | with mapped files |')
  print('|---' * 10 + '|')
  for passages in args.passages:
    root = pathlib.Path(tempfile.mkdtemp(dir=args.folder))
    try:
      write_corpus(root / 'data', passages)
      size = (root / 'data' / 'corpus.jsonl').stat().st_size
      for step in _STEPS:
        for maker in makers:
          seconds, seen = _measure(step, root, args.kill_after, *maker)
          rows.append((step, maker, passages, seen.own))
          print(f'| {passages:,} | {size / 1e9:.2f} GB | {step} | '
                f'{maker[0]}, {maker[1]} | {seconds:.0f} s | '
                f'{seen.cpu:.0f} s | {passages / seconds:,.0f} | '
                f'{seen.cpu / passages * 1e6:.0f} | '
                f'{seen.own / 2**20:.0f} MiB | '
                f'{seen.whole / 2**20:.0f} MiB |', flush=True)
      if len(_fingerprints(root)) > 1:
        raise SystemExit('runners or workers differ in what they made')
    finally:
      shutil.rmtree(root)
  for step in _STEPS:
    for maker in makers:
      _extrapolate(step, maker, [row[2:] for row in rows
                                 if row[:2] == (step, maker)])


def _extrapolate(
    step: str, maker: tuple[str, int], rows: list[tuple[int, int]]
) -> None:
  """Prints the slope of the memory, and what it comes to."""
  (fewer, less), (more, much) = rows[0], rows[-1]
  if fewer == more:
    return
  slope = (much - less) / (more - fewer)
  print(f'\n{step}, {maker[0]}, {maker[1]} workers: '
        f'{slope:.1f} bytes a passage; {_WIKIPEDIA:,} passages: '
        f'{(much + slope * (_WIKIPEDIA - more)) / 2**30:.2f} GiB')


if __name__ == '__main__':
  main()
