"""`python -m neg_contrast.main --config=configs/FILE.py [--workdir=DIR]`.

An installed package has the command `neg-contrast` for it, and its own configs.
Prints the plan, does what is not done yet, and ends with the numbers. The same
command goes on where an interrupted one stopped. On several hosts it is started
once on each.
"""

import copy
import errno
import functools
import gc
import logging as standard_logging
import os
import pathlib
import re
import signal
import sys
import threading
from collections.abc import Sequence
from typing import Any

if __name__ == '__main__':
  gc.disable()  # What is imported stays; to look for garbage takes a second.
  if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # While modules are read, Ctrl-C ends it without a word: nothing is begun.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

try:
  from absl import app, flags, logging
  from ml_collections import config_flags
except ModuleNotFoundError as e:  # Another Python than that of the set-up.
  print(f'error: {sys.executable} has no module {e.name}; use the Python that '
        'has the packages of requirements.txt, such as .venv/bin/python '
        '(launch/README.md sets it up)', file=sys.stderr)
  sys.exit(2)

from neg_contrast import beams, cpu, errors, hosts, jobs, terminal
from neg_contrast.artifacts import artifact, leases, places, plan, process_logs
from neg_contrast.benchmarks import outlook
from neg_contrast.jobs.common import (
  compiled,
  next_command,
  recipe_check,
  recipe_settings,
  same_command,
  settings_of_rooms,
  sweeps,
)
from neg_contrast.settings import config as config_lib
from neg_contrast.settings import (
  config_files,
  rooted,
  unknown_keys,
  unread_keys,
)

_PACKAGE = str(pathlib.Path(__file__).parent)
_CONFIG = config_flags.DEFINE_config_file(
    'config', None,
    'Config file or name of one that comes with the package, with an argument '
    'after a colon if it takes one: configs/squad_stage2.py:negatives=random. '
    '--config.KEY=VALUE overrides.',
)
_WORKDIR = flags.DEFINE_string(
    'workdir', None,
    'Where checkpoints, logs and results go (what the config says, or '
    'workdirs/<config name>).',
)
_ROOT = flags.DEFINE_string(
    'root', '', 'A folder or bucket, such as gs://BUCKET/DIR, that takes the '
    'place of `workdirs/` in every path of the config and in --workdir.',
)
_RUNNER = flags.DEFINE_string(
    'runner', beams.LOCAL, 'Who prepares, cuts and tokenizes corpora, counts '
    'their words, writes questions, encodes passages and searches them exactly:'
    ' local (this program), direct (Apache Beam on this machine), or a runner '
    'of Beam, such as DataflowRunner.',
)
_BEAM_OPTIONS = flags.DEFINE_string(
    'beam_options', '', 'Options of Beam, separated by spaces: '
    '"--direct_num_workers=2".',
)
_PLAN = flags.DEFINE_boolean(
    'plan', False, 'Print the plan, with what is missing, and leave.'
)
_CHECK = flags.DEFINE_boolean(
    'check', False, 'Compare the scores of the finished run with those that '
    'are expected of config and flags, and leave: 0 if all are inside their '
    'tolerances. Runs nothing.'
)
_EXPECTED = flags.DEFINE_string(
    'expected', None, 'With --check: the csv file of what is expected. '
    'Default: expected.csv beside the config file.'
)
_SWEEP = flags.DEFINE_string(
    'sweep', None,
    'Run the config once for each combination of values, in one plan, and '
    'compare: "negatives=bm25,fine seed=0,1,2". Axes are arguments of the '
    'config file or keys of the config; ; joins several sweeps.',
)
_COORDINATOR = flags.DEFINE_string(
    'coordinator', None,
    'HOST:PORT of process 0, where several processes run this command and '
    'nothing else says so. TPU slices, SLURM and Open MPI do.',
)
_PROCESSES = flags.DEFINE_integer(
    'processes', None, 'How many processes run this command; 1: this one '
    'alone, whatever the cluster says.', lower_bound=1,
)
_PROCESS = flags.DEFINE_integer(
    'process', None, 'Number of this process, from 0.', lower_bound=0,
)


_COMPILE_ONLY = flags.DEFINE_boolean(
    'compile_only', False,
    'Compile the training step, print what it takes, and leave. Needs no data, '
    'weights or network.',
)
_TOPOLOGY = flags.DEFINE_string(
    'topology', '',
    'With --compile_only: the TPU slice to compile for, such as v3:4x4; needs '
    'the package libtpu, and no TPU. Default: the devices of this machine.',
)


