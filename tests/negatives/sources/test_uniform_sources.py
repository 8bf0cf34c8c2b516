"""Uniform draws: never a positive or a copy of one, nor another query's world.
"""

import pathlib

import hypothesis
import numpy as np
from hypothesis import strategies as st

from neg_contrast import sharding
from neg_contrast.negatives import sources
from neg_contrast.settings import config as config_lib
from tests.negatives.sources import test_context_source as context


def make(name, pairs, groups, count):
  settings = config_lib.NegativesConfig((f'{name}:{count}',))
  return sources.make(sources.Material(
      settings, config_lib.LossConfig(), 3, 4, context.Documents(
          np.zeros(len(groups), np.int32), groups), pairs, None, {},
      sharding.make_local_mesh(config_lib.MeshConfig()),
      lambda params, rows: None, pathlib.Path()))


@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(
    st.integers(0, 2**32 - 1), st.sampled_from(['corpus', 'gold'])
)
def test_never_a_positive_or_its_copy(seed, name):
  rng = np.random.default_rng(seed)
  passages = int(rng.integers(6, 40))
  # A group is named by its first row.
  groups = np.arange(passages)
  copies = rng.choice(np.arange(1, passages), passages // 3, replace=False)
  groups[copies] = groups[copies - 1]
  groups = groups[groups]
  pairs = context.make_pairs({
      (int(q), int(p)) for q, p in zip(
          rng.integers(0, 5, 12), rng.integers(0, passages, 12), strict=True)
  }, list(groups))
  source = make(name, pairs, groups, 3)
  step = int(rng.integers(0, 100))
  drawn = context.draw(source, pairs, step)
  known = [set(groups[pairs.positive_rows[pairs.query_rows == query]])
           for query in pairs.query_rows]
  for line, own in zip(drawn.rows, known, strict=True):
    there = line[line >= 0]
    assert len(set(there)) == len(there)
    assert not set(groups[there]) & own
    if name == 'gold':
      assert set(there) <= set(pairs.positive_rows)
  np.testing.assert_array_equal(
      drawn.sources, np.where(drawn.rows >= 0, 0, -1))
  part = context.draw(source, pairs, step, np.array([2, 0]))
  np.testing.assert_array_equal(part.rows, drawn.rows[[2, 0]])


def test_gold_is_all_that_others_have():
  pairs = context.make_pairs([(q, 3 * q) for q in range(8)], range(30))
  seen = [set() for _ in range(8)]
  for step in range(60):
    drawn = context.draw(make('gold', pairs, np.arange(30), 2), pairs, step)
    assert (drawn.rows >= 0).all()
    for query, line in enumerate(drawn.rows):
      seen[query] |= set(map(int, line))
  for query in range(8):
    assert seen[query] == {3 * other for other in range(8) if other != query}
