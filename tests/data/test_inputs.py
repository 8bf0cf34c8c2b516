"""Input sequences, the token store and the tokenizer."""

import hypothesis
import numpy as np
import pytest
import tokenizers
from hypothesis import strategies as st

from neg_contrast import errors
from neg_contrast.artifacts import folders
from neg_contrast.data import inputs, sequences, token_store
from neg_contrast.data import tokenizer as tokenizer_lib
from tests import tiny

CLS, SEP = 2, 3
BERT = inputs.Template((CLS,), (SEP,), (SEP,))


def tokens(title, text, max_length=10, prefix=()):
  one = lambda ids: sequences.listed([np.array(ids, np.uint16)])
  return inputs.input_sequences(
      one(title), (one(text),), BERT, max_length=max_length,
      prefix_ids=prefix,
  )[0].tolist()


def test_form():
  assert tokens([7], [8, 9]) == [CLS, 7, SEP, 8, 9, SEP]
  assert tokens([], [8, 9]) == [CLS, 8, 9, SEP]
  assert tokens([7], []) == [CLS, 7, SEP, SEP]
  assert tokens([7], [8], prefix=(5, 6)) == [CLS, 5, 6, 7, SEP, 8, SEP]


def test_another_token_between_title_and_text():
  one = lambda ids: sequences.listed([np.array(ids, np.uint16)])
  made = lambda title, text: inputs.input_sequences(
      one(title), (one(text),), inputs.Template((CLS,), (SEP,), (9,)),
      max_length=6)[0].tolist()
  assert made([7], [8] * 9) == [CLS, 7, 9, 8, 8, SEP]
  assert made([], [8]) == [CLS, 8, SEP]


def test_only_the_text_is_cut_and_the_last_sep_stays():
  assert tokens([7, 7], [8] * 9, 7) == [CLS, 7, 7, SEP, 8, 8, SEP]
  assert tokens([7] * 9, [8] * 9, 5) == [CLS, 7, 7, SEP, SEP]
  assert tokens([], [8] * 9, 4) == [CLS, 8, 8, SEP]


@hypothesis.given(st.integers(0, 12), st.integers(0, 12), st.integers(3, 15),
                  st.integers(0, 3))
def test_lengths_equal_those_built(title, text, max_length, prefix):
  built = tokens([7] * title, [8] * text, max_length, (5,) * prefix)
  told = inputs.sequence_lengths(
      np.array([title]), np.array([text]), BERT, max_length=max_length,
      prefix_length=prefix,
  )
  assert told.tolist() == [len(built)]
  assert built[0] == CLS and built[-1] == SEP and len(built) <= max_length
  if 3 + prefix + title <= max_length:  # Then only the text is cut.
    assert built.count(7) == title and built.count(5) == prefix
    room = max_length - 2 - prefix - title - (title > 0)
    assert built.count(8) == min(text, room)


def one_by_one(title, text, cut, max_length, prefix):
  """A sequence as lists make it."""
  first, end, with_title = cut
  if 0 <= end <= first:
    text = text[:end] + text[first:]
  else:
    text = text[first:] if end < 0 else text[first:end]
  head = [CLS, *prefix]
  if title and with_title:
    head = [*head, *title][: max_length - 2] + [SEP]
  return [*head, *text][: max_length - 1] + [SEP]


IDS = st.lists(st.integers(10, 2**16 - 1), max_size=12)
CUTS = st.tuples(st.integers(0, 13), st.integers(-1, 13), st.integers(0, 1))


@hypothesis.given(
    texts=st.lists(st.tuples(IDS, IDS, CUTS), max_size=8),
    max_length=st.integers(3, 30),
    prefix=st.lists(st.integers(5, 9), max_size=9),
)
def test_many_equal_one_by_one(texts, max_length, prefix):
  part = lambda i: sequences.listed(np.array(t[i], np.uint16) for t in texts)
  cuts = np.array([t[2] for t in texts], np.int32).reshape(-1, 3)
  build = lambda titles, pieces: [s.tolist() for s in inputs.input_sequences(
      titles, pieces, BERT, max_length=max_length,
      prefix_ids=tuple(prefix),
  )]
  assert build(*inputs.cut(part(0), part(1), cuts)) == [
      one_by_one(title, text, cut, max_length, prefix)
      for title, text, cut in texts]
  assert build(part(0), (part(1),)) == [
      one_by_one(title, text, inputs.WHOLE, max_length, prefix)
      for title, text, _ in texts]


