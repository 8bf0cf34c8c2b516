"""What a job leaves behind: declared, so that the plan follows from it.

An artifact says what it needs and which settings count. Its identity, its
place, whether it is made and what has to be made before it follow. Artifacts
are values: two that are declared alike are one, whoever declares them, and
share what they load.
"""

import abc
import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any, ClassVar

from neg_contrast.artifacts import folders

_loaded: dict['Artifact', Any] = {}


@dataclasses.dataclass(frozen=True)
class Artifact(abc.ABC):
  """Something that is made once, kept, and loaded.

  A subclass is a frozen dataclass; its fields are settings and other artifacts.

  Attributes:
    kind: name of the class of artifacts, part of the identity.
    format: raised when the bytes or the numbers of this kind change.
    is_divided: all processes build it together; else the first one alone.
  """

  kind: ClassVar[str]
  format: ClassVar[int] = 1
  is_divided: ClassVar[bool] = False

  @property
  @abc.abstractmethod
  def name(self) -> str:
    """Short, for a line of the plan."""

  @abc.abstractmethod
  def describe(self) -> str:
    """What it is and where it lies, for the same line."""

  @abc.abstractmethod
  def is_made(self) -> bool:
    """Whether it is there, whole, and made from what is declared.

    Raises:
      UserError: its place holds something else, or something damaged.
    """

  @abc.abstractmethod
  def build(self) -> None:
    """Makes it; what it needs is made."""

  def needs(self) -> Mapping[str, 'Artifact']:
    """The artifacts it is made from, by what they are to it."""
    return {}

  def settings(self) -> Mapping[str, Any]:
    """The settings that count, as json; called when all needs are made."""
    return {}

  def lacks(self) -> str | None:
    """What the user has to provide first; None: nothing."""
    return None

  def read(self) -> Any:
    """Reads what was made; `load` keeps it."""
    raise NotImplementedError(f'{self.kind} has nothing to load')

  def load(self) -> Any:
    """What was made, read once until `release`."""
    if self not in _loaded:
      _loaded[self] = self.read()
    return _loaded[self]

  def release(self) -> None:
    """Lets go of what `load` has read."""
    _loaded.pop(self, None)

  @property
  def _format(self) -> folders.Format:
    return folders.Format(self.kind, self.format)

  @property
  def identity(self) -> dict[str, Any] | None:
    """What it is made from, never where; None: needs are not made yet."""
    needs = {}
    for role, need in self.needs().items():
      needs[role] = need.fingerprint
      if needs[role] is None:
        return None
    return folders.as_json({
        'kind': self.kind, 'format': self.format,
        'settings': dict(self.settings()), 'needs': needs,
    })

  @property
  def fingerprint(self) -> str | None:
    """Stands for its contents; None: it is not made yet.

    What follows from its identity to the last bit has that of the identity. A
    training has that of its weights: another machine rounds otherwise.
    """
    identity = self.identity
    return None if identity is None else folders.sha256_json(identity)


@dataclasses.dataclass(frozen=True)
class Cached(Artifact):
  """An artifact in a folder that is named by its identity.

  What else is in the manifest is up to `write`. Another program that makes the
  same at the same time is waited for.
  """

  @property
  @abc.abstractmethod
  def root(self) -> pathlib.Path:
    """The folder of all artifacts of the kind."""

  @property
  def label(self) -> str:
    """For people, before the code in the folder's name."""
    return self.kind

  @abc.abstractmethod
  def write(self, scratch: pathlib.Path, manifest: dict[str, Any]) -> None:
    """Fills a folder, and adds facts to its manifest."""

  @property
  def folder(self) -> pathlib.Path:
    """Where it lies; its needs have to be made."""
    code = self.fingerprint
    assert code is not None, f'{self.name}: needs are not made'
    return self.root / f'{self.label}-{code[:12]}'

  def is_made(self) -> bool:
    """Whether the folder is there; its name says what it is made from."""
    return self.identity is not None and (
        folders.read_manifest(self.folder, self._format) is not None
    )

  def build(self) -> None:
    """Writes the folder, unless another program has by now."""
    with folders.only_one(self.folder):
      if self.is_made():
        return
      manifest: dict[str, Any] = {'identity': self.identity}
      with folders.writing(
          self.folder, manifest, format=self._format
      ) as scratch:
        self.write(scratch, manifest)


@dataclasses.dataclass(frozen=True)
class Named(Artifact):
  """An artifact in a folder that the user names, such as one of a workdir.

  One that is made from something else is made again; a subclass that would
  lose something that way refuses instead.
  """

  @property
  @abc.abstractmethod
  def folder(self) -> pathlib.Path:
    """Where it lies."""

  @abc.abstractmethod
  def write(self, scratch: pathlib.Path, manifest: dict[str, Any]) -> None:
    """Fills a folder, and adds facts to its manifest."""

  def is_made(self) -> bool:
    """Whether the folder is there, and made from what is declared."""
    made = folders.read_manifest(self.folder, self._format)
    if made is None:
      return False
    wanted = self.identity
    self.check(made.get('identity'), wanted)
    return wanted is not None and made.get('identity') == wanted

  def check(self, made: Any, wanted: dict[str, Any] | None) -> None:
    """Refuses to replace what is there; the default replaces it."""

  def build(self) -> None:
    """Writes the folder."""
    manifest: dict[str, Any] = {'identity': self.identity}
    with folders.writing(
        self.folder, manifest, format=self._format
    ) as scratch:
      self.write(scratch, manifest)
