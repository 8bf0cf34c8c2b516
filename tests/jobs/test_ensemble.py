"""Ensembles of tiny models, against sums and ranks written out."""

import json
import logging
import pathlib
import shutil

import numpy as np
import pytest

from neg_contrast import api, errors, jobs
from neg_contrast.artifacts import checksums, folders, plan
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.evaluation import trec
from neg_contrast.jobs import ensemble, evaluate, export, search
from neg_contrast.jobs.common import tuned_apart
from neg_contrast.settings import config as config_lib
from tests import tiny

MEMBERS = ('ada', 'bob', 'cleo')
DEPTH = 20


def make_config(root, *members, **overrides):
  """Three random models over the tiny corpus."""
  config = tiny.make_config(root, **{'job': 'ensemble', **overrides})
  for seed, name in enumerate(MEMBERS):
    if not (root / name).exists():
      tiny.write_model(root / name, seed=seed)
  config.ensemble.members = tuple(str(root / name) for name in members)
  config.ensemble.hybrid_depth = 30
  config.evaluation.depth = DEPTH
  config.evaluation.metrics = ('accuracy@1', 'accuracy@5', 'mrr@10')
  config.negatives.sources = ()
  return config


def make_whole(root, **overrides):
  """The same with all members."""
  return make_config(root, *MEMBERS, **overrides)


@pytest.fixture(scope='module')
def finished(tmp_path_factory):
  """A finished ensemble of all members."""
  root = tmp_path_factory.mktemp('ensemble')
  tiny.run(ensemble.EnsembleJob, make_config(root, *MEMBERS), root / 'work')
  return root


def weights_of(work):
  return json.loads((work / 'weights' / 'manifest.json').read_text())['tuned']


def run_of(work, system):
  return trec.read_run(work / 'evaluation' / f'data-test-{system}' / 'run.trec')


def metrics_of(work):
  values = json.loads((work / 'metrics.json').read_text())
  return {key.removeprefix('data/test/'): value
          for key, value in values.items()}


def corpus_of(root):
  return api.load_corpus(f'beir:{root / "data"}',
                         data__prepared_dir=str(root / 'prepared'))


def scores_of(root, name, corpus, queries):
  """`[queries, passages]` dot products of one member, encoded on its own."""
  encoder = api.load_encoder(str(root / name))
  return encoder.encode_queries(queries) @ encoder.encode_passages(
      list(corpus.passages)
  ).T


def assert_is_run(found, scores, query, ids, depth=DEPTH):
  """A ranking is by these scores, up to what float32 sums leave open."""
  best = trec.ranked(zip(ids, scores, strict=True))[:depth]
  np.testing.assert_allclose([score for _, score in found[query]],
                             [score for _, score in best], rtol=1e-4, atol=1e-5)
  by_id = dict(zip(ids, scores, strict=True))
  for passage, score in found[query]:
    assert score == pytest.approx(by_id[passage], rel=1e-4, abs=1e-5)


def test_embedding_fusion_is_the_weighted_sum(finished):
  corpus, found = corpus_of(finished), run_of(finished / 'work',
                                               'fusion_embedding')
  weights = weights_of(finished / 'work')['fusion_embedding']['weights']
  assert sum(weights) == pytest.approx(1) and len(weights) == 3
  rows = {name.decode(): row for row, name in enumerate(corpus.query_ids)}
  texts = [corpus.queries[rows[query]].text for query in found]
  fused = sum(weight * scores_of(finished, name, corpus, texts)
              for weight, name in zip(weights, MEMBERS, strict=True))
  ids = [name.decode() for name in corpus.passage_ids]
  for query, scores in zip(found, fused, strict=True):
    assert_is_run(found, scores, query, ids)


def test_rank_fusion_is_the_sum_of_reciprocal_ranks(finished):
  work = finished / 'work'
  members = [run_of(work, name) for name in MEMBERS]
  found = run_of(work, 'fusion_rank')
  assert found.keys() == members[0].keys()
  for query, ranking in found.items():
    scores = {}
    for member in members:
      for rank, (passage, _) in enumerate(member[query], start=1):
        scores[passage] = scores.get(passage, 0) + 1 / (60 + rank)
    assert ranking == trec.ranked(scores.items())[:DEPTH]


