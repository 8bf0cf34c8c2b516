"""Makes the negatives of a training again, beside it: asynchronous ANCE."""

import dataclasses
import pathlib

from neg_contrast import errors, hosts
from neg_contrast.artifacts import artifact, folders
from neg_contrast.jobs import train
from neg_contrast.settings import config as config_lib
from neg_contrast.training import follower


def check(config: config_lib.Config) -> None:
  """Refuses a config that does not suit `job=follow`."""
  if not config.checkpoint:
    raise config.error('checkpoint', 'is needed: the workdir of the training '
                       'that is followed')


class FollowJob:
  """`job=follow`: follows the checkpoints of a training to its end."""

  def __init__(self, config: config_lib.Config, workdir: pathlib.Path):
    """Reads nothing yet; writes into the workdir of the training alone."""
    del workdir
    self._config = config
    self._place = pathlib.Path(config.checkpoint)

  def targets(self) -> list[artifact.Artifact]:
    """None: what it makes depends on how the training goes."""
    return []

  def finish(self) -> None:
    """Follows.

    Raises:
      UserError: the training does not ask for it, or was begun in another
        folder; or several processes are asked to follow.
    """
    if hosts.are_several():
      raise errors.UserError('job=follow: is one process, with all devices of '
                             'its machine; start it once')
    record = follower.begun(self._place)
    config = config_lib.from_dict(record['config'])
    if config.job != 'train' or not (
        config.negatives.is_asynchronous and config.negatives.refresh_steps):
      raise errors.UserError(
          f'{self._place}: its training takes no negatives from another '
          f'program; begin it with --{errors.key("negatives.refresh")}='
          f'asynchronous and --{errors.key("negatives.refresh_steps")}'
      )
    config = dataclasses.replace(config, mesh=self._config.mesh)
    job = train.TrainJob(config, self._place)
    here = job.run.identity
    if here != record['identity']:
      differing = ['they are not there'] if here is None else (
          folders.differences(record['identity'], here)
      )
      raise errors.UserError(
          f'{self._place}: its training was begun with other data, models or '
          'negatives than are found from this folder '
          f'({"; ".join(differing)}); start both programs in the same one'
      )
    follower.Follower(self._place, job.run.training()).follow()
