"""Trainings of question generators as artifacts, and what is made of them."""

import dataclasses
import pathlib
from typing import Any

from neg_contrast.artifacts import artifact
from neg_contrast.models import by_name, generator, t5_pretrained
from neg_contrast.training import generator_run, run_artifacts

FOLDER = 't5'  # Of a workdir.


@dataclasses.dataclass(frozen=True)
class GeneratorRun(run_artifacts.Run):
  """The training of a question generator; loads as the selected checkpoint."""

  kind = 'training of a question generator'

  def training(self) -> generator_run.GeneratorTraining:
    """What trains it."""
    return generator_run.GeneratorTraining(
        self.config, self.workdir, self._given(), self.identity
    )

  def read(self) -> generator.Generator:
    """The selected checkpoint."""
    return by_name.load_generator_workdir(self.workdir)


@dataclasses.dataclass(frozen=True)
class T5Folder(artifact.Named):
  """A trained generator as a folder that other libraries load.

  Attributes:
    run: the training.
  """

  kind = 'a T5 folder'
  name = 'export'
  run: GeneratorRun

  @property
  def folder(self) -> pathlib.Path:
    """In the workdir of the training."""
    return self.run.workdir / FOLDER

  def describe(self) -> str:
    """Where."""
    return f'a T5 folder in {self.folder}'

  def needs(self) -> dict[str, artifact.Artifact]:
    """The training."""
    return {'run': self.run}

  def write(self, scratch: pathlib.Path, manifest: dict[str, Any]) -> None:
    """Writes weights, settings and tokenizer."""
    made = self.run.load()
    manifest |= {'fingerprint': made.fingerprint,
                 'text': dataclasses.asdict(made.text)}
    t5_pretrained.export_t5(scratch, made.config, made.params)
    made.tokenizer.export(scratch)
