"""Where config files are: in a folder of the user, or in the package.

A wheel carries the folder configs/ of the repository as `neg_contrast/configs`.
"""

import difflib
import pathlib

from neg_contrast import errors

_PACKAGE = pathlib.Path(__file__).parents[1]
_FOLDER = 'configs'


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
