"""Models that are there already, as artifacts: what they are, and what lacks.
"""

import dataclasses
import json

import pytest

from neg_contrast import errors
from neg_contrast.artifacts import artifact
from neg_contrast.evaluation import reranking
from neg_contrast.models import given, loading
from neg_contrast.settings import config as config_lib
from tests import tiny


@pytest.fixture(scope='module')
def root(tmp_path_factory):
  root = tmp_path_factory.mktemp('given')
  tiny.write_model(root / 'model')
  tiny.write_model(root / 'other', seed=1)
  return root


def config_of(**values):
  return config_lib.ModelConfig(
      **{'query_length': 6, 'passage_length': 9, **values})


@dataclasses.dataclass(frozen=True)
class Before(artifact.Artifact):
  """Something that makes a model."""

  kind = 'training'
  name = 'training'
  is_done: bool = False

  def describe(self):
    """Nothing to tell."""
    return ''

  def is_made(self):
    """As it was said."""
    return self.is_done

  def build(self):
    """It is not built."""

  def _find_contents(self, role):
    return {'model': '7'} if self.is_done else None


def contents(root, name='model', seed=0, **values):
  return given.Checkpoint(
      str(root / name), seed, config_of(**values)).contents()


def test_it_is_there_or_lacks(root):
  there = given.Checkpoint(str(root / 'model'))
  assert there.is_made() and there.lacks() is None
  assert there.whose == there.describe() == str(root / 'model')
  gone = given.Checkpoint(str(root / 'gone'))
  assert gone.lacks() == f'{root / "gone"}: no such model folder'
  assert not gone.is_made() and gone.contents() is None
  # A name of the hub may be one; nothing is asked for over the net.
  assert given.Checkpoint('some/model').lacks() is None


def test_its_contents_are_weights_and_settings(root):
  one = contents(root)
  assert one == {'model': given.Checkpoint(
      str(root / 'model'), 0, config_of()).load().fingerprint}
  assert one == contents(root, seed=5)  # Nothing of it is random.
  assert one == contents(root, dtype='bfloat16')
  others = [contents(root, 'other'), contents(root, passage_length=8),
            contents(root, pooling='mean'), contents(root, layers=1),
            contents(root, query_prefix='word1 '),
            contents(root, projection_dim=4),
            contents(root, seed=5, projection_dim=4)]
  assert len({str(other) for other in [one, *others]}) == 1 + len(others)


def test_it_may_bring_its_settings(tmp_path):
  tiny.write_model(tmp_path, max_positions=400)
  made = given.Checkpoint(str(tmp_path)).load()
  assert made.text.query_length == 64 and made.text.passage_length == 384
  assert made.spec.shared


def test_memory_holds_it_only_while_it_is_wanted(root):
  made = given.Checkpoint(str(root / 'model'), 0, config_of())
  assert made.is_large and not made.is_listed
  loaded, contents = made.load(), made.contents()
  assert given.Checkpoint(str(root / 'model'), 0, config_of()).load() is loaded
  artifact.keep_only(())
  assert made.contents() == contents and made not in artifact._loaded
  assert made.load() is not loaded


def test_a_workdir_without_a_checkpoint_is_missing(tmp_path):
  tiny.train_only(tmp_path, tmp_path / 'work', optim__steps=2,
                  negatives__sources=())
  made = given.Checkpoint(str(tmp_path / 'work'))
  assert made.lacks() is None
  for path in (tmp_path / 'work' / 'checkpoints').glob('[0-9]*'):
    path.rename(path.with_name(f'{path.name}.orbax-checkpoint-tmp'))
  assert 'holds no finished checkpoint; train first' in made.lacks()


def test_what_a_training_makes_does_not_lack(root):
  config = config_of(init=str(root / 'gone'))
  alone = given.Start(str(root / 'gone'), 0, config)
  assert alone.lacks() and alone.needs() == {} and alone.contents() is None
  start = dataclasses.replace(alone, after=Before())
  assert start.lacks() is None and start.needs() == {'after': Before()}
  # Nothing is read before the training is done.
  assert start.contents() is None
  config = config_of(init=str(root / 'model'))
  done = given.Start(str(root / 'model'), 0, config, Before(True))
  assert done.contents() == contents(root)


@pytest.mark.parametrize(('values', 'want'), [
    ({}, (0.1, 0.1)), ({'hidden_dropout': 0.0}, (0.0, 0.1)),
    ({'hidden_dropout': 0.3, 'attention_dropout': 0.2}, (0.3, 0.2)),
])
def test_trainings_start_with_the_dropout_of_the_config(root, values, want):
  config = config_of(init=str(root / 'model'), **values)
  start = given.Start(str(root / 'model'), 0, config).load().spec.transformer
  assert (start.hidden_dropout, start.attention_dropout) == want


