"""Examples, splits and the masks of a batch, against explicit loops."""

import dataclasses

import jax
import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.batches import batcher as batcher_lib
from neg_contrast.data import examples, preparation, sequences
from tests import tiny
from tests.batches import test_batch_bytes


@pytest.fixture
def corpus(tmp_path):
  tiny.write_beir(tmp_path / 'data')
  return preparation.prepare(f'beir:{tmp_path / "data"}', tmp_path / 'out',
                             False)


def make_batcher(groups, mask=True, batch_size=6, negatives=2, towers=False):
  """Ten examples of five queries; passages 0 and 7 hold the same text."""
  passage_groups = np.array([0, 1, 2, 3, 4, 5, 6, 0, 8, 9], np.int32)
  pairs = examples.Examples(
      query_rows=np.array([0, 0, 1, 1, 2, 2, 3, 3, 4, 4], np.int32),
      positive_rows=np.arange(10, dtype=np.int32),
      positive_groups=tiny.positives(
          [[0, 1], [2, 3, 5], [4, 5], [6, 0], [8, 9]]),
  )
  rng = np.random.default_rng(0)
  texts = [rng.integers(5, 60, rng.integers(3, 12)) for _ in range(10)]

  def draw(step, numbers, queries):
    rows = np.random.default_rng(step).integers(0, 10, (len(numbers),
                                                        negatives))
    rows = np.where(rows == 4, -1, rows).astype(np.int32)
    return batcher_lib.Drawn(rows, np.minimum(rows, 0))

  lengths = {'query': 12, 'passage': 12} if towers else {'shared': 12}
  return batcher_lib.Batcher(
      pairs, batch_size, negatives, groups, lengths, 3, draw,
      lambda rows: sequences.listed(texts[row][:3] for row in rows),
      lambda rows, _: sequences.listed(texts[row] for row in rows),
      passage_groups, mask,
  ), texts, draw


def unpacked(batch, tower, slots):
  """The sequences that stand in flat slots."""
  sequences = batch.sequences[tower]
  per_group = sequences.first_index.shape[1]
  out = []
  for flat in slots:
    group, slot = divmod(int(flat), per_group)
    out.append(sequences.token_ids[group][
        sequences.segment_ids[group] == slot + 1])
  return out


@pytest.mark.parametrize('groups', [1, 2, 6])
@pytest.mark.parametrize('towers', [False, True])
def test_slots_hold_the_right_sequences(groups, towers):
  batcher, texts, draw = make_batcher(groups, towers=towers)
  names = ('query', 'passage') if towers else ('shared', 'shared')
  for step in range(4):
    batch, stats = batcher(step)
    numbers = batcher.example_numbers(step)
    pairs = batcher.examples
    queries, positives = pairs.query_rows[numbers], pairs.positive_rows[numbers]
    for row, got in zip(queries, unpacked(batch, names[0], batch.query_slots),
                        strict=True):
      np.testing.assert_array_equal(got, texts[row][:3])
    for row, got in zip(
        positives, unpacked(batch, names[1], batch.positive_slots),
        strict=True):
      np.testing.assert_array_equal(got, texts[row])
    negatives = draw(step, numbers, queries).rows
    flat = unpacked(batch, names[1], batch.negative_slots.reshape(-1))
    for row, got in zip(negatives.reshape(-1), flat, strict=True):
      if row >= 0:
        np.testing.assert_array_equal(got, texts[row])
    assert stats.values['missing_negatives'] == (negatives < 0).sum()


@pytest.mark.parametrize('mask, owns', [
    (True, None), (True, [9, -1, 3, 7, -1]), (False, [9, -1, 3, 7, -1])])