def main(argv: Sequence[str]) -> None:
  """Runs the job of the config."""
  if len(argv) > 1:
    raise errors.UserError(f'unexpected argument {argv[1]!r}: flags start '
                           'with --')
  cpu.keep_memory()
  if _CONFIG.value is None:
    raise errors.UserError('--config=configs/FILE.py is needed; '
                           'configs/quickstart.py runs without any data')
  _log_plainly(sys.stderr if _CHECK.value else sys.stdout)
  path = pathlib.Path(
      config_flags.get_config_filename(flags.FLAGS['config']).partition(':')[0]
  )
  config = config_lib.parse(_source().placed(_CONFIG.value))
  if _COMPILE_ONLY.value:
    if _SWEEP.value is not None:
      raise errors.UserError('--sweep: can\'t be compiled only; leave '
                             '--compile_only or --sweep out')
    jobs.check(config)
    print(_compile_report(config), flush=True)
    return
  hosts.start(_COORDINATOR.value, _PROCESSES.value, _PROCESS.value)
  if not hosts.is_first():  # The first speaks for all, but of their troubles.
    process_logs.quiet_console()
  cpu.check_platforms()
  beams.choose(_RUNNER.value, _BEAM_OPTIONS.value)
  problem = errors.bucket_problem(_WORKDIR.value or '', is_written=True)
  if problem:
    raise errors.UserError(f'--workdir={_WORKDIR.value}: {problem}')
  workdir = places.path(rooted.place(
      _WORKDIR.value or config.workdir or f'workdirs/{path.stem}', _ROOT.value
  ))
  same_command.check(config, {
      flag.name: flag.value for flag in (
          _WORKDIR, _ROOT, _RUNNER, _BEAM_OPTIONS, _SWEEP, _PLAN, _CHECK,
          _EXPECTED)
  })
  if _SWEEP.value is None:
    job = jobs.make_job(config, workdir)
    unread_keys.warn(config, _source().overrides)
  else:
    job = sweeps.make_job(_SWEEP.value, _source(), config, workdir)
  if _CHECK.value:
    sys.exit(0 if hosts.on_first(functools.partial(
        recipe_check.check, job, recipe_settings.Recipe(
            _source(), config, _SWEEP.value or '', workdir, _EXPECTED.value
        )
    )) else 1)
  targets = job.targets()
  if targets:
    hosts.on_first(lambda: print(_coloured(plan.describe(targets)), flush=True))
  if _PLAN.value:
    compiled.keep_none()
    sys.exit(2 if hosts.on_first(functools.partial(
        _must_fail, targets
    )) else 0)
  with leases.program(workdir), process_logs.kept(workdir):
    hosts.on_first(functools.partial(outlook.refuse, targets))
    splits = outlook.Splits(targets)
    plan.run(targets, True, functools.partial(hosts.on_first, splits.check))
    hosts.on_first(job.finish)
  if config.job not in ('search', 'serve') and hosts.is_first():
    print(f'\nAll of it is in {workdir}', flush=True)


def _must_fail(targets: list[artifact.Artifact]) -> bool:
  """Prints what a plan will meet and take; whether it can't be done."""
  if plan.lacks_something(targets):
    return True
  seen = outlook.look(targets)
  if str(seen):
    print(seen, flush=True)
  if not seen.problems:
    print(f'Run it:\n{next_command.without("plan")}', flush=True)
  return bool(seen.problems)


def _source() -> sweeps.Source:
  """Where the configs of a sweep come from."""
  flag = flags.FLAGS['config']
  file, _, argument = config_flags.get_config_filename(flag).partition(':')
  return sweeps.Source(file, argument, config_flags.get_override_values(flag),
                       _ROOT.value, _WORKDIR.value or '')


def _compile_report(config: config_lib.Config) -> str:
  from neg_contrast.training import compile_report

  compile_report.prepare(_TOPOLOGY.value)
  return compile_report.report(
      config.job, settings_of_rooms.training(config), _TOPOLOGY.value
  )


# What a place can't be called.
_NO_NAMES = (errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR)
_STATES = {'[done   ]': terminal.DIM, '[spared ]': terminal.DIM,
           '[MISSING]': terminal.RED}


def _coloured(text: str) -> str:
  """A plan in which states stand out."""
  return re.sub(r'(?m)(?<=\. )(\[.{7}\])', lambda state: terminal.styled(
      state[0], _STATES.get(state[0], terminal.BOLD)
  ), text)


class _Once:
  """Passes each warning once: many parts of a plan may have the same."""

  def __init__(self):
    self._said: set[str] = set()

  def __call__(self, record: standard_logging.LogRecord) -> bool:
    if record.levelno < standard_logging.WARNING:
      return True
    text = record.getMessage()
    is_new = text not in self._said
    self._said.add(text)
    return is_new


class _Lines(standard_logging.Formatter):
  """Time and message, of bounded length; warnings stand out.

  Of a traceback that a library logs, the last line stays.
  """

  def format(self, record: standard_logging.LogRecord) -> str:
    reason = ''
    if record.exc_info and not record.pathname.startswith(_PACKAGE):
      error = record.exc_info[1]
      reason = f': {type(error).__name__}: {error}'
      record = copy.copy(record)
      record.exc_info = record.exc_text = None
    time = self.formatTime(record, '%H:%M:%S')
    text = terminal.clean(terminal.bounded(super().format(record) + reason))
    if record.levelno >= standard_logging.WARNING:
      text = terminal.styled(text, terminal.YELLOW)
    return f'{terminal.styled(time, terminal.DIM)}  {text}'


