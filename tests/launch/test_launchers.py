"""launch/tpu/gke.sh, launch/sky.sh and their files, against stand-ins."""

import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

import pytest
import yaml

ROOT = pathlib.Path(__file__).parents[2]
FLAGS = ['--config=configs/nq_stage2.py:stage1=none',
         '--config.query=it\'s "$HOME" (a  b) `ls` & | \\ * ; {x,y}~ #ü',
         '--config.seed=']
BUCKET = 'gs://bucket/nc'
IMAGE = '--image=europe-docker.pkg.dev/p/images/nc'
GKE = ['--cluster=c', '--zone=us-central1-c', '--project=p']
SCRIPTS = {'gke': 'launch/tpu/gke.sh', 'sky': 'launch/sky.sh'}
VERBS = [
    ('gke', ['cluster', *GKE, '--type=tpu7x-16', '--spot'], ()),
    ('gke', ['cluster', *GKE, '--type=v6e-16', '--reservation=r/x'], ()),
    ('gke', ['image', IMAGE], ()),
    ('gke', ['run', *GKE, '--type=tpu7x-2x2x2', IMAGE, '--name=nc',
             f'--bucket={BUCKET}'], FLAGS),
    ('gke', ['wait', *GKE, '--name=nc'], ()),
    ('gke', ['state', *GKE], ()),
    ('gke', ['log', *GKE, '--name=nc'], ()),
    ('gke', ['stop', *GKE, '--name=nc'], ()),
    ('gke', ['delete', *GKE], ()),
    ('sky', ['run', '--name=nc', f'--bucket={BUCKET}', '--gpu=H100:1',
             '--on-demand'], FLAGS),
    ('sky', ['state'], ()),
    ('sky', ['log', '--name=nc'], ()),
    ('sky', ['stop', '--name=nc'], ()),
]


@pytest.fixture
def calls(tmp_path, monkeypatch):
  """A function that returns what the stand-ins were called with."""
  programs, notes = tmp_path / 'bin', tmp_path / 'calls.jsonl'
  programs.mkdir()
  for name in ('uvx', 'docker', 'gcloud'):
    (programs / name).write_text(f'''#!{sys.executable}
import json, sys
if {name!r} == 'docker' and sys.argv[-1] == '-':
  sys.stdin.buffer.read()
with open({str(notes)!r}, 'a') as f:
  f.write(json.dumps([{name!r}, *sys.argv[1:]]) + '\\n')
''')
    (programs / name).chmod(0o755)
  monkeypatch.setenv('PATH', f'{programs}:{os.environ["PATH"]}')
  return lambda: ([json.loads(line) for line in notes.read_text().splitlines()]
                  if notes.exists() else [])


