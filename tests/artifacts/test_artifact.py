"""Artifacts: identities, plans, what is made once and what is let go of."""

import dataclasses
import json
import pathlib
import shutil
from typing import Any

import pytest

from neg_contrast import errors
from neg_contrast.artifacts import artifact, folders, plan

MADE: list[str] = []


@dataclasses.dataclass(frozen=True)
class Text(artifact.Named):
  """A file of the user's words."""

  kind = 'text'
  is_large = True
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


@dataclasses.dataclass(frozen=True)
class Given(Text):
  """Words that are there already."""

  kind = 'given'
  is_listed = False
  name = 'given'

  def is_made(self):
    return False

  def read(self):
    return self.words


@dataclasses.dataclass(frozen=True)
class Broken(artifact.Named):
  """Can't be made."""

  kind = 'broken'
  name = 'broken'
  root: pathlib.Path

  @property
  def folder(self):
    return self.root / 'broken'

  def describe(self):
    return 'nothing'

  def write(self, scratch, manifest):
    raise errors.SettingError('data.source', 1, 'is wrong')


@dataclasses.dataclass(frozen=True)
class Measurement(artifact.Json):
  """A square."""

  kind = 'measurement'
  name = 'measurement'
  root: pathlib.Path
  side: int

  @property
  def path(self):
    return self.root / 'made.json'

  def describe(self):
    return f'a square in {self.path}'

  def settings(self):
    return {'side': self.side}

  def compute(self):
    return {'value': self.side ** 2}


@pytest.fixture(autouse=True)
def nothing_made():
  MADE.clear()
  artifact.forget()


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
  loaded: list[Any] = [*artifact._loaded]
  assert not [one for one in loaded if one.root == tmp_path]
  target = Upper(Text(tmp_path, 'so'))
  target.load()
  assert target in artifact._loaded
  Upper(Text(tmp_path, 'so')).release()  # The same by value.
  assert target not in artifact._loaded


def test_what_only_a_finished_one_needs_need_not_be_there(tmp_path):
  plan.run([make(tmp_path)])
  shutil.rmtree(tmp_path / 'upper')
  MADE.clear()
  assert plan.describe([make(tmp_path)]).count('spared') == 3
  plan.run([make(tmp_path)])
  assert not MADE
  (tmp_path / 'both' / 'manifest.json').unlink()
  shutil.rmtree(tmp_path / 'both')
  plan.run([make(tmp_path)])
  assert MADE == ['upper x 1', 'read so', 'upper x 2', 'both']


def test_an_artifact_knows_which_config_declares_it(tmp_path):
  """Its title says so, and what it raises names keys as that one's."""
  with errors.within('cells.none.bm25'), errors.within('stage1'):
    inner = Broken(tmp_path)
  assert inner.title == 'none-bm25: stage 1: broken'
  assert inner == Broken(tmp_path)  # The place is not what it is.
  assert '1. [to do  ] none-bm25: stage 1: broken' in plan.describe([inner])
  with pytest.raises(errors.UserError,
                     match=r'^config.cells.none.bm25.stage1.data.source=1'):
    plan.run([inner])
  with pytest.raises(errors.UserError, match='^config.data.source=1'):
    plan.run([Broken(tmp_path)])


@pytest.mark.parametrize('damage', ['identity', 'value'])
def test_a_measurement_that_is_damaged_is_refused(tmp_path, damage):
  plan.run([Measurement(tmp_path, 3)])
  assert Measurement(tmp_path, 3).load()['value'] == 9
  assert not Measurement(tmp_path, 4).is_made()
  path = tmp_path / 'made.json'
  path.write_text(path.read_text().replace(damage, damage[:-1]))
  with pytest.raises(errors.UserError, match='made.json: .*[Rr]emove'):
    plan.run([Measurement(tmp_path, 3)])


def test_what_is_not_listed_is_read_when_it_is_asked_for(tmp_path):
  target = Upper(Given(tmp_path, 'hi'))
  assert 'given' not in plan.describe([target])
  plan.run([target])
  assert target.load() == 'HI'
  said = plan.describe([Upper(Given(tmp_path, ''))])
  assert '[MISSING] given' in said and 'say something' in said


def test_what_is_missing_stops_before_anything_is_made(tmp_path):
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


@pytest.mark.parametrize('name', ['text.old', 'text.partial'])
def test_what_a_user_moved_away_stays(tmp_path, name):
  plan.run([Text(tmp_path, 'mine')])
  (tmp_path / 'text').rename(tmp_path / name)
  for words in ('other', 'third'):
    plan.run([Text(tmp_path, words)])
  assert Text(tmp_path, 'third').read() == 'third'
  assert (tmp_path / name / 'text.txt').read_text() == 'mine'
  assert {path.name for path in tmp_path.iterdir()} <= {'text', name, '.locks'}


def test_parts_that_a_killed_program_left_go(tmp_path):
  made = make(tmp_path)
  plan.run([made])
  left = made.first.parts('half', 2)
  left.place(0).mkdir(parents=True)
  assert left.is_made(0)  # Since the whole is.
  plan.run([make(tmp_path).first])
  assert not left.folder.exists() and made.is_made()
  assert not list(tmp_path.rglob('*.parts'))


def test_the_manifest_says_what_it_is_made_from(tmp_path):
  plan.run([make(tmp_path)])
  made = folders.read_manifest(tmp_path / 'both')
  assert made['identity'] == {
      'kind': 'both', 'format': 1, 'settings': {}, 'needs': {
          'first': make(tmp_path).first.identity,
          'second': make(tmp_path).second.identity,
      },
  }
  assert str(tmp_path) not in json.dumps(made['identity'])
