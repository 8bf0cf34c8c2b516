"""launch/accelerator.py: its parts with tiny shapes; what stops, what fails."""

import dataclasses
import importlib
import json
import os
import runpy
import subprocess
import sys
import time
import zipfile
from typing import Any

import numpy as np
import pytest

from neg_contrast.models import pretrained, tensor_files
from neg_contrast.settings import config as config_lib
from tests import processes, tiny

ROOT = processes.ROOT
NAMES = ('device', 'attention', 'train', 'search', 'encode', 'peer',
         'train_dropout', 'study')
PATIENTLY = ('--minutes=60', *(f'--limit={name}=900' for name in NAMES))
"""However busy the machine is."""


@pytest.fixture(scope='module')
def load():
  """Modules of launch/."""
  with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(str(ROOT / 'launch'))
    yield importlib.import_module


def command(*flags):
  """The command as it is typed, on one device of one core."""
  return subprocess.run(
      [sys.executable, 'launch/accelerator.py', *map(str, flags)], cwd=ROOT,
      env={**os.environ, 'NPROC': '1', 'XLA_FLAGS': processes.with_devices(1)},
      capture_output=True, text=True, check=False,
  )


def read(path):
  return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope='module')
def inputs(tmp_path_factory):
  """Folders of a tokenizer and of data."""
  folder = tmp_path_factory.mktemp('accelerator')
  tiny.write_model(folder / 'model')
  tiny.write_beir(folder / 'data', documents=40)
  return folder


def test_the_dry_run(inputs, tmp_path):
  done = command(
      '--dry_run', f'--workdir={tmp_path / "work"}', '--revision=abc',
      *PATIENTLY,
      f'--out={tmp_path / "out" / "rows.jsonl"}',
      f'--weights={inputs / "model"}', f'--data={inputs / "data"}')
  assert done.returncode == 0, done.stderr
  lines = read(tmp_path / 'out' / 'rows.jsonl')
  told = {line['part']: line for line in lines}
  log = (tmp_path / 'out' / 'rows.log').read_text()
  assert tuple(dict.fromkeys(line['part'] for line in lines)) == NAMES
  for line in lines:
    if not (line['part'] == 'peer' and line['status'] == 'skipped'):
      assert (line['status'], line['reason']) == ('measured', ''), log
    assert line['revision'] == 'abc' and line['is_dry_run'] is True
    assert line['machine'].startswith('1 x cpu, ') and line['jax']
    assert len(line['date']) == 10
  peaks = {name: value for line in lines if line['part'] == 'device'
           for name, value in line['measured'].items()}
  assert len(peaks) == 4 and min(peaks.values()) > 0
  for part in ('train', 'train_dropout', 'encode'):
    measured = told[part]['measured']
    assert measured['MFU, of the measured peak'] == pytest.approx(
        measured['useful TFLOP/s'] / peaks['bf16 product, TFLOP/s'])
    assert measured['queries/s'] > 0 and measured['passages/s'] > 0
  attention = {line['row']: line['measured'] for line in lines
               if line['part'] == 'attention'}
  assert len(attention) == 5
  for row, measured in attention.items():
    assert measured['both, ms'] > 0 and measured['memory, MiB'] > 0
    if 'dropout' not in row:
      assert 0 < measured['values'] < 4 and 0 < measured['gradients'] < 4
  few, many, first = (line['measured'] for line in lines
                      if line['part'] == 'search')
  assert few['same'] == many['same'] == 1
  assert few['of the measured reading'] == pytest.approx(
      few['table, GB/s'] / peaks['reading, GB/s'])
  assert first['passages'] == 2000
  if told['peer']['status'] == 'measured':
    assert any(name.startswith('times as fast as ')
               for name in told['peer']['measured'])
  assert told['study']['row'] == 'warm_start'
  assert 0 <= told['study']['measured']['mrr'] <= 1
  table = (tmp_path / 'out' / 'rows.md').read_text()
  assert table in done.stdout + '\n' and 'these numbers mean nothing' in table
  assert sum(line.startswith('| ') for line in table.splitlines()) == (
      1 + len(lines))


def make_wheel(folder, name):
  """A wheel of one module."""
  folder.mkdir(exist_ok=True)
  info = f'{name}-1.2.dist-info'
  with zipfile.ZipFile(folder / f'{name}-1.2-py3-none-any.whl', 'w') as wheel:
    wheel.writestr(f'{name}.py', 'VALUE = 7\n')
    wheel.writestr(f'{info}/METADATA',
                   f'Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n')
    wheel.writestr(f'{info}/WHEEL', 'Wheel-Version: 1.0\nGenerator: test\n'
                   'Root-Is-Purelib: true\nTag: py3-none-any\n')
    wheel.writestr(f'{info}/RECORD', '')


