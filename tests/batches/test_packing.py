"""Packing: a bijection, the same everywhere, and tight."""

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from neg_contrast.batches import packing, row_length
from neg_contrast.data import sequences
from neg_contrast.models import bert


@hypothesis.given(
    lengths=st.lists(st.integers(1, 20), max_size=60),
    groups=st.integers(1, 5),
    row_length=st.integers(20, 40),
)
def test_every_token_stands_once(lengths, groups, row_length):
  rng = np.random.default_rng(len(lengths))
  arrays = [rng.integers(1, 1000, n) for n in lengths]
  layout = packing.plan(np.array(lengths, int), groups, row_length)
  batch = packing.fill(layout, sequences.listed(arrays))
  assert (batch.segment_ids > 0).sum() == sum(lengths)
  assert len(set(layout.flat_slot.tolist())) == len(lengths)
  for i, sequence in enumerate(arrays):
    where = np.argwhere(
        batch.segment_ids[layout.group[i]] == layout.slot[i] + 1
    )
    assert len(set(where[:, 0])) == 1  # One row.
    tokens = batch.token_ids[layout.group[i]][tuple(where.T)]
    np.testing.assert_array_equal(tokens, sequence)
    np.testing.assert_array_equal(
        batch.positions[layout.group[i]][tuple(where.T)],
        np.arange(len(sequence)),
    )
    first = batch.first_index[layout.group[i], layout.slot[i]]
    assert first == where[0, 0] * row_length + where[0, 1]


def test_groups_get_equal_counts_and_nearly_equal_tokens():
  lengths = np.random.default_rng(0).integers(10, 200, 96)
  layout = packing.plan(lengths, 8, 256)
  tokens = np.bincount(layout.group, lengths)
  assert set(np.bincount(layout.group)) == {12}
  assert tokens.max() - tokens.min() < 0.05 * tokens.mean()


@pytest.mark.parametrize('groups', [1, 2, 3, 8, 32])
def test_ladder_is_short_and_tight(groups):
  rows = np.arange(1, 4097)
  round_up = lambda some: np.array(
      [packing.round_up_rows(int(r), groups) for r in some])
  rounded = round_up(rows)
  assert (rounded >= rows).all() and (np.diff(rounded) >= 0).all()
  assert ((rounded - rows) / rows).max() <= 1 / 32
  assert (rounded - rows < np.maximum(1, np.sqrt(rows / groups))).all()
  np.testing.assert_array_equal(rounded, round_up(rounded))
  if groups == 1:
    assert len(set(rounded)) == 64 + 4 * 32 + 2 * 64


@pytest.mark.parametrize(('batch', 'groups', 'sizes'), [
    (64, 1, 7), (256, 8, 3), (2048, 32, 2), (2048, 1, 3),
])
def test_few_sizes_come_up(batch, groups, sizes):
  """Lengths as of SQuAD's passages, which vary much."""
  rng = np.random.default_rng(0)
  plans = [packing.plan(np.concatenate([
      np.full(batch, 12), np.clip(rng.lognormal(4.84, 0.45, 3 * batch), 10, 384)
  ]).astype(int), groups, 512) for _ in range(20)]
  assert len({plan.rows for plan in plans}) <= sizes


def test_refuses_what_does_not_fit():
  with pytest.raises(ValueError, match='sequence of 30 tokens, row of 20'):
    packing.plan(np.array([30]), 1, 20)
  with pytest.raises(ValueError, match='3 sequences, 1 x 2 slots'):
    packing.plan(np.array([1, 1, 1]), 1, 20, slots=2)


def test_padding_on_squad(shared_data, tmp_path):
  """A twentieth at most, of real lengths in rows that suit them."""
  from neg_contrast.data import preparation, tokenized, tokenizer
  from neg_contrast.models import model_names

  corpus = preparation.prepare(
      f'beir:{shared_data / "squad-v1.1-dev"}', tmp_path, False
  )
  own = tokenizer.load_tokenizer(str(model_names.packaged_minilm()))
  passages = tokenized.tokenize(corpus, 'passage', own, 256, '').lengths()
  queries = tokenized.tokenize(corpus, 'query', own, 64, '').lengths()
  judgements = corpus.judgements('split-train')
  rng = np.random.default_rng(0)
  for size in (32, 64):
    batches = []
    for _ in range(46):
      rows = rng.choice(len(judgements.query_rows), size, replace=False)
      batches.append(np.concatenate([
          queries[judgements.query_rows[rows]],
          passages[judgements.passage_rows[rows]],
      ]))
    chosen = row_length.fit_batches(
        batches[:16], 1, 256, bert.BERT_SIZES['minilm-l6'].even_row_length)
    processed = sum(packing.plan(one, 1, chosen).tokens for one in batches[16:])
    useful = sum(int(one.sum()) for one in batches[16:])
    assert 1 - useful / processed < 0.05
