"""The postings of a corpus: divided, resumed, the same bytes by anyone."""

import subprocess
import sys
import time

import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.artifacts import folders
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.retrieval import bm25_folder, bm25_helpers
from tests import corpora

WORDS = ('kite', 'wind', 'ship', 'sail', 'moon', 'tide', 'gull')
PASSAGES = {f'p{number}': ' '.join(WORDS[: number % 7 + 1])
            for number in range(11)}


@pytest.fixture(autouse=True)
def one_core(monkeypatch):
  """No helpers, which take a second to start."""
  monkeypatch.setattr(bm25_folder.hosts, 'usable_cores', lambda: 1)


def prepare(folder):
  return corpora.data_of(folder, corpora.write_beir(
      folder / 'data', PASSAGES, {'q': 'kite'}, test={'q': {'p0': 1}}
  )).load().prepared


def files(prepared):
  return {path.name: path.read_bytes()
          for path in bm25_folder.folder_of(prepared).iterdir()}


def test_helpers_and_processes_make_the_same_bytes(tmp_path):
  one, other = prepare(tmp_path / 'one'), prepare(tmp_path / 'other')
  bm25_folder.make(one, 4)
  bm25_folder._begin(other, 4)
  helped = subprocess.run(
      [sys.executable, '-m', 'neg_contrast.retrieval.bm25_helper',
       str(other.corpus_folder)], input='2\n1\n2\n', stdout=subprocess.PIPE,
      text=True, check=True)  # It ends when nobody asks any more.
  assert helped.stdout == '2\n1\n2\n'
  assert {'postings-00001.bin', 'postings-00002.bin'} < set(files(other))
  assert 'postings-00000.bin' not in files(other)
  assert not bm25_folder.is_made(other)  # That is up to its parent.
  bm25_folder.make(other, 7)  # Goes on as it was begun.
  assert bm25_folder.is_made(other)
  assert files(one) == files(other)
  shards = bm25_folder.open_shards(one)
  assert [list(shard.rows.rows) for shard in shards] == [
      [0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10]]


def test_helpers_are_led_to_every_shard(tmp_path, monkeypatch):
  one, other = prepare(tmp_path / 'one'), prepare(tmp_path / 'other')
  bm25_folder.make(one, 2)
  monkeypatch.setattr(bm25_folder.hosts, 'usable_cores', lambda: 3)
  make_none = lambda places, is_made, make: wait_for(
      lambda: all(map(is_made, range(len(places)))))
  monkeypatch.setattr(bm25_folder.parts, 'make_all', make_none)
  bm25_folder.make(other, 2)
  assert files(one) == files(other) and len(files(one)) == 13


def wait_for(condition):
  end = time.monotonic() + 120
  while not condition():
    assert time.monotonic() < end
    time.sleep(0.01)


def test_a_helper_that_ends_is_no_trouble(tmp_path, monkeypatch):
  prepared = prepare(tmp_path)
  monkeypatch.setattr(bm25_folder.hosts, 'usable_cores', lambda: 2)
  monkeypatch.setattr(bm25_helpers.sys, 'executable', '/bin/false')
  bm25_folder.make(prepared, 4)
  assert bm25_folder.is_made(prepared)


def test_there_is_a_helper_for_every_other_core(tmp_path, monkeypatch):
  asked = []
  monkeypatch.setattr(bm25_folder.hosts, 'usable_cores', lambda: 2)
  helpers = bm25_helpers.started
  monkeypatch.setattr(bm25_helpers, 'started', lambda corpus, count, *of: (
      asked.append(count), helpers(corpus, 0, *of))[1])
  for name, size in (('one', 100), ('two', 6), ('three', 4)):
    bm25_folder.make(prepare(tmp_path / name), size)
  assert asked == [0, 1, 1]


