"""ELECTRA folders, as transformers writes them."""

import json

import jax.numpy as jnp
import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.models import pretrained
from tests import tiny
from tests.models import test_bert

torch = pytest.importorskip('torch')
transformers = pytest.importorskip('transformers')


def write_electra(folder):
  """Random weights, and the reference that has them."""
  torch.manual_seed(0)
  reference = transformers.ElectraModel(transformers.ElectraConfig(
      vocab_size=64, hidden_size=16, embedding_size=16, num_hidden_layers=2,
      num_attention_heads=2, intermediate_size=24, max_position_embeddings=16,
  )).eval()
  reference.save_pretrained(folder)
  tiny.write_tokenizer(folder, tiny.WORDS)
  return reference


def test_tokens_and_tensors_are_those_of_transformers(tmp_path):
  reference = write_electra(tmp_path)
  tower = pretrained.load_towers(str(tmp_path))['shared']
  ours = tiny.hf_names(tower.params, tower.transformer)
  for name, tensor in reference.named_parameters():
    np.testing.assert_array_equal(ours[name], tensor.detach(), err_msg=name)
  sequences = test_bert.random_sequences()
  ids, mask = test_bert.padded(sequences)
  theirs = reference(ids, attention_mask=mask).last_hidden_state[mask.bool()]
  tokens = test_bert.packed_tokens(tower.transformer, tower.params, sequences)
  np.testing.assert_allclose(
      jnp.concatenate(tokens), theirs.detach(), atol=1e-5)


def test_small_ones_are_refused(tmp_path):
  write_electra(tmp_path)
  path = tmp_path / 'config.json'
  values = json.loads(path.read_text())
  path.write_text(json.dumps({**values, 'embedding_size': 8}))
  with pytest.raises(errors.UserError, match='embedding_size=8 is not hidden'):
    pretrained.load_towers(str(tmp_path))
