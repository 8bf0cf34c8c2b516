"""Trainings with features beside text, on a corpus where a place counts."""

import json
import math

import numpy as np
import pytest

from neg_contrast import api, errors, jobs
from neg_contrast.artifacts import artifact
from neg_contrast.benchmarks import outlook
from neg_contrast.bias import measured
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data.side_features import categorical
from neg_contrast.jobs import evaluate, export, mine, search, train
from neg_contrast.models import by_name
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.retrieval import vectors
from neg_contrast.settings import config as config_lib
from neg_contrast.training import run_artifacts
from tests import located, tiny
from tests.jobs import test_mixture

FEW = {'optim__steps': 3, 'checkpointing__log_steps': 1}


def losses_of(workdir):
  lines = map(json.loads, (workdir / 'log.jsonl').read_text().splitlines())
  return [line['loss'] for line in lines if 'loss' in line]


def train_few(folder, workdir, **overrides):
  """Losses of a few steps."""
  config = located.make_config(folder, **{**FEW, **overrides})
  job = train.TrainJob(config_lib.parse(config), workdir)
  workdir.mkdir()
  tiny.plan.run([job.run])
  return losses_of(workdir)


def accuracy(workdir, system='trained'):
  values = json.loads((workdir / 'metrics.json').read_text())
  return values[f'located/test/{system}/accuracy@1']


@pytest.fixture(scope='module')
def root(tmp_path_factory):
  """A corpus, a model, and a training that reads places."""
  folder = tmp_path_factory.mktemp('located')
  tiny.run(train.TrainJob, located.make_config(folder, mesh__data=1),
           folder / 'work')
  return folder


@pytest.fixture(scope='module')
def corpus(tmp_path_factory):
  """A folder for the corpus and a model that nobody trained."""
  return tmp_path_factory.mktemp('untrained')


def test_a_place_that_text_does_not_say(root, tmp_path):
  """By the topic in their words, queries have eight passages that fit."""
  assert accuracy(root / 'work') > 0.9
  assert accuracy(root / 'work', 'initial') < 0.2
  tiny.run(train.TrainJob, located.make_config(
      root, mesh__data=1, model__features=()), tmp_path / 'text')
  assert accuracy(tmp_path / 'text') < 0.3


def test_a_trained_model_has_its_features(root, tmp_path):
  model = by_name.load_workdir(root / 'work')
  feature, = model.side_features
  assert isinstance(feature, categorical.Categorical)
  assert feature.text == 'location:categorical'
  assert set(feature.categories) == set(located.PLACES)
  config = located.make_config(
      root, job='evaluate', model__features=(), checkpoint=str(root / 'work'))
  tiny.run(evaluate.EvaluateJob, config, tmp_path / 'evaluated')
  values = json.loads((tmp_path / 'evaluated' / 'metrics.json').read_text())
  found, = [value for key, value in values.items()
            if key.endswith('accuracy@1') and '/bm25/' not in key]
  assert found == accuracy(root / 'work')


def test_search_asks_with_features_or_without(root, capsys, tmp_path):
  encoder = {'data__prepared_dir': str(root / 'prepared'),
             'index__chunk_tokens': 64}
  retriever = api.load_retriever(
      str(root / 'work'), f'beir:{root / "located"}', **encoder)
  topic = located.TOPICS[3]
  places = {}
  for number, place in enumerate(located.PLACES):
    asked = vectors.WithFeatures(topic, {'location': place})
    places[place] = retriever.find(asked, 1)[0].passage.id
    assert places[place].endswith(f'-{number}')
  plain = retriever.vectors.encoder.encode_queries([topic])
  unknown = retriever.vectors.encoder.encode_queries(
      [vectors.WithFeatures(topic, {'location': 'Atlantis'})])
  assert np.abs(plain - unknown).max() < 0.1
  retriever.find(topic, 1)
  with pytest.raises(errors.UserError, match='with "city": the model reads '
                     'location beside text'):
    retriever.find(vectors.WithFeatures(topic, {'city': 'Oslo'}))
  config = located.make_config(
      root, job='search', model__features=(), checkpoint=str(root / 'work'),
      query=topic, query_features='{"location": "Oslo"}', evaluation__depth=1)
  tiny.run(search.SearchJob, config, tmp_path)
  said = capsys.readouterr().out
  assert f'[{places["Oslo"]}]' in said
  assert 'Take the model away' not in said  # No format has features.
  for wrong, message in (('Oslo', 'is no json'), ('["Oslo"]', 'json object')):
    config.query_features = wrong
    with pytest.raises(errors.UserError, match=message):
      jobs.check(config_lib.parse(config))


