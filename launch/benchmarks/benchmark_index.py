"""Measures our indexes against faiss: memory, build, recall, throughput.

    .venv/bin/pip install faiss-cpu matplotlib psutil
    .venv/bin/python launch/benchmarks/benchmark_index.py
        [--passages 10000 100000 1000000] [--threads 1] [--workdir DIR]
        [--svg FILE]

Prints markdown tables and draws benchmark_index.svg beside this file. Each
measurement runs in a fresh process; with --workdir they are kept there, and the
same command goes on where it was interrupted. 1,000,000 passages take about 15
minutes of one core, 5 GiB of memory and 7 GiB of disk.

The vectors are SYNTHETIC, made from a seed to be like sentence embeddings: 384
features with the spectrum of all-MiniLM-L6-v2 on SQuAD dev (20 directions hold
0.42 of the variance, 100 hold 0.82), topics and articles of uneven sizes (0.15
and 0.35 of the variance), l2-normalised. A query has cosine 0.6 with some
passage, as a SQuAD question has with its best one. What comes out is a
comparison of systems, not a promise for other data.

What is compared, with the same threads and vectors from the same memory map:

* exact: neg_contrast.retrieval.mesh_search, on one CPU device.
* scann: neg_contrast.retrieval.scann_index, target 0.95, tuned on 500 queries
  that are not measured. It builds on one thread, to be reproducible.
* flat: faiss IndexFlatIP.
* ivf_flat: faiss IndexIVFFlat, sqrt(n) lists.
* ivf_pq: faiss IVF of sqrt(n) lists, PQ of 192 x 4 bits by residual with fast
  scan (what ScaNN does, without anisotropy), best candidates scored again with
  full vectors (RFlat), as many of them as scann takes.

Time is CPU time, of all threads, since benchmarks share machines with other
things: queries/s are those of one core that does nothing else. With more
threads it says what they cost together, not what they gain.

"own MiB" is the peak of anonymous memory above that of the imports, "mapped
MiB" the peak of file pages, which the system can drop. Search is measured in a
process of its own, which loads the index. One at a time: one query a call.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

_FEATURES = 384
_DEPTH = 100
_QUERIES, _SAMPLES = 1000, 500
_SYSTEMS = ('exact', 'flat', 'scann', 'ivf_flat', 'ivf_pq')
_SWEPT = ('scann', 'ivf_flat', 'ivf_pq')
_NAMES = {
    'exact': 'exact (ours)', 'flat': 'faiss FlatIP', 'scann': 'ScaNN (ours)',
    'ivf_flat': 'faiss IVFFlat', 'ivf_pq': 'faiss IVF-PQ4fs, refined',
}
_TARGET = 0.95
_SHOWN = 0.5  # The least recall in the picture.
_MIB = 2**20
_PLACE = 'launch/benchmarks/benchmark_index.py'


def main() -> None:
  """Measures what is not measured yet, then prints and draws all."""
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawTextHelpFormatter
  )
  parser.add_argument(
      '--passages', type=int, nargs='+', default=[10_000, 100_000, 1_000_000]
  )
  parser.add_argument('--threads', type=int, default=1)
  parser.add_argument('--seed', type=int, default=0)
  parser.add_argument('--workdir', type=pathlib.Path)
  parser.add_argument(
      '--svg', type=pathlib.Path,
      default=pathlib.Path(__file__).with_name('benchmark_index.svg'),
  )
  parser.add_argument('--step', nargs=2, help=argparse.SUPPRESS)
  args = parser.parse_args()
  if args.step:
    _run_step(args, *args.step)
  elif args.workdir:
    _run_all(args)
  else:
    with tempfile.TemporaryDirectory() as folder:
      args.workdir = pathlib.Path(folder)
      _run_all(args)


def _run_all(args: argparse.Namespace) -> None:
  """Every step of every size, a process each."""
  results: dict[int, dict[str, Any]] = {}
  for passages in args.passages:
    folder = args.workdir / f'{passages}-{args.seed}'
    folder.mkdir(parents=True, exist_ok=True)
    make_vectors(folder, passages, args.seed)
    results[passages] = {}
    for system in _SYSTEMS:
      result = {}
      for step in ('build', 'search'):
        path = folder / f'{system}-{step}.json'
        if not path.exists():
          print(f'{passages:,} {system} {step}', file=sys.stderr)
          threads = str(args.threads)
          subprocess.run(
              [sys.executable, __file__, '--step', step, system,
               '--passages', str(passages), '--threads', threads,
               '--seed', str(args.seed), '--workdir', args.workdir],
              check=True,
              env={**os.environ, 'OMP_NUM_THREADS': threads,
                   'PYTHONPATH': str(pathlib.Path(__file__).parents[2]),
                   'OPENBLAS_NUM_THREADS': threads, 'NPROC': threads,
                   'OMP_WAIT_POLICY': 'passive',  # Spinning is no work.
                   'JAX_PLATFORMS': 'cpu', 'XLA_FLAGS': ''},
          )
        result[step] = json.loads(path.read_text())
      results[passages][system] = result
  print(_tables(results, args.threads))
  _draw(results, args.threads, args.svg)


def make_vectors(
    folder: pathlib.Path, passages: int, seed: int, asked: int = _QUERIES,
    features: int = _FEATURES,
) -> None:
  """Writes passages.npy, samples.npy and queries.npy, unit vectors."""
  if (folder / 'queries.npy').exists():
    return
  rng = np.random.default_rng(seed)
  place = np.arange(features)
  variances = np.exp(-place / 130) / (1 + place / 16)
  deviations = np.sqrt(variances / variances.sum()).astype(np.float32)

  def draw(count: int) -> np.ndarray:
    shape = (count, features)
    return rng.standard_normal(shape, dtype=np.float32) * deviations

  def choose(count: int, among: int) -> np.ndarray:
    weights = np.arange(1, among + 1) ** -0.6
    return rng.choice(among, count, p=weights / weights.sum())

  articles = max(4, passages // 40)
  topics = max(8, articles // 40)
  centres = 0.15**0.5 * draw(topics)[choose(articles, topics)]
  centres += 0.35**0.5 * draw(articles)
  vecs = np.lib.format.open_memmap(
      folder / 'passages.npy', 'w+', np.float32, (passages, features)
  )
  for start in range(0, passages, 50_000):
    count = min(50_000, passages - start)
    own = centres[choose(count, articles)] + 0.5**0.5 * draw(count)
    vecs[start : start + count] = _unit(own)
  near = vecs[np.sort(rng.choice(passages, _SAMPLES + asked, replace=False))]
  queries = rng.permutation(_unit(0.6 * near + 0.8 * draw(len(near))))
  vecs.flush()
  np.save(folder / 'samples.npy', queries[:_SAMPLES])
  np.save(folder / 'queries.npy', queries[_SAMPLES:])


def _unit(vecs: np.ndarray) -> np.ndarray:
  return vecs / np.linalg.norm(vecs, axis=1, keepdims=True)


class Memory:
  """Peaks of this process's memory, in a thread, above what there was."""

  def __init__(self):
    self._start = self._now()
    self._peak = self._start
    self._stop = threading.Event()
    self._thread = threading.Thread(target=self._watch, daemon=True)
    self._thread.start()

  def end(self) -> dict[str, float]:
    """Bytes of anonymous memory and of file pages."""
    self._stop.set()
    self._thread.join()
    own, mapped = (p - s for p, s in zip(self._peak, self._start, strict=True))
    return {'own': own, 'mapped': mapped}

  def _watch(self) -> None:
    while not self._stop.wait(0.01):
      self._peak = tuple(map(max, self._peak, self._now()))

  def _now(self) -> tuple[int, ...]:
    import psutil

    info = psutil.Process().memory_info()
    return info.rss - info.shared, info.shared


