"""The part of a passage that matches a query."""

import numpy as np

from neg_contrast import scoring
from neg_contrast.data import records
from neg_contrast.retrieval import finding, vectors


class Letters(vectors.Encoder):
  """A text is how often it has each of three letters."""

  dim = 3
  score = scoring.DUAL

  def encode_queries(self, queries):
    """As passages."""
    return self.encode_passages(queries)

  def encode_passages(self, passages):
    """`[texts, 3] float32`."""
    counts = [[text.count(letter) for letter in 'xyz'] for text in passages]
    return np.array(counts, np.float32).reshape(-1, 3)


def test_the_nearest_sentence_matches():
  text = 'Some words are here, xx. More words are here, yyy. Last ones, x zz z.'
  passages = [records.Passage(str(n), '', of)
              for n, of in enumerate((text, ' ', text.replace('y', 'z')))]
  query = Letters().encode_queries(['yy'] * 3)
  found = finding.matching_parts(Letters(), query, passages)
  start, end = found[0]
  assert text[start:end] == 'More words are here, yyy.'
  assert found[1] == (0, 0)
  assert found[2] == finding.matching_parts(
      Letters(), query[2:], passages[2:])[0]


def test_nothing_was_found():
  query = np.ones((0, 3), np.float32)
  assert finding.matching_parts(Letters(), query, []) == []
