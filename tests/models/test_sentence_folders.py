"""What folders of sentence-transformers say beside their modules."""

import json
import pathlib
import shutil

import numpy as np
import pytest
import tokenizers
from tokenizers import normalizers, pre_tokenizers, processors

from neg_contrast import errors
from neg_contrast.models import (
  by_name,
  exporting,
  families,
  loading,
  reranker,
)
from neg_contrast.settings import config as config_lib
from tests import tiny
from tests.models import test_family_parity, test_qwen3

transformers = pytest.importorskip('transformers')
st = pytest.importorskip('sentence_transformers')

TEXTS = ['word1 word2 word3', 'word4', 'word5 word6 ' * 20]


def change(path: pathlib.Path, **values):
  old = json.loads(path.read_text()) if path.exists() else {}
  path.write_text(json.dumps({**old, **values}))


def write_modules(folder, transformer=''):
  """The modules of sentence-transformers: mean pooling, nothing after it."""
  (folder / '1_Pooling').mkdir()
  (folder / '1_Pooling' / 'config.json').write_text(json.dumps({
      'word_embedding_dimension': 16, 'pooling_mode_mean_tokens': True}))
  (folder / 'modules.json').write_text(json.dumps([
      {'idx': i, 'name': str(i), 'path': path,
       'type': f'sentence_transformers.models.{kind}'}
      for i, (kind, path) in enumerate(
          [('Transformer', transformer), ('Pooling', '1_Pooling')])]))


@pytest.fixture
def folder(tmp_path):
  """A tiny BERT as they save one: mean pooling, no Normalize."""
  place = tmp_path / 'model'
  tiny.write_model(place)
  write_tokenizer(place)
  write_modules(place)
  change(place / 'sentence_bert_config.json', max_seq_length=14)
  return place


def write_tokenizer(place, normalizer=None):
  path = place / 'tokenizer.json'
  backend = tokenizers.Tokenizer.from_file(str(path))
  if normalizer:
    backend.normalizer = normalizer
  backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
  ids = [(token, backend.token_to_id(token)) for token in ('[CLS]', '[SEP]')]
  backend.post_processor = processors.TemplateProcessing(
      single='[CLS] $A [SEP]', pair='[CLS] $A [SEP] $B:1 [SEP]:1',
      special_tokens=ids)
  backend.save(str(path))
  change(place / 'tokenizer_config.json', pad_token='[PAD]',
         tokenizer_class='PreTrainedTokenizerFast', unk_token='[UNK]')


def load(place, **settings):
  return loading.from_pretrained(
      str(place), config_lib.ModelConfig(init='x', **settings), 0)


def embed(model, role):
  return exporting.embed(model, role, [('', text) for text in TEXTS])


def check_equal(place):
  """Scores of queries and passages are those of their library."""
  theirs, ours = st.SentenceTransformer(str(place), device='cpu'), load(place)
  want = theirs.similarity(
      theirs.encode_query(TEXTS), theirs.encode_document(TEXTS)).numpy()
  got = embed(ours, 'query') @ embed(ours, 'passage').T
  np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
  return ours


def test_cosines_are_compared_where_the_folder_says_so(folder):
  path = folder / 'config_sentence_transformers.json'
  for name, is_cosine in (('cosine', True), ('dot', False)):
    change(path, similarity_fn_name=name)
    assert check_equal(folder).spec.normalize is is_cosine
  change(path, similarity_fn_name='cosine')
  assert not load(folder, normalize=False).spec.normalize
  change(path, similarity_fn_name=None)
  assert not load(folder).spec.normalize
  change(path, similarity_fn_name='euclidean')
  with pytest.raises(errors.UserError, match='"euclidean" is not supported'):
    load(folder)


def test_each_role_has_its_length(folder):
  change(folder / 'config_sentence_transformers.json',
         similarity_fn_name='dot')
  path = folder / 'sentence_bert_config.json'
  change(path, query_length=5, document_length=9)
  text = check_equal(folder).text
  assert (text.query_length, text.passage_length) == (5, 9)
  change(path, document_length=100)
  assert load(folder).text.passage_length == 40  # It has no more positions.
  change(path, processing_kwargs={'text': {'max_length': 8}})
  with pytest.raises(errors.UserError, match='processing_kwargs is not supp'):
    load(folder)


@pytest.mark.parametrize(('usual', 'prefixes'), [
    ('query', ('word9 ', '')), ('document', ('', 'word8 ')),
    ('other', ('word7 ', 'word7 '))])
def test_a_usual_prompt_of_one_role_is_not_that_of_the_other(
    folder, usual, prefixes
):
  own = {'query': 'word9 ', 'document': 'word8 ', 'other': 'word7 '}
  change(folder / 'config_sentence_transformers.json', similarity_fn_name='dot',
         prompts={usual: own[usual]}, default_prompt_name=usual)
  text = load(folder).text
  assert (text.query_prefix, text.passage_prefix) == prefixes
  if usual != 'other':  # Theirs has it for `encode` alone.
    check_equal(folder)


def test_a_prompt_joined_with_the_first_word_is_refused(folder):
  path = folder / 'config_sentence_transformers.json'
  change(path, prompts={'query': 'word9', 'document': 'word8:'})
  with pytest.raises(errors.UserError, match="prompt 'word9' ends in no white"
                     ".*Set --config.model.query_prefix='word9 '"):
    load(folder)
  text = load(folder, query_prefix='word9 ').text
  assert (text.query_prefix, text.passage_prefix) == ('word9 ', 'word8:')
  change(path, prompts={'query': 'word9 '}, similarity_fn_name='dot')
  check_equal(folder)


