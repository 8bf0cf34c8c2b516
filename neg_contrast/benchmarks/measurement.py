"""What a benchmark measures, as an artifact."""

import contextlib
import dataclasses
import pathlib
from typing import Any

import numpy as np

from neg_contrast import errors, hosts
from neg_contrast.artifacts import artifact, folders
from neg_contrast.benchmarks import made_up, material, peer, rounds, tasks
from neg_contrast.models import by_name
from neg_contrast.retrieval import search_settings
from neg_contrast.settings import config as config_lib
from neg_contrast.training import encoder_run, recipe, run_settings


@dataclasses.dataclass(frozen=True)
class Measurement(artifact.Artifact):
  """Rounds of one task, alone or in turns with a peer; made anew every time.

  It loads as what was measured last: see `rounds.run`.

  Attributes:
    config: task and rounds.
    run: settings of training and encoding.
    search: how vectors are searched.
    workdir: of the job; its manifest keeps what was measured.
    data: texts; loads as a `Dataset`.
    start: the model.
  """

  kind = 'benchmark'
  name = 'measure'
  is_divided = True  # Training is what several processes can measure.
  config: config_lib.BenchmarkConfig
  run: run_settings.RunSettings
  search: search_settings.SearchSettings
  workdir: pathlib.Path
  data: artifact.Artifact
  start: artifact.Artifact

  def describe(self) -> str:
    """What is done, and how often."""
    versus = self.config.versus
    beside = f' in turns with {versus}' if versus else ''
    return f'{self.config.rounds} rounds of {self.config.task}{beside}'

  def lacks(self) -> str | None:
    """What lacks for the peer."""
    versus = self.config.versus
    return peer.missing(versus) if versus else None

  def needs(self) -> dict[str, artifact.Artifact]:
    """Texts and model."""
    return {'data': self.data, 'start': self.start}

  def is_made(self) -> bool:
    """Never: it is measured anew."""
    return False

  def build(self) -> None:
    """Measures all rounds.

    Raises:
      UserError: several processes have to do with what one can only.
    """
    task = self.config.task
    if hosts.are_several() and (task != 'train' or self.config.versus):
      raise errors.UserError(
          f'{errors.key("benchmark.task")}={task}: several processes are '
          'measured at training alone; add --processes=1'
      )
    measured = self._measure()
    if hosts.is_first():
      folders.write_sealed(self._path, {
          'config': self.run.resolved,
          'environment': folders.environment(),
          'measured': measured,
      })

  def read(self) -> dict[str, Any]:
    """What was measured last."""
    return folders.read_sealed(self._path, self._path)['measured']

  @property
  def dtype(self) -> str:
    """Of matrix products, such as `float32`."""
    return np.dtype(by_name.compute_dtype(self.run.model)).name

  def material(self) -> material.Material:
    """What its task is made of."""
    run = self.run
    return material.Material(
        self.config, run.data, run.negatives, run.encoding, self.search,
        self.workdir, self.data.load(),
        isinstance(self.data, made_up.MadeUpData),
        encoder_run.DualEncoderTraining(
            run, self.workdir, recipe.Given(self.data, self.start)
        ),
    )

  @property
  def _path(self) -> pathlib.Path:
    return self.workdir / folders.MANIFEST

  def _measure(self) -> dict[str, Any]:
    """See `rounds.run`."""
    given, settings = self.material(), self.config
    with contextlib.ExitStack() as stack:
      task = tasks.make(given)
      stack.callback(task.close)
      beside = None
      if settings.versus:
        beside = peer.Peer(given, self.run.loss, self.run.optim, self.dtype)
        stack.callback(beside.close)
      made = rounds.run(task, beside, settings)
      if settings.profile:
        rounds.add_profile(made, task, settings.profile, self.workdir)
    return made
