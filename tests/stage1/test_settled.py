"""Pretexts that a teacher settles: spar and salient spans."""

import numpy as np
import pytest

from neg_contrast.data import records
from neg_contrast.stage1 import pretexts, teachers
from neg_contrast.stage1.pretexts import salient_spans

TEXTS = (
    'A river runs to the cold sea. Its water is clear and deep here.',
    'The old bridge crosses a wide river. People walk over it each day.',
    'A castle stands on the green hill. It was built of grey stone.',
)
DOCUMENT = [(10 + i, records.Passage(f'p{i}', title, text, 'd'))
            for i, (title, text) in enumerate(zip(
                ('Sea water', 'River bridge', ''), TEXTS, strict=True))]


def offsets(text):
  at, found = 0, []
  for word in text.split():
    at = text.index(word, at)
    found.append((at, at + len(word)))
    at += len(word)
  return found


def draw(kind, count, seed=0):
  return pretexts.draw_candidates(kind, DOCUMENT, offsets, seed, count)


class Table:
  """Finds what a table says of a word of the query."""

  def __init__(self, found):
    self.found = found

  def search(self, queries):
    return np.array([
        next((rows for word, rows in self.found.items() if word in query),
             (-1, -1, -1)) for query in queries
    ], np.int32)


FOUND = {'river': (10, 11, -1), 'water': (10, -1, -1), 'castle': (11, -1, -1)}


def settle_spar(seed=0, count=2):
  return list(pretexts.settle('spar', draw('spar', count, seed), Table(FOUND),
                              count))


def test_spar_positives_are_what_the_teacher_finds():
  pairs = settle_spar()
  by_query = {pair.query: pair for pair in pairs}
  assert set(by_query) == {
      'A river runs to the cold sea.', 'Its water is clear and deep here.',
      'The old bridge crosses a wide river.',
      'A castle stands on the green hill.',
  }  # Nothing is found with the others.
  castle = by_query['A castle stands on the green hill.']
  assert (castle.row, castle.home) == (11, 12)  # It is known to hold it.
  water = by_query['Its water is clear and deep here.']
  assert (water.row, water.home) == (10, -1)
  for query in ('A river runs to the cold sea.',
                'The old bridge crosses a wide river.'):
    assert by_query[query].row in (10, 11)


def test_spar_draws_all_of_the_first_and_by_the_seed():
  assert settle_spar() == settle_spar()
  rows = {pair.row for seed in range(20) for pair in settle_spar(seed)
          if pair.query.startswith('A river')}
  assert rows == {10, 11}
  fewer = settle_spar(count=1)
  assert all(pair in settle_spar() for pair in fewer)


class Letters:
  """Likes a letter."""

  def score(self, queries, passages):
    assert all(query.split()[0] in passage.text
               for query, passage in zip(queries, passages, strict=True))
    counts = np.array([query.count('o') for query in queries], float)
    return np.where(counts > 0, counts, -np.inf)


def test_salient_spans_are_the_best_of_those_drawn():
  candidates = draw('salient_spans', salient_spans.SPANS)
  assert [len(drawn.pairs) for drawn in candidates] == [16] * 3
  for drawn in candidates:
    for pair in drawn.pairs:
      assert pair.query in drawn.passage.text
      assert 4 <= len(pair.query.split()) <= 16
  best = list(pretexts.settle('salient_spans', candidates, Letters(), 1))
  more = list(pretexts.settle('salient_spans', candidates, Letters(), 5))
  assert [pair.row for pair in best] == [10, 11, 12]
  for pair, drawn in zip(best, candidates, strict=True):
    most = max(one.query.count('o') for one in drawn.pairs)
    assert pair.query.count('o') == most > 0
    assert pair == next(one for one in more if one.row == pair.row)
  assert len(more) == 15
  scores = [pair.query.count('o') for pair in more if pair.row == 11]
  assert scores == sorted(scores, reverse=True)


def test_a_title_that_is_told_is_left_out():
  titles = teachers.TitleTeacher().load()
  pairs = list(pretexts.settle(
      'salient_spans', draw('salient_spans', 16), titles, 16))
  assert {pair.row for pair in pairs} == {10, 11}  # One passage has no title.
  assert all({'water', 'sea', 'sea.', 'river', 'bridge'} & set(
      pair.query.casefold().split()) or 'river' in pair.query.casefold()
      for pair in pairs)
  assert all(pair.title for pair in pairs)  # No span holds all of a title.
  told = [(0, records.Passage('p', 'Cold sea', TEXTS[0], 'd'))]
  drawn = pretexts.draw_candidates('salient_spans', told, offsets, 0, 16)
  pairs = list(pretexts.settle('salient_spans', drawn, titles, 1))
  assert 'cold sea' in pairs[0].query and not pairs[0].title


def test_scores_of_titles_are_f1_of_words():
  passage = DOCUMENT[0][1]
  scores = teachers.TitleTeacher().load().score(
      ['the sea', 'water of the Sea', 'a hill'], [passage] * 3)
  assert scores == pytest.approx([2 / 4, 4 / 6, -np.inf])
