"""Pairs packed together: nothing is lost, and segments belong together."""

import dataclasses

import jax
import numpy as np
import pytest

from neg_contrast.batches import question_batches
from neg_contrast.data import sequences
from tests.batches import test_batcher

START, END = 1, 99


def make_batcher(seed, wide, narrow, count, groups, **kwargs):
  """Sources of up to `wide` tokens, questions of up to `narrow` with an end."""
  rng = np.random.default_rng(seed)
  sources = [rng.integers(2, 99, rng.integers(1, wide + 1))
             for _ in range(count)]
  questions = [rng.integers(2, 99, rng.integers(0, narrow))
               for _ in range(count)]
  batcher = question_batches.QuestionBatcher(
      count=count,
      source_tokens=lambda rows: sequences.listed(sources[n] for n in rows),
      question_tokens=lambda rows: sequences.listed(questions[n] for n in rows),
      groups=groups, row_lengths={'source': wide, 'target': narrow},
      start_id=START, end_id=END, seed=seed, **{'batch_size': count, **kwargs})
  return batcher, sources, questions


@pytest.mark.parametrize('seed', range(20))
def test_every_pair_shares_a_row_and_a_segment(seed):
  rng = np.random.default_rng(seed)
  wide, narrow = int(rng.integers(20, 60)), int(rng.integers(5, 15))
  count = int(rng.integers(1, 40))
  batcher, sources, questions = make_batcher(
      seed, wide, narrow, count, int(rng.integers(1, 4)))
  batch, stats = batcher.pack(np.arange(count))
  found = []
  groups, rows, _ = batch.source_ids.shape
  assert batch.target_ids.shape == (groups, rows, narrow)
  for group in range(groups):
    for row in range(rows):
      place = group, row
      for segment in set(batch.source_segments[place]) - {0}:
        own = batch.target_segments[place] == segment
        target = batch.target_ids[place][own]
        given = batch.input_ids[place][own]
        assert given[0] == START and (given[1:] == target[:-1]).all()
        assert (np.diff(np.flatnonzero(own)) == 1).all()
        found.append((
            tuple(batch.source_ids[place][
                batch.source_segments[place] == segment]), tuple(target)))
  want = [(tuple(s), (*q, END)) for s, q in zip(sources, questions,
                                                strict=True)]
  assert sorted(found) == sorted(want)
  assert stats.useful_tokens == sum(len(s) + len(t) for s, t in want)


def test_batches_are_random_access_and_cover_an_epoch():
  seen = []
  batcher = make_batcher(3, 8, 4, 12, 1, batch_size=4)[0]
  read = batcher.source_tokens
  batcher = dataclasses.replace(
      batcher, source_tokens=lambda rows: (seen.extend(rows) or read(rows)))
  batches = [batcher(step)[0] for step in range(3)]
  assert sorted(seen) == list(range(12)) and seen != list(range(12))
  again = batcher(1)[0]
  np.testing.assert_array_equal(again.source_ids, batches[1].source_ids)


def test_shares_are_the_whole_and_read_their_own_tokens(monkeypatch):
  monkeypatch.setattr(test_batcher.Watched, 'read', 0)
  batcher = make_batcher(0, 40, 10, 50, 6, batch_size=30)[0]
  shares = test_batcher.shares_of(batcher, 'source_tokens', 'question_tokens')
  for step in range(3):
    whole, stats = batcher(step)
    total = jax.tree.map(np.zeros_like, whole)
    for share in shares:
      before = test_batcher.Watched.read
      part, told = share(step)
      assert told == stats
      # Questions are read as inputs and as targets, without start and end.
      questions = (part.target_segments > 0).sum() - (
          part.target_ids == END).sum()
      assert questions > 0
      assert test_batcher.Watched.read - before == (
          part.source_segments > 0).sum() + 2 * questions
      total = jax.tree.map(np.add, total, part)
    jax.tree.map(np.testing.assert_array_equal, total, whole)