def test_hybrid_reranks_the_top_of_bm25(finished, tmp_path):
  work, corpus = finished / 'work', corpus_of(finished)
  config = make_config(finished, job='evaluate',
                       checkpoint=str(finished / 'ada'))
  config.evaluation.depth = 30
  tiny.run(evaluate.EvaluateJob, config, tmp_path)
  sparse = run_of(tmp_path, 'bm25')  # Deeper than that of the ensemble.
  tuned = weights_of(work)
  own, weight = tuned['hybrid']['weights']
  assert own == 1
  found = run_of(work, 'hybrid')
  rows = {name.decode(): row for row, name in enumerate(corpus.query_ids)}
  texts = [corpus.queries[rows[query]].text for query in found]
  fused = sum(w * scores_of(finished, name, corpus, texts) for w, name in zip(
      tuned['fusion_embedding']['weights'], MEMBERS, strict=True
  ))
  places = {name.decode(): i for i, name in enumerate(corpus.passage_ids)}
  for query, dense in zip(found, fused, strict=True):
    scores = {passage: score + weight * dense[places[passage]]
              for passage, score in sparse[query]}
    assert_is_run(found, list(scores.values()), query, list(scores))


def test_hybrid_fuses_both_rankings(finished):
  work = finished / 'work'
  sparse, dense = run_of(work, 'bm25'), run_of(work, 'fusion_embedding')
  weights = weights_of(work)['hybrid_scores']['weights']
  by_rank, by_score = run_of(work, 'hybrid_ranks'), run_of(work,
                                                            'hybrid_scores')
  for query in dense:
    ranks, sums = {}, {}
    for weight, system in zip(weights, (sparse, dense), strict=True):
      of_query = dict(system.get(query, []))
      low, high = min(of_query.values()), max(of_query.values())
      for rank, (passage, score) in enumerate(of_query.items(), start=1):
        ranks[passage] = ranks.get(passage, 0) + 1 / (60 + rank)
        sums[passage] = sums.get(passage, 0) + weight * (score - low) / (
            high - low
        )
    assert by_rank[query] == trec.ranked(ranks.items())[:DEPTH]
    assert_is_run(by_score, list(sums.values()), query, list(sums))


def test_weights_are_tuned_on_the_tune_split(finished):
  """What tuning says it reaches is what a search over everything reaches."""
  work = finished / 'work'
  job = ensemble.EnsembleJob(config_lib.parse(make_config(finished, *MEMBERS)),
                             work)
  tuned = weights_of(work)['fusion_embedding']
  tune = job.ensemble.tune.open()
  found = job.ensemble.weights.members.fused_retriever(
      tuple(tuned['weights'])).search_rows(tune.query_rows, DEPTH)
  means = tune.score(tune.run_of(found), found).mean
  assert tuned['accuracy@1'] == pytest.approx(means['accuracy@1'])
  assert tuned['mrr@10'] == pytest.approx(means['mrr@10'])
  assert weights_of(work)['fusion_embedding']['tried'] == 66


def test_second_run_does_nothing(finished, caplog):
  config = make_config(finished, *MEMBERS)
  job = ensemble.EnsembleJob(config_lib.parse(config), finished / 'work')
  assert all(target.is_made() for target in job.targets())
  config.ensemble.rank_k = 10.0
  job = ensemble.EnsembleJob(config_lib.parse(config), finished / 'work')
  undone = {target.name for target in job.targets() if not target.is_made()}
  assert undone == {'fusion_rank', 'hybrid_ranks'}


def test_an_ensemble_is_a_checkpoint(finished, tmp_path, capsys):
  config = make_config(finished, job='evaluate',
                       checkpoint=str(finished / 'work'))
  tiny.run(evaluate.EvaluateJob, config, tmp_path)
  again, first = metrics_of(tmp_path), metrics_of(finished / 'work')
  assert again == {key: value for key, value in first.items()
                   if key.partition('/')[0] in ('bm25', 'fusion_embedding')}
  config.job, config.query = 'search', 'word1 word2'
  tiny.run(search.SearchJob, config, tmp_path)
  assert '1. ' in capsys.readouterr().out
  retriever = api.load_retriever(
      str(finished / 'work'), f'beir:{finished / "data"}',
      data__prepared_dir=str(finished / 'prepared'),
  )
  corpus, found = corpus_of(finished), run_of(finished / 'work',
                                               'fusion_embedding')
  query, ranking = next(iter(found.items()))
  rows = {name.decode(): row for row, name in enumerate(corpus.query_ids)}
  best = retriever.find(corpus.queries[rows[query]].text, depth=3)
  assert [one.passage.id for one in best] == [name for name, _ in ranking[:3]]


def test_an_ensemble_is_exported(finished, tmp_path, capsys):
  """A folder for each member, and vectors whose products are its scores."""
  config = make_config(finished, job='export',
                       checkpoint=str(finished / 'work'))
  tiny.run(export.ExportJob, config, tmp_path)
  assert capsys.readouterr().out.count('weight of its scores: ') == 3
  for name in MEMBERS:
    assert (tmp_path / name / 'model' / 'modules.json').exists()
  folder, found = tmp_path / 'embeddings', run_of(finished / 'work',
                                                   'fusion_embedding')
  scores = np.load(folder / 'queries.npy') @ np.load(folder / 'passages.npy').T
  ids = (folder / 'passages.ids.txt').read_text().splitlines()
  queries = (folder / 'queries.ids.txt').read_text().splitlines()
  for query in found:
    assert_is_run(found, scores[queries.index(query)], query, ids)
  job = export.ExportJob(config_lib.parse(config), tmp_path)
  assert all(target.is_made() for target in job.targets())


