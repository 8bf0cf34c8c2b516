"""BLINK's dual encoder: two BERTs in one file, and its layout of a passage."""

import json

import numpy as np
import pytest
import safetensors.numpy

from neg_contrast import errors
from neg_contrast.data import tokenized
from neg_contrast.models import bert_pretrained, exporting, loading, pretrained
from neg_contrast.settings import config as config_lib
from tests import tiny

WORDS = [*tiny.MARKED, '[unused2]']
PREFIXES = {'query': 'context_encoder.bert_model.',
            'passage': 'cand_encoder.bert_model.'}


def write_blink(folder):
  """The names that `biencoder_wiki_large.bin` has; its two BERTs."""
  towers = {}
  for seed, role in enumerate(PREFIXES):
    tiny.write_model(folder, seed=seed, words=WORDS, vocab_size=68)
    towers[role] = pretrained.load_towers(str(folder))['shared']
  tensors = {
      PREFIXES[role] + name: tensor for role, tower in towers.items()
      for name, tensor in bert_pretrained.bert_tensors(
          tower.params, tower.transformer).items()}
  tensors['context_encoder.bert_model.embeddings.position_ids'] = np.arange(
      16)[None]  # Older versions of transformers saved these.
  safetensors.numpy.save_file(tensors, folder / 'model.safetensors')
  return towers


def load(folder, **overrides):
  return loading.from_pretrained(str(folder), config_lib.ModelConfig(
      init=str(folder), shared=False, query_length=12, passage_length=16,
      **overrides), seed=0)


def test_each_tower_has_its_own_weights(tmp_path):
  wanted = write_blink(tmp_path)
  found = pretrained.load_towers(str(tmp_path))
  assert found.keys() == wanted.keys()
  for role, tower in found.items():
    ours = tiny.hf_names(tower.params, tower.transformer)
    theirs = tiny.hf_names(wanted[role].params, tower.transformer)
    assert ours.keys() == theirs.keys()
    for name in ours:
      np.testing.assert_array_equal(ours[name], theirs[name])
  model = load(tmp_path)
  assert not model.spec.shared and not model.spec.normalize
  assert model.spec.pooling == 'cls' and not model.spec.projection_dim


def test_title_and_text_are_joined_as_there(tmp_path):
  write_blink(tmp_path)
  model = load(tmp_path)
  assert model.text.title_end == '[unused2]'
  tokens = tokenized.tokenize_in_memory(
      [('word1', 'word2 word3'), ('', 'word2')], model.tokenizer, 16, '',
      model.text.title_end).tokens(np.arange(2))
  id_of = model.tokenizer.token_id
  word = [id_of(f'word{number}') for number in range(4)]
  assert tokens[0].tolist() == [
      id_of('[CLS]'), word[1], id_of('[unused2]'), word[2], word[3],
      id_of('[SEP]')]
  assert tokens[1].tolist() == [id_of('[CLS]'), word[2], id_of('[SEP]')]
  assert load(tmp_path, title_end='').text.title_end == ''
  usual = load(tmp_path, title_end='').text.identity
  assert 'title_end' not in usual and 'title_end' in model.text.identity


def test_what_is_missing_is_told(tmp_path):
  write_blink(tmp_path)
  path = tmp_path / 'model.safetensors'
  tensors = safetensors.numpy.load_file(path)
  safetensors.numpy.save_file({name: tensor for name, tensor in tensors.items()
                               if not name.startswith('cand')}, path)
  with pytest.raises(errors.UserError, match='cand_encoder.bert_model: no ten'):
    pretrained.load_towers(str(tmp_path))
  safetensors.numpy.save_file(tensors, path)
  config = tmp_path / 'config.json'
  values = json.loads(config.read_text())
  config.write_text(json.dumps({**values, 'hidden_size': 32}))
  with pytest.raises(errors.UserError, match='context_encoder.*: .* asks for'):
    pretrained.load_towers(str(tmp_path))


def test_an_unknown_token_and_an_export_are_refused(tmp_path):
  write_blink(tmp_path)
  model = load(tmp_path)
  with pytest.raises(errors.UserError, match='title_end=.bogus.: the tok'):
    tokenized.tokenize_in_memory([('a', 'b')], model.tokenizer, 9, '', 'bogus')
  with pytest.raises(errors.UserError, match="can't be exported"):
    exporting.write_model(model, tmp_path / 'out', '')
