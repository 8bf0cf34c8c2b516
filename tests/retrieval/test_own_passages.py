"""ArguAna in small: queries are passages, and no search finds them.

Whatever searches for the queries of a dataset is here: evaluations of every
system, weights, mined strategies, early stopping, draws of passages, and
trainings by their model as it is.
"""

import types

import jax.numpy as jnp
import numpy as np
import pytest

from neg_contrast import sharding
from neg_contrast.artifacts import plan
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import examples
from neg_contrast.evaluation import fused_systems, judged, trec
from neg_contrast.losses import table_search
from neg_contrast.mining import mining_task as task_lib
from neg_contrast.mining.strategies import (
  bm25_negatives,
  dense_strategy,
  run_negatives,
)
from neg_contrast.models import loading
from neg_contrast.negatives import refresh, sources
from neg_contrast.retrieval import (
  bm25_search,
  corpus_vectors,
  hits,
  own_passages,
  retriever,
)
from neg_contrast.settings import config as config_lib
from neg_contrast.training import encoder_tuning, run_settings, stop_rows
from tests import corpora
from tests.evaluation import test_weight_tuning
from tests.retrieval import test_retriever

# Arguments and what was said against each; `q` is no passage.
TEXTS = {'pro1': 'tax the rich', 'con1': 'tax nobody not even the rich',
         'pro2': 'ban cars in towns', 'con2': 'cars in towns are fine'}
QUERIES = {**{name: TEXTS[name] for name in ('pro2', 'pro1')}, 'q': 'rich cars'}
JUDGED = {'pro2': {'con2': 1}, 'pro1': {'con1': 1}, 'q': {'con1': 1}}
OWN = np.array([2, 0, -1])
# Every query is nearest to the passage that it is, then to the answer.
SCORES = ((0, 1, 9, 8), (9, 8, 1, 0), (4, 3, 2, 1))
DEPTH = 2
CONFIG = config_lib.EvaluationConfig(metrics=('accuracy@1',), depth=DEPTH)
ROWS = np.arange(3, dtype=np.int32)


def data_of(folder, test=JUDGED, **config):
  made = corpora.data_of(folder, corpora.write_beir(
      folder / 'data', TEXTS, QUERIES, train={'q': {'con1': 1}}, test=test,
      dev=JUDGED), tune_split='dev', **config)
  made.build()
  return made


@pytest.fixture
def data(tmp_path):
  return data_of(tmp_path)


def run_of(folder):
  """A run that ranks the queries' own passages first."""
  names = list(TEXTS)
  path = folder / 'theirs.trec'
  trec.write_run(path, {
      query: [(names[row], float(score)) for row, score in enumerate(line)]
      for query, line in zip(QUERIES, SCORES, strict=True)}, 'theirs')
  return path


def vectors_of(folder, data):
  return test_weight_tuning.members_of(folder, data, SCORES).vectors[0]


def check(rows):
  """None is a query's own, and none is missing."""
  assert rows.shape == (3, DEPTH)
  assert (rows >= 0).all() and (rows != OWN[:, None]).all()


def rankings(folder, data):
  """Each system's ranking of the test queries."""
  queries = judged.Judged(data, 'test', CONFIG)
  dense = judged.DenseRanking(queries, 'dense', vectors_of(folder, data),
                              test_retriever.settings(DEPTH), folder)
  sparse = judged.Bm25Ranking(queries, 'bm25',
                              bm25_search.bm25_of(CONFIG, data))
  run = judged.RunRanking(queries, 'theirs', (run_of(folder),))
  return [dense, sparse, run, fused_systems.RankFusion(
      queries, 'fusion_rank', (dense, sparse, run), 60.0)]


@pytest.mark.parametrize('number', range(4))
def test_no_system_finds_them(tmp_path, data, number):
  ranking = rankings(tmp_path, data)[number]
  found = ranking.load().found
  if ranking.system == 'bm25':  # Two passages share words with `pro1`.
    assert (found.rows != OWN[:, None]).all()
    assert (found.rows[:, 0] == [3, 1, found.rows[2, 0]]).all()
  else:
    check(found.rows)
    assert found.rows[:2].tolist() == [[3, 1], [1, 2]]
    evaluation = ranking.judged.open()
    means = evaluation.score(evaluation.run_of(found), found).mean
    assert means['accuracy@1'] >= 2 / 3


def test_elsewhere_they_are_found(tmp_path):
  data = data_of(tmp_path, drop_own_passage=False)
  for ranking in rankings(tmp_path, data):
    assert ranking.load().found.rows[:2, 0].tolist() == [2, 0]


def test_weights_are_tuned_without_them(tmp_path, data):
  weights = test_weight_tuning.make(tmp_path, SCORES, data=data, depth=DEPTH,
                                    hybrid=True, hybrid_depth=DEPTH)
  weights.build()
  tuned = weights.load()
  assert tuned['hybrid_scores']['accuracy@1'] >= 2 / 3
  two = test_weight_tuning.make(tmp_path, SCORES, SCORES, data=data,
                                candidates=DEPTH)
  candidates = two._member_candidates().rows
  assert not (candidates == OWN[:, None]).any()


def task_of(folder, data, **fields):
  return task_lib.Task(data, 'test', DEPTH, folder / 'mined', k1=0.9, b=0.4,
                       **fields)


