"""Trainings whose batches take examples together (`data.together`)."""

import itertools
import re

import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.artifacts import plan
from neg_contrast.jobs import benchmark, train
from neg_contrast.jobs.common import declared_miners, reporting
from neg_contrast.models import by_name, card_facts
from neg_contrast.negatives import topics
from neg_contrast.retrieval import embedder
from neg_contrast.settings import config as config_lib
from tests import tiny
from tests.jobs import test_mixture, test_train_shared


@pytest.fixture(scope='module')
def root(tmp_path_factory):
  return tmp_path_factory.mktemp('documents')


def batches_of(config, workdir, steps=12):
  """What a training makes its batches of, and the examples of each."""
  run = train.TrainJob(config_lib.parse(config), workdir).run
  plan.run(list(run.needs().values()))
  batcher, _ = run.training()._make_batch()
  return run, batcher, [batcher.example_numbers(step)
                        for step in range(steps)]


def lengths_of_runs(values):
  return [len(list(some)) for _, some in itertools.groupby(values)]


@pytest.mark.parametrize('together, least, most', [
    ('', 1, 1.5), ('document:1', 1, 1.5), ('document:4', 4, 5)])
def test_a_batch_has_those_of_few_documents(
    root, tmp_path, together, least, most):
  run, batcher, numbers = batches_of(
      tiny.make_config(root, data__together=together), tmp_path / 'work')
  documents = run.data.load().documents[batcher.examples.positive_rows]
  lengths = lengths_of_runs(documents[np.concatenate(numbers)])
  assert least <= np.mean(lengths) < most


def test_they_are_negatives_of_each_other(root, tmp_path):
  run, batcher, numbers = batches_of(
      tiny.make_config(
          root, data__together='document:4', negatives__sources=()),
      tmp_path / 'work')
  documents = run.data.load().documents[batcher.examples.positive_rows]
  rivals = []
  for step, some in enumerate(numbers):
    batch, _ = batcher(step)
    of = documents[some]
    rivals.append((batch.forward_mask & (of[:, None] == of)).sum() / len(of))
  assert np.mean(rivals) > 2  # Itself, and others of its document.


def test_a_mixture_has_them_in_each_of_its_sets(root, tmp_path):
  for batches in 'one', 'mixed':
    run, batcher, numbers = batches_of(test_mixture.make_config(
        root, data__together='document:4', mixture__batches=batches,
        negatives__sources=()), tmp_path / batches)
    sets = [one.data.load() for one in run.mixture.sets]
    first = len(sets[0].prepared.passages)
    rows = batcher.examples.positive_rows[np.concatenate(numbers)]
    in_first = rows[rows < first]
    lengths = lengths_of_runs(sets[0].documents[in_first])
    assert np.mean(lengths) > 2, batches
    in_second = rows[rows >= first] - first
    titles = lengths_of_runs(sets[1].documents[in_second])
    assert np.mean(titles) > 1.5, batches


def test_any_mesh_trains_on_the_same(root, tmp_path):
  losses = []
  for data in 1, 4:
    work = tmp_path / str(data)
    tiny.train_only(root, work, data__together='document:4', mesh__data=data,
                    optim__steps=3)
    losses.append(test_train_shared.losses_of(work))
  assert losses[0].keys() == losses[1].keys() == {1, 2, 3}
  np.testing.assert_allclose(
      list(losses[0].values()), list(losses[1].values()), rtol=1e-5)
  card = card_facts.make_card(by_name.load_workdir(work), str(work))
  assert 'rows of a batch (together in it: `document:4`)' in card


def test_data_without_documents_are_refused(root, tmp_path):
  tiny.write_beir(root / 'flat')
  lines = (root / 'flat' / 'corpus.jsonl').read_text()
  (root / 'flat' / 'corpus.jsonl').write_text(
      lines.replace('document_id', 'other'))
  config = tiny.make_config(
      root, data__source=f'beir:{root / "flat"}', data__together='document:4')
  with pytest.raises(errors.UserError) as raised:
    batches_of(config, tmp_path / 'work')
  said = str(raised.value)
  assert said.startswith(
      "config.data.together='document:4': it is not known which passages of ")
  assert 'Choose "topic:N", or leave it out; or, if' in said
  assert 'data.document=title' in said
  config = test_mixture.make_config(
      root, data__together='document:4', negatives__sources=())
  config.mixture.sets.big.source = f'beir:{root / "flat"}'
  with pytest.raises(errors.UserError) as raised:
    batches_of(config, tmp_path / 'mixture')
  said = str(raised.value)  # Sets have that key in common.
  assert said.startswith("config.data.together='document:4': it is not known")


