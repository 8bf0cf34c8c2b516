"""Parts of an artifact, which processes divide and which outlive them.

They are folders with a manifest each. Those of a folder that is written later
lie beside it, in `NAME.parts`, until it is whole: an interruption loses those
that were being made.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

from neg_contrast import hosts
from neg_contrast.artifacts import arrays, folders, parts

_FORMAT = folders.Format('a part', 1)
_MOST = 4096  # Parts: more are slow to look at, again and again.
Fill = Callable[[int, pathlib.Path, dict[str, Any]], None]
"""(number, scratch, manifest): writes the files of a part to a scratch folder,
and adds facts to its manifest."""


def divide(lines: int, at_least: int) -> list[slice]:
  """Parts of so many lines, but not too many parts.

  Args:
    lines: of all parts together.
    at_least: lines of a part.
  """
  size = max(at_least, -(-lines // _MOST))
  return [slice(begin, min(begin + size, lines))
          for begin in range(0, lines, size)]


@dataclasses.dataclass(frozen=True)
class KeptParts:
  """Numbered folders.

  Attributes:
    folder: of all of them, named by what they are made from.
    count: how many.
    is_whole: whether what they are parts of is made, so that none is needed.
    format: of each.
  """

  folder: pathlib.Path
  count: int
  is_whole: Callable[[], bool] = lambda: False
  format: folders.Format = _FORMAT

  def make(self, fill: Fill) -> None:
    """Makes those that are missing, with all processes that do the same."""
    self.make_missing(lambda number: self._write(number, fill))

  def make_missing(self, make: Callable[[int], None]) -> None:
    """Has `make` make those that are missing, as `make`."""
    parts.make_all(
        list(map(self.place, range(self.count))), self.is_made, make
    )

  def make_together(
      self,
      compute: Callable[[int], Any],
      save: Callable[[Any, pathlib.Path, dict[str, Any]], None],
  ) -> None:
    """Makes those that are missing, one after another.

    Args:
      compute: number -> a part, by all processes of this program together.
      save: (part, scratch, manifest): writes it, in the first process.
    """
    for number in range(self.count):
      if hosts.on_first(functools.partial(self.is_made, number)):
        continue
      made = compute(number)

      def fill(_: int, scratch: pathlib.Path, manifest: dict[str, Any],
               made: Any = made) -> None:
        save(made, scratch, manifest)

      hosts.on_first(functools.partial(self._write, number, fill))

  def place(self, number: int) -> pathlib.Path:
    """The folder of a part."""
    return self.folder / f'{number:05d}-of-{self.count:05d}'

  def is_made(self, number: int) -> bool:
    """Whether a part is there, or no longer needed."""
    return (self.place(number) / folders.MANIFEST).exists() or self.is_whole()

  def are_made(self) -> bool:
    """Whether all are there."""
    return all(map(self.is_made, range(self.count)))

  def manifest(self, number: int) -> dict[str, Any]:
    """The facts of a part.

    Raises:
      UserError: it is damaged or of another format.
      FileNotFoundError: it is not made.
    """
    made = folders.read_manifest(self.place(number), self.format)
    if made is None:
      raise FileNotFoundError(self.place(number))
    return made

  def array(
      self, number: int, name: str, shape: tuple[int | None, ...], dtype: Any
  ) -> np.ndarray:
    """The file `NAME.npy` of a part; raises as `arrays.load_array`."""
    return arrays.load_array(
        self.place(number) / f'{name}.npy', shape, dtype
    )

  def file(self, number: int, name: str) -> pathlib.Path:
    """A file of a part, verified.

    Raises:
      UserError: it is missing or damaged.
    """
    path = self.place(number) / name
    arrays.map_file(path).check()
    return path

  def _write(self, number: int, fill: Fill) -> None:
    """Makes a part, unless another program has by now."""
    place, manifest = self.place(number), dict[str, Any]()
    with folders.only_one(place):
      if not self.is_made(number):
        with folders.writing(place, manifest, format=self.format) as scratch:
          fill(number, scratch, manifest)
