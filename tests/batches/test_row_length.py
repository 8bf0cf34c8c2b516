"""Row lengths: little padding on any lengths, never more memory."""

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from neg_contrast.batches import packing, row_length
from neg_contrast.models import bert, t5_config

MINILM = bert.BERT_SIZES['minilm-l6'].even_row_length


def passages(kind, rng, count):
  """Lengths like those of SQuAD, cut to 256; all full; or some of both."""
  like_squad = np.clip(rng.lognormal(5.0, 0.38, count), 30, 256).astype(int)
  most = {'squad': 256, 'full': 128, 'mix': 256}[kind]
  if kind == 'squad':
    return like_squad, most
  full = np.full(count, most)
  return (full, most) if kind == 'full' else (
      np.where(rng.random(count) < 0.5, like_squad, full), most)


def batches(kind, seed, size, count):
  rng = np.random.default_rng(seed)
  made = [passages(kind, rng, size) for _ in range(count)]
  queries = lambda: np.clip(rng.normal(14.6, 4, size), 6, 40).astype(int)
  return [np.concatenate([queries(), one]) for one, _ in made], made[0][1]


@pytest.mark.parametrize('size', [32, 64])
@pytest.mark.parametrize('kind', ['squad', 'full', 'mix'])
def test_under_a_twentieth_is_padding(kind, size):
  """On batches that the choice has not seen."""
  seen, longest = batches(kind, 0, size, 16)
  length = row_length.fit_batches(seen, 1, longest, MINILM)
  others, _ = batches(kind, 1, size, 30)
  plans = [packing.plan(one, 1, length) for one in others]
  useful, processed = (sum(map(np.sum, others)),
                       sum(plan.tokens for plan in plans))
  assert 1 - useful / processed < 0.05, length
  assert len({plan.rows for plan in plans}) <= 9  # Compilations.


@hypothesis.given(
    lengths=st.lists(st.integers(1, 200), min_size=1, max_size=40),
    groups=st.integers(1, 3),
    even=st.integers(10, 5000),
)
def test_never_takes_more_memory_than_the_default(lengths, groups, even):
  longest = max(lengths)
  chosen = row_length.fit_batches([np.array(lengths)], groups, longest, even)
  usual = row_length.default(longest)
  tokens, most = (packing.plan(np.array(lengths), groups, one).tokens
                  for one in (chosen, usual))
  assert longest <= chosen <= row_length.longest_row(longest)
  assert tokens <= most and tokens * chosen <= most * usual


def test_padding_and_attention_are_weighed():
  """60 of 80 tokens: 60 rows of 128 tokens, or 30 of 192 with more attention.

  7,680 (E + 128) is less than 5,760 (E + 192) if E is below 64.
  """
  lengths = np.full(60, 80)
  for even, chosen in ((63, 128), (65, 192)):
    assert row_length.fit_sequences(lengths, even) == chosen
  # In training the default is 128, and attention matrices would be larger:
  # 30 * 192 * 192 numbers of a head instead of 60 * 128 * 128.
  assert row_length.fit_batches([lengths], 1, 80, 65) == 128


def test_rows_of_even_cost():
  """Dense products: 24 h^2 a token; attention: 4 h for each token of a row."""
  assert MINILM == 24 * 384**2 / (4 * 384)
  assert t5_config.T5Config().even_row_length == 24 * 512**2 / (4 * 512)
  gated = t5_config.T5Config(d_ff=1024, gated=True)
  assert gated.even_row_length == 2 * 512 + 3 * 1024 / 2


def test_the_default_is_a_quarter_longer():
  assert [row_length.default(n) for n in (20, 40, 52, 128, 256, 384, 512)] == [
      64, 64, 128, 192, 320, 512, 640]