def test_one_that_hangs_and_one_that_fails_leave_the_others(inputs, tmp_path):
  make_wheel(tmp_path / 'wheels', 'carried_for_a_test')
  done = command(
      '--dry_run', f'--workdir={tmp_path / "work"}',
      *PATIENTLY, '--limit=attention=0.2',
      '--parts=attention,search,encode,study',
      '--extra=encode=--config.benchmark.rounds=0',
      f'--wheels={tmp_path / "wheels"}')
  assert done.returncode == 1, done.stderr
  assert 'wheels to install: carried_for_a_test-1.2\n' in done.stdout
  lines = read(tmp_path / 'work' / 'accelerator.jsonl')
  told = {line['part']: line for line in lines}
  assert told['attention']['status'] == 'stopped'
  assert 'killed at its limit of 0.2 s' in told['attention']['reason']
  assert told['attention']['seconds'] < 5
  assert told['encode']['status'] == 'failed'
  assert told['encode']['reason'] == (
      'config.benchmark.rounds=0: must be at least 1')
  assert told['search']['status'] == 'measured'
  assert told['study'] == {**told['study'], 'status': 'skipped',
                           'reason': '--data=DIR is not given'}
  table = (tmp_path / 'work' / 'accelerator.md').read_text()
  assert 'failed: config.benchmark.rounds=0' in table
  python = tmp_path / 'work' / 'venv' / 'bin' / 'python'
  assert f'== search: {python} ' in (
      tmp_path / 'work' / 'accelerator.log').read_text()
  assert subprocess.check_output([python, '-c', (
      'import carried_for_a_test, jax; print(carried_for_a_test.VALUE)'
  )], text=True) == '7\n'


def test_what_a_part_has_started_is_killed_with_it(load, tmp_path):
  accelerator = load('accelerator')
  ended = accelerator.run([sys.executable, '-c', (
      'import subprocess, sys, time\n'
      'child = subprocess.Popen([sys.executable, "-c", '
      '"import time; time.sleep(60)"])\n'
      'print(child.pid, flush=True); time.sleep(60)'
  )], os.environ, tmp_path / 'log', limit=2)
  assert ended.code is None and 2 <= ended.seconds < 20
  child, = ended.output
  deadline = time.monotonic() + 10
  while os.path.exists(f'/proc/{child}/exe') and time.monotonic() < deadline:
    time.sleep(0.01)  # It has no parent left that would wait for it.
  assert not os.path.exists(f'/proc/{child}/exe')


@pytest.mark.parametrize(('output', 'code', 'expected'), [
    (['12:00:00  step 1', 'error: config.x=1: is wrong'], 2,
     'config.x=1: is wrong'),
    (['Traceback (most recent call last):', '  File "a.py", line 1',
      'jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: no memory',
      '', 'For simplicity, JAX has removed its internal frames'], 1,
     'jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: no memory'),
    (['step 1', ''], -9, 'ended by SIGKILL; step 1'),
    ([], 3, 'exit code 3'),
    (['ValueError: ' + 'x' * 1000], 1, 'ValueError: ' + 'x' * 288),
])
def test_reasons_are_a_line(load, output, code, expected):
  accelerator = load('accelerator')
  assert accelerator.reason(accelerator.Ended(code, 1.0, output)) == expected


@pytest.fixture
def setting(load, tmp_path):
  """Makes a setting of a machine."""
  parts = load('accelerator_parts')

  def make(**machine):
    said = {'platform': 'gpu', 'devices': 1, 'memory_bytes': 104 * 2**30,
            'peers': ['sentence-transformers'], **machine}
    return parts.Setting('python', tmp_path, False, None, None, {}, said,
                         {parts.PRODUCT: 700.0})

  return make


@pytest.mark.parametrize(('machine', 'with_kernel', 'without'), [
    ({}, ['remat=none', 'chunk_groups=2'], ['chunk_groups=8']),
    ({'memory_bytes': 29 * 2**30}, ['chunk_groups=2'], ['chunk_groups=2']),
    ({'memory_bytes': 11 * 2**30}, ['chunk_groups=1'], ['chunk_groups=1']),
    ({'devices': 16}, ['remat=none', 'chunk_groups=0'], ['chunk_groups=0']),
    ({'memory_bytes': 0}, ['chunk_groups=-1'], ['chunk_groups=-1']),
])
def test_training_takes_what_fits_the_memory(
    load, setting, machine, with_kernel, without
):
  parts = load('accelerator_parts')
  flags = lambda part: [
      flag.removeprefix('--config.model.')
      for flag in parts.PARTS[part].command(setting(**machine))
      if 'remat' in flag or 'chunk' in flag or 'attention_dropout' in flag]
  assert flags('train') == ['attention_dropout=0', *with_kernel]
  assert flags('train_dropout') == without


@pytest.mark.parametrize(('machine', 'message'), [
    ({'peers': []}, 'not installed: sentence-transformers or transformers'),
    ({'platform': 'tpu'}, 'no peer runs on tpu'),
])
def test_peers_that_are_not_there(load, setting, machine, message):
  parts = load('accelerator_parts')
  with pytest.raises(parts.NotNow, match=message):
    parts.PARTS['peer'].command(setting(**machine))


