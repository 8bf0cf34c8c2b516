"""What a job leaves behind: declared, so that the plan follows from it.

An artifact says what it needs and which settings count. Its identity, its
place, whether it is made and what has to be made before it follow. Artifacts
are values: two that are declared alike are one, whoever declares them, and
share what they load.
"""

import abc
import dataclasses
import pathlib
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from neg_contrast import errors, hosts
from neg_contrast.artifacts import folders, kept_parts, places

_loaded: dict['Artifact', Any] = {}
_contents: dict[tuple['Artifact', str], Any] = {}
_IDENTITY = 'identity'  # Beside roles.


@dataclasses.dataclass(frozen=True)
class Artifact(abc.ABC):
  """Something that is made once, kept, and loaded.

  A subclass is a frozen dataclass; its fields are settings and other artifacts.

  Attributes:
    kind: name of the class of artifacts, part of the identity.
    format: raised when the bytes or the numbers of this kind change.
    is_listed: whether plans show and make it; else it is there already, or is
      made in memory when it is loaded.
    is_large: whether what it loads is let go of where it is not needed.
    has_roles: whether `contents` differ by role.
    is_elsewhere: whether it may have to be fetched first.
    place: where the config lies that declares it; see `errors.place`.
  """

  kind: ClassVar[str]
  format: ClassVar[int] = 1
  is_listed: ClassVar[bool] = True
  is_large: ClassVar[bool] = False
  has_roles: ClassVar[bool] = False
  is_elsewhere: ClassVar[bool] = False
  place: tuple[str, ...] = dataclasses.field(
      default_factory=errors.place, compare=False, repr=False, kw_only=True
  )

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

  def tidy(self) -> None:
    """Removes what an interruption left beside it; by default nothing."""
    return

  @property
  def is_divided(self) -> bool:
    """Whether all processes build it together; else the first one alone."""
    return False

  def needs(self) -> Mapping[str, 'Artifact']:
    """The artifacts it is made from, by what they are to it."""
    return {}

  def inputs(self) -> Mapping[str, 'Artifact']:
    """What has to be there when it is built; plans make it first.

    That is what it needs. A subclass adds what it reads and what follows from
    its identity already, such as the rows that a seed and the data choose.
    What is declared only now has its place.
    """
    with errors.at(self.place):
      return self.needs()

  def settings(self) -> Mapping[str, Any]:
    """The settings that count, as json; called when needs have contents."""
    return {}

  def lacks(self) -> str | None:
    """What the user has to provide first; None: nothing."""
    return None

  def fetch(self) -> None:
    """Gets here what lies elsewhere; by default nothing does.

    Raises:
      UserError: it can't be had.
    """
    return

  def read(self) -> Any:
    """Reads what was made; `load` keeps it."""
    raise NotImplementedError(f'{self.kind} has nothing to load')

  def load(self) -> Any:
    """What was made, read once until `release`."""
    if self not in _loaded:
      with errors.at(self.place):
        _loaded[self] = self.read()
    return _loaded[self]

  def release(self) -> None:
    """Lets go of what `load` has read."""
    _loaded.pop(self, None)

  @property
  def title(self) -> str:
    """Its name, after the place that declares it."""
    return ': '.join([*map(errors.label, self.place), self.name])

  @property
  def identity(self) -> dict[str, Any] | None:
    """What it is made from, never where; None: needs are not made yet."""
    if (self, _IDENTITY) not in _contents:
      with errors.at(self.place):
        roles = self.needs()
      needs = {}
      for role, need in roles.items():
        needs[role] = need.contents(role)
        if needs[role] is None:
          return None
      _contents[self, _IDENTITY] = folders.as_json({
          'kind': self.kind, 'format': self.format,
          'settings': dict(self.settings()), 'needs': needs,
      })
    return _contents[self, _IDENTITY]

  def contents(self, role: str = '') -> Any:
    """How it enters the identity of what needs it, as json.

    Args:
      role: what it is to that.

    Returns:
      None: it is not made yet, or lacks something.
    """
    known = role if self.has_roles else ''
    if (self, known) not in _contents:
      with errors.at(self.place):
        found = self._find_contents(role)
      if found is None:
        return None
      _contents[self, known] = found
    return _contents[self, known]

  def _find_contents(self, role: str) -> Any:
    """See `contents`.

    What follows from its identity to the last bit has that. A training has the
    fingerprint of its weights: another machine rounds otherwise.
    """
    del role
    return self.identity

  @property
  def _format(self) -> folders.Format:
    return folders.Format(self.kind, self.format)


@dataclasses.dataclass(frozen=True)
class Given(Artifact):
  """What the user provides: there, or lacking."""

  is_listed = False

  def is_made(self) -> bool:
    """Whether it is there."""
    return self.lacks() is None

  def build(self) -> None:
    """Nothing: it is given."""


@dataclasses.dataclass(frozen=True)
class InMemory(Artifact):
  """What is made when it is loaded, and kept by no file."""

  is_listed = False

  def is_made(self) -> bool:
    """Never."""
    return False

  def build(self) -> None:
    """Nothing: it is made when it is loaded."""