def test_dropout_is_the_only_thing_that_is_set(root):
  model = given.Checkpoint(str(root / 'model'), 0, config_of()).load()
  made = given.with_dropout(model, config_of(
      hidden_dropout=0.3, passage_length=3, layers=1))
  assert made.spec.transformer == dataclasses.replace(
      model.spec.transformer, hidden_dropout=0.3)
  assert (made.params, made.text) == (model.params, model.text)


def test_towers_are_as_many_as_the_config_says(root):
  config = config_of(init=str(root / 'model'), shared=False)
  start = given.Start(str(root / 'model'), 0, config).load()
  assert not start.spec.shared


def test_a_tokenizer_of_random_weights_draws_none(root, monkeypatch):
  monkeypatch.setattr(loading, 'load_towers', lambda *_: 1 / 0)
  loaded = [given.Tokenizer(name).load() for name in (
      f'random:bert-tiny@{root / "model"}', f'random:minilm-l6@{root / "model"}'
  )]
  assert len({tokenizer.sha256 for tokenizer in loaded}) == 1
  with pytest.raises(errors.UserError, match='there is no size "huge"'):
    given.Tokenizer(f'random:huge@{root / "model"}').load()


def test_a_tokenizer_is_its_files(root, tmp_path):
  one = given.Tokenizer(str(root / 'model'))
  assert one.is_made() and not one.is_listed
  assert one.contents() == {'tokenizer': one.load().sha256}
  assert one.contents() == given.Tokenizer(str(root / 'other')).contents()
  tiny.write_model(tmp_path / 'third', words=[*tiny.WORDS[1:], 'more'])
  third = given.Tokenizer(str(tmp_path / 'third'))
  assert third.contents() != one.contents()
  gone = given.Tokenizer(str(tmp_path / 'gone'))
  assert gone.lacks() and gone.contents() is None and not gone.is_made()


@pytest.mark.parametrize(('kind', 'holds'), [
    (given.Checkpoint, 'generator'), (given.RerankerStart, 'generator'),
    (given.RerankerStart, 'encoder'), (given.GeneratorStart, 'encoder'),
    (given.Tokenizer, 'reranker'), (given.RerankerStart, 'ensemble'),
])
def test_workdirs_of_other_kinds_lack(tmp_path, kind, holds):
  (tmp_path / f'{holds}.json').write_text('{}')
  assert kind(str(tmp_path)).lacks().startswith(f'{tmp_path}: holds ')


@pytest.mark.parametrize('kind', [
    given.Checkpoint, given.Tokenizer, reranking.PairModel])
def test_an_ensemble_is_no_model(tmp_path, kind):
  (tmp_path / 'ensemble.json').write_text('{}')
  assert kind(str(tmp_path)).lacks() == (
      f'{tmp_path}: is an ensemble, and one model is needed here; name one of '
      'its members')


def test_random_weights_write_no_questions(tmp_path):
  name = f'random:t5-tiny@{tmp_path}'
  start = given.GeneratorStart(name, 0, config_of(), is_trained=True)
  with pytest.raises(errors.UserError, match='random weights write noise'):
    start.load()


def test_equal_ones_are_one(root):
  made = {given.Checkpoint('a', 1, config_of()),
          given.Checkpoint('a', 1, config_of()),
          given.Checkpoint('a', 2, config_of()),
          given.Start('a', 1, config_of()),
          given.RerankerStart('a', 1, config_of())}
  assert len(made) == 4


def test_a_projection_may_be_random(root):
  """Where neither the model nor a training brings it."""
  def is_random(name='model', after=None, **values):
    return given.Start(str(root / name), 0, config_of(**values),
                       after).is_projection_random

  assert is_random(projection_dim=8)
  assert not is_random(projection_dim=0) and not is_random()
  assert not is_random(projection_dim=8, after=Before())
  assert given.Start('bert-base-uncased', 0, config_of(
      projection_dim=768)).is_projection_random
  (root / 'trained').mkdir()
  (root / 'trained' / loading.FILE).touch()  # A workdir.
  assert not is_random('trained', projection_dim=8)
  for place in ('dense', 'towers/query', 'towers/passage'):
    folder = root / place
    (folder / '2_Dense').mkdir(parents=True)
    (folder / 'modules.json').write_text(json.dumps([
        {'type': f'sentence_transformers.models.{kind}', 'path': path}
        for kind, path in (('Transformer', ''), ('Dense', '2_Dense'))]))
    (folder / '2_Dense' / 'config.json').write_text(
        json.dumps({'in_features': 16, 'out_features': 8}))
  for name in ('dense', 'towers'):
    assert not is_random(name, projection_dim=8)
    assert is_random(name, projection_dim=9)
