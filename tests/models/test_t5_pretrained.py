"""T5 folders: what is read and written, and what is refused."""

import dataclasses
import json

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from neg_contrast import errors
from neg_contrast.models import pretrained, t5, t5_config, t5_pretrained
from tests import tiny
from tests.models import test_t5

torch = pytest.importorskip('torch')
transformers = pytest.importorskip('transformers')


def compare(reference, loaded):
  """The logits of one batch, to 1e-5."""
  source, target = (
      test_t5.padded(list(s)) for s in zip(*test_t5.pairs(), strict=True))
  as_torch = lambda x: torch.tensor(x, dtype=torch.long)
  with torch.no_grad():
    theirs = reference.eval()(
        input_ids=as_torch(source[0]), attention_mask=as_torch(source[1]),
        decoder_input_ids=as_torch(target[0])).logits.numpy()
  ours = test_t5.logits_of(
      t5.T5(loaded.config), loaded.params, (*source, *target))
  is_token = target[1] > 0
  test_t5.assert_close(np.asarray(ours)[is_token], theirs[is_token])


def change(folder, **kwargs):
  """Other values in config.json; None removes one."""
  path = folder / 'config.json'
  values = {**json.loads(path.read_text()), **kwargs}
  path.write_text(json.dumps(
      {k: v for k, v in values.items() if v is not None}))


def test_an_mt5_in_several_files(tmp_path):
  reference = test_t5.make_reference(
      tmp_path / 'whole', model='MT5', untied=True)
  reference.save_pretrained(tmp_path / 'parts', max_shard_size='5KB')
  assert (tmp_path / 'parts' / 'model.safetensors.index.json').exists()
  whole, parts = (pretrained.load_t5(str(tmp_path / name))
                  for name in ('whole', 'parts'))
  jax.tree.map(np.testing.assert_array_equal, whole.params, parts.params)
  assert whole.fingerprint != parts.fingerprint
  assert (whole.config.gated, whole.config.activation) == (True, 'gelu_new')
  assert not whole.config.tie_embeddings and not whole.config.is_head_scaled
  compare(reference, parts)


def test_a_config_as_old_as_t5_small(tmp_path):
  """No feed-forward block, no own number of decoder layers, copies."""
  reference = test_t5.make_reference(tmp_path, num_decoder_layers=2)
  change(tmp_path, feed_forward_proj=None, num_decoder_layers=None,
         scale_decoder_outputs=None, tie_word_embeddings=None,
         decoder_start_token_id=0, dense_act_fn=None, is_gated_act=None)
  (tmp_path / 'generation_config.json').unlink()
  path = tmp_path / 'model.safetensors'
  tensors = load_file(path)
  shared = tensors.pop('shared.weight')
  for name in ('encoder.embed_tokens', 'decoder.embed_tokens', 'lm_head'):
    tensors[f'{name}.weight'] = shared
  unused = 'decoder.block.0.layer.1.EncDecAttention.relative_attention_bias'
  tensors[f'{unused}.weight'] = np.ones((8, 4), np.float32)
  save_file(tensors, path)
  loaded = pretrained.load_t5(str(tmp_path))
  assert loaded.config == t5_config.T5Config(
      vocab_size=41, d_model=18, d_kv=5, d_ff=23, num_layers=2,
      num_decoder_layers=2, num_heads=4, relative_buckets=8,
      relative_max_distance=13, scale_head=True)
  compare(reference, loaded)


def test_half_precision_is_widened(tmp_path):
  reference = test_t5.make_reference(tmp_path)
  reference.bfloat16().save_pretrained(tmp_path)
  loaded = pretrained.load_t5(str(tmp_path))
  for leaf in jax.tree.leaves(loaded.params):
    assert isinstance(leaf, np.ndarray) and leaf.dtype == np.float32
  np.testing.assert_array_equal(
      loaded.params['embeddings']['word']['embedding'],
      reference.shared.weight.detach().float().numpy())


@pytest.mark.parametrize('block,tied,scaled', [
    ('relu', True, None), ('gated-gelu', False, None),
    ('gated-gelu', True, False), ('relu', False, True),
    ('gated-relu', True, None)])
