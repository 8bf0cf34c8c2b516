"""Context negatives are those of the example, with a pool and without."""

import collections
import pathlib
import types

import numpy as np

from neg_contrast import sharding
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import examples
from neg_contrast.negatives import half_table, sources
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.settings import config as config_lib

NO_HALVES = half_table.Halves(np.zeros(0, np.int64), np.zeros((0, 3), np.int32))


class Documents(dataset_lib.Dataset):
  """Documents and groups, without any text."""

  documents = own_passages = None

  def __init__(self, documents, groups):
    self.documents = np.array(documents, np.int32)
    self.prepared = types.SimpleNamespace(
        passages=range(len(documents)),
        passage_groups=np.array(groups, np.int32),
        rows_of_worlds=lambda rows: None)


def make_pairs(pairs, groups):
  pairs = np.array(sorted(pairs), np.int32)
  known = np.stack([pairs[:, 0], np.array(groups, np.int32)[pairs[:, 1]]], 1)
  return examples.Examples(
      pairs[:, 0].copy(), pairs[:, 1].copy(), examples.Positives(
          np.unique(known, axis=0), int(pairs[:, 0].max()) + 1))


def make_source(documents, pairs, groups=None, pool=None,
                halves=NO_HALVES, given='', **settings):
  groups = range(len(documents)) if groups is None else groups
  settings = config_lib.NegativesConfig(**{
      'sources': ('context:2',), 'pool_size': 10, 'pool': given,
      **settings})
  material = sources.Material(
      settings, config_lib.LossConfig(), 3, 4, Documents(documents, groups),
      make_pairs(pairs, list(groups)), pool, {'halves': halves},
      sharding.make_local_mesh(config_lib.MeshConfig()),
      lambda params, rows: None, pathlib.Path())
  return sources.make(material), material.pairs


def draw(source, pairs, step=0, numbers=None):
  numbers = np.arange(len(pairs)) if numbers is None else numbers
  return source.draw(step, numbers, pairs.query_rows[numbers])


def test_thirty_passages_of_one_question_have_neighbours_of_their_own():
  documents = np.repeat(np.arange(30), 5)
  positives = np.arange(30) * 5 + 2
  source, pairs = make_source(documents, [(0, row) for row in positives])
  for step in range(5):
    drawn = draw(source, pairs, step)
    assert drawn.rows.shape == (30, 2) and (drawn.rows >= 0).all()
    assert (documents[drawn.rows] == np.arange(30)[:, None]).all()
    assert not np.isin(drawn.rows, positives).any()
    assert (drawn.rows[:, 0] != drawn.rows[:, 1]).all()
    assert (drawn.sources == 0).all()


def test_draws_are_a_function_of_seed_step_and_example():
  """So any number of processes draw the same."""
  rng = np.random.default_rng(0)
  documents = rng.integers(0, 9, 100)
  source, pairs = make_source(documents, {
      (int(q), int(p)) for q, p in rng.integers(0, (20, 100), (60, 2))})
  whole = [draw(source, pairs, step).rows for step in (4, 5)]
  assert (whole[0] != whole[1]).any()
  for some in (np.arange(7), np.array([50, 3, 17])):
    np.testing.assert_array_equal(
        draw(source, pairs, 4, some).rows, whole[0][some])


def test_a_passage_alone_gives_its_half_to_its_own_example():
  #            0: two passages; 1: one, and a copy of it; 2: one; 3: unknown.
  documents, groups = [0, 0, 1, 1, 2, -1], [0, 1, 2, 2, 4, 5]
  pairs = [(0, 0), (0, 2), (1, 2), (1, 4), (2, 5)]
  halves = half_table.Halves(
      np.array([0 << 32 | 2, 1 << 32 | 2]),
      np.array([[2, 0, 4], [2, 4, 9]], np.int32))
  source, pairs = make_source(documents, pairs, groups, halves=halves)
  assert sorted(draw(source, pairs).rows.tolist()) == sorted([
      [1, -1], [6, -1], [7, -1], [-1, -1], [-1, -1]])
  assert source.halves is halves.spans
  # Halves are looked up by query and positive, whatever the order.
  turned = draw(source, pairs, 0, np.array([2, 1, 0])).rows
  assert turned.tolist() == [[7, -1], [6, -1], [1, -1]]


