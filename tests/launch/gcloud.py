"""A stand-in for gcloud: notes its calls, and hosts are folders.

`FAKE` is a folder: `states.json` holds what the queue will say, a state a
question (the last one stays); `calls.jsonl` gets the calls; `host-N` are the
home folders of the hosts, `HOSTS` of them. SUSPENDED takes the hosts away.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

_FAKE = pathlib.Path(os.environ['FAKE'])
_HOSTS = [_FAKE / f'host-{n}' for n in range(int(os.environ['HOSTS']))]


def _next_state() -> str:
  path = _FAKE / 'states.json'
  state, *rest = json.loads(path.read_text())
  path.write_text(json.dumps(rest or [state]))
  return state


def _take_away() -> None:
  for group in _FAKE.glob('host-*/neg_contrast_runs/*/group'):
    os.killpg(int(group.read_text()), signal.SIGKILL)
  for host in _HOSTS:
    shutil.rmtree(host)


def main() -> int:
  words, flags = [], {}
  for word in sys.argv[1:]:
    if word.startswith('--'):
      name, _, flags[name] = word.partition('=')
    else:
      words.append(word)
  with open(_FAKE / 'calls.jsonl', 'a') as f:
    f.write(json.dumps(sys.argv[1:]) + '\n')
  match words[2:4]:
    case 'queued-resources', 'describe':
      state = _next_state()
      if state == 'SUSPENDED':
        _take_away()
      print(state)
      return state == 'NONE'
    case 'tpu-vm', 'describe':
      print('READY')
    case 'tpu-vm', 'scp':
      for host in _HOSTS:
        host.mkdir(exist_ok=True)
        shutil.copy(words[4], host / words[5].partition(':')[2])
    case 'tpu-vm', 'ssh':
      which = flags['--worker']
      hosts = _HOSTS if which == 'all' else [_HOSTS[int(which)]]
      for host in hosts:
        host.mkdir(exist_ok=True)
      print('a line of its own')
      return max(subprocess.run(
          ['bash', '-c', flags['--command']], cwd=host,
          env={**os.environ, 'HOME': str(host)}, check=False,
      ).returncode for host in hosts)
  return 0


if __name__ == '__main__':
  sys.exit(main())