def test_exported_folders_are_read_by_transformers(
    tmp_path, block, tied, scaled):
  gated = block.startswith('gated-')
  config, params = test_t5.random_t5(
      gated, tied, scale_head=scaled, pad_id=3, eos_id=7, decoder_start_id=5)
  if block == 'gated-relu':
    config = dataclasses.replace(config, activation='relu')
  t5_pretrained.export_t5(tmp_path, config, params)
  reference = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
  assert type(reference) is transformers.T5ForConditionalGeneration
  generation = reference.generation_config
  assert (generation.pad_token_id, generation.eos_token_id,
          generation.decoder_start_token_id) == (3, 7, 5)
  assert reference.config.dropout_rate == config.dropout
  state = reference.state_dict()
  for name, tensor in t5_pretrained.to_t5_state(config, params).items():
    np.testing.assert_array_equal(state[name], tensor)
  again = pretrained.load_t5(str(tmp_path))
  assert again.config == dataclasses.replace(
      config, scale_head=config.is_head_scaled)
  jax.tree.map(np.testing.assert_array_equal, again.params, params)
  if block != 'gated-relu':
    compare(reference, again)


def test_an_activation_without_a_name_there(tmp_path):
  config = t5_config.T5Config(gated=True, activation='gelu')
  with pytest.raises(errors.UserError, match='gelu_new'):
    t5_pretrained.export_t5(tmp_path, config, {})


def refused(folder, match):
  with pytest.raises(errors.UserError, match=match) as caught:
    pretrained.load_t5(str(folder))
  assert str(folder) in str(caught.value)


def test_other_models_are_refused(tmp_path):
  tiny.write_model(tmp_path / 'bert')
  refused(tmp_path / 'bert', 'config.json: model_type "bert" .* a T5 folder')
  refused(tmp_path, 'config.json: no such file')
  with pytest.raises(errors.UserError, match='no such model folder'):
    pretrained.load_t5(str(tmp_path / 'nowhere'))


@pytest.mark.parametrize('values,match', [
    (dict(d_kv=None), "key 'd_kv' is missing"),
    (dict(num_heads=0), 'num_heads=0 must'),
    (dict(relative_attention_num_buckets=7), 'attention_num_buckets=7 must'),
    (dict(eos_token_id=41), 'eos_token_id=41 must'),
    (dict(dropout_rate=1.5), 'dropout_rate=1.5 must'),
    (dict(d_model='18'), "d_model='18' is no whole number"),
    (dict(dropout_rate=True), 'dropout_rate=True is no number'),
    (dict(feed_forward_proj='gated-mish'), "feed_forward_proj='mish' is not"),
    (dict(feed_forward_proj='mixed-gelu'), 'feed_forward_proj="mixed-gelu"'),
    (dict(d_ff=24), r'DenseReluDense.wi.weight is \[23, 18\], .* \[24, 18\]'),
    (dict(vocab_size=40), r'shared.weight is \[41, 18\], .* \[40, 18\]'),
    (dict(num_layers=3), r'encoder.block.2.* is missing, .* \[20, 18\]'),
    (dict(num_layers=1), 'encoder.block.1.* and 7 other tensors have no place'),
    (dict(tie_word_embeddings=False), 'lm_head.weight is missing'),
])
def test_configs_that_do_not_fit(tmp_path, values, match):
  test_t5.make_reference(tmp_path)
  change(tmp_path, **values)
  refused(tmp_path, match)


def test_weights_that_do_not_fit(tmp_path):
  test_t5.make_reference(tmp_path)
  path = tmp_path / 'model.safetensors'
  tensors = load_file(path)
  save_file({**tensors, 'decoder.embed_tokens.weight':
             tensors['shared.weight'] + 1}, path)
  refused(tmp_path, 'decoder.embed_tokens.weight differs')
  name = 'decoder.block.2.layer.1.EncDecAttention.o.weight'
  save_file({k: v for k, v in tensors.items() if k != name}, path)
  refused(tmp_path, f'{name} is missing')
  save_file({k: v for k, v in tensors.items() if k != 'shared.weight'}, path)
  refused(tmp_path, 'no tensor shared.weight')
  path.write_bytes(b'not tensors')
  refused(tmp_path, 'not a safetensors file')
  path.unlink()
  refused(tmp_path, 'model.safetensors: no such file')
  (tmp_path / 'pytorch_model.bin').touch()
  refused(tmp_path, 'pickle.*AutoModelForSeq2SeqLM.from_pretrained')
