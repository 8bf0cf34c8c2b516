"""Rerankers: trained, stopped and gone on with, and at work on any run."""

import json
import pathlib
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neg_contrast import errors, jobs
from neg_contrast.artifacts import artifact, checkpoints, folders, plan
from neg_contrast.batches import packed, text_pairs
from neg_contrast.data import dataset, id_table
from neg_contrast.evaluation import (
  calibrated,
  calibration,
  candidate_scores,
  metrics,
  runs,
  trec,
)
from neg_contrast.evaluation.metrics import metric
from neg_contrast.jobs import evaluate, rerank, train, train_reranker
from neg_contrast.jobs.common import settings_of_rooms
from neg_contrast.mining import candidates as candidates_lib
from neg_contrast.models import by_name as model_lib
from neg_contrast.models import cross_encoder, given, loading
from neg_contrast.retrieval import embedder, pair_scorer, text_encoder
from neg_contrast.settings import config as config_lib
from neg_contrast.training import reranker_run
from tests import test_configs, tiny
from tests.jobs import test_train

DEPTH = 5
JOINT = {'job': 'train_reranker', 'mesh__data': 1, 'data__groups': 1,
         'negatives__sources': ('bm25:3',),
         'negatives__pool_size': 3, 'negatives__depth': 12,
         'negatives__drop_answers': (), 'optim__steps': 12,
         'optim__learning_rate': 3e-3, 'evaluation__eval_steps': 6,
         'evaluation__depth': DEPTH, 'model__hidden_dropout': 0.1,
         'evaluation__metrics': ('accuracy@1', 'accuracy@4',
                                 'macro_accuracy@1')}


def make_config(root, **overrides):
  return tiny.make_config(root, **{
      **JOINT, 'negatives__mined_dir': str(root / 'mined'), **overrides})


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
  """A folder with a reranker in `work`, and its config.

  A copy of that at step 6 of 12 is in `stopped`.
  """
  root = tmp_path_factory.mktemp('joint')
  config = make_config(root)
  with test_train.copied_at(6, root / 'work', root / 'stopped'):
    tiny.run(train_reranker.TrainRerankerJob, config, root / 'work')
  return root, config


def metrics_of(workdir):
  return json.loads((workdir / 'metrics.json').read_text())


def run_of(workdir, system, name='data-test'):
  return trec.read_run(
      workdir / 'evaluation' / f'{name}-{system}' / 'run.trec')


def by_hand(config, model, query, names):
  """Score of each passage with a query, in a row of its own."""
  data = dataset.Dataset(config_lib.parse(config).data)
  prepared = data.prepared
  queries, passages = (data.tokenize(model, role)
                       for role in ('query', 'passage'))
  query_ids: id_table.IdTable = prepared.query_ids
  row = np.array([query_ids.row_of(query)])
  scores = {}
  score = jax.jit(lambda one: cross_encoder.CrossEncoder(model.spec).apply(
      {'params': model.params}, one, True))
  place = np.arange(model.longest, dtype=np.int32)[None]
  for name in names:
    pair = text_pairs.join(
        queries.tokens(row),
        passages.tokens(np.array([prepared.passage_ids.row_of(name)])))
    ids = np.zeros_like(place)
    ids[:, : pair.lengths[0]] = pair.sequences[0]
    scores[name] = float(score(packed.PackedSequences(
        ids, (place < pair.lengths[0]).astype(np.int32), place,
        np.zeros(1, np.int32), (place >= pair.starts[0]).astype(np.int32),
    ))[0, 0])
  return scores


def test_loss_falls(trained):
  root, _ = trained
  steps = [json.loads(line) for line
           in (root / 'work' / 'log.jsonl').read_text().splitlines()]
  losses = [step['loss'] for step in steps if 'loss' in step]
  assert len(losses) == 12
  assert np.mean(losses[-4:]) < np.mean(losses[:4])
  tuned = [step['evaluation'] for step in steps if 'evaluation' in step]
  assert {'accuracy@1', 'normalized_accuracy'} <= tuned[0].keys()
  assert (root / 'work' / 'report.html').exists()


