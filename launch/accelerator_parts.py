"""The parts of `launch/accelerator.py`: what each runs, and what it leaves.

Only the standard library: packages may have to be installed first.
"""

import dataclasses
import json
import os
import pathlib
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_LAUNCH = pathlib.Path(__file__).parent
ROOT = _LAUNCH.parent
DEVICE, MACHINE = 'device', 'machine'  # The part that others need, and its row.
PRODUCT, READING = 'bf16 product, TFLOP/s', 'reading, GB/s'
MFU, OF_READING = 'MFU, of the measured peak', 'of the measured reading'
_FLOPS = 'useful TFLOP/s'  # As job=benchmark calls it.
_GIB = 2**30
_GROUPS, _DRY_GROUPS = 32, 8
# GiB that a group of the full batch, 29,000 tokens, takes in training; by the
# TPU compiler, see benchmarks/RESULTS.md, "Training steps compiled for TPU
# slices": with the kernel and no remat, and with XLA's attention and
# remat=attention. Parameters and optimizer take _STATE.
_KERNEL_GROUP, _XLA_GROUP, _STATE = 18.5, 7.0, 3.0
_PART_OF_MEMORY = 0.7

Row = tuple[str, dict[str, Any]]
"""Name of a row, and measure -> value."""


class NotNow(Exception):
  """A part can't run here; the message says why."""


@dataclasses.dataclass(frozen=True)
class Setting:
  """What all parts are told.

  Attributes:
    python: the interpreter.
    workdir: has a folder for each part.
    is_dry: whether shapes are tiny.
    weights: folder of MiniLM, or of its tokenizer; None: the package.
    data: BEIR folder of the study; None: there is none.
    extra: part -> flags that are added to its command.
    machine: what `benchmark_device.py` says; empty before it has run.
    peaks: what it measured.
  """

  python: str
  workdir: pathlib.Path
  is_dry: bool
  weights: pathlib.Path | None
  data: pathlib.Path | None
  extra: Mapping[str, Sequence[str]]
  machine: dict[str, Any] = dataclasses.field(default_factory=dict)
  peaks: dict[str, float] = dataclasses.field(default_factory=dict)

  def folder(self, part: str) -> pathlib.Path:
    """Where a part writes."""
    return self.workdir / part

  def with_device(self, rows: Sequence[Row]) -> 'Setting':
    """The same, with what the rows of the part `device` say."""
    peaks: dict[str, float] = {}
    machine: dict[str, Any] = {}
    for name, measured in rows:
      (machine if name == MACHINE else peaks).update(measured)
    return dataclasses.replace(self, machine=machine, peaks=peaks)


@dataclasses.dataclass(frozen=True)
class Part:
  """Something that is measured in a process of its own.

  Attributes:
    name: of the part.
    seconds: that it may take.
    command: the command; raises `NotNow`.
    rows: what it has left, also when it was stopped.
    shown: measures of the table, in this order; empty: all.
    environment: variables that it needs.
  """

  name: str
  seconds: float
  command: Callable[[Setting], list[str]]
  rows: Callable[[Setting], list[Row]]
  shown: tuple[str, ...] = ()
  environment: Mapping[str, str] = dataclasses.field(default_factory=dict)


def _script(
    part: str, name: str, full: Sequence[str], dry: Sequence[str]
) -> Callable[[Setting], list[str]]:
  """A script of launch/benchmarks."""
  def command(setting: Setting) -> list[str]:
    return [
        setting.python, _path(_LAUNCH / 'benchmarks' / f'{name}.py'),
        *(dry if setting.is_dry else full),
        f'--rows={setting.folder(part) / "rows.jsonl"}',
        *setting.extra.get(part, ()),
    ]

  return command


def _attention(setting: Setting) -> list[str]:
  is_cpu = setting.machine.get('platform') == 'cpu'
  return _script(
      'attention', 'benchmark_attention',
      ['--interpret'] if is_cpu else [],
      ['--rows_at_once=2', '--lengths=64', '--heads=2', '--tokens=20',
       '--rounds=2', '--calls=1', *(['--interpret'] if is_cpu else [])],
  )(setting)


def _job(
    setting: Setting, part: str, config: str, flags: Sequence[str]
) -> list[str]:
  """A job of the package, alone with its machine."""
  folder = setting.folder(part)
  return [
      setting.python, '-m', 'neg_contrast.main', '--processes=1',
      f'--config={_path(ROOT / "configs" / config)}', f'--workdir={folder}',
      f'--config.data.prepared_dir={folder / "prepared"}',
      *flags, *setting.extra.get(part, ()),
  ]


