"""NomicBERT folders by the names of nomic-ai and transformers; refusals."""

import json

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from neg_contrast import errors
from neg_contrast.models import pretrained
from tests.models import test_family_parity

_NAMES = {
    'embeddings.LayerNorm': 'emb_ln', 'self_attn.o_proj': 'attn.out_proj',
    'mlp.up_proj': 'mlp.fc11', 'mlp.gate_proj': 'mlp.fc12',
    'mlp.down_proj': 'mlp.fc2', 'post_attention_layernorm': 'norm1',
    'post_mlp_layernorm': 'norm2',
}
_KEYS = {
    'hidden_size': 'n_embd', 'num_hidden_layers': 'n_layer',
    'num_attention_heads': 'n_head', 'intermediate_size': 'n_inner',
    'max_position_embeddings': 'n_positions',
    'layer_norm_eps': 'layer_norm_epsilon',
}


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
  folder = tmp_path_factory.mktemp('nomic')
  test_family_parity.write(folder, 'nomic_bert')
  return folder


def publish(folder, out):
  """The same model with the keys of nomic-ai."""
  (out / 'model.safetensors').write_bytes(
      (folder / 'model.safetensors').read_bytes())
  values = json.loads((folder / 'config.json').read_text())
  values = {_KEYS.get(key, key): value for key, value in values.items()}
  theta = values.pop('rope_parameters')['rope_theta']
  values |= {'rotary_emb_base': theta, 'activation_function': 'swiglu',
             'rotary_emb_fraction': 1.0, 'prenorm': False,
             'qkv_proj_bias': False}
  del values['hidden_act']
  (out / 'config.json').write_text(json.dumps(values))
  (out / 'tokenizer.json').write_bytes(
      (folder / 'tokenizer.json').read_bytes())
  return values


def rename(path, prefix):
  """Tensors by the names that they have inside transformers."""
  tensors = {}
  for name, tensor in load_file(path).items():
    if 'Wqkv' in name:
      for kind, part in zip('qkv', np.split(tensor, 3), strict=True):
        own = name.replace('encoder.', '').replace(
            'attn.Wqkv', f'self_attn.{kind}_proj')
        tensors[prefix + own] = part
      continue
    for native, published in _NAMES.items():
      name = name.replace(published, native)
    tensors[prefix + name.replace('encoder.', '')] = tensor
  save_file(tensors, path)


@pytest.mark.parametrize('prefix', [None, '', 'nomic_bert.'])
def test_other_names_are_the_same_model(folder, tmp_path, prefix):
  publish(folder, tmp_path)
  if prefix is not None:
    rename(tmp_path / 'model.safetensors', prefix)
  own, theirs = (pretrained.load_towers(str(place))['shared']
                 for place in (folder, tmp_path))
  assert own.transformer == theirs.transformer
  jax.tree.map(np.testing.assert_array_equal, own.params, theirs.params)


@pytest.mark.parametrize(('changes', 'message'), [
    ({'prenorm': True}, 'prenorm=True is not supported; False is'),
    ({'rotary_emb_fraction': 0.5}, 'rotary_emb_fraction=0.5 is not supported'),
    ({'activation_function': 'geglu'}, "hidden_act='geglu' is not one of"),
    ({'n_head': 3}, 'must be a multiple'),
    ({'rope_parameters': {'rope_type': 'yarn'}}, 'rope_type "yarn" is not'),
    ({'rotary_emb_base': -1.0}, 'theta=-1.0 must be above 0'),
])
def test_other_shapes_are_refused(folder, tmp_path, changes, message):
  values = publish(folder, tmp_path)
  (tmp_path / 'config.json').write_text(json.dumps({**values, **changes}))
  with pytest.raises(errors.UserError, match=message):
    pretrained.load_towers(str(tmp_path))