def test_reranked_is_brute_force_over_the_candidates(trained):
  root, config = trained
  model = model_lib.load_reranker_workdir(root / 'work')
  given, again = (run_of(root / 'work', system)
                  for system in ('candidates', 'reranked'))
  assert given.keys() == again.keys() and len(given) > 5
  for query in list(given)[:6]:
    want = by_hand(config, model, query, [name for name, _ in given[query]])
    assert len(want) <= DEPTH
    best = sorted(want, key=lambda name: (want[name], name), reverse=True)
    assert [name for name, _ in again[query]] == best
    np.testing.assert_allclose([score for _, score in again[query]],
                               [want[name] for name in best], atol=2e-5)


def test_numbers_are_those_of_linking(trained):
  root, config = trained
  prepared = dataset.Dataset(config_lib.parse(config).data).prepared
  judged = prepared.judgements('test')
  qrels = {}
  for query, passage, grade in zip(judged.query_rows, judged.passage_rows,
                                   judged.grades, strict=True):
    qrels.setdefault(prepared.query_ids[query].decode(), {})[
        prepared.passage_ids[passage].decode()] = int(grade)
  want = metrics.score(metric.Ranking(
      run_of(root / 'work', 'reranked'), qrels,
      candidates=lambda: run_of(root / 'work', 'candidates'),
  ), (f'accuracy@{DEPTH}', *metrics.names_with(metric.CANDIDATES)))
  assert len(want.mean) == 5
  values = metrics_of(root / 'work')
  for name, value in want.mean.items():
    assert values[f'data/test/reranked/{name}'] == pytest.approx(value)
  assert values['data/test/reranked/accuracy@5'] >= (
      values['data/test/candidates/accuracy@4'])
  assert values['data/test/reranked/accuracy@1'] == pytest.approx(
      values['data/test/reranked/micro_unnormalized_accuracy'])


def test_batches_are_the_positive_and_the_top_of_the_pool(trained):
  root, config = trained
  parsed = config_lib.parse(config)
  job = train_reranker.TrainRerankerJob(parsed, root / 'work')
  batcher, count = job.run.training()._make_batch()
  batch, stats = batcher(0)
  assert batch.candidate_slots.shape == (8, 4)
  assert batch.is_candidate[:, 0].all()
  numbers = np.arange(count)
  queries = batcher.examples.query_rows
  first, later = (batcher.draw(step, numbers, queries).rows for step in (0, 7))
  np.testing.assert_array_equal(np.sort(first), np.sort(later))
  pool = job.run.pool.load()
  for query, rows in zip(queries, first, strict=True):
    line = pool.lines_of(np.array([query]))[0]
    kept = pool.rows[line][pool.is_negative(np.array([line]))[0]][:3]
    assert set(rows[rows >= 0]) == set(kept)
  assert stats.useful_tokens == (batch.sequences.segment_ids > 0).sum()


def test_stopped_and_gone_on_with_it_ends_the_same(trained):
  root, config = trained
  plan.run([train_reranker.TrainRerankerJob(
      config_lib.parse(config), root / 'stopped').run])
  assert (test_train.losses_of(root / 'work')
          == test_train.losses_of(root / 'stopped'))
  spec = model_lib.load_reranker_workdir(root / 'work').spec
  like = jax.eval_shape(
      lambda: cross_encoder.init_params(spec, jax.random.key(0))
  )
  params = []
  for name in ('work', 'stopped'):
    opened = checkpoints.Checkpoints(root / name)
    params.append(opened.restore_params('reranker', like, 12))
    opened.close()
  jax.tree.map(np.testing.assert_array_equal, *params)


