"""Whole jobs on tiny worlds: each is searched as a corpus of its own."""

import csv
import json

import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.data import dataset
from neg_contrast.evaluation import trec
from neg_contrast.jobs import evaluate, mine, train
from neg_contrast.jobs.common import settings_of_rooms
from neg_contrast.mining import candidates
from neg_contrast.models import by_name
from neg_contrast.retrieval import embedder, hits, text_encoder
from neg_contrast.settings import config as config_lib
from tests import bm25_texts, test_configs, tiny


@pytest.fixture(scope='module')
def evaluated(tmp_path_factory):
  """Folder and config of an evaluation of BM25, a model and candidates."""
  root = tmp_path_factory.mktemp('worlds')
  tiny.write_zeshel(root / 'zeshel')
  foreign = root / 'foreign.trec'
  trec.write_run(foreign, {'m-damson0': [
      ('apple1', 9.0), ('damson1', 8.0), ('elder0', 7.0), ('damson0', 6.0),
  ]}, 'x')
  config = tiny.make_linking_config(
      root, job='evaluate', checkpoint=str(root / 'model'),
      evaluation__runs=(
          str(root / 'zeshel' / 'tfidf_candidates' / 'test.json'),
          str(foreign)))
  tiny.run(evaluate.EvaluateJob, config, root / 'work')
  return root, config


def run_of(root, system):
  return trec.read_run(
      root / 'work' / 'evaluation' / f'zeshel-test-{system}' / 'run.trec')


def worlds_of(root, config):
  """(texts and ids of its passages, its queries) of each test world."""
  prepared = dataset.Dataset(config_lib.parse(config).data).prepared
  for world in tiny.WORLDS['test']:
    number = prepared.worlds.index(world)
    passages = np.flatnonzero(prepared.passage_worlds == number)
    queries = [row for row in prepared.judgements('test').queries
               if prepared.query_worlds[row] == number]
    assert len(passages) == len(queries) == 6
    yield prepared, passages, np.array(queries)


def test_bm25_searches_each_world_as_a_corpus(evaluated):
  root, config = evaluated
  found = run_of(root, 'bm25')
  for prepared, passages, queries in worlds_of(root, config):
    some = [prepared.passages[int(row)] for row in passages]
    index = bm25_texts.index_of([f'{p.title} {p.text}' for p in some],
                                hits.tie_ranks([p.id for p in some]))
    texts = [prepared.queries[int(row)] for row in queries]
    expected = index.search([query.text for query in texts], 4)
    for query, rows, scores in zip(texts, expected.rows, expected.scores,
                                   strict=True):
      assert found.get(query.id, []) == [
          (some[row].id, pytest.approx(float(score)))
          for row, score in zip(rows, scores, strict=True) if row >= 0]


def test_models_search_each_world_as_a_corpus(evaluated):
  root, config = evaluated
  parsed, found = config_lib.parse(config), run_of(root, 'initial')
  loaded = by_name.load_checkpoint(
      parsed.checkpoint, parsed.model, parsed.seed)
  data = dataset.Dataset(parsed.data)
  vectors = embedder.Embedder(data, text_encoder.TextEncoder(
      loaded, settings_of_rooms.encoding(parsed)))
  for prepared, passages, queries in worlds_of(root, config):
    scores = vectors.query_vecs(queries) @ vectors.passage_vecs[passages].T
    for row, line in zip(queries, scores, strict=True):
      best = passages[np.argsort(-line)[:4]]
      ranking = found[prepared.query_ids[row].decode()]
      assert [name for name, _ in ranking] == [
          prepared.passage_ids[at].decode() for at in best]


def test_passages_of_other_worlds_leave_given_runs(evaluated):
  root, _ = evaluated
  assert run_of(root, 'foreign') == {
      'm-damson0': [('damson1', 8.0), ('damson0', 6.0)]}
  assert len(run_of(root, 'test')) == 12  # Zeshel's own candidates.


def test_numbers_of_each_world(evaluated):
  root, _ = evaluated
  values = json.loads((root / 'work' / 'metrics.json').read_text())
  with open(root / 'work' / 'worlds-zeshel-test.tsv') as f:
    rows = list(csv.DictReader(f, delimiter='\t'))
  assert [(row['system'], row['world']) for row in rows] == [
      (system, world) for system in ('bm25', 'initial', 'foreign', 'test')
      for world in tiny.WORLDS['test']]
  for system in ('bm25', 'initial', 'test'):
    ours = [row for row in rows if row['system'] == system]
    assert {row['queries'] for row in ours} == {'6'}
    for metric, name in (('accuracy@1', 'macro_accuracy@1'),
                         ('accuracy@4', 'accuracy@4')):
      assert values[f'zeshel/test/{system}/{name}'] == pytest.approx(
          np.mean([float(row[metric]) for row in ours]))


