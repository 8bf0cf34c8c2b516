"""The command that a job advises to run next, ready to be pasted."""

import os
import pathlib
import shlex
import sys

from neg_contrast import errors
from neg_contrast.settings import config as config_lib

_SCRIPT = 'neg-contrast'  # Of an installed package.


def command(name: str, *flags: str) -> str:
  """A command line, begun as this one was.

  Args:
    name: of a config that comes with the package.
    *flags: such as `--workdir=workdirs/own`; they are quoted where a shell
      needs that.
  """
  parts = [f'--config=configs/{name}.py', *flags]
  return ' '.join([program(), *map(shlex.quote, parts)])


def without(flag: str) -> str:
  """This command line, but for a switch."""
  return ' '.join([program(), *(
      shlex.quote(one) for one in sys.argv[1:]
      if one.lstrip('-').partition('=')[0] != flag
  )])


def print_search(config: config_lib.Config, workdir: pathlib.Path) -> None:
  """Prints how to search with a trained model, in the data of its training.

  Args:
    config: of the training; of several data sets none is advised.
    workdir: of the training.
  """
  if config.mixture.sets:
    return
  print('Search with it:\n' + command(
      'search', f'--config.checkpoint={workdir}',
      f'--config.data.source={config.data.source}',
      *flags_of(config.data, 'prepared_dir', 'document', 'on_invalid',
                'answer_words', 'query_prefix', 'passage_prefix'),
      f'--workdir={workdir}-search', '--config.query=a question',
  ), flush=True)
  if config.evaluation.hybrid:
    print(f'With --{errors.key("evaluation.hybrid")}=True it searches by BM25 '
          'and the model together, as hybrid above.', flush=True)


def flags_of(data: config_lib.DataConfig, *names: str) -> list[str]:
  """The flags of those keys of `data` that have another value than usual."""
  return [f'--config.data.{name}={getattr(data, name)}' for name in names
          if getattr(data, name) != getattr(config_lib.DataConfig, name)]


def program() -> str:
  """How this program was started, as far as that can be told."""
  # Of the script sys.argv[0] says nothing any more: see `__main__`.
  if _SCRIPT in (pathlib.Path(one).name for one in sys.orig_argv[:2]):
    return _SCRIPT
  python = pathlib.Path(sys.executable)
  is_near = python.is_relative_to(pathlib.Path.cwd())
  return (f'{os.path.relpath(python) if is_near else "python"} '
          '-m neg_contrast.main')
