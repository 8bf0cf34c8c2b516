"""ModernBERT: its shapes, and which of its folders are read."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import transformers

from neg_contrast import errors
from neg_contrast.models import (
  layers,
  modernbert,
  pretrained,
  transformer,
)
from tests.models import test_family_parity

TINY = modernbert.ModernBertConfig(
    vocab_size=60, hidden_size=16, num_layers=8, num_heads=2,
    intermediate_size=24, max_positions=64, window=3)


def test_windows_of_layers():
  assert TINY.windows == (0, 3, 3, 0, 3, 3, 0, 3)
  every = dataclasses.replace(TINY, global_every=1)
  assert every.windows == (0,) * 8
  first = dataclasses.replace(TINY, num_layers=2)
  assert first.windows == TINY.windows[:2]


def test_pairs_are_those_that_the_bias_leaves():
  lengths = np.array([1.0, 2.0, 5.0, 20.0])
  counted = [
      sum(int((layers.segment_bias(np.ones((1, int(n)), np.int32), window)
               == 0).sum()) for window in TINY.windows) for n in lengths]
  np.testing.assert_array_equal(TINY.pairs(lengths), counted)
  every = dataclasses.replace(TINY, global_every=1).flops(lengths)
  assert (TINY.flops(lengths)[2:] < every[2:]).all()
  weights = 8 * 16 * (4 * 16 + 3 * 24)
  assert every[3] == 2 * weights * 20 + 4 * 16 * 8 * 20**2


def test_windows_end_at_segments():
  ids = np.array([[1, 1, 2, 2, 2, 2, 0]], np.int32)
  seen = np.asarray(layers.segment_bias(ids, 2))[0, 0] == 0
  distances = np.abs(np.subtract.outer(np.arange(7), np.arange(7)))
  np.testing.assert_array_equal(
      seen, (ids[0][:, None] == ids[0]) & (distances <= 2))
  traced = jax.jit(layers.segment_bias)(ids, jnp.int32(0))
  np.testing.assert_array_equal(traced, layers.segment_bias(ids))


def test_shapes_come_back_from_json():
  shape = dataclasses.replace(TINY, window=9, local_theta=5.0)
  assert transformer.from_json(
      json.loads(json.dumps(transformer.to_json(shape)))) == shape
  for field, value in (('window', 0), ('global_every', 0), ('num_heads', 16),
                       ('local_theta', 0.0), ('mlp_dropout', 1.0),
                       ('hidden_act', 'none')):
    with pytest.raises(ValueError, match=field):
      dataclasses.replace(TINY, **{field: value})


def test_no_dropout_in_kernels_and_no_token_types():
  tokens = jnp.zeros((1, 4), jnp.int32)
  shape = dataclasses.replace(TINY, attention_dropout=0.1)
  start = lambda types=None, **options: modernbert.ModernBert(
      shape, **options).init(jax.random.key(0), tokens, tokens, tokens,
                             types is not None, types)
  with pytest.raises(ValueError, match='no dropout, and the rate is 0.1'):
    start(attention=lambda *arrays: arrays[0])
  with pytest.raises(ValueError, match='no token types'):
    start(types=tokens)


def write(folder, **changes):
  """A folder in which some keys of config.json are changed."""
  reference = test_family_parity.write(folder, 'modernbert')
  path = folder / 'config.json'
  values = json.loads(path.read_text())
  path.write_text(json.dumps({**values, **changes}))
  return reference


def read(folder):
  return pretrained.load_towers(str(folder))['shared']


def test_published_folders_are_read(tmp_path):
  """They have a head of masked words, and keys of older versions."""
  reference = write(
      tmp_path, layer_types=None, rope_parameters=None,
      global_attn_every_n_layers=2, global_rope_theta=80000.0,
      local_rope_theta=500.0)
  headed = transformers.ModernBertForMaskedLM(reference.config)
  headed.model.load_state_dict(reference.state_dict())
  values = (tmp_path / 'config.json').read_text()
  headed.save_pretrained(tmp_path)
  (tmp_path / 'config.json').write_text(values)
  tower = read(tmp_path)
  shape = tower.transformer
  assert (shape.global_every, shape.global_theta, shape.local_theta) == (
      2, 80000.0, 500.0)
  assert shape.windows == (0, 4, 0, 4)
  np.testing.assert_array_equal(
      tower.params['layers']['gate']['kernel'][1],
      reference.layers[1].mlp.Wi.weight.detach()[:24].T)
  assert (tower.params['layers']['attention_norm']['scale'][0] == 1).all()
  theirs = transformers.ModernBertModel.from_pretrained(tmp_path)
  ids = np.arange(5, 25, dtype=np.int64)[None]
  with torch.no_grad():
    states = theirs(torch.tensor(ids)).last_hidden_state[0]
  ours = test_family_parity.hidden_states(
      shape, tower.params, [ids[0].astype(np.int32)])
  np.testing.assert_allclose(ours, states, atol=1e-5)


@pytest.mark.parametrize(('changes', 'message'), [
    ({'layer_types': ['full_attention'] * 3 + ['sliding_attention']},
     'layer_types other than "full_attention" in the first of every N'),
    ({'layer_types': 'all'}, 'layer_types is no list'),
    ({'rope_parameters': {'sliding_attention': {'rope_type': 'yarn'}}},
     'rope_type "yarn" is not supported; "default" is'),
    ({'local_attention': 1}, 'window=0 must be at least 1'),
    ({'hidden_size': 32}, r'tok_embeddings.weight is \[400, 16\], config.json '
                          r'asks for \[400, 32\]'),
    ({'norm_bias': None, 'model_type': 'bert'}, "'hidden_act' is missing"),
])
def test_what_is_refused(tmp_path, changes, message):
  write(tmp_path, **changes)
  with pytest.raises(errors.UserError, match=message):
    read(tmp_path)


def test_it_is_no_other_encoder(tmp_path):
  write(tmp_path)
  from safetensors.numpy import save_file

  save_file({'x': np.zeros(2, np.float32)}, tmp_path / 'model.safetensors')
  with pytest.raises(errors.UserError, match='this is no ModernBERT encoder'):
    read(tmp_path)


