"""Qwen3 as a tower: its folders, its export, its shapes and its meshes."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tokenizers
from tokenizers import decoders, models, pre_tokenizers, processors, trainers

from neg_contrast import errors, sharding
from neg_contrast.models import (
  attention,
  exporting,
  loading,
  model_card,
  pretrained,
  qwen3,
  transformer,
)
from neg_contrast.settings import config as config_lib
from tests.models import test_family_parity, test_roberta_pretrained

torch = pytest.importorskip('torch')
transformers = pytest.importorskip('transformers')

TINY = qwen3.Qwen3Config(
    vocab_size=60, hidden_size=16, num_layers=2, num_heads=4, num_kv_heads=2,
    head_dim=6, intermediate_size=24, max_positions=64)
END = '<|endoftext|>'
PROMPT = 'Instruct: Find passages that answer the question\nQuery:'


def write_tokenizer(folder, between=''):
  """Byte-level BPE with one special token, after the text, as Qwen's."""
  backend = tokenizers.Tokenizer(models.BPE())
  backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
  backend.decoder = decoders.ByteLevel()
  backend.train_from_iterator(
      [*test_roberta_pretrained.TEXTS, PROMPT] * 4, trainers.BpeTrainer(
          vocab_size=390, special_tokens=[END], show_progress=False,
          initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
  backend.post_processor = processors.TemplateProcessing(
      single=f'$A {END}', pair=f'$A {between} $B:1 {END}:1'.replace('  ', ' '),
      special_tokens=[(END, backend.token_to_id(END))])
  backend.save(str(folder / 'tokenizer.json'))
  (folder / 'tokenizer_config.json').write_text(json.dumps({
      'tokenizer_class': 'PreTrainedTokenizerFast', 'pad_token': END,
      'eos_token': END, 'model_max_length': 64}))


def write(folder, **changes):
  """transformers' folder, in which keys of config.json are changed."""
  reference = test_family_parity.write(folder, 'qwen3')
  path = folder / 'config.json'
  values = json.loads(path.read_text())
  path.write_text(json.dumps({**values, **changes}))
  return reference


def read(folder):
  return pretrained.load_towers(str(folder))['shared']


def write_embedder(folder, between):
  """As Qwen3-Embedding lies on the hub."""
  write(folder)
  write_tokenizer(folder, between)
  kind = 'sentence_transformers.models.'
  (folder / 'modules.json').write_text(json.dumps([
      {'idx': i, 'name': str(i), 'path': path, 'type': kind + name}
      for i, (name, path) in enumerate([
          ('Transformer', ''), ('Pooling', '1_Pooling'),
          ('Normalize', '2_Normalize')])]))
  (folder / '1_Pooling').mkdir()
  (folder / '1_Pooling' / 'config.json').write_text(json.dumps({
      'word_embedding_dimension': 16, 'pooling_mode_cls_token': False,
      'pooling_mode_mean_tokens': False, 'pooling_mode_lasttoken': True,
      'include_prompt': True}))
  (folder / 'config_sentence_transformers.json').write_text(json.dumps({
      'prompts': {'query': PROMPT, 'document': ''},
      'default_prompt_name': None, 'similarity_fn_name': 'cosine'}))


def load(folder):
  return loading.from_pretrained(str(folder), config_lib.ModelConfig(
      init='x', query_length=36, passage_length=36), 0)


def assert_same_embeddings(model, folder):
  st = pytest.importorskip('sentence_transformers')
  theirs = st.SentenceTransformer(str(folder), device='cpu')
  theirs.max_seq_length = 36
  texts = test_roberta_pretrained.TEXTS
  pairs = [('', text) for text in texts]
  ours = exporting.embed(model, 'query', pairs)
  np.testing.assert_allclose(
      ours, theirs.encode(texts, prompt_name='query'), atol=1e-5)
  np.testing.assert_allclose(np.linalg.norm(ours, axis=1), 1, atol=1e-5)
  titled = test_roberta_pretrained.TITLED
  ours = exporting.embed(model, 'passage', titled)
  np.testing.assert_allclose(ours, theirs.encode([
      exporting.passage_text(*pair, model.tokenizer.separator)
      for pair in titled]), atol=1e-5)


@pytest.mark.parametrize(('between', 'separator'), [('', ' '), (END, END)])
def test_embedder_equals_sentence_transformers_and_so_does_its_export(
    tmp_path, between, separator
):
  source, folder = tmp_path / 'source', tmp_path / 'model'
  source.mkdir()
  folder.mkdir()
  write_embedder(source, between)
  model = load(source)
  assert (model.spec.pooling, model.spec.normalize) == ('last', True)
  assert model.text.query_prefix == PROMPT
  assert model.tokenizer.template.start == ()
  assert model.tokenizer.separator == separator
  assert_same_embeddings(model, source)
  exporting.write_model(model, folder, model_card.model_card(
      model, model_card.Facts('tiny', source='x')))
  again = load(folder)
  assert (again.spec, again.text) == (model.spec, model.text)
  assert_same_embeddings(model, folder)


def test_published_folders_are_read(tmp_path):
  """Of several files, with a head of words, and keys of older versions."""
  reference = write(tmp_path)
  headed = transformers.Qwen3ForCausalLM(reference.config)
  headed.model.load_state_dict(reference.state_dict())
  values = json.loads((tmp_path / 'config.json').read_text())
  assert values['rope_parameters']['rope_theta'] == 500
  new = read(tmp_path)
  assert new.transformer.rope_theta == 500
  (tmp_path / 'model.safetensors').unlink()
  headed.save_pretrained(tmp_path, max_shard_size='20KB')
  assert (tmp_path / 'model.safetensors.index.json').exists()
  del values['rope_parameters'], values['layer_types']
  (tmp_path / 'config.json').write_text(json.dumps(
      {**values, 'rope_theta': 500.0, 'rope_scaling': None}))
  old = read(tmp_path)
  assert old.transformer == new.transformer
  jax.tree.map(np.testing.assert_array_equal, old.params, new.params)


@pytest.mark.parametrize(('changes', 'message'), [
    ({'attention_bias': True}, 'attention_bias=true is not supported'),
    ({'use_sliding_window': True}, 'use_sliding_window=true is not supported'),
    ({'layer_types': ['sliding_attention']}, 'layer_types other than'),
    ({'hidden_act': 'gelu'}, 'hidden_act "gelu" is not supported; "silu" is'),
    ({'rope_scaling': {'type': 'yarn'}}, 'rope_type "yarn" is not supported'),
    ({'rope_parameters': {'rope_type': 'yarn'}}, 'rope_type "yarn" is not'),
    ({'num_key_value_heads': 3}, 'num_kv_heads=3 must divide num_heads=4'),
    ({'head_dim': 8}, r'q_proj.weight is \[24, 16\], config.json asks for '
                      r'\[32, 16\]'),
])
def test_what_is_refused(tmp_path, changes, message):
  write(tmp_path, **changes)
  with pytest.raises(errors.UserError, match=message):
    read(tmp_path)


def test_shapes_come_back_from_json():
  shape = dataclasses.replace(TINY, rope_theta=5.0)
  assert transformer.from_json(
      json.loads(json.dumps(transformer.to_json(shape)))) == shape
  for field, value in (('num_kv_heads', 0), ('head_dim', 5),
                       ('rope_theta', 0.0), ('norm_eps', 0.0)):
    with pytest.raises(ValueError, match=field):
      dataclasses.replace(TINY, **{field: value})


def test_flops_count_the_pairs_that_attend():
  lengths = np.array([1.0, 7.0])
  pairs = [int((qwen3.causal_bias(int(n)) == 0).sum()) for n in lengths]
  weights = 16 * (2 * 24 + 2 * 12 + 3 * 24)
  np.testing.assert_allclose(TINY.flops(lengths), 2 * (
      2 * weights * lengths + 4 * 24 * np.array(pairs)))
  length = TINY.even_row_length
  assert 4 * 24 * length**2 == 2 * weights * length


def test_no_dropout_in_kernels_and_no_token_types():
  tokens = jnp.zeros((1, 4), jnp.int32)
  shape = dataclasses.replace(TINY, attention_dropout=0.1)
  start = lambda types=None, **options: qwen3.Qwen3(shape, **options).init(
      jax.random.key(0), tokens, tokens, tokens, types is not None, types)
  with pytest.raises(ValueError, match='no dropout, and the rate is 0.1'):
    start(attention=lambda *arrays: arrays[0])
  with pytest.raises(ValueError, match='no token types'):
    start(types=tokens)
  assert TINY.causal


def test_meshes_may_not_cut_through_shared_heads():
  choose = lambda devices: attention.choose(
      TINY, 'auto', 32, jnp.float32, sharding.make_mesh(
          config_lib.MeshConfig(model=devices), jax.devices()[:devices]))
  assert choose(2) == 'xla'
  with pytest.raises(errors.UserError, match=(
      r'mesh.model=4: does not divide the 2 heads of keys and values')):
    choose(4)


def test_splitting_parameters_over_data_changes_nothing(monkeypatch):
  monkeypatch.setattr(sharding, '_WORTH_SPLITTING', 1)
  mesh = sharding.make_mesh(config_lib.MeshConfig(), jax.devices()[:2])
  tokens = jnp.asarray(np.random.default_rng(0).integers(1, 60, (2, 12)))
  segments = jnp.asarray([[1] * 5 + [2] * 7, [3] * 12])
  positions = jnp.asarray([[*range(5), *range(7)], [*range(12)]])
  model = qwen3.Qwen3(TINY)
  params = model.init(
      jax.random.key(0), tokens, segments, positions, True)['params']
  split = sharding.put(
      params, sharding.parameter_shardings(params, mesh, fsdp=True))
  key = split['layers']['attention']['key']['kernel']
  assert key.addressable_shards[0].data.size == key.size // 2

  @jax.jit
  @jax.value_and_grad
  def loss(params):
    hidden = model.apply({'params': params}, tokens, segments, positions, True)
    return jnp.sum(hidden**3)

  jax.tree.map(
      test_family_parity.assert_near,
      jax.device_get(loss(split)), jax.device_get(loss(params)))
