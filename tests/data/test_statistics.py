import dataclasses

import numpy as np
import pytest

from neg_contrast.data import prepared as prepared_lib
from neg_contrast.data import statistics, token_store, tokenized
from neg_contrast.data import tokenizer as tokenizer_lib
from tests import tiny


def texts_of(folder, titles, bodies, cut=8, prefix=()):
  """Texts of so many words."""
  tiny.write_tokenizer(folder / 'tokenizer')
  tokenizer = tokenizer_lib.load_tokenizer(str(folder / 'tokenizer'))
  texts = [(' '.join(['word1'] * t), ' '.join(['word2'] * b))
           for t, b in zip(titles, bodies, strict=True)]
  store = token_store.make_token_store(texts, tokenizer, folder / 'store', 'x')
  return tokenized.TokenizedTexts(store, tokenizer.template, cut, prefix)


class Columns(prepared_lib.Prepared):
  """A prepared corpus of which only columns are known."""

  def __init__(self, groups, documents):
    self.passage_groups = np.array(groups, np.int32)
    self.passage_documents = np.array(documents, np.int32)


def judgements(queries, grades, unjudged=()):
  queries = np.array(queries, np.int32)
  return prepared_lib.Judgements(
      queries, np.arange(len(queries), dtype=np.int32),
      np.array(grades, np.int32), np.ones(len(queries), bool),
      np.array(unjudged, np.int32),
  )


@pytest.mark.parametrize('chunk', [1, 3, 100])
def test_lengths_equal_those_of_the_sequences(tmp_path, monkeypatch, chunk):
  monkeypatch.setattr(statistics, '_CHUNK_ROWS', chunk)
  rng = np.random.default_rng(0)
  titles, bodies = rng.integers(0, 3, 50), rng.integers(0, 12, 50)
  texts = texts_of(tmp_path, titles, bodies, cut=8, prefix=(5, 6))
  found = statistics.measure_lengths(texts)
  uncut = dataclasses.replace(texts, max_length=999)
  lengths = uncut.tokens(np.arange(50)).lengths
  assert found.counts.tolist() == np.bincount(lengths).tolist()
  assert found.sequences == 50 and found.longest == lengths.max()
  assert found.cut_sequences == (lengths > 8).sum() > 0
  assert found.tokens == lengths.sum()
  assert found.cut_tokens == np.maximum(lengths - 8, 0).sum()
  assert found.untitled == (titles == 0).sum()
  assert found.quantile(0.5) == np.sort(lengths)[24]
  assert found.quantile(1.0) == lengths.max()


def test_nothing_to_measure(tmp_path):
  with pytest.raises(ValueError, match='no texts'):
    statistics.measure_lengths(texts_of(tmp_path, [], []))


@pytest.mark.parametrize('chunk', [1, 2, 100])
def test_corpus(monkeypatch, chunk):
  monkeypatch.setattr(statistics, '_CHUNK_ROWS', chunk)
  # Rows 3 and 5 repeat row 1, row 6 repeats row 4.
  prepared = Columns([0, 1, 2, 1, 4, 1, 4], [0, -1, 0, 1, 0, 2, -1])
  assert statistics.describe_corpus(prepared) == statistics.Corpus(
      passages=7, copies=3, largest_group=3, documents=3, without_document=2,
      document_sizes=(1, 1, 3),
  )


def test_corpus_without_documents_or_copies():
  prepared = Columns([0, 1, 2, 3], [-1] * 4)
  assert statistics.describe_corpus(prepared) == statistics.Corpus(
      passages=4, copies=0, largest_group=1, documents=0, without_document=4,
      document_sizes=None,
  )


def test_split():
  found = statistics.describe_split('dev', judgements(
      [3, 3, 5, 5, 5, 8, *[9] * 7], [1, 2, 0, 1, -1, 0, *[1] * 7], [1, 2],
  ))
  assert (found.positives, found.negatives) == (10, 3)
  assert found.by_positives == (1, 1, 1, 0, 0, 1)
  assert (found.queries, found.several, found.unjudged) == (6, 2, 2)
  empty = statistics.describe_split('x', judgements([], [], [4]))
  assert (empty.queries, empty.positives, empty.several) == (1, 0, 0)
