"""Tokenizers of encoder-decoders: ids, and texts of them again."""

import json

import hypothesis
import numpy as np
import pytest
import tokenizers
from hypothesis import strategies as st
from tokenizers import decoders, models, normalizers, pre_tokenizers

from neg_contrast import errors
from neg_contrast.data import tokenizer as tokenizer_lib
from tests import tiny

TEXTS = [
    "what's the cost of a well-known (big) apple? it isn't $5.00, is it?",
    'say hello and/or [x] {y}: 1-2; #4... 10:30',
    '1,000,000 in 1990, 20 of them at 7:05, and 3.5% more!',
    'naive cafe', 'what do not and or', '',
]


@pytest.fixture(scope='module')
def word_piece(minilm):
  return tokenizer_lib.load_seq2seq_tokenizer(str(minilm.folder))


def write_t5(folder):
  """A tokenizer.json like that of a T5, over single characters."""
  pieces = [('<pad>', 0.0), ('</s>', 0.0), ('<unk>', 0.0), ('▁', -2.0)]
  pieces += [(letter, -3.0) for letter in 'abcdefgh,é']
  pieces += [('▁ab', -1.0), ('cd', -1.0)]
  backend = tokenizers.Tokenizer(models.Unigram(pieces, unk_id=2))
  backend.normalizer = normalizers.NFKC()
  backend.pre_tokenizer = pre_tokenizers.Metaspace()
  backend.decoder = decoders.Metaspace()
  backend.add_special_tokens(['<pad>', '</s>', '<unk>', '<extra_id_0>'])
  folder.mkdir()
  backend.save(str(folder / 'tokenizer.json'))
  return tokenizer_lib.load_seq2seq_tokenizer(str(folder))


def test_the_tokenizer_of_a_bert_will_do(word_piece):
  assert (word_piece.eos_id, word_piece.pad_id) == (102, 0)
  assert word_piece.vocab_size == 30522
  ids = word_piece.encode_batch(TEXTS)
  assert all(i not in (101, 102) for row in ids for i in row)
  assert word_piece.decode_batch(ids) == TEXTS
  assert word_piece.decode_batch(
      [np.array([101, *row, 102, 0, 0], np.int32) for row in ids]) == TEXTS


def test_the_tokenizer_of_a_t5(tmp_path):
  own = write_t5(tmp_path / 't')
  assert (own.eos_id, own.pad_id, own.vocab_size) == (1, 0, 17)
  ids = own.encode_batch(['abcd é, hg', ''])
  assert ids == [[14, 15, 3, 13, 12, 3, 11, 10], []]
  noisy = [[0, *ids[0][:2], 16, *ids[0][2:], 1, 0], [1, 0, 0]]
  assert own.decode_batch(noisy) == ['abcd é, hg', '']


def test_a_tokenizer_is_saved_whole(tmp_path, word_piece):
  for number, own in enumerate((word_piece, write_t5(tmp_path / 't'))):
    folder = tmp_path / str(number)
    own.save(folder)
    again = tokenizer_lib.load_seq2seq_tokenizer(str(folder))
    assert again.sha256 == own.sha256
    some = [[5, 6, 7, 8], [9, 10]]
    assert again.decode_batch(some) == own.decode_batch(some)


def test_one_file_is_one_tokenizer_to_both_kinds(minilm, word_piece):
  encoder = tokenizer_lib.load_tokenizer(str(minilm.folder))
  assert encoder.sha256 == word_piece.sha256
  assert encoder.encode_batch(TEXTS) == word_piece.encode_batch(TEXTS)


@hypothesis.settings(deadline=None, max_examples=200, suppress_health_check=[
    hypothesis.HealthCheck.function_scoped_fixture])
@hypothesis.given(st.lists(st.sampled_from([
    *'.,:;?!-/()[]{}$#%&*+"\'\u2019\u2026\u20135st\u65e5',
    'a', 'the', '12', '000', '##ing', 'do', 'not', 'un', '##known',
]), max_size=12))
def test_decoding_changes_no_ids(word_piece, tokens):
  backend = word_piece._backend
  ids = [backend.token_to_id(token) for token in tokens]
  hypothesis.assume(None not in ids)
  text, = word_piece.decode_batch([ids])
  # What was split otherwise than the tokenizer does is not its output.
  hypothesis.assume(word_piece.encode_batch([' '.join(tokens)
                                             .replace(' ##', '')]) == [ids])
  assert word_piece.encode_batch([text]) == [ids]


