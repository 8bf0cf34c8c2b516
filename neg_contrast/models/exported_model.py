"""A model as a sentence-transformers folder, as an artifact."""

import dataclasses
import pathlib
from typing import Any

from neg_contrast.artifacts import artifact, folders
from neg_contrast.models import (
  adapted,
  by_name,
  card_facts,
  exported,
  exporting,
  given,
  loading,
  peft_export,
)

FOLDER, ADAPTER = 'model', 'adapter'  # Of a workdir.


@dataclasses.dataclass(frozen=True)
class ExportedModel(artifact.Named):
  """The folder `model` of a workdir; replaces nothing that it has not made.

  Attributes:
    model: what is exported.
    workdir: of the folder.
    member: name of the model, of several; empty: there is one.
  """

  kind = 'an exported model'
  format = 3
  model: given.Checkpoint
  workdir: pathlib.Path
  member: str = ''

  @property
  def name(self) -> str:
    """With the name of the member, where there are several."""
    return f'{self.member}: model' if self.member else 'model'

  @property
  def folder(self) -> pathlib.Path:
    """Its place in the workdir."""
    return self.workdir / FOLDER

  def describe(self) -> str:
    """Where it lies."""
    return f'sentence-transformers folder {self.folder}'

  def needs(self) -> dict[str, artifact.Artifact]:
    """The model."""
    return {'model': self.model}

  def is_made(self) -> bool:
    """Whether the folder holds this model, whole; see `exported.is_written`."""
    identity = self.identity
    return identity is not None and exported.is_written(
        self.folder, identity, self._loaded().name, self._format
    )

  def build(self) -> None:
    """Writes the folder, whole or not at all."""
    with exported.while_writing(self.folder):
      super().build()

  def write(self, scratch: pathlib.Path, manifest: dict[str, Any]) -> None:
    """Writes what other programs read, and the card."""
    model = self._loaded()
    manifest |= {'source': model.name, 'environment': folders.environment()}
    card = card_facts.make_card(model, self.model.checkpoint)
    exporting.write_model(model, scratch, card)

  def usage(self) -> str:
    """Says how to load it, for the terminal."""
    return exporting.usage(self.folder)

  def _loaded(self) -> loading.Model:
    return by_name.check_one_vector(
        self.model.load(), 'the formats that are written have'
    )


@dataclasses.dataclass(frozen=True)
class ExportedAdapter(ExportedModel):
  """LoRA adapters by themselves, in the folder `adapter` of a workdir."""

  kind = 'an exported adapter'
  format = 1

  @property
  def name(self) -> str:
    """With the name of the member, where there are several."""
    return f'{self.member}: adapter' if self.member else 'adapter'

  @property
  def folder(self) -> pathlib.Path:
    """Its place in the workdir."""
    return self.workdir / ADAPTER

  def describe(self) -> str:
    """Where it lies."""
    return f'LoRA adapters for peft {self.folder}'

  def write(self, scratch: pathlib.Path, manifest: dict[str, Any]) -> None:
    """Writes what peft reads."""
    model = self._loaded()
    manifest |= {'source': model.name, 'environment': folders.environment()}
    peft_export.write(model, scratch)

  def usage(self) -> str:
    """Says how to load it, for the terminal."""
    model = self._loaded()
    base = adapted.base_of(model)
    return '\n'.join(
        f"PeftModel.from_pretrained(AutoModel.from_pretrained('{base}'), "
        f"'{place}')"
        for place in peft_export.folders_of(model, self.folder).values()
    )
