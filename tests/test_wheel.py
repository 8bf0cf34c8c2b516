"""A wheel holds all that the command needs, and runs without the checkout."""

import configparser
import email
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

import pytest

ROOT = pathlib.Path(__file__).parents[1]


@pytest.fixture(scope='module')
def wheel(tmp_path_factory):
  """Built from a copy: setuptools writes into the folder that it builds."""
  source = tmp_path_factory.mktemp('source') / 'checkout'
  shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(
      '.*', '__pycache__', 'workdirs', 'build', '*.egg-info'))
  out = tmp_path_factory.mktemp('wheel')
  subprocess.run(
      [sys.executable, '-m', 'pip', 'wheel', '--quiet', '--no-deps',
       '--no-build-isolation', '--no-cache-dir', '--disable-pip-version-check',
       f'--wheel-dir={out}', str(source)], check=True)
  file, = out.glob('neg_contrast-*.whl')
  with zipfile.ZipFile(file) as found:
    yield found


@pytest.fixture(scope='module')
def installed(wheel, tmp_path_factory):
  """A folder with the package and, in bin/, the command."""
  folder = tmp_path_factory.mktemp('site')
  subprocess.run(
      [sys.executable, '-m', 'pip', 'install', '--quiet', '--no-deps',
       '--no-index', '--no-compile', '--disable-pip-version-check',
       f'--target={folder}', wheel.filename], check=True)
  return folder


def run(installed, cwd, *flags):
  """The command, where the checkout can't be imported."""
  return subprocess.run(
      [str(installed / 'bin' / 'neg-contrast'), *flags],
      cwd=cwd, env={**os.environ, 'PYTHONPATH': str(installed)},
      capture_output=True, text=True, check=False)


def metadata(wheel, name):
  file, = (one for one in wheel.namelist() if one.endswith(f'/{name}'))
  return wheel.read(file).decode()


def files_below(folder):
  return {str(path.relative_to(folder)) for path in folder.rglob('*')
          if path.suffix in ('.py', '.jinja', '.csv')}


def test_it_holds_the_package_and_the_configs(wheel):
  held = {name for name in wheel.namelist() if '.dist-info/' not in name}
  assert held == {
      *(f'neg_contrast/{name}' for name in files_below(ROOT / 'neg_contrast')),
      *(f'neg_contrast/configs/{name}'
        for name in files_below(ROOT / 'configs')),
  }
  assert 'neg_contrast/configs/nq_stage2.py' in held


def test_its_needs_are_the_lists_of_the_repository(wheel):
  """Names alone: pip orders bounds of versions as it likes."""
  asked = {}
  for line in email.message_from_string(metadata(wheel, 'METADATA')).get_all(
      'Requires-Dist'):
    need, _, extra = line.partition('extra == ')
    name = re.match(r'[\w.-]+(\[\w+\])?', need)
    assert name is not None
    asked.setdefault(extra.strip('"'), []).append(name[0])
  assert asked == {extra: names_in(ROOT / file) for extra, file in {
      '': 'requirements.txt',
      'beam': 'launch/requirements-beam.txt',
      'cuda': 'launch/requirements-cuda.txt',
      'hf': 'launch/requirements-parquet.txt',
      'ir': 'launch/requirements-ir.txt',
      'mteb': 'launch/requirements-mteb.txt',
      'gcs': 'launch/requirements-gcs.txt',
      's3': 'launch/requirements-s3.txt',
      'parquet': 'launch/requirements-parquet.txt',
      'serve': 'launch/requirements-serve.txt',
      'stores': 'launch/requirements-stores.txt',
      'report': 'launch/requirements-report.txt',
      'test': 'tests/requirements.txt',
      'tpu': 'launch/tpu/requirements-tpu.txt',
  }.items()}


def names_in(file):
  return re.findall(r'^([\w.-]+(?:\[\w+\])?)', file.read_text(), re.MULTILINE)


def test_its_command(wheel):
  parsed = configparser.ConfigParser()
  parsed.read_string(metadata(wheel, 'entry_points.txt'))
  assert dict(parsed['console_scripts']) == {
      'neg-contrast': 'neg_contrast.__main__:run'}


@pytest.mark.parametrize('name', [
    'configs/squad_stage2.py', 'squad_stage2'])
def test_a_plan_from_another_folder(installed, tmp_path, name):
  """Its stage 1 is the config of another file, beside it."""
  done = run(installed, tmp_path, f'--config={name}:size=small', '--plan')
  assert done.returncode == 2, done.stderr
  assert 'stage 1: training' in done.stdout
  assert 'checkpoints in workdirs/squad_stage2/checkpoints' in done.stdout
  assert not list(tmp_path.iterdir())


def test_a_plan_ends_with_the_script(installed, tmp_path):
  (tmp_path / 'texts').mkdir()
  (tmp_path / 'texts' / 'a.txt').write_text('some words')
  done = run(installed, tmp_path, '--config=split',
             '--config.data.source=text:texts', '--plan')
  assert done.returncode == 0, done.stderr
  assert done.stdout.endswith(
      '\nRun it:\nneg-contrast --config=split '
      '--config.data.source=text:texts\n')


def test_a_config_that_is_not_there(installed, tmp_path):
  done = run(installed, tmp_path, '--config', 'quikstart')
  assert (done.returncode, done.stderr) == (
      2, 'error: --config=quikstart: no such file; did you mean quickstart or '
      'study_quickstart?\n')


def test_help(installed, tmp_path):
  done = run(installed, tmp_path, '--help')
  assert '--workdir' in done.stdout