def test_passages_by_hand_have_features(root):
  encoder = api.load_encoder(str(root / 'work'))
  oslo, lima, none = encoder.encode_passages([
      vectors.WithFeatures('word9', {'location': place}, 'word1')
      for place in ('Oslo', 'Lima', None)])
  assert np.abs(oslo - lima).max() > 0.1 and np.abs(oslo - none).max() > 0.05
  np.testing.assert_allclose(
      encoder.encode_passages([('word1', 'word9')])[0], none, atol=1e-6)


def test_export_is_refused_with_the_reason(root, tmp_path):
  config = located.make_config(
      root, job='export', model__features=(), data__source='',
      checkpoint=str(root / 'work'))
  with pytest.raises(errors.UserError, match='reads location:categorical '
                     'beside text .*have no place for them'):
    tiny.run(export.ExportJob, config, tmp_path / 'out')
  assert not (tmp_path / 'out' / 'model').exists()


EVERY = {'mesh__data': 1, 'model__features': (
    'location:categorical', 'price:numeric', 'social:vector-8',
    'text:char3-200')}


@pytest.fixture(scope='module')
def few(corpus):
  """A short training with all kinds of features."""
  train_few(corpus, corpus / 'few', **EVERY)
  return corpus / 'few'


def test_any_mesh_gives_the_same_losses(corpus, few, tmp_path):
  """With dropout, all kinds of features, remat and a gradient cache."""
  one = losses_of(few)
  many = train_few(corpus, tmp_path / 'many', **{
      **EVERY, 'mesh__data': 2, 'mesh__model': 2, 'model__remat': 'full',
      'model__chunk_groups': 2})
  assert len(one) == 3 and min(one) > 0.5
  for ours, theirs in zip(one, many, strict=True):
    assert abs(ours - theirs) <= 1e-5 * max(1, ours)


@pytest.mark.parametrize('overrides', [
    {'model__lora_rank': 2, 'model__shared': False,
     'negatives__sources': ('queue:32',)},
    {'negatives__sources': ('model:1',), 'negatives__refresh_steps': 2,
     'negatives__depth': 4, 'negatives__pool_size': 2,
     'negatives__checkpoint': 'model', 'negatives__mined_dir': 'mined'},
    {'negatives__sources': ('sampled:1',), 'optim__ema': 0.5, 'mesh__data': 2,
     'mesh__fsdp': True},
], ids=['lora, two towers and a queue', 'refresh', 'sampled and fsdp'])
def test_what_trainings_have_goes_with_features(corpus, tmp_path, overrides):
  overrides = {
      key: str(corpus / value) if value in ('model', 'mined') else value
      for key, value in overrides.items()}
  losses = train_few(corpus, tmp_path / 'work',
                     **{'mesh__data': 1, **overrides})
  assert len(losses) == 3 and all(map(math.isfinite, losses))
  model = by_name.load_workdir(tmp_path / 'work')
  assert [one.text for one in model.side_features] == ['location:categorical']
  for tower in model.params.values():
    table = tower['features']['location-categorical']['embedding']
    assert table.shape == (2 + len(located.PLACES), 16)


def test_changed_features_are_another_training(corpus, few):
  """Texts and judgements are the same, and vectors and parameters are not."""
  path = corpus / 'located' / 'corpus.jsonl'
  before = path.read_bytes()
  try:
    path.write_bytes(before.replace(b'Oslo', b'Bergen'))
    with pytest.raises(errors.UserError, match='feature_files'):
      job = train.TrainJob(config_lib.parse(
          located.make_config(corpus, **FEW, **EVERY)), few)
      tiny.plan.run([job.run])
  finally:
    path.write_bytes(before)


