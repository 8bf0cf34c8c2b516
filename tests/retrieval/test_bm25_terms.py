"""Texts as terms: the same for every reader, whatever it read before."""

import numpy as np

from neg_contrast.retrieval import bm25_terms


def test_terms_depend_on_stems_alone(monkeypatch):
  one, other = bm25_terms.TermReader(), bm25_terms.TermReader()
  other.read(['something else', 'Bulls ran'])
  texts = ['The running bulls', '', 'a BULL runs; kites']
  read, again = one.read(texts), other.read(texts)
  assert read.lengths.tolist() == [2, 0, 3]
  np.testing.assert_array_equal(read.terms, again.terms)
  run, bull, kite = read.terms[0], read.terms[1], read.terms[4]
  assert read.terms.tolist() == [run, bull, bull, run, kite]
  assert len({run, bull, kite}) == 3
  monkeypatch.setattr(bm25_terms, '_MOST_WORDS', 2)
  np.testing.assert_array_equal(one.read(texts).terms, read.terms)
  assert len(one.read(texts).table) == 3  # It has forgotten others.


def test_no_texts_and_texts_of_no_encoding():
  reader = bm25_terms.TermReader()
  for texts in ([], ['', 'the']):
    read = reader.read(texts)
    assert len(read.terms) == 0 and len(read.lengths) == len(texts)
  assert len(reader.read(['half \ud800a pair']).terms)