def test_ids_beyond_the_vocabulary_stand_for_nothing(word_piece, tmp_path):
  assert word_piece.decode_batch([[7592, 99_999, 2088]]) == ['hello world']
  own = write_t5(tmp_path / 't')
  assert own.decode_batch([[14, 500, 15]]) == ['abcd']


def test_faults(tmp_path, minilm):
  with pytest.raises(
      errors.UserError,
      match='neither tokenizer.json nor spiece.model nor vocab.txt'):
    tokenizer_lib.load_seq2seq_tokenizer(str(tmp_path))
  tiny.write_tokenizer(tmp_path / 'bert')
  own = tokenizer_lib.load_seq2seq_tokenizer(str(tmp_path / 'bert'))
  assert own.decode_batch([own.encode_batch(['word1 word2'])[0]]) == [
      'word1 word2']
  with pytest.raises(errors.UserError, match=r'no </s> or \[SEP\]'):
    tokenizer_lib.Seq2SeqTokenizer(tokenizers.Tokenizer(
        models.WordLevel({'a': 0}, unk_token='a')))
  with pytest.raises(errors.UserError, match=r'no \[CLS\] or <s>; .* a BERT'):
    write_t5(tmp_path / 't')
    tokenizer_lib.load_tokenizer(str(tmp_path / 't'))
  (tmp_path / 't' / 'tokenizer.json').write_text('{')
  with pytest.raises(errors.UserError, match='tokenizer.json: not a tokenizer'):
    tokenizer_lib.load_seq2seq_tokenizer(str(tmp_path / 't'))


@pytest.mark.parametrize('lacking', ['[UNK]', '[CLS]', '[SEP]', 'all'])
@pytest.mark.parametrize('load', [tokenizer_lib.load_tokenizer,
                                  tokenizer_lib.load_seq2seq_tokenizer])
def test_a_vocabulary_that_lacks_what_inputs_need(
    tmp_path, minilm, lacking, load
):
  """transformers puts such tokens behind all others."""
  (tmp_path / 'config.json').write_text('{"model_type": "bert"}')
  tokens = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', 'a', 'b']
  text = tmp_path / 'vocab.txt'
  text.write_text('\n'.join(tokens))
  assert load(str(tmp_path)).encode_batch(['a zz']) == [[5, 1]]
  kept = [token for token in tokens if lacking not in (token, 'all')]
  text.write_text('\n'.join(kept))
  said = '[UNK]' if lacking == 'all' else lacking
  with pytest.raises(errors.UserError, match=r'vocab\.txt: not a') as error:
    load(str(tmp_path))
  assert said in str(error.value) and '\n' not in str(error.value)
  assert 'copy or download the folder' in str(error.value)
  values = json.loads((minilm.folder / 'tokenizer.json').read_text())
  vocabulary = values['model']['vocab']
  values['model']['vocab'] = {} if lacking == 'all' else {
      token: i for token, i in vocabulary.items() if token != lacking}
  (tmp_path / 'tokenizer.json').write_text(json.dumps(values))
  with pytest.raises(errors.UserError, match=r'tokenizer\.json: not a'):
    load(str(tmp_path))


def test_a_sentencepiece_file_alone(tmp_path):
  """It needs a package that is not a requirement; then it says so."""
  (tmp_path / 'config.json').write_text('{"model_type": "t5"}')
  try:
    import sentencepiece
  except ImportError:
    (tmp_path / 'spiece.model').write_bytes(b'')
    with pytest.raises(errors.UserError, match='pip install sentencepiece'):
      tokenizer_lib.load_seq2seq_tokenizer(str(tmp_path))
    return
  rng = np.random.default_rng(0)
  (tmp_path / 'text').write_text('\n'.join(
      ' '.join(rng.choice(tiny.WORDS, 9)) for _ in range(300)))
  sentencepiece.SentencePieceTrainer.train(
      input=str(tmp_path / 'text'), model_prefix=str(tmp_path / 'spiece'),
      vocab_size=60, pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
  own = tokenizer_lib.load_seq2seq_tokenizer(str(tmp_path))
  assert (own.eos_id, own.pad_id) == (1, 0)
  theirs = sentencepiece.SentencePieceProcessor(str(tmp_path / 'spiece.model'))
  texts = ['word1 word23', 'word7  word0 ']
  assert own.encode_batch(texts) == theirs.encode(texts)
  assert own.decode_batch(own.encode_batch(texts)) == [
      'word1 word23', 'word7 word0']
