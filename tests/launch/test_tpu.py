"""launch/tpu/tpu.sh against a stand-in for gcloud, whose hosts are folders."""

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).parents[2]
SCRIPT = 'launch/tpu/tpu.sh'
FLAGS = ['--config=configs/nq_stage2.py:stage1=none', '--config.query='
         'it\'s "$HOME" (a  b) `ls` & | \\ * ; {x,y}\n~ #ü', '--config.seed=']
BUCKET = 'gs://bucket/nc'
WATCH = ['--type=v4-16', '--spot', '--poll=0.1', f'--bucket={BUCKET}']
WATCH_ONE = ['--type=v4-8', *WATCH[1:]]

# In place of the Python of a host: notes what neg_contrast.main would get, and
# ends as EXITS says; it lasts if there is a file `stay`. Its checkpoint is a
# file below --root in the bucket, which outlives the hosts.
PYTHON = '''#!/usr/bin/env bash
case "$1 $2" in
  '-m pip' | -c*) exit ;;
  '-m uv') mkdir -p .venv/bin; exec cp "$0" .venv/bin/python ;;
esac
echo "$JAX_COORDINATOR_ADDRESS" >> "$FAKE/coordinators"
line=''  # As json; Python would start too late on a busy machine.
for word in "$PWD" "$@"; do
  word=${word//\\\\/\\\\\\\\}
  word=${word//$'\\n'/\\\\n}
  line+=", \\"${word//\\"/\\\\\\"}\\""
done
echo "[${line#, }]" >> "$FAKE/runs.jsonl"
echo "log of $HOME"
for flag in "$@"; do
  case $flag in --root=gs://*) root=$FAKE/${flag#--root=gs://} ;; esac
done
mkdir -p "$root"
echo "begins at $(cat "$root/steps-${HOME##*/}" 2> /dev/null || echo 0)"
echo 7 > "$root/steps-${HOME##*/}"
[ ! -e "$FAKE/stay" ] || exec sleep 60
exit "$EXITS"
'''

# In place of curl: the metadata of a host, in the older of its two forms.
CURL = '''#!/usr/bin/env bash
case "$*" in
  *'Metadata-Flavor: Google'*/instance/attributes/worker-network-endpoints)
    echo 'unknown:unknown:10.0.0.7,unknown:unknown:10.0.0.8' ;;
  *) exit 22 ;;
esac
'''


@pytest.fixture
def fake(tmp_path, monkeypatch):
  """The folder of the stand-in; the scripts lie in its `code`, committed."""
  code, programs = tmp_path / 'code', tmp_path / 'bin'
  (code / 'launch' / 'tpu').mkdir(parents=True)
  for name in ('requirements.txt', 'launch/requirements-gcs.txt',
               'launch/tpu/requirements-tpu.txt',
               'launch/setup.sh', 'launch/commands.sh', 'launch/tpu/tpu.sh',
               'launch/tpu/worker.sh'):
    shutil.copy(ROOT / name, code / name)
  for command in (['init', '--quiet'], ['add', '.'],
                  ['-c', 'user.name=a', '-c', 'user.email=a@b', 'commit',
                   '--quiet', '--message=all']):
    subprocess.run(['git', *command], cwd=code, check=True)
  programs.mkdir()
  for name, text in (
      ('gcloud', f'#!/bin/sh\nexec {sys.executable} '
                 f'{ROOT / "tests/launch/gcloud.py"} "$@"\n'),
      ('python3', PYTHON), ('curl', CURL),
  ):
    (programs / name).write_text(text)
    (programs / name).chmod(0o755)
  (tmp_path / 'states.json').write_text('["ACTIVE"]')
  for key, value in (('PATH', f'{programs}:{os.environ["PATH"]}'), ('EXITS', 0),
                     ('FAKE', tmp_path), ('HOSTS', 2)):
    monkeypatch.setenv(key, str(value))
  yield tmp_path
  if list(tmp_path.glob('host-*')):
    tpu(tmp_path, 'stop')


def tpu(fake, verb, *options, flags=()):
  command = ['bash', SCRIPT, verb, '--name=nc', '--zone=z', *options]
  return subprocess.run(
      [*command, *(['--', *flags] if flags else [])], cwd=fake / 'code',
      capture_output=True, text=True, timeout=60, check=False,
  )