def _texts_of_train(setting: Setting) -> list[str]:
  """Flags that take the texts of the part `train`, if it has made them."""
  folder = setting.folder('train')
  if not (folder / 'corpus' / 'qrels').is_dir():
    return []
  return [f'--config.data.source=beir:{folder / "corpus"}',
          f'--config.data.prepared_dir={folder / "prepared"}',
          '--config.data.train_split=train', '--config.data.tune_split=tune']


def _benchmark(
    setting: Setting, part: str, arg: str, flags: Sequence[str]
) -> list[str]:
  """`configs/benchmark.py:ARG`, of the paper's size or tiny."""
  size = 'bert-tiny' if setting.is_dry else 'bert-base-uncased'
  place = f'@{setting.weights}' if setting.weights else ''
  tiny = [
      *_texts_of_train(setting),
      '--config.benchmark.passages=64', '--config.benchmark.queries=32',
      '--config.benchmark.rounds=1', '--config.benchmark.steps=1',
      '--config.data.batch_size=16', '--config.data.groups='
      f'{max(_DRY_GROUPS, setting.machine.get("devices", 1))}',
      '--config.data.expected_passage_tokens=20', '--config.model.layers=1',
      '--config.model.projection_dim=16',
  ] if setting.is_dry else []
  return _job(setting, part, f'benchmark.py:{arg},size=full', [
      f'--config.model.init=random:{size}{place}', *flags, *tiny,
  ])


