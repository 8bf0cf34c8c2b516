"""Artifacts: identities, plans, what is made once and what is let go of."""

import dataclasses
import json
import pathlib
import shutil

import pytest

from neg_contrast.artifacts import artifact, folders, plan

MADE: list[str] = []


@dataclasses.dataclass(frozen=True)
class Text(artifact.Named):
  """A file of the user's words."""

  kind = 'text'
  root: pathlib.Path
  words: str
  note: str = ''  # Counts for nothing.

  @property
  def name(self):
    return f'text {self.words}'

  @property
  def folder(self):
    return self.root / 'text'

  def describe(self):
    return f'words in {self.folder}'

  def settings(self):
    return {'words': self.words}

  def lacks(self):
    return None if self.words else 'say something with --words'

  def write(self, scratch, manifest):
    MADE.append(self.name)
    manifest['letters'] = len(self.words)
    (scratch / 'text.txt').write_text(self.words)

  def read(self):
    MADE.append(f'read {self.words}')
    return (self.folder / 'text.txt').read_text()


@dataclasses.dataclass(frozen=True)
class Upper(artifact.Cached):
  """The same in capitals, as often as asked."""

  kind = 'upper'
  text: Text
  times: int = 1

  @property
  def name(self):
    return f'upper x {self.times}'

  @property
  def root(self):
    return self.text.root / 'upper'

  def describe(self):
    return f'capitals in {self.root}'

  def needs(self):
    return {'text': self.text}

  def settings(self):
    return {'times': self.times}

  def write(self, scratch, manifest):
    MADE.append(self.name)
    (scratch / 'text.txt').write_text(self.text.load().upper() * self.times)

  def read(self):
    return (self.folder / 'text.txt').read_text()


@dataclasses.dataclass(frozen=True)
class Both(artifact.Named):
  """Two others, one after the other."""

  kind = 'both'
  first: Upper
  second: Upper

  name = 'both'

  @property
  def folder(self):
    return self.first.text.root / 'both'

  def describe(self):
    return 'both'

  def needs(self):
    return {'first': self.first, 'second': self.second}

  def write(self, scratch, manifest):
    MADE.append(self.name)
    (scratch / 'text.txt').write_text(self.first.load() + self.second.load())


@pytest.fixture(autouse=True)
def nothing_made():
  MADE.clear()


def make(root, words='so', **kwargs):
  text = Text(root, words, **kwargs)
  return Both(Upper(text), Upper(text, 2))


def test_what_several_need_is_made_and_read_once(tmp_path):
  plan.run([make(tmp_path)])
  assert MADE == ['text so', 'upper x 1', 'read so', 'upper x 2', 'both']
  assert (tmp_path / 'both' / 'text.txt').read_text() == 'SOSOSO'
  MADE.clear()
  plan.run([make(tmp_path)])
  assert not MADE


def test_the_plan_follows(tmp_path):
  said = plan.describe([make(tmp_path), make(tmp_path).first])
  assert [line.split(']')[1].split('  ')[0].strip()
          for line in said.splitlines()[1:]] == [
      'text so', 'upper x 1', 'upper x 2', 'both']
  assert said.count('to do') == 4
  plan.run([make(tmp_path).first])
  said = plan.describe([make(tmp_path)])
  assert said.count('[done') == 2 and said.count('to do') == 2
  assert 'MISSING' in plan.describe([make(tmp_path, '')])


def test_settings_that_count_make_others(tmp_path):
  plan.run([make(tmp_path)])
  MADE.clear()
  plan.run([make(tmp_path, note='as before')])
  assert not MADE
  plan.run([make(tmp_path, 'no')])
  assert MADE == ['text no', 'upper x 1', 'read no', 'upper x 2', 'both']
  assert len(list((tmp_path / 'upper').glob('upper-*'))) == 4


def test_a_moved_tree_is_the_same(tmp_path):
  plan.run([make(tmp_path / 'here')])
  shutil.move(tmp_path / 'here', tmp_path / 'there')
  MADE.clear()
  plan.run([make(tmp_path / 'there')])
  assert not MADE


def test_another_format_is_made_again_or_refused(tmp_path, monkeypatch):
  """What lies under its identity is another; what has a name is refused."""
  from neg_contrast import errors

  plan.run([make(tmp_path).first])
  MADE.clear()
  monkeypatch.setattr(Upper, 'format', 2)
  plan.run([make(tmp_path).first])
  assert MADE == ['upper x 1', 'read so']
  monkeypatch.setattr(Text, 'format', 7)
  with pytest.raises(errors.UserError, match='text of format 1; .* format 7'):
    plan.run([make(tmp_path)])


def test_what_was_loaded_is_let_go_of(tmp_path):
  plan.run([make(tmp_path)])
  assert not [one for one in artifact._loaded if one.kind == 'text']
  target = Upper(Text(tmp_path, 'so'))
  target.load()
  assert target in artifact._loaded
  Upper(Text(tmp_path, 'so')).release()  # The same by value.
  assert target not in artifact._loaded


def test_what_is_missing_stops_before_anything_is_made(tmp_path):
  from neg_contrast import errors

  with pytest.raises(errors.UserError, match='say something'):
    plan.run([make(tmp_path, '')])
  assert not MADE


def test_an_interruption_leaves_nothing_half_made(tmp_path, monkeypatch):
  def fail(self, scratch, manifest):
    (scratch / 'text.txt').write_text('half')
    raise KeyboardInterrupt

  with monkeypatch.context() as patch:
    patch.setattr(Upper, 'write', fail)
    with pytest.raises(KeyboardInterrupt):
      plan.run([make(tmp_path)])
  assert not make(tmp_path).first.is_made()
  plan.run([make(tmp_path)])
  assert make(tmp_path).is_made()


def test_the_manifest_says_what_it_is_made_from(tmp_path):
  plan.run([make(tmp_path)])
  made = folders.read_manifest(tmp_path / 'both')
  assert made['identity'] == {
      'kind': 'both', 'format': 1, 'settings': {}, 'needs': {
          'first': make(tmp_path).first.fingerprint,
          'second': make(tmp_path).second.fingerprint,
      },
  }
  assert str(tmp_path) not in json.dumps(made['identity'])