def test_models_of_before_stay_the_same_models(root, tmp_path):
  """What is not set is no part of what a training is told by."""
  counted = lambda **keys: train.TrainJob(config_lib.parse(
      tiny.make_config(root, **keys)), tmp_path).run.config.counted['data']
  assert {'together', 'topics'}.isdisjoint(counted())
  assert counted(data__together='document:2')['together'] == 'document:2'


def test_miners_have_shuffled_batches(root, tmp_path):
  config = config_lib.parse(tiny.make_config(
      root, data__together='document:4', negatives__sources=('fine:1',)))
  miner = declared_miners.of(
      config, train.TrainJob(config, tmp_path).run.data)
  assert config.data.together
  assert miner.run('fine', 16).config.data.together == ''


@pytest.fixture(scope='module')
def by_topic(root, tmp_path_factory):
  """A training's batches of four of a topic each, and its topics."""
  config = tiny.make_config(
      root, data__together='topic:4', data__topics=6, negatives__sources=(),
      negatives__mined_dir=str(root / 'mined'))
  run, batcher, numbers = batches_of(
      config, tmp_path_factory.mktemp('topic') / 'work')
  return run, batcher, numbers, dict(run.drawn_from)['topics']


def test_a_batch_has_those_of_few_topics(by_topic):
  _, batcher, numbers, made = by_topic
  rows = batcher.examples.query_rows
  topics = made.load()
  assert (topics[rows] >= 0).all() and len(np.unique(topics[rows])) <= 6
  lengths = lengths_of_runs(topics[rows[np.concatenate(numbers)]])
  assert np.mean(lengths) > 2.5


def test_topics_are_of_alike_queries_that_are_trained_on(by_topic):
  run, batcher, _, made = by_topic
  topics, dataset = made.load(), run.data.load()
  tuned = dataset.train_and_tune[1].queries
  assert len(tuned) and (topics[tuned] == -1).all()
  rows = np.unique(batcher.examples.query_rows)
  vecs = run.training()._embed(run.start.load().params, None).query_vecs(rows)
  alike = vecs @ vecs.T
  is_one = topics[rows][:, None] == topics[rows]
  np.fill_diagonal(is_one, False)
  apart = ~is_one & ~np.eye(len(rows), dtype=bool)
  some = is_one.any(axis=1)
  mean = lambda among: ((alike * among).sum(axis=1) / among.sum(axis=1))[some]
  assert (mean(is_one) > mean(apart)).mean() > 0.9


def test_topics_are_made_once_for_a_model_and_queries(root, by_topic, tmp_path):
  made = by_topic[3]
  again = lambda **keys: dict(train.TrainJob(config_lib.parse(tiny.make_config(
      root, **{'data__together': 'topic:4', 'data__topics': 6, **keys},
      negatives__mined_dir=str(root / 'mined'))), tmp_path).run.drawn_from)[
          'topics']
  assert again(seed=3).is_made() and again(seed=3).identity == made.identity
  assert not again(data__topics=5).is_made()
  other = root / 'other'
  tiny.write_model(other, seed=9)
  assert not again(model__init=str(other)).is_made()
  plain = tiny.make_config(root, data__together='document:2')
  job = train.TrainJob(config_lib.parse(plain), tmp_path)
  assert 'topics' not in dict(job.run.drawn_from)