def test_any_run_is_reranked_and_kept(trained, monkeypatch):
  root, config = trained
  given = root / 'given.trec'
  trec.write_run(given, {
      query: ranking[:3] for query, ranking
      in run_of(root / 'work', 'candidates').items()}, 'x')
  job = make_config(root, job='rerank', checkpoint=str(root / 'work'),
                    candidates=str(given))
  tiny.run(rerank.RerankJob, job, root / 'again')
  found, before = (run_of(root / name, 'reranked')
                   for name in ('again', 'work'))
  scores = {query: dict(ranking) for query, ranking in before.items()}
  for query, ranking in found.items():
    assert len(ranking) <= 3
    for name, score in ranking:
      assert score == pytest.approx(scores[query][name], abs=1e-5)
  targets = targets_of(job, root / 'again')
  assert all(target.is_made() for target in targets)
  given.unlink()
  assert 'given.trec: no such file' in plan.describe(
      targets_of(job, root / 'again'))


def test_a_dual_encoder_reranks_by_its_score(trained):
  root, _ = trained
  config = make_config(
      root, job='rerank', checkpoint=str(root / 'model'), candidates='bm25',
      model__score='som')
  tiny.run(rerank.RerankJob, config, root / 'som')
  parsed = config_lib.parse(config)
  model = model_lib.load_checkpoint(
      parsed.checkpoint, parsed.model, parsed.seed)
  data = dataset.Dataset(config_lib.parse(config).data)
  given, again = (run_of(root / 'som', system)
                  for system in ('candidates', 'reranked'))
  vectors = embedder.Embedder(data, text_encoder.TextEncoder(
      model, settings_of_rooms.encoding(config_lib.parse(config))))
  rows = data.prepared
  query_ids: id_table.IdTable = rows.query_ids
  for query in list(given)[:5]:
    names = [name for name, _ in given[query]]
    places = np.array([rows.passage_ids.row_of(name) for name in names])
    want = np.asarray(model.spec.score(
        jnp.asarray(vectors.query_vecs(
            np.array([query_ids.row_of(query)], np.int32))),
        jnp.asarray(np.asarray(vectors.passage_vecs)[places])))[0]
    got = dict(again[query])
    np.testing.assert_allclose([got[name] for name in names], want, atol=1e-4)


@pytest.mark.parametrize('checkpoint', ['work', 'model'])
def test_scores_are_kept(trained, tmp_path, monkeypatch, checkpoint):
  """Other metrics, or a lost evaluation, score no pair again."""
  root, _ = trained
  config = make_config(root, job='rerank', checkpoint=str(root / checkpoint),
                       candidates='bm25')
  tiny.run(rerank.RerankJob, config, tmp_path / 'kept')
  before = run_of(tmp_path / 'kept', 'reranked')
  for name in ('keep_scores', 'dual_scores'):
    monkeypatch.setattr(candidate_scores, name, None)
  config.evaluation.metrics = ('mrr@5',)
  tiny.run(rerank.RerankJob, config, tmp_path / 'kept')
  assert 'data/test/reranked/mrr@5' in metrics_of(tmp_path / 'kept')
  for system in ('candidates', 'reranked'):
    shutil.rmtree(tmp_path / 'kept' / 'evaluation' / f'data-test-{system}')
  tiny.run(rerank.RerankJob, config, tmp_path / 'kept')
  assert run_of(tmp_path / 'kept', 'reranked') == before


def test_worlds_and_runs_as_negatives(tmp_path):
  """Zeshel's own candidates are negatives, and what is ranked anew."""
  files = tuple(str(tmp_path / 'zeshel' / 'tfidf_candidates' / f'{split}.json')
                for split in ('train', 'val', 'test'))
  config = tiny.make_linking_config(tmp_path, **{
      **JOINT, 'negatives__sources': ('run:2',), 'negatives__runs': files,
      'negatives__mined_dir': str(tmp_path / 'mined'), 'optim__steps': 2,
      'evaluation__eval_steps': 2, 'evaluation__depth': 4})
  tiny.run(train_reranker.TrainRerankerJob, config, tmp_path / 'work')
  values = metrics_of(tmp_path / 'work')
  name = 'zeshel/test/reranked'
  for kind in ('normalized_accuracy', 'unnormalized_accuracy',
               'micro_normalized_accuracy', 'accuracy@4', 'macro_accuracy@1'):
    assert 0 <= values[f'{name}/{kind}'] <= 1
  assert values[f'{name}/macro_accuracy@1'] == pytest.approx(
      values[f'{name}/unnormalized_accuracy'])
  folder = next((tmp_path / 'mined' / 'candidates').glob('zeshel-run-*'))
  mined, _ = candidates_lib.read(folder)
  prepared = dataset.Dataset(config_lib.parse(config).data).prepared
  run = runs.read_runs(map(pathlib.Path, files))
  for query, rows in zip(prepared.judgements('train').queries, mined.rows,
                         strict=True):
    assert [prepared.passage_ids[row].decode() for row in rows if row >= 0] == [
        name for name, _ in run[prepared.query_ids[query].decode()]]
  with pytest.raises(errors.UserError, match='was in a run file before'):
    runs.read_runs([pathlib.Path(files[0])] * 2)