def _log_plainly(stream: Any) -> None:
  """Time and message."""
  handler = logging.get_absl_handler()
  handler.python_handler.stream = stream
  handler.setFormatter(_Lines('%(message)s'))
  logging.set_verbosity(logging.INFO)
  handler.addFilter(  # Libraries speak up when something is wrong.
      lambda record: record.levelno >= standard_logging.WARNING
      or record.pathname.startswith(_PACKAGE)
  )
  handler.addFilter(  # Of an interruption `_run` says all.
      lambda record: not (record.exc_info and isinstance(
          record.exc_info[1], KeyboardInterrupt))
  )
  handler.addFilter(_Once())


def _with_config_paths(argv: Sequence[str]) -> list[str]:
  """Arguments in which `--config` names a file, found by its name if need be.
  """
  found = list(argv)
  for place, one in enumerate(argv):
    flag, equals, value = one.partition('=')
    if flag not in ('--config', '-config'):
      continue
    if not equals and place + 1 < len(argv):
      place, flag, value = place + 1, '', argv[place + 1]
    name, colon, argument = value.partition(':')
    if equals and not name:
      raise errors.UserError('--config= names no file; configs/quickstart.py '
                             'runs without any data')
    if name:
      try:
        path = config_files.find(name)
      except errors.UserError as e:
        raise errors.UserError(f'--config={e}') from None
      found[place] = f'{flag}{equals}{path}{colon}{argument}'
  return found


def _parse_flags(argv: Sequence[str]) -> list[str]:
  """Flags, with mistakes in them and in the config file told plainly."""
  known = config_lib.flat(config_lib.base_config())
  arguments = _with_config_paths(argv)
  try:
    return flags.FLAGS(arguments)
  except Exception as e:
    _check_config_file(arguments)
    if isinstance(e, flags.Error):
      raise errors.UserError(unknown_keys.say_plainly(str(e), known)) from None
    unknown_keys.check_flags(argv, known)
    cause: Exception = e
    while cause.args and isinstance(cause.args[0], Exception):
      cause = cause.args[0]  # The text of the outer is the repr of this.
    message = cause.args[0] if isinstance(cause, KeyError) else cause
    said = unknown_keys.say_plainly(str(message), known)
    raise errors.UserError(
        said if said != str(message) else f'config: {message}') from None


def _check_config_file(arguments: Sequence[str]) -> None:
  """Refuses a config file that can't be read."""
  for one, following in zip(arguments, [*arguments[1:], ''], strict=True):
    flag, equals, value = one.partition('=')
    if flag in ('--config', '-config'):
      path, colon, argument = (value if equals else following).partition(':')
      if path:
        config_files.check(pathlib.Path(path), argument if colon else None)


def _interrupt_again(unraisable: Any) -> None:
  """Delivers a Ctrl-C that arrived inside a callback, which can't raise it."""
  if isinstance(unraisable.exc_value, KeyboardInterrupt):
    threading.Timer(0.05, signal.pthread_kill, (
        threading.main_thread().ident, signal.SIGINT)).start()
  else:
    sys.__unraisablehook__(unraisable)


def _run() -> None:
  sys.unraisablehook = _interrupt_again
  try:
    with terminal.screens():
      _run_on_screens()
  finally:  # Who asks twice may ask while Python leaves already.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _run_on_screens() -> None:
  flags.register_validator(  # Of a mistake, `_parse_flags` tells more.
      'config', lambda config: config_files.is_config(config)
      or not _CONFIG.present
  )
  standard_logging.raiseExceptions = False  # What is printed next raises.
  try:
    app.run(main, flags_parser=_parse_flags)
  except (errors.UserError, OSError) as e:
    failure = getattr(sys.stdout, 'failure', None)
    if failure:
      os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
      if isinstance(failure, BrokenPipeError):  # As in `| head`.
        sys.exit(1)
      said = f'standard output: {failure.strerror}'
    elif isinstance(e, errors.UserError):
      said = str(e)
    elif e.errno in _NO_NAMES:
      said = str(errors.UserError(f'{e.filename}: {e.strerror}'))
    else:
      raise
    label = terminal.styled('error:', terminal.RED)
    print(f'{label} {said}', file=sys.stderr)
    sys.exit(2)
  except KeyboardInterrupt:
    print('\ninterrupted; the same command goes on with what is finished',
          file=sys.stderr)
    sys.exit(130)


if __name__ == '__main__':
  gc.freeze()
  gc.enable()
  if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
    signal.signal(signal.SIGINT, signal.default_int_handler)
  _run()