def lines_of(path):
  return [json.loads(line) for line in path.read_text().splitlines()]


def calls(fake):
  return lines_of(fake / 'calls.jsonl')


def words(call):
  """`create`, `ssh run` and the like."""
  command = next((w for w in call if w.startswith('--command')), '')
  asked = command.rpartition('worker.sh ')[2].split(' ')[0]
  return f'{call[3]} {asked.strip()}'.strip()


@pytest.mark.parametrize('hosts,options', [(2, WATCH), (1, WATCH_ONE)],
                         ids=['two', 'one'])
def test_watch_runs_again_after_a_preemption(
    fake, hosts, options, monkeypatch):
  monkeypatch.setenv('HOSTS', str(hosts))
  (fake / 'states.json').write_text(json.dumps(
      ['NONE', 'WAITING_FOR_RESOURCES', *['ACTIVE'] * 12, 'SUSPENDED',
       'NONE', 'PROVISIONING', 'ACTIVE']))
  (fake / 'stay').touch()
  watching = subprocess.Popen(
      ['bash', SCRIPT, 'watch', '--name=nc', '--zone=z', *options, '--',
       *FLAGS], cwd=fake / 'code', stdout=subprocess.PIPE, text=True)
  said = []
  for line in watching.stdout:
    said.append(line.partition('nc: ')[2].strip())
    if 'SUSPENDED' in line:
      (fake / 'stay').unlink()
  assert watching.wait() == 0
  states = [state for state in said if state and 'READY' not in state]
  assert states == ['NONE', 'WAITING_FOR_RESOURCES', 'SUSPENDED', 'NONE',
                    'PROVISIONING']
  assert said[-1] == 'READY, run: finished'
  assert 'READY, run: running' in said
  done = [words(call) for call in calls(fake)
          if words(call) not in ('describe', 'ssh state')]
  start = ['create', 'scp', 'ssh install', 'ssh run']
  assert done == [*start, 'delete', *start]
  create = next(call for call in calls(fake) if words(call) == 'create')
  kind = options[0].replace('--type', '--accelerator-type')
  assert {'nc', '--node-id=nc', '--zone=z', kind,
          '--runtime-version=tpu-ubuntu2204-base', '--spot'} < set(create)
  # The same command on all hosts, both times, as it was given.
  folders = [str(fake / f'host-{n}' / 'neg_contrast') for n in range(hosts)]
  runs = lines_of(fake / 'runs.jsonl')
  assert sorted(run[0] for run in runs) == sorted(folders * 2)
  assert all(run[1:] == ['-m', 'neg_contrast.main', f'--root={BUCKET}', *FLAGS]
             for run in runs)
  # All are told which host is the first, which listens there and nowhere else.
  assert (fake / 'coordinators').read_text().split() == (
      ['10.0.0.7:8482'] * len(runs))
  # The hosts went, the bucket stayed, and the second run began from there.
  for host in range(hosts):
    log, = (fake / f'host-{host}').glob('neg_contrast_runs/*-*/log')
    assert log.read_text().splitlines()[1] == 'begins at 7'
  head = ['git', 'rev-parse', 'HEAD']
  assert (subprocess.check_output(head, cwd=folders[-1])
          == subprocess.check_output(head, cwd=fake / 'code'))
  # A watch that starts anew knows that there is nothing to do.
  again = tpu(fake, 'watch', *options, flags=FLAGS)
  assert again.stdout.count('\n') == again.stdout.count('run: finished') == 1


def test_watch_ends_when_the_run_fails(fake, monkeypatch):
  monkeypatch.setenv('EXITS', '2')
  result = tpu(fake, 'watch', *WATCH, flags=FLAGS)
  assert result.returncode == 2 and 'the run failed' in result.stderr
  assert f'log of {fake / "host-1"}' in result.stdout
  assert len(lines_of(fake / 'runs.jsonl')) == 2


def test_watch_repeats_what_a_signal_ended(fake, monkeypatch):
  monkeypatch.setenv('EXITS', '134')  # As where another host is lost.
  result = tpu(fake, 'watch', *WATCH, flags=FLAGS)
  assert result.returncode == 2 and 'killed three times' in result.stderr
  assert len(lines_of(fake / 'runs.jsonl')) == 3 * 2


