"""RoBERTa, XLM-R and DistilBERT folders against the libraries they are of."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tokenizers
from tokenizers import (
  decoders,
  models,
  pre_tokenizers,
  processors,
  trainers,
)

from neg_contrast import errors
from neg_contrast.batches import packed
from neg_contrast.data import tokenized
from neg_contrast.data import tokenizer as tokenizer_lib
from neg_contrast.models import (
  cross_encoder,
  dual_encoder,
  exporting,
  families,
  loading,
  model_card,
  pretrained,
  reranker,
)
from neg_contrast.settings import config as config_lib
from tests import tiny
from tests.models import test_bert

torch = pytest.importorskip('torch')
transformers = pytest.importorskip('transformers')

TEXTS = ['How tall is the Eiffel Tower?',
         'naïve café — “quotes” 日本語 😀', '.',
         '  two  spaces', 'a\ttab\nand a line', '']
TITLED = [('Eiffel Tower', 'It is 330 metres tall.'), ('', 'No title.'),
          ('Only a title', ''), ('  ', 'A blank title.')]
SIZES = dict(vocab_size=400, initializer_range=0.3)
BERT_LIKE = dict(
    hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
    intermediate_size=24, max_position_embeddings=34, type_vocab_size=1,
    pad_token_id=1, layer_norm_eps=1e-5, **SIZES)
REFERENCES = {
    'roberta': lambda: transformers.RobertaModel(
        transformers.RobertaConfig(**BERT_LIKE), add_pooling_layer=False),
    'xlm-roberta': lambda: transformers.XLMRobertaModel(
        transformers.XLMRobertaConfig(**BERT_LIKE), add_pooling_layer=False),
    'distilbert': lambda: transformers.DistilBertModel(
        transformers.DistilBertConfig(
            dim=16, n_layers=2, n_heads=2, hidden_dim=24,
            max_position_embeddings=32, **SIZES)),
}


def write_tokenizer(folder, kind):
  """Byte-level BPE, SentencePiece's Unigram, or WordPiece with templates."""
  is_berts = kind in ('distilbert', 'modernbert')
  marks = (['[CLS]', '[PAD]', '[SEP]', '[UNK]', '[MASK]'] if is_berts
           else ['<s>', '<pad>', '</s>', '<unk>', '<mask>'])
  corpus = [*TEXTS, *map(' '.join, TITLED)] * 4
  if kind in ('roberta', 'modernbert'):
    backend = tokenizers.Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.train_from_iterator(corpus, trainers.BpeTrainer(
        vocab_size=390, special_tokens=marks, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
  elif kind == 'xlm-roberta':
    backend = tokenizers.Tokenizer(models.Unigram())
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    tiny.fill_vocabulary(backend, corpus, marks, size=390)
  else:
    backend = tokenizers.Tokenizer(models.WordPiece(unk_token='[UNK]'))
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tiny.fill_vocabulary(backend, corpus, marks, size=390)
  pair = (marks[2], 2), (marks[0], 0)
  backend.post_processor = (
      processors.BertProcessing(*pair) if is_berts
      else processors.RobertaProcessing(*pair, add_prefix_space=False))
  backend.save(str(folder / 'tokenizer.json'))
  return backend


def write(folder, kind):
  """A folder with a tokenizer and random weights; its reference."""
  folder.mkdir(exist_ok=True)
  torch.manual_seed(0)
  reference = REFERENCES[kind]().eval()
  with torch.no_grad():  # New ones have biases of 0 and scales of 1.
    for parameter in reference.parameters():
      if parameter.ndim == 1:
        parameter += 0.1 * torch.randn_like(parameter)
  reference.save_pretrained(folder)
  write_tokenizer(folder, kind)
  return reference


def load(folder, **settings):
  return loading.from_pretrained(str(folder), config_lib.ModelConfig(
      init='x', query_length=12, passage_length=20,
      **{'pooling': 'mean', **settings}), 0)


@pytest.mark.parametrize('kind', REFERENCES)
def test_tokens_and_gradients_equal_transformers(tmp_path, kind):
  reference = write(tmp_path, kind)
  tower = pretrained.load_towers(str(tmp_path))['shared']
  assert tower.transformer.max_positions == 32
  assert tower.transformer.model_type == kind
  sequences = test_bert.random_sequences(lengths=(3, 11, 32, 1, 14, 5))
  count = sum(map(len, sequences))
  weights = np.random.default_rng(1).normal(size=(count, 16)).astype('f')
  ids, mask = test_bert.padded(sequences)
  theirs = reference(ids, attention_mask=mask).last_hidden_state[mask.bool()]
  (theirs * torch.tensor(weights)).sum().backward()

  def loss(params, row_length):
    ours = jnp.concatenate(test_bert.packed_tokens(
        tower.transformer, params, sequences, row_length))
    return jnp.sum(ours * weights), ours

  (_, ours), grads = jax.value_and_grad(loss, has_aux=True)(
      tower.params, 32)
  np.testing.assert_allclose(ours, theirs.detach(), atol=1e-5)
  padded = loss(tower.params, 40)[1]
  np.testing.assert_allclose(padded, ours, atol=1e-5)
  of_ours = families.FAMILIES[kind].to_tensors(
      jax.tree.map(np.asarray, grads), tower.transformer, 1)
  for name, parameter in reference.named_parameters():
    if parameter.grad is None:
      continue
    want = parameter.grad.numpy()
    scale = max(1.0, np.abs(want).max())
    np.testing.assert_allclose(of_ours[name] / scale, want / scale, atol=1e-5,
                               err_msg=name)


@pytest.mark.parametrize('kind', [*REFERENCES, 'modernbert'])
def test_tokens_are_those_of_the_template(tmp_path, kind):
  backend = write_tokenizer(tmp_path, kind)
  tokenizer = tokenizer_lib.load_tokenizer(str(tmp_path))
  texts = tokenized.tokenize_in_memory(
      [*(('', text) for text in TEXTS), *TITLED], tokenizer, 200, '')
  built = [ids.tolist() for ids in texts.tokens(np.arange(len(texts.store)))]
  assert built == [
      *(backend.encode(text).ids for text in TEXTS),
      *((backend.encode(title, text) if title.strip()
         else backend.encode(text)).ids for title, text in TITLED)]
  assert texts.lengths().tolist() == list(map(len, built))
  assert len(tokenizer.template.between) == (2 if 'roberta' in kind else 1)


@pytest.mark.parametrize('kind', REFERENCES)
def test_exported_equals_sentence_transformers(tmp_path, kind):
  st = pytest.importorskip('sentence_transformers')
  write(tmp_path / 'source', kind)
  model = load(tmp_path / 'source')
  folder = tmp_path / 'model'
  folder.mkdir()
  exporting.write_model(
      model, folder, model_card.model_card(
          model, model_card.Facts('tiny', source='x')))
  again = load(folder, pooling=None)
  assert (again.spec, again.text) == (model.spec, model.text)
  jax.tree.map(np.testing.assert_array_equal, again.params, model.params)
  theirs = st.SentenceTransformer(str(folder), device='cpu').encode([
      exporting.passage_text(*pair, model.tokenizer.separator)
      for pair in TITLED])
  ours = exporting.embed(model, 'passage', TITLED)
  np.testing.assert_allclose(ours, theirs, atol=1e-5)
  assert np.abs(ours).max() > 0.1


def test_distilbert_reranks(tmp_path):
  """Pairs have token types, of which its embeddings know none."""
  reference = write(tmp_path, 'distilbert')
  model = reranker.from_pretrained(str(tmp_path), config_lib.ModelConfig(
      init='x', query_length=8, passage_length=8), 0)
  ids = np.array([[0, 7, 9, 2, 11, 2]], np.int32)
  ones = np.ones_like(ids)
  scores = cross_encoder.CrossEncoder(model.spec).apply(
      {'params': model.params}, packed.PackedSequences(
          ids, ones, np.arange(6, dtype=np.int32)[None],
          np.zeros(1, np.int32), (ids > 9).astype(np.int32)), True)
  first = reference(torch.tensor(ids)).last_hidden_state[0, 0].detach().numpy()
  score = model.params['score']
  np.testing.assert_allclose(
      scores[0], first @ score['kernel'] + score['bias'], atol=1e-5)


def test_too_few_positions(tmp_path):
  write(tmp_path, 'roberta')
  path = tmp_path / 'config.json'
  values = json.loads(path.read_text())
  path.write_text(json.dumps({**values, 'max_position_embeddings': 2}))
  with pytest.raises(errors.UserError, match='embeddings=2 leaves no pos'):
    pretrained.load_towers(str(tmp_path))


def test_prompts_that_merge_with_the_text(tmp_path):
  """Byte-level tokens: a prompt and its text are tokenized together."""
  st = pytest.importorskip('sentence_transformers')
  source = tmp_path / 'source'
  write(source, 'roberta')
  (source / 'modules.json').write_text(json.dumps([
      {'idx': 0, 'name': '0', 'path': '',
       'type': 'sentence_transformers.models.Transformer'}]))
  (source / 'config_sentence_transformers.json').write_text(json.dumps(
      {'prompts': {'query': 'Find it.\nQuery:', 'document': 'passage: '}}))
  model, plain = load(source), load(source, query_prefix='', passage_prefix='')
  assert model.text.query_prefix == 'Find it.\nQuery:'
  assert model.fingerprint != plain.fingerprint
  folder = tmp_path / 'model'
  folder.mkdir()
  exporting.write_model(
      model, folder, model_card.model_card(
          model, model_card.Facts('tiny', source='x')))
  again = load(folder, pooling=None)
  assert (again.spec, again.text) == (model.spec, model.text)
  theirs = st.SentenceTransformer(str(folder), device='cpu')
  separator = model.tokenizer.separator
  np.testing.assert_allclose(
      exporting.embed(model, 'passage', TITLED),
      theirs.encode([exporting.passage_text(*pair, separator)
                     for pair in TITLED], prompt_name='document'), atol=1e-5)
  theirs.max_seq_length = 12
  np.testing.assert_allclose(
      exporting.embed(model, 'query', [('', text) for text in TEXTS]),
      theirs.encode(TEXTS, prompt_name='query'), atol=1e-5)


def test_old_descriptions_are_read_as_before():
  """Models of before have no `model_type`, and so have BERTs of today."""
  config = tiny.bert_config()
  assert 'model_type' not in config.to_json()
  assert type(config)(**config.to_json()) == config
  spec = dual_encoder.EncoderSpec(
      dataclasses.replace(config, model_type='roberta'))
  assert dual_encoder.EncoderSpec.from_json(spec.to_json()) == spec
