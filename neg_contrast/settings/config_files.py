"""Where config files are: in a folder of the user, or in the package.

A wheel carries the folder configs/ of the repository as `neg_contrast/configs`.
"""

import difflib
import pathlib
import re
import runpy
import traceback
from typing import Any

from ml_collections import config_dict

from neg_contrast import errors

_PACKAGE = pathlib.Path(__file__).parents[1]
_FOLDER = 'configs'
_WRONG_TYPE = re.compile(  # As ml_collections says it.
    r"override field '([^']*)' \(reference\)\. (.*) is of original type "
    r"<class '([^']*)'> and cannot be casted to type <class '([^']*)'>",
    re.DOTALL,
)
_NO_KEY = re.compile(r'Key "([^"]*)" does not exist')


def folder() -> pathlib.Path:
  """The configs of this installation, or of the checkout that it runs from."""
  packaged = _PACKAGE / _FOLDER
  return packaged if packaged.is_dir() else _PACKAGE.parent / _FOLDER


def find(name: str) -> pathlib.Path:
  """The file that a name stands for.

  Args:
    name: a path, which comes first; or NAME, NAME.py or configs/NAME.py of
      `folder`.

  Raises:
    UserError: there is no such file.
  """
  given = pathlib.Path(name)
  if given.is_file():
    return given
  if given.parent in (pathlib.Path(), pathlib.Path(_FOLDER)):
    ours = folder() / f'{given.name.removesuffix(".py")}.py'
    if ours.is_file():
      return ours
  alike = difflib.get_close_matches(
      given.stem, sorted(path.stem for path in folder().glob('*.py'))
  )
  raise errors.UserError(
      f'{name}: no such file; ' + (
          f'did you mean {" or ".join(alike)}?' if alike else
          f'those that come with the package lie in {folder()}'
      )
  )


def check(path: pathlib.Path, argument: str | None) -> None:
  """Runs a config file, to say in one line why it can't be read.

  Args:
    path: of the file.
    argument: what `get_config` gets; None: nothing.

  Raises:
    UserError: names the file and the line.
  """
  try:
    get_config = runpy.run_path(str(path))['get_config']
    config = get_config(*([] if argument is None else [argument]))
  except errors.UserError as e:
    raise errors.UserError(f'{_line_of(e, path)}: {e}') from None
  except SyntaxError as e:
    raise errors.UserError(
        f'{e.filename}:{e.lineno}: {e.msg}: {(e.text or "").strip()}'
    ) from None
  except Exception as e:
    raise errors.UserError(f'{_line_of(e, path)}: {_plain(e)}') from None
  if not is_config(config):
    raise errors.UserError(
        f'{path}: get_config must return the config that base_config() began, '
        f'and returns {"nothing" if config is None else type(config).__name__}'
    )


def is_config(value: Any) -> bool:
  """Whether it may be what a config file returns."""
  return isinstance(value, config_dict.ConfigDict)


def _line_of(error: Exception, path: pathlib.Path) -> str:
  """`file:line` of the last line of a config file that was run."""
  lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__)
           if frame.filename == str(path)]
  return f'{path}:{lines[-1]}' if lines else f'{path}'


def _plain(error: Exception) -> str:
  """What an error says, where it is of a key without what stands beside it."""
  if isinstance(error, KeyError) and error.args == ('get_config',):
    return 'it has no function get_config'
  message = str(error.args[0] if len(error.args) == 1 else error)
  if match := _WRONG_TYPE.search(message):
    name, value, given, wanted = match.groups()
    return (f'{name} can\'t be {given} {value}; its default is of type '
            f'{wanted}')
  if match := _NO_KEY.search(message):
    alike = re.search(r'Did you mean "([^"]*)"', message)
    return f'no such key: {match[1]}' + (
        f'; did you mean {alike[1]}?' if alike else '')
  return f'{type(error).__name__}: {message.splitlines()[0] if message else ""}'