def wait_for_runs(fake, count):
  """Until so many hosts have begun; a busy machine takes its time."""
  began = time.monotonic()
  runs = fake / 'runs.jsonl'
  while not runs.exists() or len(lines_of(runs)) < count:
    assert time.monotonic() - began < 60
    time.sleep(0.1)


def test_one_run_at_a_time(fake):
  (fake / 'stay').touch()
  tpu(fake, 'install')
  assert 'run: none' in tpu(fake, 'state').stdout
  assert tpu(fake, 'run', flags=FLAGS).returncode == 0
  assert 'run: running' in tpu(fake, 'state').stdout
  wait_for_runs(fake, 2)
  again = tpu(fake, 'run', flags=FLAGS)
  assert again.returncode == 1 and 'a run is going on here' in again.stderr
  other = tpu(fake, 'watch', *WATCH, flags=['--config=other.py'])
  assert other.returncode == 2 and 'another run is going on' in other.stderr
  assert tpu(fake, 'stop').returncode == 0
  assert tpu(fake, 'state').stdout.count('run: killed') == 2
  assert len(lines_of(fake / 'runs.jsonl')) == 2


def test_a_revision_that_no_branch_leads_to(fake):
  """A branch of a remote; the hosts get it, and nothing stays behind here."""
  git = lambda *words, folder='code': subprocess.run(
      ['git', '-c', 'user.name=a', '-c', 'user.email=a@b', *words],
      cwd=fake / folder, check=True, capture_output=True, text=True
  ).stdout.strip()
  git('commit', '--quiet', '--allow-empty', '--message=feature')
  feature = git('rev-parse', 'HEAD')
  git('update-ref', 'refs/remotes/origin/feature', 'HEAD')
  git('reset', '--quiet', '--hard', 'HEAD~1')
  refs = git('show-ref')
  result = tpu(fake, 'install', '--revision=origin/feature')
  assert result.returncode == 0, result.stderr
  for host in range(2):
    assert git('rev-parse', 'HEAD', folder=f'host-{host}/neg_contrast') == (
        feature)
  assert git('show-ref') == refs


def test_a_bundle_that_can_not_be_written_leaves_no_ref(fake):
  code = fake / 'code'
  (code / '.git' / 'nc.bundle').mkdir()  # As on a full disk: git fails.
  assert tpu(fake, 'install').returncode == 1
  refs = subprocess.run(['git', 'show-ref'], cwd=code, capture_output=True,
                        text=True, check=True).stdout
  assert 'refs/tpu' not in refs and not (fake / 'calls.jsonl').exists()


def test_commands_in_the_folder_of_the_code(fake):
  tpu(fake, 'install')
  result = tpu(fake, 'ssh', '--worker=1', flags=['bash', '-c', 'pwd; echo "$0"',
                                                 'a  b'])
  assert result.stdout.endswith(f'{fake / "host-1/neg_contrast"}\na  b\n')


@pytest.mark.parametrize('verb', ['create', 'install', 'run', 'state', 'tail',
                                  'stop', 'ssh', 'delete'])
def test_dry_run_prints_what_would_be_run(fake, verb, monkeypatch):
  flags = FLAGS if verb in ('run', 'ssh') else ()
  options = ['--type=v5p-16', f'--bucket={BUCKET}', '--project=p',
             '--service-account=nc@p.iam.gserviceaccount.com']
  # Hosts that do nothing: what is asked of them is what counts here.
  monkeypatch.setenv('PATH', f'{fake / "bin"}:/usr/bin:/bin')
  gcloud = fake / 'bin' / 'gcloud'
  gcloud.write_text(f'''#!{sys.executable}
import json, sys
open({str(fake / "calls.jsonl")!r}, 'a').write(json.dumps(sys.argv[1:]) + '\\n')
''')
  dry = tpu(fake, verb, *options, '--dry-run', flags=flags)
  assert dry.returncode == 0 and not (fake / 'calls.jsonl').exists()
  assert not list((fake / 'code' / '.git').glob('*.bundle'))
  tpu(fake, verb, *options, flags=flags)
  printed = re.split('^(?=gcloud |git |rm )', dry.stdout, flags=re.MULTILINE)
  printed = [shlex.split(command) for command in printed if command]
  assert [['gcloud', *call] for call in calls(fake)] == [
      command for command in printed if command[0] == 'gcloud']
  assert all({'--zone=z', '--project=p'} < set(call) for call in calls(fake))


