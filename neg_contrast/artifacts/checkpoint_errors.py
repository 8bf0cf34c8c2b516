"""What to do about checkpoints that can't be read, or not be written."""

import contextlib
import pathlib
from collections.abc import Iterator

import jax

from neg_contrast import errors

# What errors of the operating system say that need room or rights.
_UNWRITTEN = ('No space left', 'File too large', 'Disk quota', 'Read-only',
              'Permission denied', 'No such file')


@contextlib.contextmanager
def refusing_damage(folder: pathlib.Path, step: int) -> Iterator[None]:
  """Tells what to do about files that can't be read.

  Args:
    folder: of all checkpoints.
    step: of the one that is read.

  Raises:
    UserError: names the checkpoint, and the one before it if there is any.
  """
  try:
    yield
  except (errors.UserError, jax.errors.JaxRuntimeError):
    raise
  except Exception as e:  # Orbax raises anything, `Exception` included.
    others = _steps(folder)
    earlier = [one for one in others if one < step]
    if earlier and step == max(others):
      remedy = (f'Remove {folder / str(step)}; the same training goes on from '
                f'step {max(earlier)}')
    else:
      remedy = f'Remove {folder.parent} and train again'
    raise errors.UserError(
        f'{folder / str(step)}: damaged ({_first_line(e)}). {remedy}'
    ) from None


@contextlib.contextmanager
def saying_unwritten(folder: pathlib.Path) -> Iterator[None]:
  """Tells what to do when a checkpoint can't be written.

  Args:
    folder: of all checkpoints.

  Raises:
    UserError: the disk is full, or a file would be too large.
  """
  try:
    yield
  except Exception as e:  # TensorStore's errors are ValueErrors.
    reason = next((one for one in _UNWRITTEN if one in str(e)), None)
    if reason is None:
      raise
    steps = _steps(folder)
    good = (f'that of step {max(steps)} is whole' if steps
            else 'there is no earlier one')
    raise errors.UserError(
        f'{folder}: a checkpoint could not be saved ({reason}); {good}. Make '
        f'room there, or name another {errors.flag("workdir")}; the same '
        'command goes on'
    ) from None


def _steps(folder: pathlib.Path) -> list[int]:
  """Steps that have a finished checkpoint."""
  return [int(path.name) for path in folder.glob('*') if path.name.isdigit()]


def _first_line(error: Exception) -> str:
  return (str(error).splitlines() or [type(error).__name__])[0][:200]
