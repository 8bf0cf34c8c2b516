"""Each kind of bad input, through the command: its message and exit status."""

import contextlib
import io
import os
import subprocess
import sys

import pytest

from tests import processes, tiny

CONFIG = '''
import pathlib
from tests import tiny
def get_config(arg=None):
  return tiny.make_config(pathlib.Path({root!r}))
'''


@pytest.fixture(scope='module')
def root(tmp_path_factory):
  root = tmp_path_factory.mktemp('errors')
  tiny.make_config(root)
  (root / 'config.py').write_text(CONFIG.format(root=str(root)))
  return root


def run(root, *flags, workdir=None):
  """The message of a command that must fail without a traceback."""
  result = processes.run(processes.command(
      f'--config={root / "config.py"}',
      f'--workdir={workdir or root / "work"}', *flags,
  ))
  assert result.returncode == 2, result.stdout + result.stderr
  assert 'Traceback' not in result.stderr
  return result.stderr


@pytest.mark.parametrize('flags, message', [
    (['--config.data.source=beir:nowhere'], 'corpus.jsonl'),
    (['--config.data.source=bear:data'], 'unknown scheme "bear"'),
    (['--config.optim.learning_rat=1'], 'learning_rat'),
    (['--config.optim.learning_rate=-1'],
     'config.optim.learning_rate=-1.0: must be above 0'),
    (['--config.optim.learning_rate=fast'], 'learning_rate'),
    (['--config.data.batch_size=9'],
     'config.data.batch_size=9: must be a multiple of data.groups=8'),
    (['--config.data.groups=2', '--config.mesh.data=8'],
     'config.data.groups=2: must be a multiple of the 8 devices'),
    (['--config.mesh.model=3'], 'does not fit 8 devices'),
    (['--config.model.init=nowhere/at/all'], 'no such model folder'),
    (['--config.data.train_split=dev'], 'has no such split, but test'),
    (['--config.data.tune_split=train', '--config.data.test_split=train'],
     'is also data.test_split'),
    (['--config.data.tune_split=train', '--config.evaluation.eval_steps=2'],
     'is also the train_split'),
    (['--workdir=az://bucket/place'], 'those of gs:// and s3:// are read and'),
    (['--workdir=hf://datasets/a/b'],
     '--workdir=hf://datasets/a/b: hf:// is read only; name a place on a disk'),
    (['--config.data.source=beir:az://bucket/place'],
     'those of gs:// and s3:// are read and written, hf:// is read'),
    (['--config.negatives.sources=bm25'], 'must be NAME:N, or NAME'),
    (['--no_such_flag'], 'no_such_flag'),
    (['--config.job=find'], 'must be one of train, evaluate, search, export'),
    (['--config.job=search'], 'config.checkpoint'),
    (['--config.job=search', '--config.checkpoint=nowhere/at/all'],
     'no such model folder'),
    (['--config.index.kind=fast'], 'must be one of auto, exact, approx, scann'),
    (['--config.index.target_recall=95'], 'lies between 0 and 1'),
    (['--config.job=split', '--config.data.passage_tokens=9'],
     'config.checkpoint'),
    (['--config.job=split', '--config.data.passage_words=0'],
     'must be at least 1'),
    (['--config.job=split', '--config.data.source=text:nowhere'],
     'text:nowhere: no such folder'),
])
def test_message(root, flags, message):
  assert message in run(root, *flags)


def test_unwritable_workdir(root):
  assert 'not a folder that can be written to' in run(
      root, workdir=root / 'config.py' / 'below')


def test_tokenizer_of_another_vocabulary(root, tmp_path):
  tiny.write_model(tmp_path, words=[f'x{i}' for i in range(99)])
  # write_model keeps 65 embeddings, so 104 tokens are too many.
  message = run(root, f'--config.model.init={tmp_path}')
  assert 'the tokenizer belongs to another model' in message


