"""Makes the negatives of a training again, beside it: asynchronous ANCE."""

import dataclasses
import pathlib

from neg_contrast import errors, hosts
from neg_contrast.artifacts import artifact, folders, places
from neg_contrast.jobs import train
from neg_contrast.settings import config as config_lib
from neg_contrast.settings import mesh_settings
from neg_contrast.training import follower, run_record


def check(config: config_lib.Config) -> None:
  """Refuses a config that does not suit `job=follow`."""
  if not config.checkpoint:
    raise config.error('checkpoint', 'is needed: the workdir of the training '
                       'that is followed')
  if places.is_remote(places.path(config.checkpoint)):
    raise config.error('checkpoint', 'lies in a bucket, where one program '
                       'works at a time; follow a training on a disk, or begin '
                       'it with negatives.refresh=synchronous')


class FollowJob:
  """`job=follow`: follows the checkpoints of a training to its end."""

  def __init__(self, config: config_lib.Config, workdir: pathlib.Path):
    """Reads nothing yet; writes into the workdir of the training alone."""
    del workdir
    self._config = config

  def targets(self) -> list[artifact.Artifact]:
    """The negatives that are made until the training ends.

    Raises:
      UserError: several processes are asked to follow.
    """
    if hosts.are_several():
      raise errors.UserError('job=follow: is one process, with all devices of '
                             'its machine; start it once')
    return [_Generations(places.path(self._config.checkpoint),
                         self._config.mesh)]

  def finish(self) -> None:
    """Nothing: all is made by then."""


@dataclasses.dataclass(frozen=True)
class _Generations(artifact.Artifact):
  """Negatives by each checkpoint; how many depends on how the training goes.

  Attributes:
    workdir: of the training.
    mesh: of this program, not that of the training.
  """

  kind = 'generations'
  workdir: pathlib.Path
  mesh: mesh_settings.MeshConfig

  @property
  def name(self) -> str:
    """Short, for a line of the plan."""
    return 'negatives'

  def describe(self) -> str:
    """What they are made by."""
    return f'made by each checkpoint of {self.workdir}, until its training ends'

  def is_made(self) -> bool:
    """Never: only the training says when it ends."""
    return False

  def lacks(self) -> str | None:
    """A training that takes them, if another has begun; else it is waited for.

    Raises:
      UserError: what it wrote when it began is damaged.
    """
    record = run_record.RunRecord(self.workdir)
    if not record.exists():
      return None
    config = config_lib.from_dict(record.read()['config'])
    if config.job == 'train' and config.negatives.refresh_steps and (
        config.negatives.is_asynchronous):
      return None
    return (
        f'{self.workdir}: its training takes no negatives from another '
        f'program; begin it with --{errors.key("negatives.refresh")}='
        f'asynchronous and --{errors.key("negatives.refresh_steps")}'
    )

  def build(self) -> None:
    """Waits for the training to begin, and follows it.

    Raises:
      UserError: it takes no such negatives, or was begun in another folder.
    """
    record = follower.begun(self.workdir)
    lack = self.lacks()
    if lack:
      raise errors.UserError(lack)
    config = dataclasses.replace(
        config_lib.from_dict(record['config']), mesh=self.mesh
    )
    job = train.TrainJob(config, self.workdir)
    here = job.run.identity
    if here != record['identity']:
      differing = ['they are not there'] if here is None else (
          folders.differences(record['identity'], here)
      )
      raise errors.UserError(
          f'{self.workdir}: its training was begun with other data, models or '
          'negatives than are found from this folder '
          f'({"; ".join(differing)}); start both programs in the same one'
      )
    follower.Follower(self.workdir, job.run.training()).follow()