def test_a_member_that_changed_is_refused(finished, tmp_path):
  saved = folders.read_sealed(finished / 'work' / 'ensemble.json')
  saved['fingerprints'][1] = 'f' * 64
  folders.write_sealed(tmp_path / 'ensemble.json', saved)
  config = make_config(finished, job='evaluate', checkpoint=str(tmp_path))
  with pytest.raises(errors.UserError, match=r'bob: .*ffffffffffff'):
    tiny.run(evaluate.EvaluateJob, config, tmp_path / 'work')
  config.job = 'export'
  with pytest.raises(errors.UserError, match='is an ensemble, and one model'):
    api.load_encoder(str(tmp_path))


@pytest.mark.parametrize('text', [
    '{}', '[]', '{"members": ["a"], "weights": [2.0], "fingerprints": ["b"]}',
    '{"members": ["a"], "weights": [1.0], "fingerprints": []}', '{',
])
@pytest.mark.parametrize('is_sealed', [False, True])
def test_a_broken_ensemble_is_named(finished, tmp_path, text, is_sealed):
  if is_sealed:
    value = json.loads(text) if text != '{' else {}
    text = json.dumps(checksums.sealed(value or {}))
  (tmp_path / 'ensemble.json').write_text(text)
  config = make_config(finished, job='evaluate', checkpoint=str(tmp_path))
  with pytest.raises(errors.UserError, match=r'ensemble\.json'):
    tiny.run(evaluate.EvaluateJob, config, tmp_path / 'work')


def test_tune_queries_that_members_were_trained_on(finished, caplog):
  """They are told, with the members, both values, and the flag to set."""
  config = make_config(finished, 'ada', 'bob', data__tune_fraction=0.42)
  parsed = config_lib.parse(config)
  dataset = dataset_lib.Dataset(parsed.data)
  ours = {'train_split': 'train', 'tune_split': '', 'tune_fraction': 0.42}

  def warned(fingerprint=dataset.prepared.fingerprint, **changes):
    (finished / 'ada' / 'run.json').write_text(json.dumps({'identity': {
        'needs': {'data': {'data': fingerprint}},
        'settings': {'data': {**ours, **changes}}}}))
    caplog.clear()
    with caplog.at_level(logging.WARNING):
      tuned_apart.warn(parsed, dataset)
    return caplog.messages

  assert not warned() and not warned(train_split='test')
  assert not warned(tune_fraction=0.6)  # It was trained on fewer.
  assert not warned('other data', tune_fraction=0.3)
  assert not warned(train_split='nowhere')
  tune = len(dataset.splits.tune.queries)
  assert warned(tune_split='test') == [
      f'{tune} of the {tune} queries that weights are tuned on were trained on '
      f"by {finished / 'ada'}: their data has tune_split='test', and here it "
      "is tune_split=''; set --config.data.tune_split='test'"]
  [said] = warned(tune_fraction=0.3)
  assert said.endswith('set --config.data.tune_fraction=0.3')
  assert int(said.split()[0]) < tune
  (finished / 'ada' / 'run.json').unlink()


def test_given_weights_need_no_tuning(finished, tmp_path):
  config = make_config(finished, 'ada', 'bob', ensemble__weights=(0.25, 0.75),
                       ensemble__hybrid=False)
  tiny.run(ensemble.EnsembleJob, config, tmp_path)
  assert weights_of(tmp_path) == {'fusion_embedding': {'weights': [0.25, 0.75]}}
  assert not any(key.startswith('hybrid') for key in metrics_of(tmp_path))


def test_other_weights_make_other_rankings(finished, tmp_path):
  """Nothing of the old ones is kept, also where only they were removed."""
  for weights, name in (((1.0, 0.0), 'ada'), ((0.0, 1.0), 'bob')):
    tiny.run(ensemble.EnsembleJob, make_config(
        finished, 'ada', 'bob', ensemble__weights=weights
    ), tmp_path)
    fused, alone = run_of(tmp_path, 'fusion_embedding'), run_of(tmp_path, name)
    for query, ranking in alone.items():
      assert_is_run(fused, [score for _, score in ranking], query,
                    [passage for passage, _ in ranking])
    saved = json.loads((tmp_path / 'ensemble.json').read_text())
    assert tuple(saved['weights']) == weights
  shutil.rmtree(tmp_path / 'weights')
  config = make_config(finished, 'ada', 'bob', ensemble__weights=(0.0, 1.0))
  before = metrics_of(tmp_path)
  tiny.run(ensemble.EnsembleJob, config, tmp_path)
  assert metrics_of(tmp_path) == before


