"""Input sequences, the token store and the tokenizer."""

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from neg_contrast import errors
from neg_contrast.data import inputs, token_store
from neg_contrast.data import tokenizer as tokenizer_lib
from tests import tiny

CLS, SEP = 2, 3


def tokens(title, text, max_length=10, prefix=()):
  return inputs.sequence_tokens(
      np.array(title, np.uint16), np.array(text, np.uint16), cls_id=CLS,
      sep_id=SEP, max_length=max_length, prefix_ids=prefix,
  ).tolist()


def test_form():
  assert tokens([7], [8, 9]) == [CLS, 7, SEP, 8, 9, SEP]
  assert tokens([], [8, 9]) == [CLS, 8, 9, SEP]
  assert tokens([7], []) == [CLS, 7, SEP, SEP]
  assert tokens([7], [8], prefix=(5, 6)) == [CLS, 5, 6, 7, SEP, 8, SEP]


def test_only_the_text_is_cut_and_the_last_sep_stays():
  assert tokens([7, 7], [8] * 9, 7) == [CLS, 7, 7, SEP, 8, 8, SEP]
  assert tokens([7] * 9, [8] * 9, 5) == [CLS, 7, 7, SEP, SEP]
  assert tokens([], [8] * 9, 4) == [CLS, 8, 8, SEP]


@hypothesis.given(st.integers(0, 12), st.integers(0, 12), st.integers(3, 15),
                  st.integers(0, 3))
def test_lengths_equal_those_built(title, text, max_length, prefix):
  built = tokens([7] * title, [8] * text, max_length, (5,) * prefix)
  told = inputs.sequence_lengths(
      np.array([title]), np.array([text]), max_length=max_length,
      prefix_length=prefix,
  )
  if prefix + 3 <= max_length:
    assert told.tolist() == [len(built)]
  assert built[-1] == SEP and len(built) <= max_length


@pytest.fixture
def tokenizer(tmp_path):
  tiny.write_tokenizer(tmp_path / 't')
  return tokenizer_lib.load_tokenizer(str(tmp_path / 't'))


def test_store_round_trip(tmp_path, tokenizer):
  texts = [('word1 word2', 'word3'), ('', 'word4 word5 zzz'), ('word6', '')]
  make = lambda: token_store.make_token_store(
      iter(texts), tokenizer, tmp_path / 's', 'abc')
  store = make()
  assert len(store) == 3
  assert store.title(0).dtype == np.uint16
  for row, (title, text) in enumerate(texts):
    assert store.title(row).tolist() == tokenizer.encode(title)
    assert store.text(row).tolist() == tokenizer.encode(text)
  assert store.title_lengths.tolist() == [2, 0, 1]
  assert store.text_lengths.tolist() == [1, 3, 0]
  made = (tmp_path / 's' / 'text_ids.bin').stat().st_mtime_ns
  make()
  assert (tmp_path / 's' / 'text_ids.bin').stat().st_mtime_ns == made


def test_store_of_empty_titles(tmp_path, tokenizer):
  store = token_store.make_token_store(
      [('', 'word1')], tokenizer, tmp_path / 's', 'abc')
  assert store.title(0).size == 0


def test_store_of_other_texts_is_refused(tmp_path, tokenizer):
  token_store.make_token_store([('', 'a')], tokenizer, tmp_path / 's', 'abc')
  with pytest.raises(errors.UserError, match='fingerprint abc, but xyz'):
    token_store.make_token_store([('', 'a')], tokenizer, tmp_path / 's', 'xyz')


def test_tokenizer_is_saved_whole_and_never_cuts(tmp_path, minilm):
  own = tokenizer_lib.load_tokenizer(str(minilm.folder))
  assert len(own.encode('word ' * 400)) == 400  # The file says 128.
  own.save(tmp_path / 'copy')
  again = tokenizer_lib.load_tokenizer(str(tmp_path / 'copy'))
  assert again.sha256 == own.sha256
  assert (own.cls_id, own.sep_id, own.vocab_size) == (101, 102, 30522)
  with pytest.raises(errors.UserError, match='neither tokenizer.json nor'):
    tokenizer_lib.load_tokenizer(str(tmp_path))


def test_vocab_txt_alone_is_enough(tmp_path):
  (tmp_path / 'vocab.txt').write_text(
      '\n'.join(['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', 'hello']))
  (tmp_path / 'config.json').write_text('{"model_type": "bert"}')
  assert tokenizer_lib.load_tokenizer(str(tmp_path)).encode('Hello') == [5]
