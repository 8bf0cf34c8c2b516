"""Parts that outlive an interruption, until what they are parts of is whole."""

import dataclasses
import pathlib
import shutil

import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.artifacts import artifact, checksums, kept_parts, plan


def filler(made, stop_at=None):
  """Writes the square of a part's number, and notes it; stops at one part."""

  def fill(number, scratch, manifest):
    np.save(scratch / 'value.npy', np.array([number ** 2]))
    manifest['facts'] = {'number': number}
    if number == stop_at:
      raise KeyboardInterrupt
    made.append(number)

  return fill


def values(parts):
  return [int(parts.array(number, 'value', (1,), np.int64)[0])
          for number in range(parts.count)]


def test_lines_are_divided_into_parts_that_are_not_too_many():
  assert kept_parts.divide(0, 4) == []
  assert kept_parts.divide(9, 4) == [slice(0, 4), slice(4, 8), slice(8, 9)]
  many = kept_parts.divide(26_400_000, 512)
  assert len(many) <= 4096 and many[-1].stop == 26_400_000
  assert len({part.stop - part.start for part in many[:-1]}) == 1


def test_an_interruption_loses_one_part(tmp_path):
  parts, made = kept_parts.KeptParts(tmp_path / 'parts', 5), []
  with pytest.raises(KeyboardInterrupt):
    parts.make(filler(made, stop_at=3))
  assert made == [0, 1, 2] and not parts.is_made(3)
  parts.make(filler(made))
  assert made == [0, 1, 2, 3, 4] and values(parts) == [0, 1, 4, 9, 16]
  assert parts.manifest(4)['facts'] == {'number': 4}
  parts.make(filler(made))
  assert len(made) == 5


def test_parts_that_are_made_together_are_kept_too(tmp_path):
  parts, computed = kept_parts.KeptParts(tmp_path / 'parts', 4), []

  def compute(number):
    if number == 2 and len(computed) == 2:
      computed.append('interrupted')
      raise KeyboardInterrupt
    computed.append(number)
    return number ** 2

  save = lambda made, scratch, manifest: np.save(
      scratch / 'value.npy', np.array([made]))
  with pytest.raises(KeyboardInterrupt):
    parts.make_together(compute, save)
  parts.make_together(compute, save)
  assert computed == [0, 1, 'interrupted', 2, 3]
  assert values(parts) == [0, 1, 4, 9]


def test_no_part_is_made_of_what_is_whole(tmp_path):
  made = []
  parts = kept_parts.KeptParts(tmp_path / 'parts', 3, lambda: True)
  parts.make(filler(made))
  assert made == [] and not (tmp_path / 'parts').exists()


def test_a_damaged_part_is_named(tmp_path):
  parts = kept_parts.KeptParts(tmp_path / 'parts', 2)
  parts.make(filler([]))
  path = parts.place(1) / 'value.npy'
  path.write_bytes(path.read_bytes()[:-1] + b'\1')
  checksums._verified.clear()
  with pytest.raises(errors.UserError, match=f'{path}: damaged.*Remove'):
    parts.array(1, 'value', (1,), np.int64)


@dataclasses.dataclass(frozen=True)
class Squares(artifact.Named):
  """Three squares, each made in a part of its own."""

  kind = 'squares'
  name = 'squares'
  is_divided = True
  root: pathlib.Path

  @property
  def folder(self):
    return self.root / 'squares'

  def describe(self):
    return 'three squares'

  @property
  def kept(self):
    return self.parts('value', 3)

  def prepare(self):
    self.kept.make(filler([]))

  def write(self, scratch, manifest):
    np.save(scratch / 'values.npy', values(self.kept))


class Slow(Squares):
  """Another program joins the parts while this one still looks for them."""

  def prepare(self):
    super().prepare()
    Squares(self.root).build()
    values(self.kept)


def test_parts_that_a_killed_process_left_are_removed(tmp_path, monkeypatch):
  made = Squares(tmp_path)
  with monkeypatch.context() as patch:
    patch.setattr(shutil, 'rmtree', lambda *args, **kwargs: None)  # Killed.
    plan.run([made])
  left = tmp_path / 'squares.parts'
  assert made.is_made() and len(list(left.rglob('manifest.json'))) == 3
  artifact.forget()
  assert 'done' in plan.describe([made]) and left.exists()  # It only looks.
  monkeypatch.setattr(Squares, 'write', None)  # Calling it would fail.
  plan.run([made])
  assert [path.name for path in sorted(tmp_path.iterdir())] == [
      '.locks', 'squares']


def test_what_another_program_joined_is_not_looked_for(tmp_path):
  made = Slow(tmp_path)
  plan.run([made])
  assert made.is_made() and not list(tmp_path.glob('*.parts'))
  with pytest.raises(FileNotFoundError, match='squares.parts'):
    made.kept.manifest(0)


@pytest.mark.parametrize('error', [ValueError, AssertionError])
def test_an_error_of_the_code_is_not_swallowed(tmp_path, monkeypatch, error):
  """Even where another program has made the whole by now."""
  def prepare(self):
    Squares(self.root).build()
    raise error('of the code that makes parts')

  monkeypatch.setattr(Slow, 'prepare', prepare)
  with pytest.raises(error, match='of the code'):
    Slow(tmp_path).build()