def test_zeshel_config_runs(tmp_path):
  tiny.make_linking_config(tmp_path)
  config = test_configs.load(
      test_configs.ROOT / 'configs' / 'zeshel_reranker.py', 'size=small')
  for key, value in {
      'data.source': f'zeshel:{tmp_path / "zeshel"}', 'data.batch_size': 4,
      'data.prepared_dir': str(tmp_path / 'prepared'),
      'negatives.mined_dir': str(tmp_path / 'mined'),
      'checkpoint': str(tmp_path / 'model'),
      'model.init': str(tmp_path / 'model'), 'model.query_length': 16,
      'model.passage_length': 16, 'mesh.data': 1, 'optim.steps': 2,
  }.items():
    config_lib.set_key(config, key, value)
  tiny.run(train_reranker.TrainRerankerJob, config, tmp_path / 'work')
  values = metrics_of(tmp_path / 'work')
  assert values['zeshel/test/candidates/accuracy@64'] == 1
  assert values['zeshel/test/reranked/normalized_accuracy'] == pytest.approx(
      values['zeshel/test/reranked/unnormalized_accuracy'])


def targets_of(config, workdir):
  config = config_lib.parse(config)
  job = (rerank.RerankJob if config.job == 'rerank'
         else train_reranker.TrainRerankerJob)
  return job(config, workdir).targets()


@pytest.mark.parametrize(('ranking', 'told'), [
    ({'nobody': [('d3p0', 1.0)]}, 'given.trec: it ranks nothing'),
    ({'q3-0': [('elsewhere', 1.0)]}, '"elsewhere" is not in'),
])
def test_runs_of_other_data_are_refused(trained, tmp_path, ranking, told):
  root, _ = trained
  trec.write_run(tmp_path / 'given.trec', ranking, 'x')
  config = make_config(root, job='rerank', checkpoint=str(root / 'work'),
                       candidates=str(tmp_path / 'given.trec'))
  with pytest.raises(errors.UserError, match=told):
    tiny.run(rerank.RerankJob, config, tmp_path / 'work')


def test_other_kinds_of_models_are_refused(trained, tmp_path):
  root, _ = trained
  joint = str(root / 'work')
  retriever = tmp_path / 'retriever'
  retriever.mkdir()
  parsed = config_lib.parse(make_config(root))
  loading.save_description(
      model_lib.load_checkpoint(
          str(root / 'model'), parsed.model, parsed.seed), retriever)

  def refused(told, **overrides):
    with pytest.raises(errors.UserError, match=told):
      plan.run(targets_of(make_config(root, **overrides), tmp_path / 'x'))

  refused('holds a trained dual encoder, and a reranker is needed',
          model__init=str(retriever))
  refused('holds a reranker .* and a dual encoder is needed', job='rerank',
          checkpoint=joint, candidates=joint)
  refused('theirs.trec: no such file', job='rerank', checkpoint=joint,
          candidates='theirs.trec')
  refused('holds a reranker .* and a dual encoder is needed',
          negatives__sources=('model:2',), checkpoint=joint)
  config = make_config(root, job='evaluate', checkpoint=joint)
  job = evaluate.EvaluateJob(config_lib.parse(config), tmp_path / 'x')
  with pytest.raises(errors.UserError, match='holds a reranker'):
    plan.run(job.targets())
  config = make_config(root, job='train', model__init=joint)
  job = train.TrainJob(config_lib.parse(config), tmp_path / 'x')
  with pytest.raises(errors.UserError, match='holds a reranker'):
    plan.run(job.targets())


