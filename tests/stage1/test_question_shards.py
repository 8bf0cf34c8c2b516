"""Shards of questions: which passages each has, and what is kept of them."""

import json

import pytest

from neg_contrast import errors
from neg_contrast.data import records, synthetic_pairs
from neg_contrast.stage1 import question_shards, questions


def write(shards, number, *found):
  """Keeps questions of the passages of a shard."""
  rows = shards.rows(number)
  questions.write_shard(
      shards, number, {'made': 'so'},
      [records.Passage(f'p{row}', '', '') for row in rows][:len(found)],
      found, {'seconds': 1.5})


def pairs(shards, *numbers):
  return [(pair['query'], pair['passage_id']) for pair in
          synthetic_pairs.read_pairs([shards.pairs_of(n) for n in numbers])]


@pytest.mark.parametrize(('passages', 'size', 'want'), [
    (7, 3, [range(3), range(3, 6), range(6, 7)]),
    (6, 3, [range(3), range(3, 6)]), (2, 5, [range(2)]), (0, 5, []),
])
def test_every_passage_is_in_one_shard(tmp_path, passages, size, want):
  shards = question_shards.shards_of(tmp_path, passages, size)
  assert len(shards) == len(want)
  assert [shards.rows(number) for number in range(len(shards))] == want
  assert [shards.place(number).name for number in range(len(shards))] == [
      f'{number:05d}-of-{len(want):05d}' for number in range(len(want))]


def test_empty_and_repeated_questions_are_left_out(tmp_path):
  shards = question_shards.shards_of(tmp_path / 'q', 4, 2)
  write(shards, 1, ['Who  is\nit?', 'who is IT?', ' ?!', ''],
        ['who is it?', 'Ünd?'])
  assert pairs(shards, 1) == [
      ('Who is it?', 'p2'), ('who is it?', 'p3'), ('Ünd?', 'p3')]
  manifest = shards.manifest(1)
  assert manifest['identity'] == {'made': 'so'}
  assert manifest['counts'] == {
      'seconds': 1.5, 'passages': 2, 'written': 6, 'empty': 2, 'repeated': 1,
      'kept': 3}


def test_what_is_missing_is_made(tmp_path):
  shards = question_shards.shards_of(tmp_path / 'q', 6, 2)
  write(shards, 1, ['one?'], ['two?'])
  assert shards.made() == [1] and not shards.are_made()
  made = []

  def make(number):
    made.append(number)
    write(shards, number, [f'{number}?'], [])

  shards.make_missing(make)
  assert sorted(made) == [0, 2] and shards.are_made()
  shards.make_missing(make)
  assert len(made) == 2
  assert pairs(shards, 0, 1, 2) == [
      ('0?', 'p0'), ('one?', 'p2'), ('two?', 'p3'), ('2?', 'p4')]
  assert shards.all_pairs() == [shards.pairs_of(number) for number in range(3)]


def test_a_shard_is_whole_or_not_there(tmp_path):
  shards = question_shards.shards_of(tmp_path / 'q', 2, 2)
  with pytest.raises(KeyboardInterrupt), shards.writing(0, {}) as f:
    f.write(json.dumps({'query': 'half'}))
    raise KeyboardInterrupt
  assert not shards.is_made(0) and shards.made() == []


def test_a_damaged_shard_is_refused(tmp_path):
  shards = question_shards.shards_of(tmp_path / 'q', 2, 2)
  write(shards, 0, ['one?'], ['two?'])
  path = shards.pairs_of(0)
  path.write_text(path.read_text().replace('one', 'odd'))
  with pytest.raises(errors.UserError, match=str(path)):
    shards.pairs_of(0)


def test_filters_have_their_shards_beside_them(tmp_path):
  shards = question_shards.shards_of(tmp_path / 'q', 5, 2)
  beside = shards.beside('round-trip-abc')
  assert beside.folder == tmp_path / 'q-round-trip-abc'
  assert [beside.rows(n) for n in range(3)] == [shards.rows(n)
                                                for n in range(3)]


def test_shards_are_looked_up_once_however_many_there_are(
    tmp_path, monkeypatch
):
  """Twice before a shard is made, and once at the end."""
  shards = question_shards.shards_of(tmp_path / 'q', 20, 1)
  looked, is_made = [], question_shards.Shards.is_made
  monkeypatch.setattr(
      question_shards.Shards, 'is_made',
      lambda shards, number: looked.append(number) or is_made(shards, number),
  )
  shards.make_missing(lambda number: write(shards, number, [f'{number}?']))
  assert len(looked) == 3 * len(shards)
