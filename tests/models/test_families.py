"""The tables of model families and of kinds: one line adds one."""

import dataclasses
import json
import pathlib

import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.models import (
  bert_pretrained,
  by_name,
  families,
  family,
  kinds,
  loading,
  named_sizes,
  pretrained,
)
from neg_contrast.settings import config as config_lib
from tests import tiny


def test_a_new_family_is_one_line(tmp_path, monkeypatch):
  """Toy folders are a BERT's, with one layer more written than there is."""
  _, params = tiny.write_model(tmp_path, num_layers=2)
  path = tmp_path / 'config.json'
  values = json.loads(path.read_text())
  path.write_text(json.dumps(
      {**values, 'model_type': 'toy', 'num_hidden_layers': 3}))
  config = config_lib.ModelConfig(
      init=str(tmp_path), query_length=8, passage_length=8)
  with pytest.raises(errors.UserError, match='"toy" is not supported here; '
                     '"bert", "dpr", "electra", "roberta", "xlm-roberta", '
                     '"distilbert", "mpnet", "modernbert", "nomic_bert", '
                     '"qwen3", "t5" and "mt5" are. '
                     'Name a BERT folder'):
    loading.from_pretrained(str(tmp_path), config, 0)

  def read(values):
    fixed = dict(values.values)
    fixed['num_hidden_layers'] -= 1
    return bert_pretrained.read(type(values)(values.path, fixed))

  toy = family.Family(
      'toy', 'Toy', 'encoder', read, {'toy-1': tiny.bert_config()}
  )
  monkeypatch.setitem(families.FAMILIES, 'toy', toy)
  model = loading.from_pretrained(str(tmp_path), config, 0)
  assert model.spec.transformer.num_layers == 2
  np.testing.assert_array_equal(
      model.params['shared']['bert']['embeddings']['word']['embedding'],
      params['embeddings']['word']['embedding'])
  assert named_sizes.shape_by_name('random:toy-1', 'encoder').hidden_size == 16
  path.write_text(json.dumps({**values, 'model_type': 'other'}))
  with pytest.raises(errors.UserError, match='"mt5" and "toy" are'):
    pretrained.load_towers(str(tmp_path))
  with pytest.raises(errors.UserError, match='one of .*toy-1'):
    named_sizes.read('random:none', 'encoder')


def test_families_have_names_and_one_purpose():
  assert families.names('encoder') == [
      'bert', 'dpr', 'electra', 'roberta', 'xlm-roberta', 'distilbert', 'mpnet',
      'modernbert', 'nomic_bert', 'qwen3', 't5', 'mt5']
  assert families.names('generator') == ['t5', 'mt5']
  assert all(name == f.name for name, f in families.FAMILIES.items())


def place(folder: pathlib.Path, kind: kinds.Kind) -> str:
  folder.mkdir()
  (folder / kind.file).write_text('{}')
  return str(folder)


def test_the_kind_of_a_folder_and_what_is_refused(tmp_path):
  places = {kind: place(tmp_path / str(number), kind)
            for number, kind in enumerate(kinds.KINDS)}
  for kind, folder in places.items():
    assert kinds.kind_of(folder) is kind
    for wanted in kinds.KINDS:
      if wanted is kind:
        assert kinds.check(folder, wanted) is kind
        continue
      with pytest.raises(errors.UserError) as caught:
        kinds.check(folder, wanted)
      assert str(caught.value) == (
          f'{folder}: holds {kind.name}, and {wanted.needed}')
  assert kinds.check(str(tmp_path), kinds.ENCODER) is None
  assert by_name.missing(places[kinds.ENSEMBLE]).endswith(
      ': is an ensemble, and one model is needed here; name one of its members')
  assert 'a dual encoder is needed' in by_name.missing(places[kinds.RERANKER])
  assert 'writes no questions' in by_name.missing_generator(
      places[kinds.RERANKER])
  assert 'an ensemble of dual encoders, and a reranker is needed here' in (
      by_name.missing_reranker(places[kinds.ENSEMBLE]))


def test_a_new_kind_is_one_line(tmp_path, monkeypatch):
  late = dataclasses.replace(
      kinds.ENCODER, name='a late-interaction model', file='late.json')
  monkeypatch.setattr(kinds, 'KINDS', (*kinds.KINDS, late))
  folder = place(tmp_path / 'x', late)
  assert 'holds a late-interaction model, and a reranker' in (
      by_name.missing_reranker(folder))
  with pytest.raises(errors.UserError, match='late-interaction model'):
    by_name.load_generator(folder, config_lib.ModelConfig(init='x'), 0)
