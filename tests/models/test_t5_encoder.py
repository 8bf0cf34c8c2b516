"""T5 encoders as towers: equal to transformers and sentence-transformers."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sentence_transformers
import torch
import transformers

from neg_contrast import errors, sharding
from neg_contrast.models import (
  exporting,
  families,
  loading,
  named_sizes,
  pretrained,
  t5_encoder,
  transformer,
)
from neg_contrast.settings import config as config_lib
from tests.models import (
  test_bert,
  test_family_parity,
  test_roberta_pretrained,
)

LENGTHS = (3, 11, 32, 1, 14, 5)


def write(folder, **options):
  """A folder with random weights and a tokenizer; its reference."""
  torch.manual_seed(0)
  reference = transformers.T5EncoderModel(transformers.T5Config(**{
      'vocab_size': 400, 'd_model': 16, 'd_kv': 6, 'd_ff': 24, 'num_layers': 2,
      'num_heads': 4, 'relative_attention_num_buckets': 8,
      'relative_attention_max_distance': 20, 'initializer_factor': 1.0,
      **options})).eval()
  with torch.no_grad():  # New ones have scales of 1.
    for parameter in reference.parameters():
      if parameter.ndim == 1:
        parameter += 0.1 * torch.randn_like(parameter)
  reference.save_pretrained(folder)
  test_roberta_pretrained.write_tokenizer(folder, 'xlm-roberta')
  return reference


@pytest.fixture(scope='module', params=['relu', 'gated-gelu'])
def loaded(request, tmp_path_factory):
  folder = tmp_path_factory.mktemp('t5')
  reference = write(folder, feed_forward_proj=request.param)
  tower = pretrained.load_towers(str(folder))['shared']
  return test_family_parity.Loaded(
      't5_encoder', reference, folder, tower.transformer, tower.params,
      test_bert.random_sequences(vocab=400, lengths=LENGTHS))


def value_and_grads(loaded, **options):
  weights = np.random.default_rng(1).normal(size=(sum(LENGTHS), 16))
  weights = weights.astype(np.float32)

  def loss(params):
    hidden = test_family_parity.hidden_states(
        loaded.shape, params, loaded.sequences, **options)
    return jnp.sum(hidden * weights), hidden

  (_, hidden), grads = jax.value_and_grad(loss, has_aux=True)(loaded.params)
  return hidden, jax.tree.map(np.asarray, grads), weights


def test_values_and_gradients_equal_transformers(loaded):
  hidden, grads, weights = value_and_grads(loaded)
  ids, mask = test_bert.padded(loaded.sequences)
  loaded.reference.zero_grad()
  states = loaded.reference(ids, attention_mask=mask).last_hidden_state
  theirs = states[mask.bool()]
  (theirs * torch.tensor(weights)).sum().backward()
  np.testing.assert_allclose(hidden, theirs.detach(), atol=1e-5)
  of_ours = families.FAMILIES['t5_encoder'].to_tensors(grads, loaded.shape, 0)
  compared = 0
  for name, parameter in loaded.reference.named_parameters():
    want = parameter.grad.numpy()
    scale = max(1.0, np.abs(want).max())
    np.testing.assert_allclose(of_ours[name] / scale, want / scale, atol=1e-5,
                               err_msg=name)
    compared += np.abs(want).max() > 1e-3
  assert compared > 12


def test_rows_loops_and_precision(loaded):
  """Row mates, remat and unrolling change nothing, bfloat16 little."""
  together = test_family_parity.hidden_states(
      loaded.shape, loaded.params, loaded.sequences)
  for options in ({'row_length': 32}, {'remat': 'full', 'scan_unroll': 2},
                  {'remat': 'attention'}):
    np.testing.assert_allclose(test_family_parity.hidden_states(
        loaded.shape, loaded.params, loaded.sequences, **options), together,
        atol=1e-5)
  alone = [test_family_parity.hidden_states(
      loaded.shape, loaded.params, [sequence])
      for sequence in loaded.sequences]
  np.testing.assert_allclose(np.concatenate(alone), together, atol=1e-5)
  half = test_family_parity.hidden_states(
      loaded.shape, loaded.params, loaded.sequences, dtype=jnp.bfloat16)
  error = np.abs(np.asarray(half, np.float32) - np.asarray(together)).mean()
  assert 1e-4 < error < 0.03
  mixed = test_family_parity.hidden_states(
      loaded.shape, loaded.params, loaded.sequences,
      operand_dtype=jnp.bfloat16)
  assert mixed.dtype == jnp.float32
  assert 1e-5 < np.abs(np.asarray(mixed) - np.asarray(together)).mean() < error


def test_an_mt5_is_gated_unless_it_says_otherwise(tmp_path):
  reference = write(tmp_path, feed_forward_proj='gated-gelu')
  path = tmp_path / 'config.json'
  values = json.loads(path.read_text())
  del values['feed_forward_proj']
  path.write_text(json.dumps({**values, 'model_type': 'mt5'}))
  tower = pretrained.load_towers(str(tmp_path))['shared']
  assert isinstance(tower.transformer, t5_encoder.T5EncoderConfig)
  assert tower.transformer.gated
  assert tower.transformer.hidden_act == 'gelu_new'
  sequences = test_bert.random_sequences(vocab=400, lengths=LENGTHS)
  ids, mask = test_bert.padded(sequences)
  with torch.no_grad():
    states = reference(ids, attention_mask=mask).last_hidden_state
  np.testing.assert_allclose(test_family_parity.hidden_states(
      tower.transformer, tower.params, sequences), states[mask.bool()],
      atol=1e-5)


def test_an_activation_without_a_name_is_not_exported(loaded):
  shape = dataclasses.replace(loaded.shape, gated=True, hidden_act='gelu')
  with pytest.raises(errors.UserError, match='gelu_new'):
    families.FAMILIES['t5_encoder'].to_json(shape, 0)


def test_two_devices_along_model_change_nothing(loaded):
  mesh = sharding.make_mesh(config_lib.MeshConfig(model=2), jax.devices()[:2])
  params = sharding.put(
      loaded.params, sharding.parameter_shardings(loaded.params, mesh))
  kernel = params['layers']['attention']['query']['kernel']
  assert kernel.sharding.shard_shape(kernel.shape)[-1] == 12
  np.testing.assert_allclose(
      test_family_parity.hidden_states(loaded.shape, params, loaded.sequences),
      test_family_parity.hidden_states(
          loaded.shape, loaded.params, loaded.sequences), atol=1e-5)


def test_rates_of_dropout_are_apart(loaded):
  compute = lambda **rates: np.asarray(test_family_parity.hidden_states(
      dataclasses.replace(loaded.shape, **rates), loaded.params,
      loaded.sequences, key=jax.random.key(0)))
  nothing = compute(hidden_dropout=0.0, attention_dropout=0.0)
  some = compute(hidden_dropout=0.0, attention_dropout=0.5)
  assert np.abs(some - nothing).mean() > 0.01
  assert np.abs(compute(hidden_dropout=0.5, attention_dropout=0.0)
                - some).mean() > 0.01


def test_export_is_read_by_sentence_transformers(loaded, tmp_path):
  model = loading.from_pretrained(str(loaded.folder), config_lib.ModelConfig(
      init='x', query_length=12, passage_length=20, pooling='mean'), 0)
  exporting.write_model(model, tmp_path, 'card')
  again = pretrained.load_towers(str(tmp_path))['shared']
  assert again.transformer == model.spec.transformer
  jax.tree.map(np.testing.assert_array_equal, again.params,
               model.params['shared'][transformer.KEY])
  theirs = sentence_transformers.SentenceTransformer(
      str(tmp_path), device='cpu')
  pairs = test_roberta_pretrained.TITLED
  states = theirs.encode([
      exporting.passage_text(*pair, model.tokenizer.separator)
      for pair in pairs])
  own = exporting.embed(model, 'passage', pairs)
  np.testing.assert_allclose(own, states, atol=1e-5)
  assert np.abs(own).max() > 0.1
  reference = transformers.T5EncoderModel.from_pretrained(tmp_path)
  for name, parameter in reference.named_parameters():
    np.testing.assert_array_equal(
        parameter.detach(), loaded.reference.state_dict()[name], err_msg=name)


def test_sizes_are_of_encoders_here():
  shape = named_sizes.shape_by_name('t5-small', 'encoder')
  assert (shape.model_type, shape.num_layers) == ('t5_encoder', 6)
  assert named_sizes.shape_by_name('t5-small', 'generator').d_model == 512
  lengths = np.array([7.0])
  # 4 products of 512 x 512 and 2 of 512 x 2048, and attention of 8 x 64.
  assert shape.flops(lengths)[0] == 6 * (
      2 * 7 * (4 * 512**2 + 2 * 512 * 2048) + 4 * 512 * 49)


def test_other_folders_are_refused(tmp_path):
  write(tmp_path, num_layers=1)
  path = tmp_path / 'config.json'
  path.write_text(path.read_text().replace('"d_kv": 6', '"d_kv": 5'))
  with pytest.raises(errors.UserError, match='SelfAttention.q.weight is .24, '):
    pretrained.load_towers(str(tmp_path))
  path.write_text(path.read_text().replace(
      '"relative_attention_num_buckets": 8',
      '"relative_attention_num_buckets": 7'))
  with pytest.raises(errors.UserError, match='relative_buckets=7 must be even'):
    pretrained.load_towers(str(tmp_path))