def test_numbers_of_each_category(evaluated):
  root, _ = evaluated
  values = json.loads((root / 'work' / 'metrics.json').read_text())
  with open(root / 'work' / 'categories-zeshel-test.tsv') as f:
    rows = [row for row in csv.DictReader(f, delimiter='\t')
            if row['system'] == 'initial']
  assert {row['category'] for row in rows} <= {
      'high overlap', 'multiple categories', 'ambiguous substring',
      'low overlap'}
  counts = [float(row['queries']) for row in rows]
  assert sum(counts) == 12
  assert values['zeshel/test/initial/accuracy@4'] == pytest.approx(np.average(
      [float(row['accuracy@4']) for row in rows], weights=counts))


def test_worlds_are_not_searched_by_scann(evaluated, tmp_path):
  root, _ = evaluated
  config = tiny.make_linking_config(
      root, job='evaluate', checkpoint=str(root / 'model'), index__kind='scann')
  with pytest.raises(errors.UserError, match='index.kind="scann": zeshel:.* has'
                     ' worlds'):
    tiny.run(evaluate.EvaluateJob, config, tmp_path)


@pytest.mark.parametrize('strategy', ['bm25', 'model'])
def test_negatives_are_of_the_training_worlds(evaluated, tmp_path, strategy):
  root, _ = evaluated
  config = tiny.make_linking_config(
      root, job='mine', checkpoint=str(root / 'model'),
      negatives__sources=(f'{strategy}:1',),
      negatives__mined_dir=str(tmp_path / 'mined'), negatives__depth=20,
      negatives__pool_size=20)
  tiny.run(mine.MineJob, config, tmp_path / 'work')
  prepared = dataset.Dataset(config_lib.parse(config).data).prepared
  train_worlds = list(map(prepared.worlds.index, tiny.WORLDS['train']))
  folder = next((tmp_path / 'mined' / 'candidates').glob('zeshel-*'))
  mined, _ = candidates.read(folder)
  rows = np.unique(mined.rows[mined.rows >= 0])
  assert set(prepared.passage_worlds[rows]) == set(train_worlds)
  if strategy == 'model':  # Finds them all, of both worlds, for every query.
    assert (np.sort(mined.rows[:, :12]) == np.flatnonzero(
        np.isin(prepared.passage_worlds, train_worlds))).all()
    assert (mined.rows[:, 12:] == -1).all()
    judged = prepared.judgements('train')
    own = (mined.rows == judged.passage_rows[:, None]).argmax(axis=1)
    np.testing.assert_allclose(
        mined.positive_scores, mined.scores[np.arange(len(own)), own],
        rtol=1e-5)


def test_training_as_the_config_of_zeshel_does(evaluated, tmp_path):
  root, _ = evaluated
  config = test_configs.load(
      test_configs.ROOT / 'configs' / 'zeshel_retriever.py', 'size=small')
  for key, value in {
      'data.source': f'zeshel:{root / "zeshel"}', 'data.batch_size': 4,
      'data.prepared_dir': str(root / 'prepared'),
      'model.init': str(root / 'model'), 'model.query_length': 16,
      'model.passage_length': 16, 'mesh.data': 1, 'optim.steps': 2,
  }.items():
    config_lib.set_key(config, key, value)
  made = tiny.run(train.TrainJob, config, tmp_path)
  values = json.loads((tmp_path / 'metrics.json').read_text())
  for system in ('bm25', 'initial', 'trained'):
    for metric in ('accuracy@1', 'accuracy@64', 'macro_accuracy@1'):
      assert 0 <= values[f'zeshel/test/{system}/{metric}'] <= 1
  assert values['zeshel/test/trained/accuracy@64'] == 1  # All six are found.
  # Batches have marked mentions, and negatives of the training worlds.
  batch_of, count = made.run.training()._make_batch()
  assert count == 12
  start, end = made.gold.load().tokenize(
      made.run.start.load(), 'query').marker_ids
  ids = np.asarray(batch_of(0)[0].sequences['query'].token_ids)
  assert (ids == start).sum() == (ids == end).sum() == 4
  prepared = made.gold.load().prepared
  drawn = batch_of.draw(0, np.arange(12), prepared.judgements('train')
                        .query_rows).rows
  worlds = np.unique(prepared.passage_worlds[drawn[drawn >= 0]])
  assert [prepared.worlds[world] for world in worlds] == ['apple', 'berry']
  rows = made.run.stop_corpus.load()
  assert np.unique(prepared.passage_worlds[rows]).tolist() == [
      prepared.worlds.index('cherry')]


def test_markers_are_part_of_a_model(evaluated, tmp_path):
  root, _ = evaluated
  config = tiny.make_linking_config(root)
  load = lambda config: by_name.load_checkpoint(
      str(root / 'model'), config_lib.parse(config).model, 0)
  usual = load(config)
  config.model.mention_start = config.model.mention_end = 'word7'
  other = load(config)
  assert other.text.markers == ('word7', 'word7')
  assert usual.text.markers == ('[unused0]', '[unused1]')
  assert other.fingerprint != usual.fingerprint
  config.model.mention_start = '[unused0]'
  config.model.mention_end = '[unused1]'
  same = load(config)
  assert same.fingerprint == usual.fingerprint
