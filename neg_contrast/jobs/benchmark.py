"""Measures training, encoding, search, mining or input; prints one table."""

import contextlib
import dataclasses
import functools
import pathlib
import resource
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from neg_contrast import errors, hosts
from neg_contrast.artifacts import folders, plan
from neg_contrast.benchmarks import peer as peer_lib
from neg_contrast.benchmarks import profile, tasks
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import random_texts
from neg_contrast.models import by_name as model_lib
from neg_contrast.settings import config as config_lib

TABLE = 'benchmark.md'
_CORPUS, _PREPARED = 'corpus', 'prepared'  # Of a workdir, if made up.
_FEW_TOKENS = 12  # Of passages that are not encoded.
_PARTS = (tasks.PADDING, tasks.UTILISATION, tasks.HOST_WAIT)
# Rows that every table has, and that no other comes before.
_ALWAYS = (tasks.QUERIES, tasks.PASSAGES, tasks.TOKENS, tasks.PADDING,
           tasks.UTILISATION, tasks.HOST_WAIT)
_MIB = 2**20


class BenchmarkJob:
  """`job=benchmark`: rounds of one task, alone or in turns with a peer."""

  def __init__(self, config: config_lib.Config, workdir: pathlib.Path):
    """Reads nothing yet."""
    self._workdir, self._is_made_up = workdir, not config.data.source
    self._made: dict[str, Any] = {}
    if self._is_made_up:
      config = dataclasses.replace(config, data=dataclasses.replace(
          config.data, source=f'beir:{workdir / _CORPUS}',
          prepared_dir=str(workdir / _PREPARED),
          train_split=random_texts.SPLIT, tune_split=random_texts.TUNE,
      ))
    self._config = config

  def steps(self) -> list[plan.Step]:
    """The plan. A measurement is made anew every time."""
    settings = self._config.benchmark
    data = dataset_lib.preparation_step(
        self._config.data, lambda: self._dataset
    )
    if self._is_made_up:
      data = plan.Step(
          'data', f'made-up texts in {self._workdir / _CORPUS}',
          lambda: False, self._make_up,
          lambda: model_lib.missing(self._config.model.init), opens_rest=True,
      )
    beside = f' in turns with {settings.versus}' if settings.versus else ''
    return [data, plan.Step(
        'measure', f'{settings.rounds} rounds of {settings.task}{beside}',
        lambda: False, missing=self._missing, share=self._measure,
    )]

  def finish(self) -> None:
    """Prints the table, and keeps it."""
    table = _table(self._title(), self._made)
    (self._workdir / TABLE).write_text(table + '\n', encoding='utf-8')
    folders.write_sealed(self._workdir / folders.MANIFEST, {
        'config': config_lib.to_dict(self._config),
        'environment': folders.environment(),
        'measured': self._made,
    })
    print(f'\n{table}', flush=True)

  @functools.cached_property
  def _dataset(self) -> dataset_lib.Dataset:
    return dataset_lib.Dataset(self._config.data)

  def _missing(self) -> str | None:
    if self._config.benchmark.versus:
      lack = peer_lib.missing(self._config.benchmark.versus)
      if lack:
        return lack
    return model_lib.missing(self._config.model.init)

  def _make_up(self) -> None:
    config = self._config
    is_read = config.benchmark.task in ('train', 'encode', 'input')
    data = config.data
    random_texts.write(
        self._workdir / _CORPUS, model_lib.load_tokenizer(config.model.init),
        config.benchmark.passages, config.benchmark.queries,
        data.expected_passage_tokens if is_read else _FEW_TOKENS,
        data.expected_query_tokens,
    )
    _ = self._dataset

  def _measure(self) -> None:
    """All rounds.

    Raises:
      UserError: several processes have to do with what one can only.
    """
    settings = self._config.benchmark
    if hosts.are_several() and (settings.task != 'train' or settings.versus):
      raise errors.UserError(
          f'config.benchmark.task={settings.task}: several processes are '
          'measured at training alone; add --processes=1'
      )
    material = tasks.Material(
        self._config, self._workdir, self._dataset, self._is_made_up
    )
    with contextlib.ExitStack() as stack:
      task = tasks.make(material)
      stack.callback(task.close)
      peer = None
      if settings.versus:
        peer = peer_lib.Peer(material)
        stack.callback(peer.close)
      self._made = _run(task, peer, settings)
      if settings.profile and hosts.is_first():
        self._made['profile'] = profile.busiest(
            task.round, self._workdir / profile.FOLDER,
            settings.profile,
        )
      elif settings.profile:
        task.round()
      if self._made.get('profile') == {}:
        self._made['notes']['profile'] = 'the profiler saw no operation'

  def _title(self) -> str:
    config = self._config
    model = config.model
    dtype = np.dtype(model_lib.compute_dtype(model)).name
    texts = (f'made-up texts of {config.data.expected_query_tokens} and '
             f'{config.data.expected_passage_tokens} tokens'
             if self._is_made_up else config.data.source)
    settings = config.benchmark
    parts = [settings.task, model.init, dtype, texts]
    if settings.task in ('train', 'input'):
      parts.append(
          f'batch {config.data.batch_size:,}, '
          f'{config.negatives.per_query} hard negatives, '
          f'{config.data.groups} groups, {settings.steps} steps a round'
      )
    return ', '.join(parts)