def test_sequences_are_taken_cut_and_chained():
  arrays = [np.arange(5), np.arange(0), np.arange(10, 13)]
  many = sequences.listed(arrays)
  as_lists = lambda some: [ids.tolist() for ids in some]
  assert as_lists(many) == [[0, 1, 2, 3, 4], [], [10, 11, 12]]
  taken = many.take(np.array([2, 2, 0]))
  assert as_lists(taken.cut(1, np.array([9, 2, 1]))) == [[11, 12], [11], []]
  chained = sequences.Chained((taken, many.cut(1, 9)))
  made = [[10, 11, 12, 1, 2, 3, 4], [10, 11, 12], [0, 1, 2, 3, 4, 11, 12]]
  assert as_lists(chained) == made and chained.lengths.tolist() == [7, 3, 7]
  assert as_lists(chained.take(np.array([2, 1]))) == made[:0:-1]
  assert chained.flat().tolist() == sum(made, [])
  assert taken.flat().tolist() == [10, 11, 12, 10, 11, 12, 0, 1, 2, 3, 4]
  assert sequences.runs(np.array([3, 0, 7]), np.array([2, 0, 3])).tolist() == [
      3, 4, 7, 8, 9]
  for rows in ([0, 3], [-1, 0]):
    with pytest.raises(IndexError, match='of a store of 3 rows'):
      many.take(np.array(rows))


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
  assert store.titles[0].dtype == np.uint16
  for row, (title, text) in enumerate(texts):
    assert store.titles[row].tolist() == tokenizer.encode(title)
    assert store.texts[row].tolist() == tokenizer.encode(text)
  assert store.titles.lengths.tolist() == [2, 0, 1]
  assert store.texts.lengths.tolist() == [1, 3, 0]
  for row in (-1, 3):
    with pytest.raises(IndexError, match=f'row {row} of a store of 3'):
      store.texts[row]
  made = (tmp_path / 's' / 'text_ids.bin').stat().st_mtime_ns
  make()
  assert (tmp_path / 's' / 'text_ids.bin').stat().st_mtime_ns == made


def test_store_of_empty_titles(tmp_path, tokenizer):
  store = token_store.make_token_store(
      [('', 'word1')], tokenizer, tmp_path / 's', 'abc')
  assert store.titles[0].size == 0


def test_store_of_nothing(tmp_path, tokenizer):
  store = token_store.make_token_store([], tokenizer, tmp_path / 's', 'abc')
  assert len(store) == 0 and store.texts.lengths.tolist() == []


def test_large_vocabularies_and_gaps_between_ids(tmp_path):
  """An id above 65535 is stored whole, even if there are few ids."""
  backend = tokenizers.Tokenizer(tokenizers.models.WordLevel(
      {'[UNK]': 0, '[CLS]': 1, '[SEP]': 2, 'far': 70_000}, unk_token='[UNK]'))
  own = tokenizer_lib.Tokenizer(backend)
  assert own.vocab_size == 70_001
  store = token_store.make_token_store(
      [('', 'far')], own, tmp_path / 's', 'abc')
  assert store.texts[0].dtype == np.uint32
  assert store.texts[0].tolist() == [70_000]


def test_store_is_made_in_batches_and_texts_are_read_once(
    tmp_path, tokenizer, monkeypatch):
  monkeypatch.setattr(token_store, '_BATCH', 2)
  texts = [(f'word{i}', f'word{i} word{i + 1}' * (i % 3)) for i in range(5)]
  store = token_store.make_token_store(
      iter(texts), tokenizer, tmp_path / 's', 'abc')
  assert [store.texts[i].tolist() for i in range(5)] == [
      tokenizer.encode(text) for _, text in texts]
  unread = iter([('', 'word1')])
  monkeypatch.setattr(folders, 'only_one', None)
  token_store.make_token_store(unread, tokenizer, tmp_path / 's', 'abc')
  assert len(list(unread)) == 1


def test_interrupted_store_is_made_anew(tmp_path, tokenizer):
  def broken():
    yield '', 'word1'
    raise KeyboardInterrupt

  make = lambda texts: token_store.make_token_store(
      texts, tokenizer, tmp_path / 's', 'abc')
  with pytest.raises(KeyboardInterrupt):
    make(broken())
  assert not (tmp_path / 's').exists()
  assert len(make([('', 'word1'), ('', 'word2')])) == 2


def test_store_of_another_tokenizer_is_refused(tmp_path, tokenizer):
  token_store.make_token_store([('', 'a')], tokenizer, tmp_path / 's', 'abc')
  tiny.write_tokenizer(tmp_path / 'u', words=['other'])
  other = tokenizer_lib.load_tokenizer(str(tmp_path / 'u'))
  with pytest.raises(
      errors.UserError,
      match=f'tokenizer {tokenizer.sha256}, but {other.sha256}'):
    token_store.make_token_store([('', 'a')], other, tmp_path / 's', 'abc')


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
  assert own.template == inputs.Template((101,), (102,), (102,))
  assert own.vocab_size == 30522
  with pytest.raises(errors.UserError, match='neither tokenizer.json nor'):
    tokenizer_lib.load_tokenizer(str(tmp_path))


def test_vocab_txt_alone_is_enough(tmp_path):
  (tmp_path / 'vocab.txt').write_text(
      '\n'.join(['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', 'hello']))
  (tmp_path / 'config.json').write_text('{"model_type": "bert"}')
  own = tokenizer_lib.load_tokenizer(str(tmp_path))
  assert own.encode('Hello') == [5]
  own.save(tmp_path / 'copy')
  again = tokenizer_lib.load_tokenizer(str(tmp_path / 'copy'))
  assert again.sha256 == own.sha256


def test_broken_tokenizer_files(tmp_path):
  (tmp_path / 'tokenizer.json').write_text('{}')
  with pytest.raises(errors.UserError, match='tokenizer.json: not a tokenizer'):
    tokenizer_lib.load_tokenizer(str(tmp_path))
  with pytest.raises(errors.UserError, match=r'has no \[CLS\]'):
    tokenizer_lib.Tokenizer(tokenizers.Tokenizer(
        tokenizers.models.WordLevel({'a': 0}, unk_token='a')))
