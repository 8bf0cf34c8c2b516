"""Rounds of a task, alone or in turns with another library."""

import pathlib
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import jax

from neg_contrast import hosts, progress
from neg_contrast.artifacts import folders
from neg_contrast.benchmarks import peer as peer_lib
from neg_contrast.benchmarks import profile
from neg_contrast.benchmarks import task as task_lib
from neg_contrast.settings import config as config_lib

_MIB = 2**20


def run(
    task: task_lib.Task, peer: peer_lib.Peer | None,
    settings: config_lib.BenchmarkConfig,
) -> dict[str, Any]:
  """Rounds in turns, in reversed order every second time.

  Args:
    task: ours.
    peer: another library at the same; None: there is none.
    settings: how many rounds.

  Returns:
    `rows`: name -> values of all rounds; `reasons`: name -> why there is none;
    `notes`: name -> text.
  """
  sides: dict[str, Callable[[], dict[str, Any]]] = {'': lambda: _timed(task)}
  if peer is not None:
    sides[settings.versus] = lambda: _timed_peer(peer)
  say = progress.Ticker('rounds', len(sides) * (1 + settings.rounds))
  rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in sides}
  for number in range(1 + settings.rounds):
    for name in list(sides)[:: -1 if number and not number % 2 else 1]:
      rounds[name].append(sides[name]())
      say(sum(map(len, rounds.values())))
  first = {name: of.pop(0) for name, of in rounds.items()}
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
    rows |= task.agreement(name, first[name]['losses'], lambda: peer.vecs)
  rows |= {name: [value] for name, value in task.facts.items()}
  memory, of = _peak_memory()
  rows[f'peak memory of {of}, MiB'] = [memory / _MIB]
  return {'rows': rows, 'reasons': task.reasons, 'notes': _notes(peer)}


def add_profile(
    made: dict[str, Any], task: task_lib.Task, count: int, workdir: pathlib.Path
) -> None:
  """One more round under the profiler, of the first process.

  Args:
    made: of `run`; gets `profile`: operation -> part of the time.
    task: ours.
    count: operations that are named.
    workdir: keeps the trace.
  """
  if not hosts.is_first():
    task.round()
    return
  made['profile'] = profile.busiest(task.round, workdir / profile.FOLDER, count)
  if not made['profile']:
    made['notes']['profile'] = 'the profiler saw no operation'


def _timed(task: task_lib.Task) -> dict[str, float]:
  began, cpu = time.monotonic(), time.process_time()
  measured = task.round()
  return {**measured, 'round, s': time.monotonic() - began,
          'CPU time, s': time.process_time() - cpu}


def _timed_peer(peer: peer_lib.Peer) -> dict[str, Any]:
  began = time.monotonic()
  told = peer.round()
  return {'round, s': time.monotonic() - began,
          'CPU time, s': told['cpu_seconds'],
          'losses': told.get('losses', [])}


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