def test_dry_run_of_watch_shows_all_of_it(fake):
  result = tpu(fake, 'watch', *WATCH, '--dry-run', flags=FLAGS)
  assert result.returncode == 0 and not (fake / 'calls.jsonl').exists()
  for part in ('queued-resources create', 'tpu-vm scp', 'worker.sh install',
               'worker.sh run', 'queued-resources delete nc --force'):
    assert part in result.stdout


def test_commands_of_the_guide(fake):
  guide = (ROOT / 'launch' / 'tpu' / 'README.md').read_text()
  commands = re.findall(f'^ +(?:&& )?bash {SCRIPT} ([a-z]+) (.*)', guide,
                        re.MULTILINE)
  assert {verb for verb, _ in commands} == {
      'watch', 'create', 'install', 'run', 'state', 'tail', 'stop', 'ssh',
      'delete'}
  for verb, rest in commands:
    result = tpu(fake, verb, '--dry-run', *shlex.split(rest))
    assert result.returncode == 0, (verb, rest, result.stderr)
  # What it shows of the first is what that prints.
  printed = tpu(fake, commands[0][0], '--dry-run',
                *shlex.split(commands[0][1])).stdout
  shown = re.findall('^    ((?:gcloud compute tpus|git |rm |#).*)', guide,
                     re.MULTILINE)
  assert len(shown) == 13
  for line in shown:
    begin, _, end = line.partition(' ...')
    assert begin in printed and end in printed


@pytest.mark.parametrize('kind,version', [
    ('v2-8', 'tpu-ubuntu2204-base'), ('v3-32', 'tpu-ubuntu2204-base'),
    ('v4-8', 'tpu-ubuntu2204-base'), ('v5litepod-16', 'v2-alpha-tpuv5-lite'),
    ('v5p-8', 'v2-alpha-tpuv5'), ('v6e-8', 'v2-alpha-tpuv6e')])
def test_runtime_versions(fake, kind, version):
  dry = tpu(fake, 'create', f'--type={kind}', '--dry-run')
  assert f'--runtime-version={version} ' in dry.stdout


@pytest.mark.parametrize('arguments,message', [
    (['create'], '--type is needed'),
    (['create', '--type=tpu9'], '--type=tpu9: does not look like v3-32'),
    (['create', '--type=v3-32/../x'], 'does not look like v3-32'),
    (['create', '--type=tpu7x-16'], 'launch/tpu/gke.sh does'),
    (['watch', '--type=v3-32', '--', 'a'],
     'several hosts, which need --bucket=gs://BUCKET/FOLDER'),
    (['install', '--nfs=10.0.0.2:/nc'], '--nfs=10.0.0.2:/nc: is gone; use '
     '--bucket=gs://BUCKET/FOLDER'),
    (['state', '--spot=1'], 'unknown option --spot=1'),
    (['state', '--zone'], 'unknown option --zone'),
    (['state', '--name zone=x'], 'unknown option --name zone=x'),
    (['run', '--bucket=/mnt/x', '--', 'a'], 'does not look like gs://BUCKET'),
    (['run', '--bucket=gs://bucket/../x', '--', 'a'], '. and .. name no'),
    (['run', '--', '--root=gs://b'], '--root=gs://b: --bucket sets it'),
    (['state', '--name=../../x'], '--name=../../x: does not look like nc-1'),
    (['state', '--name=a\nb'], 'does not look like nc-1'),
    (['state', '--zone=$(id)'], '--zone=$(id): does not look like'),
    (['state', '--project=a b'], '--project=a b: does not look like'),
    (['tail', '--worker=0;id'], '--worker=0;id: does not look like'),
    (['state', '--poll=x'], '--poll=x: does not look like'),
    (['create', '--service-account=me'], '--service-account=me: does not'),
    (['install', '--revision=--all'], '--revision=--all: no such revision'),
    (['start'], 'unknown verb start'),
    (['run'], 'run: needs -- and then flags'),
    (['run', '--config=a.py'], 'unknown option --config=a.py'),
    (['delete', '--', 'x'], 'delete takes no flags'),
    (['install', '--revision=nowhere'], '--revision=nowhere: no such')])
def test_mistakes(fake, arguments, message):
  result = tpu(fake, *arguments)
  assert result.returncode == 2 and message in result.stderr
  assert not (fake / 'calls.jsonl').exists()