@dataclasses.dataclass(frozen=True)
class _InFolder(Artifact):
  """An artifact in a folder of its own.

  What else is in the manifest is up to `write`. Another program that makes the
  same at the same time is waited for; where it is divided, they share the
  parts.
  """

  @property
  @abc.abstractmethod
  def folder(self) -> pathlib.Path:
    """Where it lies."""

  @abc.abstractmethod
  def write(self, scratch: pathlib.Path, manifest: dict[str, Any]) -> None:
    """Fills a folder, and adds facts to its manifest."""

  def prepare(self) -> None:
    """Fills `parts`, or loads what all processes find; all of them call it.
    """

  def parts(self, name: str, count: int) -> kept_parts.KeptParts:
    """So many parts of a name, kept beside the folder until that is whole."""
    code = folders.sha256_json(self.identity)[:12]
    return kept_parts.KeptParts(
        self._parts_folder / code / name, count, self.is_made
    )

  def build(self) -> None:
    """Writes the folder, unless another program has by now."""
    if self.is_divided:
      try:
        self.prepare()
      except (errors.UserError, OSError):  # A part that is gone by now:
        if not self.is_made():  # another program has written it.
          raise
      hosts.on_first(self._write_once)
    else:
      self._write_once()

  def _write_once(self) -> None:
    with folders.only_one(self.folder):
      if not self.is_made():
        manifest: dict[str, Any] = {'identity': self.identity}
        with folders.writing(
            self.folder, manifest, format=self._format
        ) as scratch:
          self.write(scratch, manifest)
      self._remove_parts()

  def tidy(self) -> None:
    """Removes the parts of a folder that is whole."""
    if self._parts_folder.exists():
      with folders.only_one(self.folder, wait=False) as is_ours:
        if is_ours:
          self._remove_parts()

  def _remove_parts(self) -> None:
    # Processes that still look for parts find it whole.
    places.remove(self._parts_folder)

  @property
  def _parts_folder(self) -> pathlib.Path:
    return self.folder.with_name(f'{self.folder.name}.parts')


@dataclasses.dataclass(frozen=True)
class Cached(_InFolder):
  """An artifact in a folder that is named by its identity."""

  @property
  @abc.abstractmethod
  def root(self) -> pathlib.Path:
    """The folder of all artifacts of the kind."""

  @property
  def label(self) -> str:
    """For people, before the code in the folder's name."""
    return self.kind

  @property
  def folder(self) -> pathlib.Path:
    """Where it lies; its needs have to be made."""
    identity = self.identity
    assert identity is not None, f'{self.name}: needs are not made'
    return self.root / f'{self.label}-{folders.sha256_json(identity)[:12]}'

  def is_made(self) -> bool:
    """Whether the folder is there; its name says what it is made from."""
    return self.identity is not None and (
        folders.read_manifest(self.folder, self._format) is not None
    )


@dataclasses.dataclass(frozen=True)
class Named(_InFolder):
  """An artifact in a folder that the user names, such as one of a workdir.

  One that is made from something else is made again; a subclass that would
  lose something that way refuses instead.
  """

  def is_made(self) -> bool:
    """Whether the folder is there, and made from what is declared."""
    made = folders.read_manifest(self.folder, self._format)
    if made is None:
      return False
    wanted = self.identity
    self.check(made.get('identity'), wanted)
    return wanted is not None and made.get('identity') == wanted and all(
        (self.folder / name).is_file()
        for name in folders.file_names(self.folder)
    )

  def check(self, made: Any, wanted: dict[str, Any] | None) -> None:
    """Refuses to replace what is there; the default replaces it."""


@dataclasses.dataclass(frozen=True)
class Json(Artifact):
  """An artifact that is one json file, such as a measurement.

  One that is made from something else is made again.
  """

  @property
  @abc.abstractmethod
  def path(self) -> pathlib.Path:
    """Where it lies."""

  @abc.abstractmethod
  def compute(self) -> dict[str, Any]:
    """What is to be written."""

  def is_made(self) -> bool:
    """Whether the file is there, and made from what is declared."""
    return self.path.exists() and self.identity is not None and (
        self.read().get('identity') == self.identity
    )

  def build(self) -> None:
    """Writes the file."""
    identity = self.identity
    folders.write_sealed(self.path, {'identity': identity, **self.compute()})

  def read(self) -> dict[str, Any]:
    """What the file holds, with `identity`."""
    return folders.read_sealed(self.path, self.path)


def closure(targets: Collection[Artifact]) -> dict[Artifact, None]:
  """Targets and all they need, each once, needs before those that need them."""
  found: dict[Artifact, None] = {}

  def visit(one: Artifact) -> None:
    if one not in found:
      for need in one.inputs().values():
        visit(need)
      found[one] = None

  for target in targets:
    visit(target)
  return found


def changed(made: Artifact) -> None:
  """Forgets what is known of an artifact: it was made just now."""
  made.release()
  for known in [known for known in _contents if known[0] == made]:
    del _contents[known]


def keep_only(wanted: Collection[Artifact], are_large: bool = True) -> None:
  """Lets go of what artifacts have loaded, but for some.

  Args:
    wanted: these.
    are_large: let go of large ones alone.
  """
  for one in [one for one in _loaded if one not in wanted]:
    if one.is_large or not are_large:
      one.release()


def forget() -> None:
  """Lets go of everything that is known: files may have changed since."""
  _loaded.clear()
  _contents.clear()