def test_plain_pytorch_stands_in(load, setting):
  command = load('accelerator_parts').PARTS['peer'].command(
      setting(peers=['transformers']))
  assert any('versus=transformers,size=full' in word for word in command)


@pytest.mark.parametrize('part', [
    'train', 'train_dropout', 'peer', 'encode', 'study'])
@pytest.mark.parametrize('is_dry', [False, True])
def test_flags_are_keys_of_the_config(load, setting, inputs, part, is_dry):
  made = dataclasses.replace(
      setting(), is_dry=is_dry, data=inputs / 'data', weights=inputs / 'model')
  words = load('accelerator_parts').PARTS[part].command(made)
  file, _, arg = next(word for word in words if word.startswith(
      '--config=')).removeprefix('--config=').partition(':')
  known = config_lib.flat(runpy.run_path(file)['get_config'](arg or None))
  flags = [word for word in words if word.startswith('--config.')]
  assert flags
  for flag in flags:
    assert flag.removeprefix('--config.').partition('=')[0] in known, flag


def test_runs_of_a_study_that_was_stopped(load, setting):
  parts, made = load('accelerator_parts'), setting()
  folder = made.folder('study') / 'strategies' / 'bm25-seed1'
  done = folder / 'evaluation' / 'squad-dev-trained' / 'manifest.json'
  done.parent.mkdir(parents=True)
  done.write_text(json.dumps({'metrics': {'accuracy@1': 0.5}}))
  assert parts.PARTS['study'].rows(made) == [
      ('strategies/bm25-seed1', {'accuracy@1': 0.5})]


@pytest.mark.parametrize(('flags', 'message'), [
    (['--parts=train,sleep'], "'sleep' is no part; choose of device"),
    (['--limit=train'], "'train': PART=VALUE is expected"),
    (['--limit=train=long'], "--limit: could not convert"),
    (['--data=nowhere'], '--data=nowhere: no such folder'),
    (['--workdir=launch'], '--workdir=launch: is there already'),
    (['--wheels=launch/tpu', '--workdir=workdirs/unused'],
     '--wheels=launch/tpu: no *.whl in it'),
    (['--write_weights=launch'], '--write_weights=launch: is there already'),
])
def test_mistakes(flags, message, tmp_path):
  if 'workdirs/unused' in ' '.join(flags):
    flags = [flags[0], f'--workdir={tmp_path / "work"}']
  done = command(*flags)
  assert done.returncode == 2
  assert message in done.stderr and 'Traceback' not in done.stderr


def test_a_wheel_that_does_not_fit(load, tmp_path):
  carried = load('carried')
  make_wheel(tmp_path / 'wheels', 'carried_for_a_test')
  next((tmp_path / 'wheels').iterdir()).rename(
      tmp_path / 'wheels' / 'carried_for_a_test-1.2-cp27-cp27m-any.whl')
  with pytest.raises(carried.Refused, match='pip failed: .*not a supported'):
    carried.install(tmp_path / 'wheels', tmp_path / 'venv')


def test_nothing_is_installed_twice(load, tmp_path, capsys):
  make_wheel(tmp_path, 'numpy')  # Its version here suits no requirement.
  carried = load('carried')
  assert carried.install(tmp_path, tmp_path / 'venv') == sys.executable
  assert not (tmp_path / 'venv').exists()
  printed = capsys.readouterr().out
  assert 'wheels to install: none\nhere already: numpy\n' in printed


@pytest.mark.parametrize('layers', [None, 2])
def test_weights_in_half_precision(load, minilm, tmp_path, layers):
  folder = tmp_path / 'half'
  told = load('carried').write_half(folder, layers)
  assert f'{layers or 6} layers in float16' in told
  tensors = tensor_files.read_tensors(folder)
  assert {tensor.dtype.name for tensor in tensors.values()
          if tensor.dtype.kind == 'f'} == {'float16'}
  size = sum(path.stat().st_size for path in folder.rglob('*.*')
             if path.is_file())
  assert size < (33 if layers else 47) * 10**6
  made = pretrained.load_towers(str(folder))['shared']
  assert (made.pooling, made.normalize, made.max_length) == (
      minilm.pooling, minilm.normalize, minilm.max_length)
  whole = pretrained.first_layers(minilm, layers, 'minilm')
  assert made.transformer == whole.transformer
  for place in (('embeddings', 'word', 'embedding'),
                ('layers', 'attention', 'query', 'kernel')):
    ours: Any = made.params
    theirs: Any = whole.params
    for key in place:
      ours, theirs = ours[key], theirs[key]
    assert ours.dtype == np.float32 and ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, rtol=2**-11, atol=2**-24)


def test_more_layers_than_there_are(load, tmp_path):
  carried = load('carried')
  with pytest.raises(carried.Refused, match='--layers=7: must be from 1 to 6'):
    carried.write_half(tmp_path / 'half', 7)