def test_an_interruption_loses_one_part_of_topics(root, tmp_path, monkeypatch):
  monkeypatch.setattr(topics, '_QUERIES_AT_ONCE', 8)
  asked, whole = [], embedder.Embedder.query_vecs

  def query_vecs(self, rows):
    asked.append(len(rows))
    if len(asked) == 3:
      raise KeyboardInterrupt
    return whole(self, rows)

  made = lambda name: dict(train.TrainJob(config_lib.parse(tiny.make_config(
      root, data__together='topic:4', data__topics=5,
      negatives__mined_dir=str(tmp_path / name))), tmp_path).run.drawn_from)[
          'topics']
  monkeypatch.setattr(embedder.Embedder, 'query_vecs', query_vecs)
  with pytest.raises(KeyboardInterrupt):
    plan.run([made('cut')])
  assert asked[1:] == [8, 8] and asked[0] > 16  # A sample, and two parts.
  asked[:] = [0] * 3
  plan.run([made('cut')])
  again, count = asked[3:], int((made('cut').load() >= 0).sum())
  assert sum(again) == count - 8 and max(again) == 8
  monkeypatch.setattr(topics, '_QUERIES_AT_ONCE', 1000)
  plan.run([made('whole')])
  assert asked[-2:] == [count, count]
  np.testing.assert_array_equal(made('cut').load(), made('whole').load())
  assert not list((tmp_path / 'cut').rglob('*.parts'))


def test_a_mixture_clusters_each_of_its_sets(root, tmp_path):
  run, batcher, numbers = batches_of(test_mixture.make_config(
      root, data__together='topic:4', data__topics=3, mixture__batches='one',
      negatives__sources=(), negatives__mined_dir=str(root / 'mined')),
      tmp_path / 'work')
  queries = batcher.examples.query_rows[np.concatenate(numbers)]
  first = len(run.mixture.sets[0].data.load().prepared.queries)
  for number, part in enumerate((queries[queries < first],
                                 queries[queries >= first] - first)):
    topics = dict(run.mixture.sets[number].drawn_from)['topics'].load()
    assert (topics[part] >= 0).all()
    assert np.mean(lengths_of_runs(topics[part])) > 1.7, number


@pytest.mark.parametrize('value, said', [
    ('topics:4', "data.together='topics:4': must be NAME:N, with one of "
     'document, topic'),
    ('document', "data.together='document': must be NAME:N, such as "
     'document:2'),
    ('document:0', "data.together='document:0': must be NAME:N"),
])
def test_other_values_are_refused(value, said):
  with pytest.raises(errors.UserError) as raised:
    config_lib.parse(tiny_config(data__together=value))
  assert said in str(raised.value)


def tiny_config(**keys):
  config = config_lib.base_config()
  config.data.source = 'python_docs'
  config.update_from_flattened_dict(
      {name.replace('__', '.'): value for name, value in keys.items()})
  return config


def test_a_report_says_it():
  facts = lambda **keys: reporting._trained(
      config_lib.parse(tiny_config(**keys)))['negatives']
  assert facts() == 'other rows of the batch'
  assert facts(
      data__together='topic:8', negatives__sources=('corpus:2',)
  ) == 'other rows of the batch (topic:8) and corpus (2)'


def test_positives_without_a_document_are_told_of(root, tmp_path, caplog):
  folder = root / 'partly'
  tiny.write_beir(folder)
  lines = (folder / 'corpus.jsonl').read_text().splitlines()
  (folder / 'corpus.jsonl').write_text('\n'.join(
      line.replace('document_id', 'other') if number % 2 else line
      for number, line in enumerate(lines)) + '\n')
  with caplog.at_level('WARNING', 'absl'):
    batches_of(tiny.make_config(
        root, data__source=f'beir:{folder}', data__together='document:4',
    ), tmp_path / 'work')
  assert any(re.match(
      r"config\.data\.together='document:4': \d+ of \d+ positives belong to "
      'no document', record.message) for record in caplog.records)


def test_where_no_row_of_the_batch_is_a_negative_it_is_refused(root):
  config = tiny.make_config(root, data__together='document:4',
                            negatives__sources=('corpus:2',))
  train.check(config_lib.parse(config))
  config.loss.candidates, config.loss.bidirectional = 'own', False
  with pytest.raises(errors.UserError, match='data.together=.*own alone'):
    train.check(config_lib.parse(config))


@pytest.mark.parametrize('together', ['document:4', 'topic:4'])
def test_a_benchmark_takes_any_examples(root, tmp_path, together):
  config = tiny.make_config(root, job='benchmark')
  config.data.together = together
  job = benchmark.BenchmarkJob(config_lib.parse(config), tmp_path)
  assert job._measurement.run.data.together == ''