def test_an_interruption_loses_the_shard_that_was_being_made(
    tmp_path, monkeypatch
):
  prepared, counted = prepare(tmp_path), []
  count = bm25_folder.count

  def killed(prepared, rows, reader):
    if len(counted) == 2:
      raise KeyboardInterrupt
    counted.append(rows.rows.start)
    return count(prepared, rows, reader)

  monkeypatch.setattr(bm25_folder, 'count', killed)
  with pytest.raises(KeyboardInterrupt):
    bm25_folder.make(prepared, 2)
  assert counted == [0, 2] and not bm25_folder.is_made(prepared)
  folder = bm25_folder.folder_of(prepared)
  (folder / 'postings-00002.bin.partial').write_bytes(b'half')  # By kill -9.
  counted.clear()
  counted.append('begun')  # So many more may be made.
  monkeypatch.setattr(bm25_folder, 'count', lambda *args: (
      counted.append(args[1].rows.start), count(*args))[1])
  bm25_folder.make(prepared, 2)
  assert counted == ['begun', 4, 6, 8, 10]
  whole = prepare(tmp_path / 'whole')
  bm25_folder.make(whole, 2)
  assert files(prepared) == files(whole)


def test_what_is_damaged_is_refused_and_what_is_removed_made_again(tmp_path):
  prepared = prepare(tmp_path)
  bm25_folder.make(prepared)
  folder = bm25_folder.folder_of(prepared)
  path = folder / 'postings-00000.bin'
  whole = path.read_bytes()
  path.write_bytes(whole[:40] + bytes([whole[40] ^ 1]) + whole[41:])
  with pytest.raises(errors.UserError, match=f'{path}: damaged.*{folder};'):
    bm25_folder.open_shards(prepared)
  path.unlink()
  with pytest.raises(errors.UserError, match=f'{path}: damaged'):
    bm25_folder.open_shards(prepared)
  seal = folder / ('postings-00000.bin' + folders.SEAL)
  seal.write_text(seal.read_text().replace('xxh3', 'xxh4'))
  with pytest.raises(errors.UserError, match=r'checksums\.json: damaged'):
    bm25_folder.open_shards(prepared)
  for file in folder.iterdir():
    file.unlink()
  folder.rmdir()
  assert len(bm25_folder.open_shards(prepared)) == 1
  assert path.read_bytes() == whole


def test_another_format_or_corpus_is_not_taken_for_this(tmp_path, monkeypatch):
  prepared = prepare(tmp_path)
  bm25_folder.make(prepared)
  monkeypatch.setattr(bm25_folder, '_corpus', lambda prepared: 'another')
  assert not bm25_folder.is_made(prepared)
  bm25_folder.make(prepared)  # Replaces it.
  assert bm25_folder.is_made(prepared)
  monkeypatch.setattr(bm25_folder, 'FORMAT',
                      folders.Format('postings of BM25', 9))
  with pytest.raises(errors.UserError, match='this revision reads .* format 9'):
    bm25_folder.is_made(prepared)


def test_no_shard_holds_passages_of_two_worlds(tmp_path):
  worlds = {'air': {'a0': 'kite', 'a1': 'wind', 'a2': 'moon'},
            'sea': {'s0': 'ship', 's1': 'sail'}}
  prepared = corpora.data_of(tmp_path, corpora.write_worlds(
      tmp_path / 'data', worlds, [('m', 'a0', 0, 'a1')])).load().prepared
  # Queries that were made for a corpus have no worlds; it has.
  made = tmp_path / 'made'
  with folders.writing(made, {'worlds': []}, format=prepared_lib.QUERIES):
    pass
  for one in (prepared, prepared_lib.Prepared(made, prepared.corpus_folder)):
    shards = bm25_folder.divide(one, 2)
    assert [(part.world, part.rows.tolist()) for part in shards] == [
        (0, [0, 1]), (0, [2]), (1, [3, 4])]


@pytest.mark.parametrize('rows', [range(4, 9), np.arange(4, 14, 2)])
def test_rows_and_places(rows):
  of = bm25_folder.Rows(rows)
  np.testing.assert_array_equal(of.at(np.array([0, 3])),
                                np.array(rows)[[0, 3]])
  asked = np.array([[-1, 4, 5], [8, 9, 99]])
  places = of.places(asked)
  expected = [[list(rows).index(row) if row in list(rows) else -1
               for row in line] for line in asked.tolist()]
  assert places.tolist() == expected