def test_masks_equal_the_contract(mask, owns):
  batcher, _, draw = make_batcher(2, mask)
  if owns is not None:  # Queries that are passages; 7 has the text of 0.
    batcher = dataclasses.replace(batcher, own_passages=np.array(owns))
  groups = batcher.passage_groups
  known = [{*batcher.examples.positive_groups[query]} | {
      groups[own] for own in [(owns or [-1] * 5)[query]] if own >= 0
  } for query in range(5)]
  for step in range(6):
    batch, _ = batcher(step)
    numbers = batcher.example_numbers(step)
    queries = batcher.examples.query_rows[numbers]
    positives = batcher.examples.positive_rows[numbers]
    candidates = [*positives, *draw(step, numbers, queries).rows.reshape(-1)]
    for i in range(6):
      for j, passage in enumerate(candidates):
        is_known = passage >= 0 and groups[passage] in known[queries[i]]
        keep = passage >= 0 and (i == j or not (mask and is_known))
        assert batch.forward_mask[i, j] == keep
      for n in range(6):
        other = (queries[i] == queries[n]
                 or groups[positives[i]] in known[queries[n]])
        assert batch.backward_mask[i, n] == (n == i or not (mask and other))


def test_shared_candidates_equal_the_contract():
  """Passages of the corpus and of the queue, against loops; and their texts."""
  batcher, texts, draw = make_batcher(2)
  shared = lambda step: np.random.default_rng(step).permutation(
      np.array([-1, *range(10)], np.int32))[:4]
  plain = batcher
  batcher = dataclasses.replace(
      batcher, draw_shared=shared, shared=4, queue_steps=3)
  groups, known = batcher.passage_groups, batcher.examples.positive_groups
  positives = batcher.examples.positive_rows
  masked = 0
  ring = [np.full(6, -1)] * 3
  for step in range(9):
    batch, stats = batcher(step)
    want, _ = plain(step)
    own = want.forward_mask.shape[1]
    np.testing.assert_array_equal(batch.forward_mask[:, :own],
                                  want.forward_mask)
    np.testing.assert_array_equal(batch.backward_mask, want.backward_mask)
    numbers = batcher.example_numbers(step)
    queries = batcher.examples.query_rows[numbers]
    others = [*shared(step), *np.concatenate(ring)]
    assert batch.forward_mask.shape == (6, own + 4 + 18)
    for i in range(6):
      for j, passage in enumerate(others):
        is_known = passage >= 0 and groups[passage] in known[queries[i]]
        assert batch.forward_mask[i, own + j] == (passage >= 0 and not is_known)
        masked += is_known
    for row, got in zip(shared(step), unpacked(
        batch, 'shared', batch.corpus_slots), strict=True):
      if row >= 0:
        np.testing.assert_array_equal(got, texts[row])
    assert stats.values['missing_negatives'] == (
        draw(step, numbers, queries).rows < 0).sum()
    assert stats.values['queue_age'] == (
        np.mean(range(1, min(step, 3) + 1)) if step else 0)
    ring[step % 3] = positives[numbers]
  assert masked > 50
  # The same without what came before: a resumed run makes the same batch.
  again = dataclasses.replace(batcher)(8)[0]
  jax.tree.map(np.testing.assert_array_equal, batcher(8)[0], again)


def test_half_passages_count_as_their_parents_but_for_their_own_query():
  batcher, texts, _ = make_batcher(1)
  passages = len(batcher.passage_groups)
  parents = np.array([0, 5, 9], np.int32)  # Row 10 is half of passage 0, ...

  def draw(step, numbers, queries):
    rows = np.random.default_rng(step).integers(
        passages, passages + 3, (len(numbers), 2)).astype(np.int32)
    return batcher_lib.Drawn(rows, np.zeros_like(rows))

  batcher = dataclasses.replace(
      batcher, draw=draw, parents=parents,
      passage_tokens=lambda rows, _: sequences.listed(
          texts[row % passages] for row in rows))
  groups, known = batcher.passage_groups, batcher.examples.positive_groups
  seen = {True: 0, False: 0}
  for step in range(12):
    batch, _ = batcher(step)
    numbers = batcher.example_numbers(step)
    queries = batcher.examples.query_rows[numbers]
    rows = draw(step, numbers, queries).rows
    for i in range(6):
      for owner in range(6):
        for k in range(2):
          whole = groups[parents[rows[owner, k] - passages]]
          is_own = queries[i] == queries[owner]
          keep = is_own or whole not in known[queries[i]]
          assert batch.forward_mask[i, 6 + 2 * owner + k] == keep
          seen[bool(is_own and whole in known[queries[i]])] += 1
  assert min(seen.values()) > 0


