"""What is known of a model before its weights are read."""

import dataclasses

import pytest

from neg_contrast import errors
from neg_contrast.artifacts import artifact
from neg_contrast.models import (
  by_name,
  families,
  given,
  glance,
  hub,
  loading,
  tensor_files,
)
from neg_contrast.settings import config as config_lib
from tests import bucket, tiny


@pytest.fixture
def model(tmp_path):
  tiny.write_model(tmp_path / 'model')
  return tmp_path / 'model'


def start(name, **values):
  return given.Start(str(name), 0, config_lib.ModelConfig(
      init=str(name), **{'query_length': 16, 'passage_length': 24, **values}
  ))


def test_it_has_the_shapes_of_the_loaded_model(model, monkeypatch):
  loaded = start(model, projection_dim=4, layers=1).load()
  monkeypatch.setattr(tensor_files, 'read_tensors', None)
  seen = glance.look(start(model, projection_dim=4, layers=1))
  assert seen.shape == loaded.spec and seen.text == loaded.text
  assert seen.tokenizer.sha256 == loaded.tokenizer.sha256


def test_features_that_depend_on_data_are_left_out(model):
  seen = glance.look(start(model, features=('location:categorical',)))
  assert seen.shape == glance.look(start(model)).shape


def test_random_weights_are_not_drawn(monkeypatch):
  monkeypatch.setattr(loading, 'load_towers', None)
  seen = glance.look(start('random:minilm-l6'))
  assert seen.shape.transformer.num_layers == 6 and seen.tokenizer is not None


def test_of_the_hub_a_known_size_is_known(monkeypatch):
  monkeypatch.setattr(hub, 'cached', lambda name: None)
  seen = glance.look(start('someone/bert-base-uncased'))
  assert seen.shape.transformer.hidden_size == 768 and seen.tokenizer is None
  assert glance.look(start('someone/else')).shape is None


def test_of_a_stage_2_it_is_what_stage_1_starts_from(model):
  @dataclasses.dataclass(frozen=True)
  class Before(artifact.InMemory):
    start: given.Start
    name = 'first'

    def describe(self):
      return 'a training'

  second = dataclasses.replace(
      start('workdirs/first', passage_length=20),
      after=Before(start(model)),
  )
  seen = glance.look(second)
  assert seen.name == str(model) and seen.text.passage_length == 20
  fewer = dataclasses.replace(second, after=Before(start(model, layers=1)))
  assert seen.shape.transformer.num_layers == 2
  assert glance.look(fewer).shape.transformer.num_layers == 1


def test_a_workdir_in_a_bucket_is_known_as_one_of_a_disk(tmp_path):
  pytest.importorskip('gcsfs')
  work = tmp_path / 'work'
  tiny.write_model(tmp_path / 'model')
  (work / 'checkpoints' / '2').mkdir(parents=True)
  (work / 'checkpoints' / '2' / '_METADATA').write_text('{}')
  loading.save_description(start(tmp_path / 'model').load(), work)
  with bucket.running(tmp_path / 'cache'):
    place = f'{bucket.BUCKET}/work'
    bucket.upload(work, place)
    assert by_name.missing(place) is None
    here, there = map(glance.look, (
        given.Checkpoint(str(work)), given.Checkpoint(place)))
  assert there.shape == here.shape and there.text == here.text
  assert there.tokenizer.sha256 == here.tokenizer.sha256


def test_a_generator_has_no_encoder(model):
  seen = glance.look(given.GeneratorStart(
      'random:t5-tiny', 0, config_lib.ModelConfig(query_length=20)
  ))
  assert seen.shape.d_model and seen.text.query_length == 20
  with pytest.raises(errors.UserError, match='T5'):
    glance.look(given.GeneratorStart(
        str(model), 0, config_lib.ModelConfig()))


def test_more_layers_than_there_are(model):
  with pytest.raises(errors.UserError, match='model.layers=3: .* has 2'):
    glance.look(start(model, layers=3))


@pytest.mark.parametrize('name', families.FAMILIES)
def test_every_family_tells_its_shape(name):
  assert families.FAMILIES[name].shape_of is not None


def test_names_that_have_to_be_downloaded(model, monkeypatch):
  monkeypatch.setattr(hub, 'cached', lambda name: None)
  assert by_name.hub_name('someone/else') == 'someone/else'
  assert by_name.hub_name('random:minilm-l6@someone/else') == 'someone/else'
  assert by_name.hub_name(str(model)) is None
  assert by_name.hub_name('minilm') is None
  with pytest.raises(errors.UserError, match='no such model folder'):
    by_name.hub_name(str(model / 'gone'))
