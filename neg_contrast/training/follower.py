"""Makes the negatives of a training again beside it, from its checkpoints.

Xiong et al., "Approximate Nearest Neighbor Negative Contrastive Learning for
Dense Text Retrieval" (ANCE), 2021, section 4: the training never waits. This
program reads each checkpoint, and writes a generation of the pool; which one a
step draws from says `negatives/served.py`.
"""

import pathlib
import time
from typing import Any

from absl import logging

from neg_contrast import errors
from neg_contrast.artifacts import checkpoints as checkpoints_lib
from neg_contrast.artifacts import folders, places
from neg_contrast.negatives import refresh, served
from neg_contrast.training import encoder_run, run_record

_SECONDS = 2.0  # Between looks at the checkpoints.
_SAYS_SECONDS = 60.0


def begun(workdir: pathlib.Path) -> dict[str, Any]:
  """What a training wrote when it began, waited for.

  Args:
    workdir: of the training.

  Raises:
    UserError: the file is damaged, or of another format.
  """
  record, say = run_record.RunRecord(workdir), _Says()
  while not record.exists():
    say(f'waiting for a training to begin in {workdir}')
    time.sleep(_SECONDS)
  return record.read()


class Follower:
  """Follows one training until it ends."""

  def __init__(
      self,
      workdir: pathlib.Path,
      training: encoder_run.DualEncoderTraining,
  ):
    """Reads nothing yet.

    Args:
      workdir: of the training.
      training: the same, declared anew.
    """
    self._workdir, self._training = workdir, training

  def follow(self) -> None:
    """Makes generations until the training is over.

    Raises:
      UserError: a checkpoint is damaged, or there are generations of another
        training.
    """
    say = _Says()
    while True:
      step, is_over = self._newest()
      if is_over:
        logging.info('the training in %s is over', self._workdir)
        return
      if step and not self.make(step):
        say(f'waiting for a checkpoint after step {step} in {self._workdir}')
        time.sleep(_SECONDS)
      elif not step:
        say(f'waiting for the first checkpoint in {self._workdir}')
        time.sleep(_SECONDS)

  def make(self, step: int) -> bool:
    """Makes the generation of a checkpoint; False: it is there, or that is not.

    Args:
      step: of the checkpoint.
    """
    made = served.steps_of(self._workdir, self._training.code)
    if step in made:
      return False
    training = self._training
    try:
      with checkpoints_lib.reading(self._workdir) as checkpoints:
        params = training.read_encoder(checkpoints, step)
    except (errors.UserError, OSError, ValueError):
      if not self._is_replaced(step):
        raise
      logging.info('checkpoint %d was replaced by a newer one while it was '
                   'read', step)
      return False
    self._remove_unfinished(step)
    before = max((other for other in made if other < step), default=0)
    moment = refresh.Moment(
        self._workdir, step, step - before, training.code
    )
    training.remake({'encoder': params}, moment)
    facts = refresh.facts(moment)
    logging.info('negatives after step %d: %s', step, '  '.join(
        f'{name} {seconds:.1f} s' for name, seconds in facts['seconds'].items()
    ))
    return True

  def _remove_unfinished(self, step: int) -> None:
    """Removes what a kill left of generations that nobody makes any more."""
    for left in (self._workdir / refresh.FOLDER).glob('*.parts'):
      folder = left.with_name(left.name.removesuffix('.parts'))
      if folder.name.isdigit() and int(folder.name) < step:
        with folders.only_one(folder, wait=False) as is_ours:
          if is_ours:
            places.remove(left)

  def _newest(self) -> tuple[int, bool]:
    """The newest checkpoint, 0 if there is none; and whether it is the last."""
    if not (self._workdir / checkpoints_lib.FOLDER).is_dir():
      return 0, False
    with checkpoints_lib.reading(self._workdir) as checkpoints:
      step = checkpoints.latest_step()
      if step is None:
        return 0, False
      try:
        return step, checkpoints.progress(step).finished
      except (errors.UserError, OSError, ValueError):
        if not self._is_replaced(step):
          raise
        return 0, False

  def _is_replaced(self, step: int) -> bool:
    """Whether there is a newer checkpoint, or this one is gone.

    One that is being removed loses its files one after the other.
    """
    folder = self._workdir / checkpoints_lib.FOLDER
    steps = [int(path.name) for path in folder.glob('*')
             if path.name.isdigit()]
    return step not in steps or step < max(steps)


class _Says:
  """Says what is waited for, now and then."""

  def __init__(self):
    """Has said nothing yet."""
    self._said = -_SAYS_SECONDS

  def __call__(self, text: str) -> None:
    now = time.monotonic()
    if now - self._said >= _SAYS_SECONDS:
      logging.info('%s', text)
      self._said = now