class Watched(np.ndarray):
  """Counts the tokens that are taken out."""

  read = 0

  def __getitem__(self, index):
    Watched.read += len(index)
    return np.asarray(self)[index]


def watched(tokens):
  """The same sequences, whose tokens are counted when they are read."""

  def watch(piece):
    return dataclasses.replace(piece, ids=piece.ids.view(Watched))

  def call(*arguments):
    found = tokens(*arguments)
    if isinstance(found, sequences.Sequences):
      return watch(found)
    return sequences.Chained(tuple(map(watch, found.pieces)))

  return call


def shares_of(batcher, *readers):
  """Three processes' batchers, whose fields of these names are watched."""
  return [
      dataclasses.replace(
          batcher, held=lambda count, first=first: np.arange(first, count, 3),
          **{name: watched(getattr(batcher, name)) for name in readers},
      ) for first in range(3)
  ]


@pytest.mark.parametrize('towers', [False, True])
def test_shares_are_the_whole_and_read_their_own_tokens(
    tmp_path, monkeypatch, towers
):
  monkeypatch.setattr(Watched, 'read', 0)
  batcher = test_batch_bytes.make_batcher(
      tmp_path, seed=1, halves=True, towers=towers)
  shares = shares_of(batcher, 'query_tokens', 'passage_tokens')
  for step in range(3):
    whole, stats = batcher(step)
    total = jax.tree.map(np.zeros_like, whole)
    for share in shares:
      before = Watched.read
      part, told = share(step)
      assert told == stats
      assert Watched.read - before == sum(
          (packed.segment_ids > 0).sum() for packed in part.sequences.values())
      total = jax.tree.map(np.add, total, part)
    for name in ('query_slots', 'positive_slots', 'negative_slots',
                 'negative_sources'):  # All have these.
      total = total.replace(**{name: getattr(total, name) // 3})
    jax.tree.map(np.testing.assert_array_equal, total, whole)


def test_order_visits_every_example_each_epoch():
  batcher, _, _ = make_batcher(1, batch_size=5)
  epochs = [np.concatenate([batcher.example_numbers(2 * e + h) for h in (0, 1)])
            for e in range(3)]
  for epoch in epochs:
    assert sorted(epoch) == list(range(10))
  assert (epochs[0] != epochs[1]).any()


@pytest.mark.parametrize('batch_size', [1, 5, 24])
def test_few_examples_have_the_order_of_many(batch_size, monkeypatch):
  """Batches that end in the middle of an epoch, and those longer than one."""
  numbers = lambda: [
      batcher_lib.example_numbers(10, batch_size, 3, step).tolist()
      for step in (0, 1, 2, 7)]
  few = numbers()
  monkeypatch.setattr(batcher_lib, '_FEW', 0)
  assert few == numbers()


def test_examples_of_a_split(corpus):
  train = corpus.judgements('train')
  pairs = examples.make_examples(corpus, train)
  assert len(pairs) == (train.grades > 0).sum() == 36
  for query in np.unique(train.query_rows):
    of_query = train.query_rows == query
    positive = train.passage_rows[of_query & (train.grades > 0)]
    assert set(corpus.passage_groups[positive]) <= set(
        pairs.positive_groups[query])
  # Test positives are known too.
  test = corpus.judgements('test')
  first = test.query_rows[test.grades > 0][0]
  assert pairs.positive_groups[first].max() >= 0


def test_split_by_document_is_disjoint_and_stable(corpus):
  train = corpus.judgements('train')
  rest, tune = examples.split_by_document(corpus, train, 0.3)
  documents = lambda part: set(corpus.passage_documents[
      part.passage_rows[part.grades > 0]])
  assert not documents(rest) & documents(tune)
  assert documents(rest) | documents(tune) == documents(train)
  assert not set(rest.query_rows) & set(tune.query_rows)
  again = examples.split_by_document(corpus, train, 0.3)[1]
  np.testing.assert_array_equal(again.query_rows, tune.query_rows)
  with pytest.raises(errors.UserError, match='tune_fraction=0.001'):
    examples.split_by_document(corpus, train, 0.001)