def _training(setting: Setting, has_kernel: bool) -> list[str]:
  """Flags of a training that fits the memory of a device."""
  flags = []
  held = max(1, _GROUPS // setting.machine.get('devices', 1))
  usable = _PART_OF_MEMORY * setting.machine.get('memory_bytes', 0) / _GIB
  fits = lambda count, each: _STATE + count * each <= usable
  each = _XLA_GROUP
  if has_kernel:
    flags.append('--config.model.attention_dropout=0')
    if fits(1, _KERNEL_GROUP):
      each = _KERNEL_GROUP
      flags.append('--config.model.remat=none')
  if setting.is_dry or fits(held, each):
    chunk = 0  # All that a device holds.
  elif not usable:
    chunk = -1  # Found by compiling.
  else:
    chunk = max((count for count in range(1, held + 1)
                 if held % count == 0 and fits(count, each)), default=1)
  return [*flags, f'--config.model.chunk_groups={chunk}']


def _train(setting: Setting) -> list[str]:
  return _benchmark(setting, 'train', 'train', [
      '--config.benchmark.passages=40000', '--config.benchmark.queries=8192',
      '--config.benchmark.rounds=3', '--config.benchmark.steps=3',
      *_training(setting, has_kernel=True),
  ])


def _train_dropout(setting: Setting) -> list[str]:
  return _benchmark(setting, 'train_dropout', 'train', [
      *_texts_of_train(setting),
      '--config.benchmark.passages=40000', '--config.benchmark.queries=8192',
      '--config.benchmark.rounds=2', '--config.benchmark.steps=2',
      *_training(setting, has_kernel=False),
  ])


def _peer(setting: Setting) -> list[str]:
  if not setting.machine:
    raise NotNow('what is installed is not known: the part device failed')
  if setting.machine['platform'] not in ('cpu', 'gpu'):
    raise NotNow(f'no peer runs on {setting.machine["platform"]}')
  if not setting.machine['peers']:
    raise NotNow('not installed: sentence-transformers or transformers, with '
                 'torch')
  is_large = setting.machine['memory_bytes'] >= 64 * _GIB
  library = setting.machine['peers'][0]
  return _benchmark(setting, 'peer', f'train,versus={library}', [
      *(['--config.data.source='] if setting.is_dry else []),
      '--config.benchmark.rounds=2', '--config.benchmark.steps=1',
      f'--config.benchmark.mini_batch={128 if is_large else 32}',
      *_training(setting, has_kernel=True),
  ])


def _encode(setting: Setting) -> list[str]:
  return _benchmark(
      setting, 'encode', 'encode', ['--config.benchmark.rounds=3']
  )


def _study(setting: Setting) -> list[str]:
  if setting.data is None:
    raise NotNow('--data=DIR is not given')
  splits = [path.stem for path in (setting.data / 'qrels').glob('*.tsv')]
  named = [pair for pair in (('split-train', 'split-dev'), ('train', 'test'),
                             ('train', 'dev')) if {*pair} <= {*splits}]
  if not named:
    raise NotNow(f'{setting.data / "qrels"}: no train.tsv and test.tsv')
  train, test = named[0]
  flags = [
      f'--config.negatives.mined_dir={setting.folder("study") / "mined"}',
      f'--config.data.source=beir:{setting.data}',
      f'--config.data.train_split={train}', f'--config.data.test_split={test}',
  ]
  if setting.is_dry:
    place = f'@{setting.weights}' if setting.weights else ''
    flags += [
        f'--config.model.init=random:bert-tiny{place}',
        '--config.model.layers=1', '--config.optim.steps=1',
        '--config.data.tune_fraction=0.5',
        '--config.optim.warmup_steps=0',
        '--config.cells.strategies.warm_start.optim.steps=1',
        '--config.study.seeds=(0,)', "--config.study.rows=('warm_start',)",
        '--config.data.batch_size=4', '--config.compare.baseline=warm_start',
    ]
  elif setting.weights:
    flags.append(f'--config.model.init={setting.weights}')
  return _job(setting, 'study', 'study_negatives.py:size=whole', flags)


def _rows_of_script(part: str) -> Callable[[Setting], list[Row]]:
  def rows(setting: Setting) -> list[Row]:
    file = setting.folder(part) / 'rows.jsonl'
    lines = file.read_text('utf-8').splitlines() if file.exists() else []
    read = [json.loads(line) for line in lines]
    return [(one['row'], one['measured']) for one in read]

  return rows


def _rows_of_search(setting: Setting) -> list[Row]:
  """With the part of the measured bandwidth."""
  read = _rows_of_script('search')(setting)
  peak = setting.peaks.get(READING, 0) * setting.machine.get('devices', 1)
  for _, measured in read:
    if peak and 'table, GB/s' in measured:
      measured[OF_READING] = measured['table, GB/s'] / peak
  return read


def _rows_of_benchmark(part: str) -> Callable[[Setting], list[Row]]:
  """Medians of a `job=benchmark`, with MFU of the measured peak."""
  def rows(setting: Setting) -> list[Row]:
    file = setting.folder(part) / 'manifest.json'
    if not file.exists():
      return []
    made = json.loads(file.read_text('utf-8'))['measured']
    measured: dict[str, Any] = {
        name: statistics.median(values) for name, values in made['rows'].items()
    }
    peak = setting.peaks.get(PRODUCT, 0) * setting.machine.get('devices', 1)
    if peak and _FLOPS in measured:
      measured[MFU] = measured[_FLOPS] / peak
    return [('', measured | made['notes'])]

  return rows


def _rows_of_study(setting: Setting) -> list[Row]:
  """The rows of its tables; of an unfinished one, the runs that have ended."""
  folder = setting.folder('study')
  file = folder / 'comparison.json'
  if file.exists():
    made = json.loads(file.read_text('utf-8'))['comparisons']
    return [
        (name, {metric: values['mean']
                for metric, values in row['metrics'].items()})
        for table in made for name, row in table['rows'].items()
    ]
  ended = sorted(folder.glob('**/evaluation/*-trained/manifest.json'))
  return [
      (str(path.parents[2].relative_to(folder)),
       json.loads(path.read_text('utf-8'))['metrics']) for path in ended
  ]


def _path(path: pathlib.Path) -> str:
  return os.path.relpath(path)


PERCENT = {MFU, OF_READING, 'padding', 'host wait', 'same'}
"""Measures that are parts of 1."""

_TRAINED = ('queries/s', 'passages/s', _FLOPS, MFU, 'padding', 'host wait')
_MEMORY = ('peak memory of a device, MiB', 'peak memory of the process, MiB')

PARTS = {part.name: part for part in (
    Part(DEVICE, 60, _script(
        DEVICE, 'benchmark_device', [],
        ['--size=256', '--mib=4', '--products=2', '--rounds=2'],
    ), _rows_of_script(DEVICE)),
    Part('attention', 75, _attention, _rows_of_script('attention')),
    Part('train', 180, _train, _rows_of_benchmark('train'),
         (*_TRAINED, *_MEMORY)),
    Part('search', 90, _script(
        'search', 'benchmark_device_search', [],
        ['--passages=2000', '--features=16', '--queries', '1', '40',
         '--depth=10', '--rounds=2'],
    ), _rows_of_search),
    Part('encode', 90, _encode, _rows_of_benchmark('encode'),
         (*_TRAINED, *_MEMORY)),
    Part('peer', 180, _peer, _rows_of_benchmark('peer'), (
        'queries/s', MFU, 'round, s', 'round of sentence-transformers, s',
        'times as fast as sentence-transformers', 'round of transformers, s',
        'times as fast as transformers',
    ), {'XLA_PYTHON_CLIENT_PREALLOCATE': 'false'}),
    Part('train_dropout', 150, _train_dropout,
         _rows_of_benchmark('train_dropout'), (*_TRAINED, *_MEMORY)),
    Part('study', 400, _study, _rows_of_study),
)}
"""By name, in the order that they run in: what matters most comes first."""
