"""Postings: what is counted, and its file, which refuses damage."""

import collections

import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.artifacts import checksums, folders
from neg_contrast.retrieval import bm25_postings, bm25_terms


def terms_of(passages):
  flat = [term for one in passages for term in one]
  table = np.array([70, 30, 50, 2**63, 90], np.uint64)
  return bm25_terms.Terms(table, np.array(flat, np.int32),
                          np.array(list(map(len, passages)), np.int32))


def as_counters(postings):
  found = [collections.Counter() for _ in postings.lengths]
  for number, term in enumerate(postings.terms.tolist()):
    run = slice(*postings.begins[number : number + 2].tolist())
    assert (np.diff(postings.places[run].astype(int)) > 0).all()
    for place, times in zip(postings.places[run], postings.counts[run],
                            strict=True):
      found[place][term] = int(times)
  return found


@pytest.mark.parametrize('repeats', [3, 300, 70_000])
def test_counts_are_those_of_a_counter(repeats):
  passages = [[0, 3, 0], [], [1] * repeats + [3], [3]]
  terms = terms_of(passages)
  postings = bm25_postings.count(terms)
  assert as_counters(postings) == [
      collections.Counter(terms.table[passage].tolist())
      for passage in passages]
  assert postings.terms.tolist() == [30, 70, 2**63]
  assert postings.counts.itemsize == {3: 1, 300: 2, 70_000: 4}[repeats]
  assert postings.lengths.tolist() == list(map(len, passages))


def test_terms_of_one_hash_are_one():
  terms = bm25_terms.Terms(np.array([5, 5], np.uint64),
                           np.array([0, 1, 0], np.int32),
                           np.array([3], np.int32))
  assert as_counters(bm25_postings.count(terms)) == [{5: 3}]


def test_no_more_passages_than_a_place_can_number():
  with pytest.raises(ValueError, match='65537 passages; at most 65536'):
    bm25_postings.count(terms_of([[]] * 65_537))


def write(folder, passages):
  with folders.writing(folder, {}) as scratch:
    bm25_postings.write(bm25_postings.count(terms_of(passages)),
                        scratch / 'postings.bin')
  return folder / 'postings.bin'


PASSAGES = [[0, 3, 0], [], [1] * 300 + [3], [3, 4]]


@pytest.mark.parametrize('passages', [PASSAGES, [[], []]])
def test_a_file_reads_as_it_was_written(tmp_path, passages):
  path = write(tmp_path / 'made', passages)
  read = bm25_postings.read(path, path.parent, len(passages))
  assert as_counters(read) == as_counters(
      bm25_postings.count(terms_of(passages)))
  wanted = np.array([30, 60, 90, 95], np.uint64)
  begins, ends = read.locate(wanted)
  holding = [sum(term in terms_of([one]).terms for one in passages)
             for term in wanted]
  assert (ends - begins).tolist() == holding
  places, counts = read.gather(begins, ends)
  if len(places):
    assert places.tolist() == [2, 3] and counts.tolist() == [300, 1]


def test_a_flipped_bit_anywhere_names_the_file_and_the_remedy(
    tmp_path, monkeypatch
):
  monkeypatch.setattr(checksums, 'BLOCK_BYTES', 16)  # Each part has its own.
  path = write(tmp_path / 'made', PASSAGES)
  whole = path.read_bytes()
  for byte in range(0, len(whole), 3):
    path.write_bytes(bytes([*whole[:byte], whole[byte] ^ 4, *whole[byte + 1:]]))
    with pytest.raises(errors.UserError, match=(
        f'{path}: damaged .*Remove {path.parent}; the same command makes')):
      read = bm25_postings.read(path, path.parent, 4)
      read.gather(*read.locate(read.terms))


def test_a_file_of_another_length_or_of_other_passages_is_refused(tmp_path):
  path = write(tmp_path / 'made', PASSAGES)
  with pytest.raises(errors.UserError, match='of 4 passages, not 5'):
    bm25_postings.read(path, path.parent, 5)
  path.write_bytes(path.read_bytes()[:-8])
  with pytest.raises(errors.UserError, match='bytes, not'):
    bm25_postings.read(path, path.parent, 4)