@pytest.mark.parametrize(('overrides', 'told'), [
    ({'negatives__sources': ('corpus:2',)}, "can't be trained on"),
    ({'negatives__sources': ()}, 'have no hard negatives'),
    ({'negatives__sources': ('given:2',)}, 'config.candidates'),
    ({'negatives__sources': ('run:2',)}, 'config.negatives.runs'),
    ({'model__score': 'som'}, 'is for dual encoders'),
    ({'model__init': ''}, 'model.init'),
    ({'job': 'rerank', 'checkpoint': 'x'}, 'config.candidates'),
    ({'job': 'rerank', 'candidates': 'bm25'}, 'config.checkpoint'),
    ({'evaluation__metrics': ('accuracy@6',)}, 'evaluation.depth'),
    ({'loss__kind': 'triplet'}, 'compares vectors'),
    ({'job': 'train', 'negatives__sources': (), 'evaluation__metrics': (),
      'optim__head_learning_rate': 1e-3}, 'is for rerankers'),
])
def test_what_does_not_go_together_is_refused(tmp_path, overrides, told):
  config = make_config(tmp_path, **overrides)
  with pytest.raises(errors.UserError, match=told):
    jobs.check(config_lib.parse(config))


def test_chunks_change_nothing(trained):
  """The gradient cache serves pairs too."""
  root, _ = trained
  config = config_lib.parse(make_config(root, data__groups=4))
  job = train_reranker.TrainRerankerJob(config, root / 'work')
  training: reranker_run.RerankerTraining = job.run.training()
  batch = training._make_batch()[0](0)[0]
  grads = [
      jax.jit(jax.value_and_grad(training._loss(chunks), has_aux=True))(
          training._params(), batch, jax.random.key(0))
      for chunks in (0, 2)
  ]
  (loss, _), _ = grads[0]
  np.testing.assert_allclose(loss, grads[1][0][0], rtol=1e-5)
  jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5),
               grads[0][1], grads[1][1])


@pytest.fixture(scope='module')
def calibrated_run(trained):
  """A reranker that learned by binary cross-entropy."""
  root, _ = trained
  config = make_config(
      root, loss__kind='bce', optim__head_learning_rate=3e-2,
      optim__steps=20, evaluation__eval_steps=10, model__hidden_dropout=None)
  tiny.run(train_reranker.TrainRerankerJob, config, root / 'bce')
  return root, config


def test_binary_cross_entropy_is_calibrated(calibrated_run, tmp_path):
  root, config = calibrated_run
  values = folders.read_sealed(
      root / 'bce' / calibrated.FILE, root / 'bce' / calibrated.FILE)
  assert values['after']['cross_entropy'] < values['before']['cross_entropy']
  assert sum(one['pairs'] for one in values['after']['bins']) == (
      values['pairs'])
  written = metrics_of(root / 'bce')
  for system, when in (('calibrated', 'after'), ('uncalibrated', 'before')):
    for name in ('ece', 'cross_entropy'):
      assert written[f'data/tune/{system}/{name}'] == values[when][name]
  page = (root / 'bce' / 'report.html').read_text()
  assert 'Expected calibration error' in page
  assert page.count('calibration-after') and 'Before calibration' in page
  model = model_lib.load_reranker_workdir(root / 'bce')
  assert values['model'] == model.fingerprint
  parsed = config_lib.parse(config)
  job = train_reranker.TrainRerankerJob(parsed, root / 'bce')
  found = job.run.candidates.load().found
  queries = job.run.candidates.judged.open().query_rows
  data = job.run.candidates.judged.dataset
  scores = candidate_scores.cross_scores(
      pair_scorer.PairScorer(model, settings_of_rooms.encoding(parsed)), data,
      queries, found.rows, tmp_path)
  judged = {(int(query), int(row)) for split in data.prepared.splits
            for query, row, grade in zip(
                data.prepared.judgements(split).query_rows,
                data.prepared.judgements(split).passage_rows,
                data.prepared.judgements(split).grades, strict=True)
            if grade > 0}
  pairs = [(scores[line, place], (int(query), int(row)) in judged)
           for line, query in enumerate(queries)
           for place, row in enumerate(found.rows[line]) if row >= 0]
  assert values['positives'] == sum(is_positive for _, is_positive in pairs)
  want = calibration.fit(*map(np.array, zip(*pairs, strict=True)))
  assert values['temperature'] == pytest.approx(want.temperature, rel=1e-4)
  assert values['bias'] == pytest.approx(want.bias, rel=1e-4)


