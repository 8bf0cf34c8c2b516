"""Search that shows each document once."""

import operator

import pytest

from neg_contrast.data import records
from neg_contrast.retrieval import by_document, finding


class Searcher:
  """Passages in a fixed order; remembers how deep it was asked to search."""

  def __init__(self, documents):
    self.documents, self.depths = documents, []

  def find(self, query, depth):
    self.depths.append(depth)
    return [finding.Found(records.Passage(f'p{i}', '', 'x', one), -float(i),
                          (0, 1))
            for i, one in enumerate(self.documents[:depth])]


def ids(found):
  return [one.passage.id for one in found]


def find(searcher, depth, passages):
  return by_document.find(searcher.find, 'q', depth, passages,
                          operator.attrgetter('document_id'))


def test_each_document_has_its_best_passage():
  searcher = Searcher(['A', 'A', 'B', 'A', '', '', 'B', 'C'])
  assert ids(find(searcher, 2, 8)) == ['p0', 'p2']
  # Passages without a document stand for themselves.
  assert ids(find(searcher, 5, 8)) == [
      'p0', 'p2', 'p4', 'p5', 'p7']


def test_it_looks_deeper_until_there_are_enough():
  searcher = Searcher(['A'] * 30 + ['B'] * 30 + ['C'] * 30)
  assert ids(find(searcher, 2, 90)) == ['p0', 'p30']
  assert searcher.depths == [8, 16, 32]


@pytest.mark.parametrize('passages', [90, 1000])
def test_there_may_be_fewer_documents(passages):
  searcher = Searcher(['A'] * 60 + ['B'] * 30)
  assert ids(find(searcher, 5, passages)) == ['p0', 'p60']
  assert searcher.depths[-1] <= passages