def _run_step(args: argparse.Namespace, step: str, system: str) -> None:
  """Builds or searches one index, and writes what it measured."""
  passages = args.passages[0]
  folder = args.workdir / f'{passages}-{args.seed}'
  vecs = np.load(folder / 'passages.npy', mmap_mode='r')
  kind: Any = {'exact': _Exact, 'scann': _Scann}.get(system, _Faiss)
  measured = kind(system, folder, vecs, args.threads)
  if step == 'build':
    memory = Memory()
    begun = time.process_time()
    disk = measured.build()
    result: dict[str, Any] = {
        'seconds': time.process_time() - begun, 'disk': disk, **memory.end(),
    }
  else:
    result = _measure_search(measured, system, folder, passages)
  path = folder / f'{system}-{step}.json'
  path.with_suffix('.partial').write_text(json.dumps(result))
  path.with_suffix('.partial').replace(path)


def _measure_search(measured, system, folder, passages) -> dict[str, Any]:
  queries = np.load(folder / 'queries.npy')
  memory = Memory()
  search = measured.load()
  middle = measured.widths[len(measured.widths) // 2]
  search(queries[:1], measured.chosen or middle)  # The exact index compiles.
  rows, _ = _timed(search, queries, measured.chosen or middle)
  peaks = memory.end()
  if system == 'exact':
    np.save(folder / 'truth.npy', rows)
  truth = np.load(folder / 'truth.npy')
  curve = []
  for width in measured.widths:
    rows, seconds = _timed(search, queries, width)
    recall = np.mean(
        [np.isin(*pair).mean() for pair in zip(truth, rows, strict=True)]
    )
    curve.append({'width': width, 'recall': float(recall),
                  'rate': len(queries) / seconds})
    if recall > 0.99:  # Wider ones are out of the picture.
      break
  width = measured.chosen
  if width is None and system in _SWEPT:  # The narrowest with the target.
    reach = [p['width'] for p in curve if p['recall'] >= _TARGET]
    width = reach[0] if reach else curve[-1]['width']
  at = next(p for p in curve if p['width'] == width)
  count = 5 if system in ('exact', 'flat') and passages > 200_000 else 200
  begun = time.process_time()
  for query in queries[:count]:
    search(query[None], width)
  return {
      **peaks, **measured.notes(), 'chosen': at, 'curve': curve,
      'single_rate': count / (time.process_time() - begun),
  }


def _timed(search, queries, width) -> tuple[np.ndarray, float]:
  """What is found, and the CPU seconds: the least of a few runs, if short."""
  times: list[float] = []
  while not times or (len(times) < 3 and sum(times) < 1):
    begun = time.process_time()
    rows = search(queries, width)
    times.append(time.process_time() - begun)
  return rows, min(times)


def _powers(most: int) -> list[int]:
  """From a 256th of the leaves on, where recall is about a half, to all."""
  powers = [2**n for n in range(most.bit_length()) if 2**n < most]
  return [n for n in powers if n >= most / 256] + [most]


class _Exact:
  """neg_contrast.retrieval.mesh_search."""

  widths: tuple[Any, ...] = (None,)
  chosen = None

  def __init__(self, system, folder, vecs, threads):
    from neg_contrast import sharding
    from neg_contrast.retrieval import hits, mesh_search
    from neg_contrast.settings import config

    self._vecs = vecs
    ranks = hits.tie_ranks([f'{n:08d}' for n in range(len(vecs))])
    mesh = sharding.make_mesh(config.MeshConfig())
    self._make = lambda: mesh_search.MeshSearch(vecs, ranks, mesh)

  def build(self) -> int:
    self._make()
    return 0

  def load(self) -> Callable[..., np.ndarray]:
    index = self._make()
    return lambda queries, _: index.search(queries, _DEPTH).rows

  def notes(self) -> dict[str, Any]:
    return {}


class _Scann:
  """neg_contrast.retrieval.scann_index."""

  def __init__(self, system, folder, vecs, threads):
    from neg_contrast.retrieval import (
      hits,
      scann_files,
      scann_index,
      scann_shards,
    )

    scann_shards.load_library()  # Imports are no part of what is measured.
    self._library, self._files = scann_index, scann_files
    self._folder, self._vecs, self._threads = folder, vecs, threads
    self._ranks = hits.tie_ranks([f'{n:08d}' for n in range(len(vecs))])
    path = folder / 'scann' / 'manifest.json'
    if path.exists():
      manifest = json.loads(path.read_text())
      self._measured = manifest['measured']
      self.chosen = self._measured['leaves']
      most = max(shard['leaves'] for shard in manifest['shards'])
      self.widths = sorted({*_powers(most), self.chosen})

  def build(self) -> int:
    settings = self._library.Settings(
        target_recall=_TARGET, recall_k=_DEPTH, threads=self._threads
    )
    samples = np.load(self._folder / 'samples.npy')
    index = self._library.build(self._vecs, self._ranks, settings, samples)
    self._files.save(index, self._folder / 'scann')
    return sum(path.stat().st_size
               for path in (self._folder / 'scann').rglob('*')
               if path.is_file())

  def load(self) -> Callable[..., np.ndarray]:
    index = self._files.load(
        self._folder / 'scann', self._vecs, self._threads
    )
    tuned = index.measured

    def search(queries, leaves):
      index.measured = dataclasses.replace(tuned, leaves=leaves)
      return index.search(queries, _DEPTH).rows

    return search

  def notes(self) -> dict[str, Any]:
    return {'note': f'{self._measured["leaves"]} leaves, '
                    f'{self._measured["candidates"]} candidates, '
                    f'{self._measured["recall"]:.4f} on held-out samples'}


class _Faiss:
  """faiss, the same way."""

  chosen = None

  def __init__(self, system, folder, vecs, threads):
    import faiss

    faiss.omp_set_num_threads(threads)
    self._faiss, self._system, self._vecs = faiss, system, vecs
    self._path = folder / f'{system}.faiss'
    self._lists = round(len(vecs) ** 0.5)
    self.widths = (None,) if system == 'flat' else _powers(self._lists)
    path = folder / 'scann' / 'manifest.json'
    self._candidates = (
        json.loads(path.read_text())['measured']['candidates']
        if path.exists() else 4 * _DEPTH
    )

  def build(self) -> int:
    recipe = {
        'flat': 'Flat', 'ivf_flat': f'IVF{self._lists},Flat',
        'ivf_pq': f'IVF{self._lists},PQ{_FEATURES // 2}x4fsr,RFlat',
    }[self._system]
    index = self._faiss.index_factory(
        _FEATURES, recipe, self._faiss.METRIC_INNER_PRODUCT
    )
    rng = np.random.default_rng(0)
    some = rng.permutation(len(self._vecs))[:100_000]  # As ScaNN trains.
    index.train(self._vecs[np.sort(some)])
    for start in range(0, len(self._vecs), 50_000):
      index.add(np.ascontiguousarray(self._vecs[start : start + 50_000]))
    self._faiss.write_index(index, str(self._path))
    return self._path.stat().st_size

  def load(self) -> Callable[..., np.ndarray]:
    index = self._faiss.read_index(str(self._path))

    def search(queries, lists):
      params = None
      if self._system == 'ivf_flat':
        params = self._faiss.SearchParametersIVF(nprobe=lists)
      elif self._system == 'ivf_pq':
        params = self._faiss.IndexRefineSearchParameters(
            k_factor=self._candidates / _DEPTH,
            base_index_params=self._faiss.SearchParametersIVF(nprobe=lists),
        )
      return index.search(queries, _DEPTH, params=params)[1]

    return search

  def notes(self) -> dict[str, Any]:
    if self._system == 'ivf_pq':
      return {'note': f'{self._candidates} candidates'}
    return {}


def _tables(results: dict[int, dict[str, Any]], threads: int) -> str:
  """What was measured, as markdown."""
  lines = [
      f'Synthetic vectors of {_FEATURES} features (see {_PLACE}), depth '
      f'{_DEPTH}, {_threads(threads)}, CPU seconds. Approximate ones at the '
      'tuned setting (scann) or the narrowest measured one with recall '
      f'{_TARGET} (faiss).',
      '',
      '| passages | system | build CPU s | build own MiB | index on disk MiB '
      f'| search own / mapped MiB | recall@{_DEPTH} | queries/s, 1,000 at once '
      '| one at a time | setting |',
      '|---:|---|---:|---:|---:|---:|---:|---:|---:|---|',
  ]
  for passages, systems in results.items():
    for system, result in systems.items():
      build, search = result['build'], result['search']
      at = search['chosen']
      width = '' if at['width'] is None else (
          f'{at["width"]} of {round(passages**0.5)} lists'
          if system.startswith('ivf') else ''
      )
      setting = ', '.join(t for t in (width, search.get('note', '')) if t)
      lines.append(
          f'| {passages:,} | {_NAMES[system]} | {build["seconds"]:,.1f} '
          f'| {build["own"] / _MIB:,.0f} | {build["disk"] / _MIB:,.0f} '
          f'| {search["own"] / _MIB:,.0f} / {search["mapped"] / _MIB:,.0f} '
          f'| {at["recall"]:.4f} | {_round(at["rate"])} '
          f'| {_round(search["single_rate"])} | {setting} |'
      )
  lines += ['', 'Recall and queries/s, 1,000 at once, by leaves or lists '
            'searched:', '', '| passages | system | curve |', '|---:|---|---|']
  for passages, systems in results.items():
    for system in _SWEPT:
      points = (f'{p["width"]}: {p["recall"]:.3f} at {_round(p["rate"])}'
                for p in systems[system]['search']['curve'])
      lines.append(f'| {passages:,} | {_NAMES[system]} | {"; ".join(points)} |')
  return '\n'.join(lines)


def _round(value: float) -> str:
  """Three digits: more would be noise."""
  return f'{float(f"{value:.3g}"):,.0f}' if value >= 100 else f'{value:.3g}'


def _threads(count: int) -> str:
  return '1 thread' if count == 1 else f'{count} threads'


def _draw(
    results: dict[int, dict[str, Any]], threads: int, path: pathlib.Path
) -> None:
  """Recall against throughput, legible on white and on black."""
  import matplotlib
  from matplotlib import figure, ticker

  ink = '#7d8590'
  styles = {
      'exact': ('#d9730d', '*'), 'flat': ('#8f7ae0', 'X'),
      'scann': ('#2f81f7', 'o'), 'ivf_flat': ('#2da44e', 's'),
      'ivf_pq': ('#d6409f', '^'),
  }
  settings: Any = {
      'svg.hashsalt': 'benchmark_index', 'font.family': 'DejaVu Sans',
      'text.color': ink, 'axes.labelcolor': ink, 'axes.edgecolor': ink,
      'xtick.color': ink, 'ytick.color': ink, 'font.size': 9,
      'axes.spines.top': False, 'axes.spines.right': False,
      'axes.titlelocation': 'left', 'axes.titlesize': 10,
  }
  with matplotlib.rc_context(settings):
    chart = figure.Figure(
        figsize=(max(6.0, 3.2 * len(results)), 3.8), layout='constrained'
    )
    panels = chart.subplots(1, len(results), squeeze=False, sharex=True)[0]
    for axes, (passages, systems) in zip(panels, results.items(), strict=True):
      for system, (color, marker) in styles.items():
        search = systems[system]['search']
        curve = [p for p in search['curve'] if p['recall'] >= _SHOWN]
        axes.plot(
            [p['recall'] for p in curve], [p['rate'] for p in curve],
            color=color, marker=marker, label=_NAMES[system], linewidth=1.5,
            markersize=9 if system in ('exact', 'flat') else 4, clip_on=False,
            linestyle='-' if system in _SWEPT else 'none',
        )
        if system == 'scann':
          axes.plot(
              search['chosen']['recall'], search['chosen']['rate'], 'o',
              markersize=10, markerfacecolor='none', markeredgecolor=color,
              label='ScaNN as tuned', clip_on=False,
          )
      axes.axvline(_TARGET, color=ink, linewidth=0.8, linestyle=(0, (3, 3)))
      axes.set_yscale('log')
      axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
      axes.yaxis.set_major_formatter(lambda value, _: f'{value:,.0f}')
      axes.yaxis.set_minor_locator(ticker.NullLocator())
      axes.set_xlim(_SHOWN, 1.0)
      axes.set_facecolor('none')
      axes.set_title(f'{passages:,} passages')
      axes.set_xlabel(f'recall@{_DEPTH}')
      axes.grid(color=ink, alpha=0.25, linewidth=0.6)
    panels[0].set_ylabel('queries / CPU second, 1,000 at once')
    handles, labels = panels[0].get_legend_handles_labels()
    chart.legend(
        handles, labels, loc='outside lower center', ncols=3,
        frameon=False, fontsize=8.5,
    )
    chart.suptitle(
        f'Recall and throughput, {_threads(threads)}, synthetic vectors of '
        f'{_FEATURES} features', fontsize=10, x=0.01, ha='left',
    )
    chart.savefig(
        path, transparent=True, metadata={'Date': None, 'Creator': None}
    )


if __name__ == '__main__':
  main()