def _run(
    task: tasks.Task, peer: peer_lib.Peer | None,
    settings: config_lib.BenchmarkConfig,
) -> dict[str, Any]:
  """Rounds in turns, in reversed order every second time.

  Returns:
    `rows`: name -> values of all rounds; `reasons`: name -> why there is none;
    `notes`: name -> text.
  """
  sides = {'': lambda: _timed(task)}
  if peer is not None:
    sides[settings.versus] = lambda: _timed_peer(peer)
  first = {name: side() for name, side in sides.items()}
  rounds: dict[str, list[dict[str, float]]] = {name: [] for name in sides}
  for number in range(settings.rounds):
    for name in list(sides)[:: -1 if number % 2 else 1]:
      rounds[name].append(sides[name]())
  ours = rounds['']
  rows = {name: [one[name] for one in ours] for name in ours[0]}
  rows['first round, with compilation, s'] = [first['']['round, s']]
  if peer is not None:
    theirs, name = rounds[settings.versus], settings.versus
    ratio = lambda key: [
        their[key] / our[key] for our, their in zip(ours, theirs, strict=True)
    ]
    rows[f'round of {name}, s'] = [their['round, s'] for their in theirs]
    rows[f'times as fast as {name}'] = ratio('round, s')
    rows[f'times as fast as {name}, by CPU time'] = ratio('CPU time, s')
    if isinstance(task, tasks.Train):
      rows['first loss'] = task.losses[:1]
      rows[f'first loss of {name}'] = [first[name]['loss']]
    if isinstance(task, tasks.Encode):
      apart = np.abs(task.vecs - peer.vecs).max()
      rows[f'most that a feature differs from {name}'] = [float(apart)]
  rows |= {name: [value] for name, value in task.facts.items()}
  memory, of = _peak_memory()
  rows[f'peak memory of {of}, MiB'] = [memory / _MIB]
  return {'rows': rows, 'reasons': task.reasons, 'notes': _notes(peer)}


def _timed(task: tasks.Task) -> dict[str, float]:
  began, cpu = time.monotonic(), time.process_time()
  measured = task.round()
  return {**measured, 'round, s': time.monotonic() - began,
          'CPU time, s': time.process_time() - cpu}


def _timed_peer(peer: peer_lib.Peer) -> dict[str, float]:
  began = time.monotonic()
  told = peer.round()
  return {'round, s': time.monotonic() - began,
          'CPU time, s': told['cpu_seconds'],
          'loss': told.get('losses', [float('nan')])[0]}


def _peak_memory() -> tuple[float, str]:
  """Bytes, and of what."""
  peaks = [stats['peak_bytes_in_use'] for device in jax.local_devices()
           if 'peak_bytes_in_use' in (stats := device.memory_stats() or {})]
  if peaks:
    return float(max(peaks)), 'a device'
  unit = 1 if sys.platform == 'darwin' else 1024
  peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
  return float(peak * unit), 'the process'


def _notes(peer: peer_lib.Peer | None) -> dict[str, str]:
  """Versions and devices."""
  made = folders.environment()
  versions = ', '.join(f'{name} {version}'
                       for name, version in made['versions'].items())
  revision = made['git_revision'][:12]
  own = f'neg_contrast {revision}, ' if revision else ''
  beside = f', {peer.versions}' if peer is not None else ''
  devices = jax.devices()
  cores = f', {made["cpu_count"]} CPU cores'
  return {
      'versions': own + versions + beside,
      'devices': f'{len(devices)} x {devices[0].device_kind}{cores}',
  }


def _table(title: str, made: Mapping[str, Any]) -> str:
  """Markdown: a row a measure, with the median of the rounds."""
  rows, reasons = made['rows'], made['reasons']
  lines = [f'| {title} | median | least | most |', '|---|---:|---:|---:|']
  names = [name for name in _ALWAYS if name in rows or name in reasons]
  for name in [*names, *(name for name in rows if name not in names)]:
    lines.append(f'| {name} | {_cells(name, rows, reasons)} |')
  lines += [f'| of device time: {name} | {_percent(part)} | | |'
            for name, part in made.get('profile', {}).items()]
  lines += [f'| {name} | {text} | | |' for name, text in made['notes'].items()]
  return '\n'.join(lines)


def _cells(
    name: str, rows: Mapping[str, Sequence[float]], reasons: Mapping[str, str]
) -> str:
  if name not in rows:
    return f'– ({reasons[name]}) | | '
  values = rows[name]
  show = _percent if name in _PARTS else _number
  if len(values) == 1:
    return f'{show(values[0])} | | '
  return ' | '.join(map(show, (float(np.median(values)), min(values),
                               max(values))))


def _percent(value: float) -> str:
  return f'{100 * value:.1f}%'


def _number(value: float) -> str:
  """Three digits that tell something, or more where they are whole."""
  return f'{value:,.0f}' if value >= 100 else f'{value:.3g}'
