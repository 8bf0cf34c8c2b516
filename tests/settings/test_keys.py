"""Ranges, types and marks of keys."""

import dataclasses
import math

import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.settings import keys


@dataclasses.dataclass(frozen=True)
class Inner(keys.Section):
  section = 'inner'

  kind: str = keys.key('a', keys.one_of('a', 'b'))
  rate: float | None = keys.key(None, keys.at_least_below(0, 1))
  names: tuple[str, ...] = keys.key((), each=keys.one_of('x', 'y'))
  folder: str = keys.key('here', counts=False)
  percent: float = keys.key(5.0, counts=keys.Where(
      '`kind` is `b`', lambda section: section.kind == 'b'))


@dataclasses.dataclass(frozen=True)
class Outer(keys.Section):
  seed: int = keys.key(3)
  inner: Inner = keys.section(Inner)
  ignored: Inner = keys.section(Inner, counts=False)


@pytest.mark.parametrize(('allowed', 'inside', 'outside'), [
    (keys.at_least(2), (2, 3), (1, 1.9)),
    (keys.at_least_or(1, -1), (1, -1), (0, -2)),
    (keys.above(0), (1e-9, 5), (0, -1)),
    (keys.even(2), (2, 8), (0, 3, -2)),
    (keys.from_to(0, 100), (0, 100, 5.5), (-1, 100.1)),
    (keys.between(0, 1), (0.1, 0.9), (0, 1)),
    (keys.at_least_below(0, 1), (0, 0.9), (1, -0.1)),
    (keys.above_at_most(0, 1), (0.1, 1), (0, 1.1)),
    (keys.one_of('a', ''), ('a', ''), ('b',)),
    (keys.matching('a-[0-9]', 'a-N'), ('a-3',), ('a-', 'a-33', 'xa-3')),
])
def test_ranges(allowed, inside, outside):
  assert all(allowed.holds(value) for value in inside)
  assert not any(allowed.holds(value) for value in outside)
  if not isinstance(inside[0], str):
    assert not allowed.holds(math.nan)
  assert allowed.rule and allowed.text


@pytest.mark.parametrize(('values', 'message'), [
    ({'kind': 'c'}, "config.inner.kind='c': must be one of a, b"),
    ({'rate': 1.0}, 'config.inner.rate=1.0: must be at least 0 and below 1'),
    ({'names': ('x', 'z')}, "config.inner.names='z': must be one of x, y"),
])
def test_a_section_checks_ranges_when_it_is_made(values, message):
  with pytest.raises(errors.SettingError) as refused:
    Inner(**values)
  assert str(refused.value) == message
  with pytest.raises(errors.SettingError):
    dataclasses.replace(Inner(), **values)


def test_none_is_in_every_range():
  assert Inner(rate=None).rate is None


def test_errors_have_the_value_of_their_key():
  error = Outer(inner=Inner(kind='b')).error('inner.kind', 'is odd')
  assert str(error) == "config.inner.kind='b': is odd"


def test_counting():
  assert keys.counting(Outer()) == {
      'seed': 3, 'inner': {'kind': 'a', 'rate': None, 'names': ()}}
  counting = keys.counting(Outer(inner=Inner(kind='b', folder='there')))
  assert counting['inner']['percent'] == 5.0
  assert counting == keys.counting(Outer(inner=Inner(kind='b')))


def test_a_key_that_counts_once_it_is_changed():
  @dataclasses.dataclass(frozen=True)
  class Later(keys.Section):
    section = 'later'
    rule: str = keys.key('old', counts=keys.Changed())

  assert keys.counting(Later()) == {}
  assert keys.counting(Later(rule='new')) == {'rule': 'new'}


@pytest.mark.parametrize(('annotation', 'fits', 'others'), [
    (int, (0, -3, np.int64(4)), (0.5, 'a', True, None, ())),
    (float, (0, 0.5, np.float32(1)), ('a', False, None)),
    (bool, (True, False), (0, 1, 'yes', None)),
    (str, ('', 'a'), (0, None, ('a',))),
    (int | None, (None, 3), (0.5, 'a', True)),
    (bool | None, (None, True), (0, 'a')),
    (tuple[int, ...], ((), (1, 2)), ((0.5,), ('a',), (True,), 3, 'a', None)),
    (tuple[float, ...], ((), (1, 0.5)), (('a',), 0.5)),
    (tuple[str, ...], ((), ('a', 'b')), ('a', (1,))),
])
def test_types(annotation, fits, others):
  for value in fits:
    keys.check_type('a.b', value, annotation)
  for value in others:
    with pytest.raises(errors.SettingError, match=r'^config\.a\.b=.*: must be'):
      keys.check_type('a.b', value, annotation)


@pytest.mark.parametrize(('value', 'annotation', 'message'), [
    ('a', int, "config.k='a': must be a whole number"),
    (0, bool | None, 'config.k=0: must be True, False or None'),
    (('a',), tuple[float, ...], "config.k=('a',): must be a tuple of numbers"),
    (3, str | None, 'config.k=3: must be a string or None'),
])
def test_messages_of_types(value, annotation, message):
  with pytest.raises(errors.SettingError) as refused:
    keys.check_type('k', value, annotation)
  assert str(refused.value) == message
