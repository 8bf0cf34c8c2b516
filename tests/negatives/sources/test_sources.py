"""The tables of sources, and several of them together."""

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from neg_contrast.negatives import sources
from neg_contrast.negatives.sources import mixed_source, pool_source
from neg_contrast.settings import config as config_lib
from tests.negatives.sources import test_context_source as context

POOL = context.make_pool([[0]], ('bm25', 'given'))


def parts_of(*listed, **settings):
  return [(part.kind, part.count) for part in sources.parts_of(
      config_lib.NegativesConfig(listed, runs=('some',), **settings))]


def test_every_source_is_drawn_by_its_class():
  for name, kind in sources.SOURCES.items():
    assert parts_of(f'{name}:3') == [(kind, 3)]
  for name in config_lib.MINED.names:
    if name not in sources.SOURCES:
      assert parts_of(f'{name}:3') == [(pool_source.FromPool, 3)]
  assert parts_of() == parts_of('shared_corpus:9', 'queue:8') == []
  assert parts_of('bm25+context:2') == [(mixed_source.Mixed, 2)]
  assert parts_of('context:2', pool='given') == [(pool_source.FromPool, 2)]
  assert parts_of('corpus:4', 'bm25:1', 'queue:8', 'gold:2', 'context:1') == [
      (sources.SOURCES['corpus'], 4), (mixed_source.Mixed, 2),
      (sources.SOURCES['gold'], 2)]


@pytest.mark.parametrize(('listed', 'names'), [
    (('corpus:1',), ('corpus',)), (('sampled:1',), ('hard', 'random')),
    ((), ()), (('context:1',), ('context',)), (('gold:1',), ('gold',)),
    (('retrieved:1',), ('retrieved',)), (('bm25:1', 'queue:8'), ('bm25',)),
    (('gold:1', 'context:1', 'bm25:1', 'sampled:3'),
     ('gold', 'bm25', 'context', 'hard', 'random')),
])
def test_sources_have_names(listed, names):
  assert sources.names_of(config_lib.NegativesConfig(listed), None) == names


def test_chances_are_known_of_one_source_alone():
  knows = lambda *listed, **more: sources.knows_chances(
      config_lib.NegativesConfig(listed, **more))
  assert knows('sampled:4') and knows('sampled:4', 'queue:8')
  assert not knows('sampled:4', 'corpus:1')
  assert not knows('sampled:4', greedy=True) and not knows('corpus:4')


LISTS = ('corpus:3', 'gold:2', 'bm25:1', 'given:2', 'bm25+given:2', 'context:1')


@hypothesis.settings(max_examples=80, deadline=None)
@hypothesis.given(
    st.integers(0, 2**32 - 1),
    st.lists(st.sampled_from(LISTS), min_size=1, max_size=5, unique=True),
)
def test_never_a_positive_and_of_several_no_text_twice(seed, listed):
  names = [name for text in listed
           for name in text.partition(':')[0].split('+')]
  hypothesis.assume(len(set(names)) == len(names))
  rng = np.random.default_rng(seed)
  passages = int(rng.integers(8, 40))
  groups = np.arange(passages)
  copies = rng.choice(np.arange(1, passages), passages // 3, replace=False)
  groups[copies] = groups[copies - 1]
  groups = groups[groups].tolist()
  wanted = sorted({(int(q), int(p)) for q, p in zip(
      rng.integers(0, 4, 9), rng.integers(0, passages, 9), strict=True)})
  known = [{groups[p] for q, p in wanted if q == query} for query in range(4)]
  lines = []
  for query in range(4):  # As mining leaves it: no positive, each text once.
    _, first = np.unique(groups, return_index=True)
    usable = [row for row in first.tolist() if groups[row] not in known[query]]
    line = rng.permutation(usable)[:6].tolist()
    lines.append(line + [-1] * (6 - len(line)))
  pool = context.make_pool(lines)
  source, pairs = context.make_source(
      [0] * passages, wanted, groups, pool, sources=tuple(listed))
  count = sum(int(text.partition(':')[2]) for text in listed)
  step = int(rng.integers(0, 100))
  drawn = context.draw(source, pairs, step)
  named = sources.names_of(config_lib.NegativesConfig(tuple(listed)), pool)
  assert drawn.rows.shape == drawn.sources.shape == (len(pairs), count)
  for line, numbers, query in zip(
      drawn.rows, drawn.sources, pairs.query_rows, strict=True):
    there = [groups[row] for row in line if row >= 0]
    if len(sources.parts_of(config_lib.NegativesConfig(tuple(listed)))) > 1:
      assert len(set(there)) == len(there)
    assert not {*there} & known[query]
    assert {named[number] for number in numbers if number >= 0} <= {*names}
    assert ((line >= 0) == (numbers >= 0)).all()
  part = context.draw(source, pairs, step, np.array([len(pairs) - 1, 0]))
  np.testing.assert_array_equal(part.rows, drawn.rows[[len(pairs) - 1, 0]])


def test_each_source_gives_its_number():
  pool = context.make_pool([[9, 8]] * 2)
  source, pairs = context.make_source(
      [0] * 40, [(0, 1), (1, 0)], None, pool,
      sources=('bm25:1', 'corpus:3', 'gold:1'))
  alone, _ = context.make_source(
      [0] * 40, [(0, 1), (1, 0)], None, pool, sources=('bm25:1',))
  seen = set()
  for step in range(200):
    drawn = context.draw(source, pairs, step)
    np.testing.assert_array_equal(
        drawn.rows[:, :1], context.draw(alone, pairs, step).rows)
    filled = np.where(drawn.rows >= 0, [0, 2, 2, 2, 3], -1)
    np.testing.assert_array_equal(drawn.sources, filled)
    assert (drawn.rows[:, :2] >= 0).any(axis=1).all()
    seen |= set(drawn.rows[0, 1:4].tolist())
  assert seen == {*range(40)} - {1} | {-1}  # One of bm25's stays empty.


def test_shared_columns_join():
  settings = config_lib.NegativesConfig(('queue:8', 'shared_corpus:5'))
  draw = sources.make_shared(settings, 3, 20)
  rows = draw(7)
  assert len(set(rows.tolist())) == 5 and set(rows.tolist()) <= {*range(20)}
  assert draw(7).tolist() == rows.tolist() != draw(8).tolist()
  among = np.array([30, 40])
  assert set(sources.make_shared(settings, 3, among)(7)) == {-1, 30, 40}
  assert not len(sources.make_shared(
      config_lib.NegativesConfig(('queue:8',)), 3, 20)(7))