class Nearest(dense_strategy.DenseStrategy):
  """Mines with vectors that are given."""

  name = 'nearest'
  model = None

  @property
  def embeddings(self) -> corpus_vectors.CorpusVectors:
    """Those of this test."""
    return vectors_of(self.task.mined_dir, self.task.data)


@pytest.mark.parametrize('strategy', [
    Nearest, run_negatives.Run, bm25_negatives.Bm25])
def test_no_strategy_proposes_them(tmp_path, data, strategy):
  task = task_of(tmp_path, data, runs=(str(run_of(tmp_path)),),
                 search=test_retriever.settings(DEPTH))
  found = strategy(task).proposer(task.open()).miner.mine(ROWS)
  if strategy is bm25_negatives.Bm25:
    assert found.rows.shape == (3, DEPTH)
    assert (found.rows != OWN[:, None]).all()
  else:
    check(found.rows)
    assert found.positive_scores.tolist() == [8, 8, 3]


def test_early_stopping_does_not_see_them(tmp_path, data, monkeypatch):
  vecs = test_retriever.Given(SCORES, np.eye(4))
  monkeypatch.setattr(
      encoder_tuning.text_encoder, 'TextEncoder', lambda *_:
          types.SimpleNamespace(with_params=lambda params: None))
  monkeypatch.setattr(encoder_tuning.embedder_lib, 'Embedder',
                      lambda *_, rows: vecs)

  def measure(data):
    rows = stop_rows.StopRows(bm25_search.bm25_of(CONFIG, data), 100, 0)
    plan.run([rows])
    return encoder_tuning.make_measure(
        run_settings.select(config_lib.Config(evaluation=CONFIG), {}, {}),
        data.load(), object.__new__(loading.Model), rows,
    )({'encoder': np.zeros(1)})['accuracy@1']

  assert measure(data) == pytest.approx(2 / 3)
  assert measure(data_of(tmp_path, drop_own_passage=False)) == 0


@pytest.mark.parametrize('name', ['corpus', 'gold', 'sampled', 'retrieved'])
def test_none_is_drawn(tmp_path, name):
  """Though they are positives of `q`; and all others are, since two are asked
  for and no query may have more."""
  dataset = data_of(
      tmp_path, {**JUDGED, 'q': dict.fromkeys(('con1', 'pro1', 'pro2'), 1)}
  ).load()
  pairs = examples.make_examples(
      dataset.prepared, dataset.prepared.judgements('test'))
  source = sources.make(sources.Material(
      config_lib.NegativesConfig((f'{name}:2',), hard_percent=0),
      config_lib.LossConfig(), 0, len(pairs), dataset, pairs, None, {},
      sharding.make_local_mesh(config_lib.MeshConfig()),
      lambda params, rows: None, tmp_path))
  rows, groups = pairs.query_rows, dataset.prepared.passage_groups
  table = table_search.Table(
      jnp.eye(4)[None, None], jnp.array(groups)[None, None])
  for step in range(4):
    if source.in_steps:
      found, numbers = table_search.nearest(
          jnp.float32(SCORES)[rows], table, jnp.array(source.excluded(rows)), 2)
      drawn = np.where(numbers >= 0, found, -1)
    else:
      source.refresh({'encoder': {}, 'loss': {}}, step)
      drawn = source.draw(step, np.arange(len(pairs)), rows).rows
    np.testing.assert_array_equal(
        np.sort(drawn), np.array([[0, 1], [2, 3], [-1, 3]])[rows])


def test_no_refreshed_pool_has_them(tmp_path, data):
  searcher = refresh.Searcher(
      retriever.Retriever(
          test_retriever.settings(DEPTH), data.load(),
          test_retriever.Given(SCORES, np.eye(4))), data.load(), DEPTH, None)
  found, scores = searcher(ROWS, np.int32([[3], [1], [1]]))
  check(found.rows)
  assert found.rows.tolist() == [[3, 1], [1, 2], [0, 1]]
  assert scores.tolist() == [[8], [8], [3]]


@pytest.mark.parametrize('seed', range(3))
def test_dropping_against_a_loop(seed):
  rng = np.random.default_rng(seed)
  rows = np.stack([rng.permutation(9)[:5] for _ in range(8)]).astype(np.int32)
  rows[rng.random(rows.shape) < 0.2] = -1
  scores = rng.standard_normal(rows.shape).astype(np.float32)
  own = rng.integers(-1, 9, 20).astype(np.int32)
  queries = rng.permutation(20)[:8].astype(np.int32)
  dataset = dataset_lib.Dataset.__new__(dataset_lib.Dataset)
  dataset.own_passages = own
  assert own_passages.depth_for(dataset, 4) == 5
  got = own_passages.drop(dataset, queries, hits.Hits(rows, scores), 4)
  for line, query in enumerate(queries):
    kept = [(row, score) for row, score
            in zip(rows[line], scores[line], strict=True)
            if row < 0 or row != own[query]][:4]
    assert got.rows[line].tolist() == [row for row, _ in kept]
    assert got.scores[line].tolist() == [score for _, score in kept]
  dataset.own_passages = None
  found = hits.Hits(rows, scores)
  assert own_passages.depth_for(dataset, 5) == 5
  assert own_passages.drop(dataset, queries, found, 5) is found