@pytest.mark.parametrize(
    'name', ['swish', 'gelu_python', 'gelu_fast', 'gelu_accurate'])
def test_an_activation_by_another_name(folder, name):
  change(folder / 'config_sentence_transformers.json',
         similarity_fn_name='dot')
  change(folder / 'config.json', hidden_act=name)
  check_equal(folder)


def test_a_transformer_in_a_folder_of_its_own(folder, tmp_path):
  """As old releases save it, tokenizer and all."""
  place = tmp_path / 'old'
  (place / '0_Transformer').mkdir(parents=True)
  for path in folder.iterdir():
    if path.is_file():
      shutil.copy(path, place / '0_Transformer')
  write_modules(place, '0_Transformer')
  change(place / 'config_sentence_transformers.json',
         similarity_fn_name='cosine')
  check_equal(place)


@pytest.mark.parametrize(('normalizer', 'values'), [
    (normalizers.BertNormalizer(lowercase=False), {'do_lower_case': True}),
    (normalizers.BertNormalizer(lowercase=True), {'do_lower_case': False}),
    (normalizers.BertNormalizer(strip_accents=True),
     {'strip_accents': False, 'do_lower_case': True})])
def test_settings_override_tokenizer_json_as_in_transformers(
    folder, normalizer, values
):
  words = ['Word1', 'word2', 'wörd3', 'word3']
  write_tokenizer(folder, normalizer)
  (folder / 'vocab.txt').write_text('\n'.join(
      ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', *tiny.WORDS]))
  change(folder / 'tokenizer_config.json', **values)
  plain = load(folder).tokenizer
  change(folder / 'tokenizer_config.json', tokenizer_class='BertTokenizer')
  theirs = transformers.AutoTokenizer.from_pretrained(str(folder))
  want = theirs(words, add_special_tokens=False)['input_ids']
  assert load(folder).tokenizer.encode_batch(words) == want
  assert plain.encode_batch(words) != want


def test_texts_cut_in_front_are_refused(folder):
  change(folder / 'tokenizer_config.json', truncation_side=None)
  load(folder)
  change(folder / 'tokenizer_config.json', truncation_side='left')
  with pytest.raises(errors.UserError, match='truncation_side "left" is not'):
    load(folder)
  (folder / 'tokenizer_config.json').write_text('[]')
  with pytest.raises(errors.UserError, match='holds no json object'):
    load(folder)


def test_adapters_bring_their_modules(folder, tmp_path):
  """Pooling, prompts and lengths are those of the adapters' folder."""
  tiny.write_model(tmp_path / 'base')
  assert load(tmp_path / 'base').spec.pooling == 'cls'
  for path in (folder / 'model.safetensors', folder / 'config.json'):
    path.unlink()
  from safetensors.numpy import save_file

  low = np.zeros((2, 16), np.float32)
  name = 'base_model.model.encoder.layer.0.attention.self.query.lora_'
  save_file({f'{name}A.weight': low, f'{name}B.weight': low.T.copy()},
            str(folder / 'adapter_model.safetensors'))
  change(folder / 'adapter_config.json', peft_type='LORA', r=2, lora_alpha=4,
         target_modules=['query'],
         base_model_name_or_path=str(tmp_path / 'base'))
  change(folder / 'config_sentence_transformers.json',
         prompts={'query': 'word9 '}, similarity_fn_name='dot')
  model = load(folder)
  described, text = loading.shape_by_name(
      str(folder), config_lib.ModelConfig(init='x'))
  assert model.spec == described and model.text == text
  assert (text.query_prefix, text.query_length) == ('word9 ', 14)
  whole = load(tmp_path / 'base', pooling='mean', normalize=False,
               query_length=14, query_prefix='word9 ')
  np.testing.assert_allclose(
      embed(model, 'query'), embed(whole, 'query'), atol=1e-5)
  assert loading.projection_features(str(folder)) is None
  (folder / 'modules.json').unlink()
  assert load(folder).spec.pooling == 'cls'


@pytest.mark.parametrize('kind', ['qwen3', 'nomic_bert'])
def test_cross_encoders_that_cannot_be_read_are_no_dual_encoders(
    tmp_path, kind
):
  test_family_parity.write(tmp_path, kind)
  change(tmp_path / 'config.json', architectures=['XForSequenceClassification'])
  assert by_name.is_reranker(str(tmp_path))
  assert 'is a cross-encoder' in by_name.missing(str(tmp_path))
  with pytest.raises(errors.UserError, match='can be read, and not XFor'):
    families.read_head(tmp_path)


def test_a_decoder_among_cross_encoders(folder):
  change(folder / 'config_sentence_transformers.json',
         model_type='CrossEncoder')
  change(folder / 'config.json', architectures=['BertForCausalLM'])
  assert reranker.is_classifier(str(folder))


def test_a_decoder_is_pooled_at_its_last_token(tmp_path):
  test_qwen3.write(tmp_path)
  test_qwen3.write_tokenizer(tmp_path)
  assert load(tmp_path).spec.pooling == 'last'
  assert load(tmp_path, pooling='mean').spec.pooling == 'mean'
  with pytest.raises(errors.UserError, match='pooling="cls": the model is a'):
    load(tmp_path, pooling='cls')


def test_a_projection_of_dpr_is_refused(folder):
  (folder / 'modules.json').unlink()
  change(folder / 'config.json', model_type='dpr', projection_dim=0)
  assert load(folder).spec.dim == 16
  change(folder / 'config.json', projection_dim=8)
  with pytest.raises(errors.UserError, match='projection_dim=8 is not supp'):
    load(folder)