def launch(script, *arguments, flags=()):
  return subprocess.run(
      ['bash', SCRIPTS[script], *arguments, *(['--', *flags] if flags else [])],
      cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize('script,arguments,flags', VERBS)
def test_dry_run_prints_what_would_be_run(script, arguments, flags, calls):
  dry = launch(script, *arguments, '--dry-run', flags=flags)
  assert dry.returncode == 0 and not calls(), dry.stderr
  assert launch(script, *arguments, flags=flags).returncode == 0
  printed = [line.rpartition(' | ')[2] if line.startswith('git ') else line
             for line in dry.stdout.splitlines()]
  assert calls() and [shlex.split(line) for line in printed] == calls()


def test_a_pod_runs_the_flags_as_they_were_given(calls, tmp_path, monkeypatch):
  # A test that compiled for a slice may have set it in this process.
  monkeypatch.delenv('TPU_WORKER_HOSTNAMES', raising=False)
  launch('gke', *VERBS[3][1], flags=FLAGS)
  (call,) = calls()
  assert call[:4] == ['uvx', 'xpk@1.16.0', 'workload', 'create']
  assert '--max-restarts=50' in call  # Kubernetes begins again by itself.
  command = next(word for word in call if word.startswith('--command='))
  for names, address in (('nc-0.nc,nc-1.nc', 'nc-0.nc:8482'), (None, None)):
    # JAX would find the first host too, and listen at all its addresses.
    given = {'TPU_WORKER_HOSTNAMES': names} if names else {}
    assert got(command.partition('=')[2], tmp_path, given) == [
        '-m', 'neg_contrast.main', f'--root={BUCKET}', *FLAGS]
    assert json.loads((tmp_path / 'coordinator').read_text()) == address


def test_a_machine_of_skypilot_runs_the_flags_as_they_were_given(
    calls, tmp_path):
  launch('sky', *VERBS[9][1], flags=FLAGS)
  (call,) = calls()
  given = dict(word.removeprefix('--env=').split('=', 1) for word in call
               if word.startswith('--env='))
  task = yaml.safe_load((ROOT / 'launch/gpu.yaml').read_text())
  assert set(given) == set(task['envs'])
  assert got(task['run'], tmp_path, given) == [
      '-m', 'neg_contrast.main', f'--root={BUCKET}', *FLAGS]


def got(command, folder, environment=None):
  """Arguments that a command gives to Python, in a shell."""
  python = folder / '.venv' / 'bin' / 'python'
  python.parent.mkdir(parents=True, exist_ok=True)
  python.write_text(f'''#!{sys.executable}
import json, os, pathlib, sys
pathlib.Path('coordinator').write_text(
    json.dumps(os.environ.get('JAX_COORDINATOR_ADDRESS')))
print(json.dumps(sys.argv[1:]))
''')
  python.chmod(0o755)
  path = f'{python.parent}:{os.environ["PATH"]}'
  return json.loads(subprocess.check_output(
      ['bash', '-c', command], cwd=folder,
      env={**os.environ, **(environment or {}), 'PATH': path}))


def test_skypilot_asks_for_one_gpu_and_installs_our_lists():
  task = yaml.safe_load((ROOT / 'launch/gpu.yaml').read_text())
  assert set(task) <= {'name', 'workdir', 'resources', 'envs', 'setup', 'run'}
  assert all(re.fullmatch('[A-Z0-9a-z-]+:1', f'{name}:{count}') for name, count
             in (gpu.split(':') for gpu in task['resources']['accelerators']))
  installs = re.search('^install (.*)$', task['setup'], re.MULTILINE)[1]
  assert all((ROOT / name).is_file() for name in installs.split())


def test_dockerfile_builds_from_the_projects_lists():
  text = (ROOT / 'launch' / 'Dockerfile').read_text()
  lists = dict(line.split()[1:] for line in text.splitlines()
               if line.startswith('COPY ') and line != 'COPY . .'
               and '--from' not in line)
  assert all((ROOT / name).is_file() for name in lists)
  assert {'requirements.txt', 'lists/gcs.txt', 'lists/tpu.txt',
          'lists/cuda.txt'} == set(lists.values())
  python = re.search(r'^FROM python:(3\.\d+)', text, re.MULTILINE)[1]
  assert f'>={python}' in (ROOT / 'pyproject.toml').read_text()
  stages = re.findall(r'^FROM (\S+)(?: AS (\w+))?$', text, re.MULTILINE)
  assert stages[-1] == ('code', '') and ('code', 'beam') in stages
  # Beam's own part is of the version that is installed.
  assert f'apache/beam_python{python}_sdk:$BEAM' in dict(stages)
  version = re.search(r'^ARG BEAM=(\S+)$', text, re.MULTILINE)[1]
  assert f'apache-beam>={version[:4]},' in (
      ROOT / 'launch/requirements-beam.txt').read_text()


@pytest.mark.parametrize('script,arguments,message', [
    ('gke', ['state', '--cluster=../../x', '--zone=z'], '--cluster=../..'),
    ('gke', ['state', '--cluster=c', '--zone=-z'], '--zone=-z: does'),
    ('gke', ['stop', *GKE, '--name=../../x'], '--name=../../x: does not look'),
    ('gke', ['stop', *GKE], '--name=: does not look like'),
    ('gke', ['cluster', *GKE], '--type=: does not look like tpu7x-8'),
    ('gke', ['cluster', *GKE, '--type=v3-8'], '--type=v3-8: does not look'),
    ('gke', ['image', '--image=../../x'], '.. names no image'),
    ('gke', ['image', IMAGE, '--revision=nowhere'], 'no such revision'),
    ('gke', ['run', *GKE, '--type=tpu7x-8', IMAGE, '--name=nc', '--', 'a'],
     'run: needs --bucket'),
    ('gke', ['run', *GKE, '--type=tpu7x-8', IMAGE, '--name=nc',
             '--bucket=gs://b..b/x', '--', 'a\nb'], 'holds a line break'),
    ('gke', ['run', *GKE, '--type=tpu7x-8', IMAGE, '--name=nc'], 'needs --'),
    ('gke', ['state', *GKE, '--', 'a'], 'state takes no flags'),
    ('gke', ['start'], 'unknown verb start'),
    ('gke', ['state', '--zome=z'], 'unknown option --zome=z'),
    ('sky', ['run', '--name=../../x', '--', 'a'], '--name=../../x: does not'),
    ('sky', ['run', '--name=nc', '--', 'a'], 'run: needs --bucket'),
    ('sky', ['run', '--name=nc', '--bucket=s3://b', '--', 'a'], 'gs://BUCKET'),
    ('sky', ['run', '--name=nc', f'--bucket={BUCKET}', '--gpu=H100:8', '--',
             'a'], '--gpu=H100:8: does not look like H100:1'),
    ('sky', ['start'], 'unknown verb start')])
def test_mistakes(script, arguments, message, calls):
  result = launch(script, *arguments)
  assert result.returncode == 2 and message in result.stderr
  assert not calls()


@pytest.mark.parametrize('script', SCRIPTS)
def test_commands_of_the_guides(script, calls):
  """Every command of the documents is one that the script takes."""
  verbs = set()
  for guide in ('launch/README.md', 'launch/tpu/README.md'):
    for verb, rest in re.findall(
        f'^ +(?:&& )?bash {SCRIPTS[script]} ([a-z]+)(.*)',
        (ROOT / guide).read_text(), re.MULTILINE):
      result = launch(script, verb, '--dry-run', *shlex.split(rest))
      assert result.returncode == 0, (verb, rest, result.stderr)
      verbs.add(verb)
  assert verbs == {arguments[0] for name, arguments, _ in VERBS
                   if name == script}


def test_shell_scripts_are_clean():
  shellcheck = pathlib.Path(sys.executable).parent / 'shellcheck'
  if not shellcheck.exists():
    pytest.skip('shellcheck is not installed (tests/requirements.txt)')
  scripts = [*ROOT.glob('launch/*.sh'), *ROOT.glob('launch/tpu/*.sh')]
  assert len(scripts) >= 8
  subprocess.run([shellcheck, '--external-sources', *scripts], cwd=ROOT,
                 check=True)