@pytest.mark.parametrize('job', ['train', 'nce_bias'])
def test_changed_features_are_another_training_of_a_start_that_has_them(
    root, tmp_path, job
):
  """Which need not be named again."""
  config = config_lib.parse(located.make_config(
      root, job=job, model__init=str(root / 'work'), model__features=(),
      optim__steps=1, nce__queries=4, nce__labels=9))
  jobs.check(config)

  def identities():
    made = [one for one in artifact.closure(
        jobs.make_job(config, tmp_path).targets()
    ) if isinstance(one, (run_artifacts.EncoderRun, measured.Meter))]
    tiny.plan.run([one.data for one in made])
    return {one.name: one.identity for one in made}

  path = root / 'located' / 'corpus.jsonl'
  before, first = path.read_bytes(), identities()
  try:
    path.write_bytes(before.replace(b'Oslo', b'Bergen'))
    for name, identity in identities().items():
      assert identity != first[name]
  finally:
    path.write_bytes(before)
  assert identities() == first


@pytest.mark.parametrize('is_named', [True, False])
def test_a_plan_prepares_nothing(corpus, tmp_path, is_named):
  """Though the files of features tell trainings apart."""
  named = {'model__features': ('text:char3',)}
  if not is_named:
    train_few(corpus, tmp_path / 'start', mesh__data=1, **named)
    named = {'model__features': (), 'model__init': str(tmp_path / 'start')}
  config = located.make_config(
      corpus, synthetic__pairs='inverse_cloze',
      synthetic__dir=str(tmp_path / 'synthetic'),
      data__prepared_dir=str(tmp_path / 'prepared'), **named)
  targets = train.TrainJob(config_lib.parse(config), tmp_path / 'o').targets()
  assert not outlook.look(targets).problems
  assert not (tmp_path / 'prepared').exists()


def test_a_start_that_reads_what_data_has_not_is_refused(root, tmp_path):
  options = {'model__features': (), 'model__init': str(root / 'work')}
  pairs = located.make_config(root, synthetic__pairs='crops', **options)
  mixed = test_mixture.make_config(tmp_path, **options)
  for config, key in ((pairs, 'synthetic.pairs'), (mixed, 'mixture.sets')):
    config = config_lib.parse(config)
    jobs.check(config)
    with pytest.raises(errors.UserError, match=rf'config\.{key}.*location:cat'):
      _ = train.TrainJob(config, tmp_path).run


def test_mining_reads_features(root, tmp_path):
  config = located.make_config(
      root, job='mine', negatives__sources=('model:1',), model__features=(),
      negatives__checkpoint=str(root / 'work'), negatives__depth=8,
      negatives__pool_size=4,
      negatives__mined_dir=str(tmp_path / 'mined'))
  tiny.run(mine.MineJob, config, tmp_path / 'out')
  pool = pool_lib.read(tmp_path / 'out' / 'pool')
  data = dataset_lib.Dataset(config_lib.parse(config).data).prepared
  asked = [data.queries[int(row)].id.split('-')[1] for row in pool.query_rows]
  found = [data.passages[int(row)].id.split('-')[1] for row in pool.rows[:, 0]]
  assert np.mean(np.array(asked) == np.array(found)) > 0.3  # 0.11 by chance.


@pytest.mark.parametrize(('overrides', 'message'), [
    ({'model__features': ('location',)}, "model.features='location': must be"),
    ({'model__features': ('location:place',)}, 'not of the form name:kind'),
    ({'model__features': ('a:numeric', 'a:numeric')}, 'named twice'),
    ({'model__score': 'som'}, 'compares several'),
    ({'model__freeze': 'passage', 'model__shared': False}, 'stay random'),
    ({'synthetic__pairs': 'inverse_cloze'}, 'of queries that people asked'),
    ({'job': 'evaluate', 'checkpoint': 'minilm'}, 'is for trainings of dual'),
    ({'job': 'train_reranker'}, 'is for trainings of dual'),
])
def test_what_features_do_not_go_with(tmp_path, overrides, message):
  config = located.make_config(tmp_path, **overrides)
  with pytest.raises(errors.UserError, match=message):
    jobs.check(config_lib.parse(config))


def test_a_feature_that_no_record_has(corpus, tmp_path):
  with pytest.raises(errors.UserError, match='"city" is in no query and no '
                     'passage of beir:.*name a key of corpus.jsonl'):
    train_few(corpus, tmp_path / 'work', model__features=('city:categorical',))


def test_a_model_keeps_the_features_it_began_with(root):
  config = config_lib.parse(located.make_config(
      root, model__init=str(root / 'work'), model__features=('price:numeric',)))
  with pytest.raises(errors.UserError, match='was trained with .*location:cat'):
    by_name.load_start(config.model, 0)