def test_tune_pairs_are_scored_once_for_each_step(tmp_path, monkeypatch):
  """An interrupted evaluation goes on, and calibration finds its scores."""
  monkeypatch.setattr(candidate_scores, '_PART', 8)
  monkeypatch.setattr(  # Four steps teach nothing.
      calibration, 'fit', lambda *_: calibration.Calibration())
  config = make_config(
      tmp_path, loss__kind='bce', optim__steps=4, evaluation__eval_steps=2,
      evaluation__depth=40, data__tune_fraction=0.5)
  score, scored = pair_scorer.PairScorer.score, []

  def spy(self, queries, passages, pairs, *, span, **kwargs):
    if len(scored) == 2:
      scored.append(None)
      raise KeyboardInterrupt
    scored.append((self.model.fingerprint, span))
    return score(self, queries, passages, pairs, span=span, **kwargs)

  monkeypatch.setattr(pair_scorer.PairScorer, 'score', spy)
  job = train_reranker.TrainRerankerJob(
      config_lib.parse(config), tmp_path / 'work')
  folders.make_folder(tmp_path / 'work')
  with pytest.raises(KeyboardInterrupt):
    plan.run([job.run])
  artifact.forget()
  targets = train_reranker.TrainRerankerJob(
      config_lib.parse(config), tmp_path / 'work').targets()
  fitted, = (one for one in targets if one.name == 'calibration')
  plan.run([one for one in targets if one.kind == 'training of a reranker'])
  done = len(scored)
  spans = [one for one in scored if one]
  assert len(spans) == len(set(spans)) and len({name for name, _ in spans}) == 2
  plan.run([fitted])
  assert len(scored) == done and fitted.load()['positives']


def test_the_head_has_a_learning_rate_of_its_own(calibrated_run):
  """After a step of Adam every weight moved by its rate, to begin with."""
  root, _ = calibrated_run
  moved = {}
  for name, rate in (('plain', 0.0), ('own', 3e-2)):
    config = config_lib.parse(make_config(
        root, optim__learning_rate=1e-3, optim__head_learning_rate=rate))
    job = train_reranker.TrainRerankerJob(config, root / 'bce')
    training = job.run.training()
    ready = training.set_up()
    state = training.first_state(ready)
    before = jax.tree.map(np.asarray, state.params['reranker'])
    state, _ = ready.step(state, ready.put(0)[0])
    moved[name] = jax.tree.map(
        lambda a, b: float(np.abs(np.asarray(a) - b).max()),
        state.params['reranker'], before)
  assert moved['plain']['score']['kernel'] == pytest.approx(1e-3, rel=0.02)
  assert moved['own']['score']['kernel'] == pytest.approx(3e-2, rel=0.02)
  assert moved['own']['bert'] == moved['plain']['bert']


def test_a_calibration_of_other_weights_is_refused(calibrated_run, tmp_path):
  root, _ = calibrated_run
  path = tmp_path / calibrated.FILE
  shutil.copy(root / 'bce' / calibrated.FILE, path)
  config = config_lib.parse(make_config(root)).model
  of = lambda name: calibrated.GivenCalibration(
      given.RerankerStart(str(root / name), 0, config), path)
  assert of('bce').load()['temperature'] > 0
  with pytest.raises(errors.UserError, match='calibrates other weights'):
    of('work').load()
  path.write_text(path.read_text().replace('"bias"', '"bios"'))
  artifact.forget()
  with pytest.raises(errors.UserError, match=calibrated.FILE):
    of('bce').load()