def make_pool(rows, names=('bm25', 'given')):
  rows = np.array(rows, np.int32)
  return pool_lib.Pool(
      np.arange(len(rows), dtype=np.int32), rows,
      np.where(np.arange(rows.shape[1]) < 2, 0, 1).astype(np.uint8)
      * np.ones_like(rows, np.uint8),
      np.ones_like(rows), np.zeros(rows.shape, np.float32),
      np.zeros(rows.shape, np.uint8),
      np.zeros((len(rows), 2), np.float32), np.zeros((0, 3), np.int32), names,
      {})


MIXED = ('context+bm25+given:2',)


def test_mixed_draws_uniformly_from_the_union():
  """The pool has 9, 8 and 2; the context 0, 2, 3 (as 8) and 4."""
  documents, groups = [0] * 5 + [1] * 5, [0, 1, 2, 3, 4, 5, 6, 7, 3, 9]
  pool = make_pool([[9, 8, 2, -1]] * 1500)
  source, pairs = make_source(
      documents, [(query, 1) for query in range(1500)], groups, pool,
      sources=MIXED)
  names = sources.names_of(config_lib.NegativesConfig(MIXED), pool)
  assert names == ('bm25', 'given', 'context')
  drawn = draw(source, pairs)
  assert (drawn.rows[:, 0] != drawn.rows[:, 1]).all()
  # Of five texts two are drawn: 600 each, standard deviation 19.
  counts = collections.Counter(drawn.rows.ravel().tolist())
  assert counts.keys() == {0, 2, 4, 8, 9}
  assert max(abs(count - 600) for count in counts.values()) < 5 * 19
  assert dict(zip(drawn.rows.flat, drawn.sources.flat, strict=True)) == {
      9: 0, 8: 0, 2: 1, 0: 2, 4: 2}


def test_mixed_keeps_quotas_by_name():
  documents = [0] * 5 + [1] * 5
  source, pairs = make_source(
      documents, [(0, 1), (1, 0)], None, make_pool([[9, 8, 7, 2]] * 2),
      sources=('context:2', 'given:1'))
  for step in range(30):
    drawn = draw(source, pairs, step)
    assert sorted(drawn.sources[0].tolist()) == [1, 2, 2]
    drawn = drawn.rows[0].tolist()
    assert len(set(drawn)) == 3 and 1 not in drawn


def test_the_context_gives_its_number_where_miners_found_the_document():
  documents, groups = [0] * 4 + [1] * 6, [*range(9), 3]
  source, pairs = make_source(
      documents, [(0, 1), (1, 0)], groups, make_pool([[2, 3, 4], [1, 2, 9]]),
      sources=('bm25+given:1', 'context:1'))
  seen = [set(), set()]
  for step in range(60):
    drawn = draw(source, pairs, step)
    is_context = drawn.sources == 2
    assert (is_context.sum(axis=1) == 1).all() and (drawn.sources >= 0).all()
    for query, rows in enumerate(drawn.rows):
      assert len({groups[row] for row in rows}) == 2
      seen[query] |= {*zip(rows.tolist(), is_context[query].tolist(),
                           strict=True)}
  # A text of both is given by either. Row 9 is a copy of 3.
  assert seen == [
      {(0, True), (2, True), (3, True), (2, False), (3, False), (4, False)},
      {(1, True), (2, True), (3, True), (1, False), (2, False), (9, False)},
  ]


def test_a_pool_that_was_mined_is_drawn_from_as_it_is():
  pool = make_pool([[9, 8, 7, 2]] * 2, ('context', 'given'))
  source, pairs = make_source(
      [0] * 10, [(0, 1), (1, 0)], None, pool, given='somewhere',
      sources=('pool:2',))
  assert {int(row) for step in range(20)
          for row in draw(source, pairs, step).rows.flat} == {2, 7, 8, 9}


def test_of_a_given_pool_only_what_is_named():
  pool = make_pool([[9, 8, 7, 2]] * 2, ('context', 'given'))
  source, pairs = make_source(
      [0] * 10, [(0, 1), (1, 0)], None, pool, given='somewhere',
      sources=('given:2',))
  drawn = [draw(source, pairs, step) for step in range(20)]
  assert {int(row) for one in drawn for row in one.rows.flat} == {7, 2}
  rest, _ = make_source(
      [0] * 10, [(0, 1), (1, 0)], None, pool, given='somewhere',
      sources=('given:1', 'pool:1'))
  for step in range(20):
    assert (draw(rest, pairs, step).sources == 1).sum(axis=1).tolist() == [1, 1]
