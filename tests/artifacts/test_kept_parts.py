"""Parts that outlive an interruption, until what they are parts of is whole."""

import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.artifacts import checksums, kept_parts


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
