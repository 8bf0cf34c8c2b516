"""Inputs of awkward texts are those of the library `tokenizers`."""

import numpy as np
import pytest
import tokenizers
from tokenizers import (
  models,
  normalizers,
  pre_tokenizers,
  processors,
  trainers,
)

from neg_contrast import errors
from neg_contrast.data import inputs, preparation, tokenized
from neg_contrast.data import tokenizer as tokenizer_lib
from tests import awkward, tiny

TEXTS = awkward.texts(2000)
TITLES = TEXTS[7:] + TEXTS[:7]
WORDS = ['Find', 'it.', 'Instruct:', 'Query:', 'query', 'passage', 'a', 'b']
BERT_MARKS = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]']
MARKS = ['<s>', '<pad>', '</s>', '<unk>', '<|endoftext|>']
PROMPT = 'Instruct: find it\nQuery:'
TRAINING = [*awkward.PIECES, *WORDS] * 3


def word_piece():
  backend = tokenizers.Tokenizer(models.WordPiece(unk_token='[UNK]'))
  backend.normalizer = normalizers.BertNormalizer()
  backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
  tiny.fill_vocabulary(backend, TRAINING, BERT_MARKS, size=700)
  return backend


def byte_level():
  backend = tokenizers.Tokenizer(models.BPE())
  backend.normalizer = normalizers.NFC()
  backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
  backend.train_from_iterator(TRAINING, trainers.BpeTrainer(
      vocab_size=700, special_tokens=MARKS, show_progress=False,
      initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
  return backend


def unigram():
  backend = tokenizers.Tokenizer(models.Unigram())
  backend.normalizer = normalizers.NFKC()
  backend.pre_tokenizer = pre_tokenizers.Sequence(
      [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
  tiny.fill_vocabulary(backend, TRAINING, MARKS, size=700)
  return backend


KINDS = {'wordpiece': word_piece, 'bytes': byte_level, 'unigram': unigram}
TEMPLATES = {  # Kind of tokenizer, template, what we must make of it.
    'bert': ('wordpiece', processors.TemplateProcessing(
        single='[CLS] $A [SEP]', pair='[CLS] $A [SEP] $B:1 [SEP]:1',
        special_tokens=[('[CLS]', 2), ('[SEP]', 3)]),
             inputs.Template((2,), (3,), (3,))),
    'roberta': ('bytes', processors.RobertaProcessing(
        ('</s>', 2), ('<s>', 0), add_prefix_space=False),
                inputs.Template((0,), (2,), (2, 2))),
    't5': ('unigram', processors.TemplateProcessing(
        single='$A </s>', pair='$A </s> $B </s>',
        special_tokens=[('</s>', 2)]),
           inputs.Template((), (2,), (2,))),
    't5 without pairs': ('unigram', processors.TemplateProcessing(
        single='$A </s>', special_tokens=[('</s>', 2)]),
                         inputs.Template((), (2,), (2,))),
    'qwen': ('bytes', processors.ByteLevel(trim_offsets=False),
             inputs.Template((), (), ())),
    'qwen with an end': ('bytes', processors.Sequence([
        processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(
            single='$A <|endoftext|>', pair='$A $B:1 <|endoftext|>:1',
            special_tokens=[('<|endoftext|>', 4)])]),
                         inputs.Template((), (4,), ())),
}


@pytest.fixture(scope='module')
def trained():
  return {name: make().to_str() for name, make in KINDS.items()}


def load(trained, name, folder):
  """The library's tokenizer with a template, and ours of its file."""
  kind, template, wanted = TEMPLATES[name]
  backend = tokenizers.Tokenizer.from_str(trained[kind])
  backend.post_processor = template
  backend.save(str(folder / 'tokenizer.json'))
  own = tokenizer_lib.load_tokenizer(str(folder))
  assert own.template == wanted
  return backend, own


def built(own, pairs, prefix='', length=10**6):
  texts = tokenized.tokenize_in_memory(pairs, own, length, prefix)
  made = [ids.tolist() for ids in texts.tokens(np.arange(len(pairs)))]
  assert texts.lengths().tolist() == list(map(len, made))
  return made


def expected(name, backend, own, title, text):
  """A pair of the library; a title without tokens is none."""
  if not title.strip():
    return backend.encode(text).ids
  if not own.template.between:
    return backend.encode(f'{title.rstrip()} {text}').ids
  if not backend.encode(title, add_special_tokens=False).ids:
    return backend.encode(text).ids
  if name == 't5 without pairs':
    return backend.encode(title).ids + backend.encode(text).ids
  return backend.encode(title, text).ids


@pytest.mark.parametrize('name', TEMPLATES)
def test_single_texts_and_pairs(trained, tmp_path, name):
  backend, own = load(trained, name, tmp_path)
  assert len(set(TEXTS)) == 2000
  assert built(own, [('', text) for text in TEXTS]) == [
      encoding.ids for encoding in backend.encode_batch(TEXTS)]
  pairs = list(zip(TITLES, TEXTS, strict=True))
  assert built(own, pairs) == [
      expected(name, backend, own, *pair) for pair in pairs]


@pytest.mark.parametrize('name', TEMPLATES)
def test_long_texts_are_cut_as_there(trained, tmp_path, name):
  backend, own = load(trained, name, tmp_path)
  backend.enable_truncation(9)
  assert built(own, [('', text) for text in TEXTS], length=9) == [
      encoding.ids for encoding in backend.encode_batch(TEXTS)]


@pytest.mark.parametrize('name', ['roberta', 'qwen', 'qwen with an end'])
@pytest.mark.parametrize('prompt', [PROMPT, 'query: '])
def test_prompts_of_byte_level_tokenizers(trained, tmp_path, name, prompt):
  """They and the text after them are one string there."""
  backend, own = load(trained, name, tmp_path)
  assert not own.is_apart(prompt)
  assert built(own, [('', text) for text in TEXTS], prompt) == [
      backend.encode(prompt + text).ids for text in TEXTS]
  pairs = list(zip(TITLES, TEXTS, strict=True))
  assert built(own, pairs, prompt) == [
      expected(name, backend, own, prompt + title, text) if title.strip()
      else backend.encode(prompt + text).ids for title, text in pairs]
  parts = tokenized.tokenize_in_memory(pairs[:9], own, 99, prompt)
  parts.tokens(np.arange(2), np.array([inputs.WHOLE] * 2))
  with pytest.raises(errors.UserError, match='only parts of texts are taken'):
    parts.tokens(np.arange(2), np.array([inputs.WHOLE, (0, -1, 0)]))


def test_prompts_of_others_are_apart(trained, tmp_path):
  backend, own = load(trained, 'bert', tmp_path)
  assert own.is_apart(PROMPT) and own.is_apart('query')
  assert built(own, [('', text) for text in TEXTS], PROMPT) == [
      backend.encode(f'{PROMPT} {text}').ids for text in TEXTS]


def test_a_prompt_has_a_store_of_its_own(trained, tmp_path):
  """Where it is in the tokens; elsewhere one store serves all prompts."""
  tiny.write_beir(tmp_path / 'data')
  corpus = preparation.prepare(f'beir:{tmp_path / "data"}', tmp_path / 'o',
                               False)
  for name, count in (('roberta', 3), ('bert', 1)):
    folder = tmp_path / name
    folder.mkdir()
    backend, own = load(trained, name, folder)
    for prompt in ('', PROMPT, 'query: ', PROMPT):
      texts = tokenized.tokenize(corpus, 'query', own, 99, prompt)
      ids = [row.tolist() for row in texts.tokens(np.arange(len(texts.store)))]
      assert ids == [backend.encode(prompt + query.text).ids
                     for query in corpus.queries]
    stores = (corpus.folder / 'tokens').glob(f'query-{own.sha256[:12]}*')
    assert len(list(stores)) == count