def test_one_member_has_a_hybrid(finished, tmp_path):
  tiny.run(ensemble.EnsembleJob, make_config(finished, 'ada'), tmp_path)
  systems = {key.partition('/')[0] for key in metrics_of(tmp_path)}
  assert systems == {'bm25', 'ada', 'hybrid', 'hybrid_scores', 'hybrid_ranks'}


def test_runs_alone_are_fused_by_rank(finished, tmp_path, caplog):
  work = finished / 'work'
  for name in ('ada', 'bob'):
    found = run_of(work, name)
    if name == 'ada':
      found['nobody'] = [('d0p0', 1.0)]
    with open(tmp_path / f'{name}.trec', 'w') as f:  # As BEIR: all ranks are 0.
      f.writelines(f'{query} Q0 {passage} 0 {score} {name}\n'
                   for query, ranking in found.items()
                   for passage, score in ranking)
  config = make_config(finished, evaluation__bm25=False)
  config.ensemble.runs = tuple(
      str(tmp_path / f'{name}.trec') for name in ('ada', 'bob')
  )
  with caplog.at_level(logging.WARNING):
    tiny.run(ensemble.EnsembleJob, config, tmp_path / 'work')
  assert 'does not have, such as "nobody"' in caplog.text
  both = {name: run_of(work, name) for name in ('ada', 'bob')}
  for query, ranking in run_of(tmp_path / 'work', 'fusion_rank').items():
    scores = {}
    for member in both.values():
      for rank, (passage, _) in enumerate(member[query], start=1):
        scores[passage] = scores.get(passage, 0) + 1 / (60 + rank)
    assert ranking == trec.ranked(scores.items())[:DEPTH]


@pytest.mark.parametrize('line, message', [
    ('q3-0 Q0 d0p0 1 nan x', 'no finite float32'),
    ('q3-0 Q0 d0p0 1 1.0 x\nq3-0 Q0 d0p0 2 0.5 x', 'occurs twice'),
    ('nobody Q0 d0p0 1 1.0 x', 'ranks nothing for the queries'),
    ('q3-0 Q0 elsewhere 1 1.0 x', 'passage "elsewhere" is not in'),
    ('q3-0 Q0 d0p0', 'fields where a run has six'),
])
def test_bad_runs_are_named(finished, tmp_path, line, message):
  (tmp_path / 'theirs.trec').write_text(line + '\n')
  config = make_config(finished, 'ada', ensemble__hybrid=False)
  config.ensemble.runs = (str(tmp_path / 'theirs.trec'),)
  with pytest.raises(errors.UserError, match=message) as e:
    tiny.run(ensemble.EnsembleJob, config, tmp_path / 'work')
  assert 'theirs.trec' in str(e.value)


def test_two_systems_of_one_name_are_refused(finished, tmp_path):
  config = make_config(finished, 'ada')
  config.ensemble.members += (str(tmp_path / 'ada'),)
  with pytest.raises(errors.UserError, match='two systems called ada'):
    ensemble.EnsembleJob(config_lib.parse(config), tmp_path).targets()


@pytest.mark.parametrize('overrides, key', [
    ({'ensemble.weights': (0.5, 0.6)}, 'weights'),
    ({'ensemble.weights': (1.0,)}, 'weights'),
    ({'ensemble.members': ()}, 'members'),
    ({'ensemble.members': ('a', 'a')}, 'members'),
    ({'ensemble.rank_k': -1.0}, 'rank_k'),
    ({'ensemble.hybrid_depth': 0}, 'hybrid_depth'),
])
def test_settings_are_checked(finished, overrides, key):
  config = make_config(finished, 'ada', 'bob')
  config.update_from_flattened_dict(overrides)
  with pytest.raises(errors.UserError, match=f'config.ensemble.{key}'):
    jobs.check(config_lib.parse(config))


def test_missing_members_and_runs_are_told_first(finished, tmp_path):
  config = make_config(finished, 'ada')
  config.ensemble.members += (str(tmp_path / 'gone'),)
  config.ensemble.runs = (str(tmp_path / 'lost.trec'),)
  job = ensemble.EnsembleJob(config_lib.parse(config), tmp_path / 'work')
  told = plan.describe(job.targets())
  assert told.count('MISSING') == 2
  assert 'lost.trec: no such file' in told
  assert pathlib.Path(tmp_path / 'work').exists() is False