def test_checkpoint_of_another_shape(root, tmp_path):
  from neg_contrast.artifacts import plan
  from neg_contrast.jobs import train
  from neg_contrast.models import descriptions
  from neg_contrast.settings import config as config_lib

  work = tmp_path / 'work'
  work.mkdir()
  config = tiny.make_config(root, optim__steps=1, evaluation__bm25=False)
  job = train.TrainJob(config_lib.parse(config), work)
  with contextlib.redirect_stdout(io.StringIO()):
    plan.run(job.targets())
    job.finish()
  path = work / 'encoder.json'
  saved = descriptions.read(path)
  saved['encoder']['bert']['intermediate_size'] = 32
  descriptions.write(path, saved)
  message = run(root, '--config.job=evaluate', f'--config.checkpoint={work}')
  assert 'the checkpoint does not fit the model' in message
  assert 'is float32[2, 24] there and float32[2, 32] here' in message


def test_plan_marks_what_is_missing(root):
  result = processes.run(processes.command(
      '--config=configs/msmarco_stage2.py', '--plan'))
  assert result.returncode == 2, result.stderr
  assert 'MISSING' in result.stdout and 'msmarco.zip' in result.stdout
  assert 'registry' not in result.stderr  # Of Orbax, which we mean to override.


@pytest.mark.parametrize('reader, status, said', [
    ('full', 2, 'error: standard output: No space left on device\n'),
    ('gone', 1, '')])  # As in `| head`.
def test_an_output_that_takes_nothing(root, reader, status, said):
  if reader == 'full':
    out = os.open('/dev/full', os.O_WRONLY)
  else:
    kept, out = os.pipe()
    os.close(kept)
  try:
    result = subprocess.run([
        sys.executable, '-m', 'neg_contrast.main', '--plan',
        f'--config={root / "config.py"}', f'--workdir={root / "work"}',
    ], cwd=processes.ROOT, stdout=out, stderr=subprocess.PIPE, text=True,
        check=False)
  finally:
    os.close(out)
  assert (result.returncode, result.stderr) == (status, said)


def test_a_python_without_the_packages(root):
  del root
  result = subprocess.run([
      sys.executable, '-S', '-m', 'neg_contrast.main', '--plan',
  ], env={'PATH': os.environ['PATH']}, cwd=processes.ROOT,
      capture_output=True, text=True, check=False)
  assert result.returncode == 2 and not result.stdout
  assert result.stderr.startswith('error: ') and 'no module absl' in (
      result.stderr)
  assert result.stderr.count('\n') == 1


def test_a_config_file_that_computes_with_jax(tmp_path):
  path = tmp_path / 'mine.py'
  path.write_text(
      'import jax.numpy as jnp\n'
      'from neg_contrast.settings import config\n\n'
      'def get_config():\n'
      '  made = config.base_config()\n'
      '  made.optim.learning_rate = float(jnp.sqrt(1e-8))\n'
      '  return made\n')
  result = processes.run(processes.command(f'--config={path}', '--plan'))
  assert result.returncode == 2 and 'Traceback' not in result.stderr
  assert 'error: JAX has computed something' in result.stderr
  assert 'numpy or math' in result.stderr


@pytest.mark.parametrize('flags', [[], ['--config.seed=1']])
@pytest.mark.parametrize('returned', ['dict(seed=1)', 'None'])
def test_a_config_file_that_returns_none(tmp_path, returned, flags):
  path = tmp_path / 'mine.py'
  path.write_text(f'def get_config():\n  return {returned}\n')
  result = processes.run(processes.command(f'--config={path}', *flags))
  assert result.returncode == 2 and 'Traceback' not in result.stderr
  assert f'error: {path}: get_config must return the config' in result.stderr


@pytest.mark.parametrize('asked', [
    {'JAX_PLATFORMS': 'cuda'},
    {'JAX_PLATFORMS': 'cpu', 'JAX_PLATFORM_NAME': 'cuda'}])
def test_platforms_without_devices_are_told(root, asked):
  result = subprocess.run([  # JAX reads its environment when it is imported.
      sys.executable, '-m', 'neg_contrast.main',
      f'--config={root / "config.py"}', f'--workdir={root / "work"}',
  ], env={**os.environ, **asked}, cwd=processes.ROOT,
      capture_output=True, text=True, check=False)
  assert result.returncode == 2 and 'Traceback' not in result.stderr
  assert '=cuda: there is no such device' in result.stderr
  assert result.stderr.startswith('error: JAX_PLATFORMS=')
