"""Judged pools: laws, thresholds, resume, refusals, and training with them."""

import json
import re
import shutil
import time

import numpy as np
import pytest

from neg_contrast import errors, jobs
from neg_contrast.artifacts import artifact, plan
from neg_contrast.batches import batcher as batcher_lib
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import examples, id_table
from neg_contrast.evaluation import calibration
from neg_contrast.jobs import judge, train, train_reranker
from neg_contrast.jobs.common import declared_pools
from neg_contrast.mining import trainer_files, verdict_folder
from neg_contrast.models import reranker
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.retrieval import pair_scorer
from neg_contrast.settings import config as config_lib
from neg_contrast.training import run_artifacts
from tests import processes, tiny
from tests.jobs import test_train_reranker
from tests.mining import test_mined_pool
from tests.models import test_cross_encoder

TEMPERATURE, BIAS = 0.35, -1.0
BELOW, ABOVE = 0.3, 0.6


@pytest.fixture(scope='module')
def root(tmp_path_factory):
  """A corpus, and a judge of random weights, whose calibration is set."""
  root = tmp_path_factory.mktemp('judged')
  tiny.write_beir(root / 'data')
  words = tiny.WORDS[:12]  # A document of one passage: it has halves.
  for name, line in (
      ('corpus.jsonl', json.dumps({
          '_id': 'solo', 'title': '', 'text': ' '.join(words),
          'metadata': {'document_id': 'solo'}}) + '\n'),
      ('queries.jsonl', json.dumps({
          '_id': 'q-solo', 'text': ' '.join(words[2:5]),
          'answers': [words[2]]}) + '\n'),
      ('qrels/train.tsv', 'q-solo\tsolo\t1\n'),
  ):
    with open(root / 'data' / name, 'a', encoding='utf-8') as f:
      f.write(line)
  tiny.make_config(root)
  (root / 'judge').mkdir()
  test_cross_encoder.write_classifier(root / 'judge')
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(calibration, 'fit', lambda scores, is_positive: (
        calibration.Calibration(TEMPERATURE, BIAS)))
    yield root


def make_config(root, **overrides):
  return test_mined_pool.make_config(root, **{
      'job': 'judge', 'negatives__sources': ('bm25+model+context:2',),
      'negatives__checkpoint': str(root / 'model'), 'negatives__depth': 12,
      'negatives__pool_size': 4, 'negatives__judge': str(root / 'judge'),
      'negatives__judge_below': BELOW, 'negatives__judge_above': ABOVE,
      'negatives__drop_answers': (), **overrides})


def make(root, workdir, **overrides):
  """A judged pool, and what was made for it."""
  negatives, made = test_mined_pool.make_pool(
      make_config(root, **overrides), workdir)
  return negatives.pool, made


@pytest.fixture(scope='module')
def pool(root):
  return make(root, root / 'work')[0]


def by_hand(root, queries, rows):
  """Scores of pairs, each by itself in a batch."""
  config = config_lib.parse(test_train_reranker.make_config(root))
  model = reranker.from_pretrained(
      str(root / 'judge'), config_lib.ModelConfig(
          query_length=16, passage_length=24), 0)
  names = dataset_lib.Dataset(config.data).prepared
  return [test_train_reranker.by_hand(
      test_train_reranker.make_config(root), model,
      names.query_ids[int(query)].decode(),
      [names.passage_ids[int(row)].decode()]).popitem()[1]
      for query, row in zip(queries, rows, strict=True)]


def test_scores_are_the_judges_one_by_one(root, pool):
  verdicts, passages = pool.verdicts, pool.manifest['passages']
  is_judged = (pool.rows >= 0) & (pool.rows < passages)
  np.testing.assert_array_equal(np.isfinite(verdicts.logit), is_judged)
  assert (pool.rows >= passages).any()  # Half passages are not judged.
  lines, places = np.nonzero(is_judged)
  some = np.random.default_rng(0).choice(len(lines), 6, replace=False)
  want = by_hand(root, pool.query_rows[lines[some]],
                 pool.rows[lines[some], places[some]])
  np.testing.assert_allclose(
      verdicts.logit[lines[some], places[some]], want, atol=2e-5)
  np.testing.assert_allclose(verdicts.probability[is_judged], 1 / (1 + np.exp(
      -(verdicts.logit[is_judged].astype(float) / TEMPERATURE + BIAS))),
      rtol=1e-5)


def test_positives_are_judged_too(root, pool):
  verdicts = pool.verdicts
  judgements = dataset_lib.Dataset(
      make_config(root).data).prepared.judgements('train')
  want = {(int(q), int(p)) for q, p, grade in zip(
      judgements.query_rows, judgements.passage_rows, judgements.grades,
      strict=True) if grade > 0}
  lines, places = np.nonzero(verdicts.positive_rows >= 0)
  found = {(int(pool.query_rows[line]), int(verdicts.positive_rows[line, place])
            ) for line, place in zip(lines, places, strict=True)}
  assert found == want
  assert np.isfinite(verdicts.positive_logits[lines, places]).all()
  scores = pool.teacher_scores(
      pool.query_rows[lines[:3]],
      verdicts.positive_rows[lines[:3], places[:3], None])[:, 0]
  np.testing.assert_array_equal(
      scores, verdicts.positive_logits[lines[:3], places[:3]])
  np.testing.assert_allclose(scores, by_hand(
      root, pool.query_rows[lines[:3]],
      verdicts.positive_rows[lines[:3], places[:3]]), atol=2e-5)
  nobody = pool.teacher_scores(
      np.array([99, *pool.query_rows[:2]], np.int32),
      np.array([[0, 1], [-1, -1], [pool.manifest['passages'], -1]], np.int32))
  assert np.isnan(nobody).all()


def test_no_negative_is_believed_positive(pool):
  probability = pool.verdicts.probability
  kept = pool.is_negative()
  assert not (probability[kept] >= BELOW).any()
  code = lambda name: pool.dropped_by == pool_lib.code(name)
  assert (probability[code('judge_above')] > ABOVE).all()
  between = probability[code('judge_below')]
  assert (between >= BELOW).all() and (between <= ABOVE).all()
  assert code('judge_above').any() and len(between)
  others = ~(code('positive') | code('judge_above') | code('judge_below'))
  assert not (probability[others] >= BELOW).any()
  assert (kept & ~np.isfinite(probability)).any()  # Halves stay.


def test_thresholds_judge_nothing_again(root, pool, monkeypatch):
  monkeypatch.setattr(pair_scorer.PairScorer, 'score', None)
  other, made = make(root, root / 'work', negatives__judge_below=0.6,
                     negatives__judge_relabel=True, negatives__pool_size=12)
  assert made == ['pool']
  code = pool_lib.code('judge_above')
  np.testing.assert_array_equal(other.dropped_by == code,
                                pool.dropped_by == code)
  assert not (other.dropped_by == pool_lib.code('judge_below')).any() or (
      other.verdicts.probability[
          other.dropped_by == pool_lib.code('judge_below')] >= 0.6).all()
  assert other.is_negative().sum() > pool.is_negative().sum()
  assert not len(pool.relabelled())
  pairs = other.relabelled()
  lines, places = np.nonzero(other.dropped_by == code)
  assert {tuple(pair) for pair in pairs.tolist()} == {
      (int(other.query_rows[line]), int(other.rows[line, place]))
      for line, place in zip(lines, places, strict=True)}
  again, made = make(root, root / 'work')
  assert made == ['pool']
  np.testing.assert_array_equal(again.dropped_by, pool.dropped_by)


def test_a_threshold_that_no_candidate_reaches_is_told(root, pool, caplog):
  highest = float(np.nanmax(pool.verdicts.probability))

  def told(above):
    caplog.clear()
    make(root, root / 'work', negatives__judge_above=above)
    return [text for text in caplog.messages if 'no candidate' in text]

  assert not told(highest - 0.001)
  assert not told(1.0)  # Nothing is meant to be believed.
  [text] = told(highest + 0.001)
  assert f'judge believes no candidate more than {highest:.3f}' in text
  assert text.startswith('config.negatives.judge_above=')
  make(root, root / 'work')  # As the other tests find it.


def test_margins_by_the_judge_judge_nothing_again(root, pool, monkeypatch):
  """Of all sources, against the best of the known positives of a query."""
  monkeypatch.setattr(pair_scorer.PairScorer, 'score', None)
  margin = 0.05
  options = {'negatives__judge_below': 1.0, 'negatives__judge_above': 1.0,
             'negatives__relative_margin': margin, 'negatives__pool_size': 12}
  other, made = make(root, root / 'work', negatives__margin_by='judge',
                     **options)
  assert made == ['pool']
  probabilities = 1 / (1 + np.exp(-(
      pool.verdicts.positive_logits / TEMPERATURE + BIAS)))
  assert np.isfinite(probabilities).any(axis=1).all()
  best = np.nanmax(probabilities, axis=1, keepdims=True)
  is_near = pool.verdicts.probability > (1 - margin) * best
  is_judged = np.isfinite(pool.verdicts.probability)
  code = lambda name: other.dropped_by == pool_lib.code(name)
  assert not (code('relative_margin') & ~is_near).any()
  assert code('relative_margin').any()
  assert not (other.is_negative() & is_near).any()
  assert (other.is_negative() & is_judged).any()
  plain, _ = make(root, root / 'work', **options)
  assert (plain.dropped_by != other.dropped_by).any()
  assert make(root, root / 'work')[1] == ['pool']


def test_without_a_judge_it_is_the_pool_of_before(root, pool):
  plain, made = make(root, root / 'plain', job='mine', negatives__judge='')
  assert made == ['pool'] and plain.verdicts is None
  assert 'judge' not in plain.manifest
  np.testing.assert_array_equal(plain.rows, pool.rows)
  assert plain.manifest['identity']['settings'].keys() == {
      'sources', 'pool_size', 'first_rank', 'last_rank', 'margin',
      'relative_margin', 'drop_duplicates', 'drop_answers', 'answer_rule'}


@pytest.mark.parametrize('at', [0, 4])
def test_an_interruption_loses_one_part(
    root, pool, tmp_path, monkeypatch, at
):
  monkeypatch.setattr(verdict_folder, 'PAIRS_AT_ONCE', 60)  # 5 queries of 36.
  score, calls = verdict_folder.score, []

  def interrupt(*args):
    if len(calls) == at:
      calls.append('interrupted')
      raise KeyboardInterrupt
    calls.append(score(*args))
    return calls[-1]

  monkeypatch.setattr(verdict_folder, 'score', interrupt)
  options = {'negatives__mined_dir': str(tmp_path / 'mined'),
             'negatives__sources': ('bm25:2',)}
  with pytest.raises(KeyboardInterrupt):
    make(root, tmp_path / 'work', **options)
  again, _ = make(root, tmp_path / 'work', **options)
  assert len(calls) == 8 + 1 + 1  # 8 parts, those of positives, the lost one.
  whole = pool.verdicts.logit[:, :12]
  np.testing.assert_allclose(again.verdicts.logit, whole, atol=1e-5)
  assert not list(tmp_path.rglob('*.parts'))


_SLOW = '''
import pathlib, sys, time
from neg_contrast.evaluation import calibration
from neg_contrast.mining import verdict_folder
from tests.mining import test_judged_pool as tests
verdict_folder.PAIRS_AT_ONCE = 60
calibration.fit = lambda *pairs: calibration.Calibration(
    tests.TEMPERATURE, tests.BIAS)
score = verdict_folder.score
def slowly(*args):
  time.sleep(0.3)
  return score(*args)
verdict_folder.score = slowly
tests.make_alone(*map(pathlib.Path, sys.argv[1:]))
'''


def make_alone(root, folder):
  """A pool of BM25 whose verdicts lie in a folder of its own."""
  return make(root, folder / 'work', negatives__sources=('bm25:2',),
              negatives__mined_dir=str(folder / 'mined'))[0]


def test_killed_programs_go_on(root, tmp_path, monkeypatch):
  """kill -9 of two that judge together; a third does what is left."""
  monkeypatch.setattr(verdict_folder, 'PAIRS_AT_ONCE', 60)
  whole = make_alone(root, tmp_path / 'alone')
  for name in ('candidates', 'calibrations'):
    shutil.copytree(tmp_path / 'alone' / 'mined' / name,
                    tmp_path / 'mined' / name)
  started = [processes.Process(_SLOW, [root, tmp_path]) for _ in range(2)]
  parts = tmp_path / 'mined' / 'verdicts'
  made = lambda: len(list(parts.glob(
      '*-bm25-*.parts/*/logits/0*/manifest.json')))
  for number, one in enumerate(started):
    end = time.monotonic() + 300
    while made() <= number:
      assert time.monotonic() < end and one.poll() is None, one.communicate()
      time.sleep(0.01)
    one.kill()
    one.wait()
  left, calls, score = made(), [], verdict_folder.score
  assert 1 < left < 8

  def count(*args):
    calls.append(args)
    return score(*args)

  monkeypatch.setattr(verdict_folder, 'score', count)
  again = make_alone(root, tmp_path)
  assert len(calls) == 8 - left + 1  # And the positives.
  for name in ('logit', 'probability', 'positive_logits'):
    np.testing.assert_array_equal(getattr(again.verdicts, name),
                                  getattr(whole.verdicts, name))
  np.testing.assert_array_equal(again.dropped_by, whole.dropped_by)
  assert not list(tmp_path.rglob('*.parts'))


def test_any_pool_is_judged(root, pool, tmp_path, capsys):
  """The given pool of another job, by the same verdicts as a mined one."""
  make(root, root / 'given', job='mine', negatives__judge='')
  config = make_config(root, negatives__pool=str(root / 'given' / 'pool'))
  jobs.check(config)
  job = judge.JudgeJob(config, tmp_path / 'work')
  (tmp_path / 'work').mkdir()
  plan.run(job.targets())
  job.finish()
  printed = capsys.readouterr().out
  assert 'expected calibration error' in printed
  assert 'known positives' in printed and f'above {ABOVE:g}' in printed
  known = {(line, int(row)) for line, rows in enumerate(pool.rows)
           for row, code in zip(rows, pool.dropped_by[line], strict=True)
           if code == pool_lib.code('positive')}
  assert re.search(f'known positives +{len(known)} ', printed)
  assert 'Calibration' in (tmp_path / 'work' / 'report.html').read_text()
  judged = pool_lib.read(tmp_path / 'work' / 'pool')
  for name in ('rows', 'source', 'dropped_by'):
    np.testing.assert_array_equal(getattr(judged, name), getattr(pool, name))
  np.testing.assert_allclose(
      judged.verdicts.logit, pool.verdicts.logit, atol=1e-5)
  trained = config_lib.parse(tiny.make_config(
      root, negatives__sources=('pool:2',),
      negatives__pool=str(tmp_path / 'work' / 'pool')))
  artifact.forget()
  data = dataset_lib.data_of(trained.data)
  loaded = declared_pools.negatives(trained, tmp_path, data, data)
  assert loaded.load().verdicts is not None


def test_verdicts_of_other_candidates_are_refused(root, pool, tmp_path):
  options = {'negatives__mined_dir': str(tmp_path / 'mined'),
             'negatives__sources': ('bm25:2',)}
  make(root, tmp_path / 'work', **options)
  mined, = (tmp_path / 'mined' / 'verdicts').glob('*-bm25-*')
  negatives = test_mined_pool.declare(
      make_config(root, **options, negatives__depth=7), tmp_path / 'other')
  plan.run([one for one in negatives.needs().values()
            if one.name == 'bm25'])
  wanted = dict(negatives.verdicts.by_source)['bm25'].folder
  shutil.copytree(mined, wanted)
  with pytest.raises(errors.UserError, match='verdicts on other candidates'):
    plan.run([negatives])


def test_damage_is_found(root, tmp_path):
  options = {'negatives__mined_dir': str(tmp_path / 'mined'),
             'negatives__sources': ('bm25:2',)}
  make(root, tmp_path / 'work', **options)
  path = tmp_path / 'work' / 'pool' / 'probability.npy'
  data = bytearray(path.read_bytes())
  data[-3] ^= 1
  path.write_bytes(bytes(data))
  artifact.forget()
  with pytest.raises(errors.UserError, match='probability.npy'):
    np.asarray(pool_lib.read(path.parent).verdicts.probability)


def test_exports_carry_scores(root, tmp_path):
  config = make_config(
      root, negatives__formats=('dpr', 'flag_embedding'),
      negatives__judge_relabel=True, negatives__sources=('bm25:2',))
  job = judge.JudgeJob(config, tmp_path)
  plan.run(job.targets())
  made = pool_lib.read(tmp_path / 'pool')
  prepared = dataset_lib.Dataset(config.data).prepared
  relabelled = {}
  for query, row in made.relabelled().tolist():
    relabelled.setdefault(prepared.query_ids[query].decode(), []).append(
        prepared.passage_ids[row].decode())
  items = json.loads(
      (tmp_path / trainer_files.FOLDER / 'dpr-train.json').read_text())
  checked = 0
  query_ids: id_table.IdTable = prepared.query_ids
  for item in items:
    line = made.lines_of(np.array(
        [query_ids.row_of(item['question_id'])]))[0]
    known = {prepared.passage_ids[row].decode(): place
             for place, row in enumerate(made.rows[line]) if row >= 0}
    for context in item['hard_negative_ctxs']:
      place = known[context['passage_id']]
      assert context['score'] == pytest.approx(
          float(made.verdicts.logit[line, place]))
      assert context['probability'] < BELOW
      checked += 1
    ids = [context['passage_id'] for context in item['positive_ctxs']]
    assert ids[len(ids) - len(relabelled.get(item['question_id'], [])):] == (
        relabelled.get(item['question_id'], []))
    assert all('score' in context for context in item['positive_ctxs'])
  assert checked and relabelled
  lines = (tmp_path / trainer_files.FOLDER
           / 'flag_embedding-train.jsonl').read_text().splitlines()
  for row in map(json.loads, lines):
    assert len(row['pos_scores']) == len(row['pos'])
    assert len(row['neg_scores']) == len(row['neg'])


def test_believed_positives_are_trained_on(root, tmp_path):
  config = make_config(
      root, job='train', negatives__judge_relabel=True,
      negatives__sources=('bm25:2',), evaluation__eval_steps=0)
  jobs.check(config)
  job = train.TrainJob(config, tmp_path)
  names = [one.title for one in artifact.closure([job.run]) if one.is_listed]
  assert names.index('verdicts on bm25') < names.index('pool')
  plan.run([job.run.pool])
  training = job.run.training()
  batcher, count = training._make_batch()
  dataset = dataset_lib.Dataset(config.data)
  plain = examples.make_examples(dataset.prepared, dataset.train_and_tune[0])
  added = job.run.pool.load().relabelled()
  added = added[np.isin(added[:, 0], plain.query_rows)]
  assert count == len(plain) + len(added) > len(plain)
  pairs = np.stack([batcher.examples.query_rows,
                    batcher.examples.positive_rows], axis=1)
  assert {*map(tuple, pairs.tolist())} == {
      *zip(plain.query_rows.tolist(), plain.positive_rows.tolist(),
           strict=True), *map(tuple, added.tolist())}
  groups = dataset.prepared.passage_groups
  for query, row in added.tolist():
    known = batcher.examples.positive_groups[query]
    assert groups[row] in known
    assert set(plain.positive_groups[query]) - {-1} <= set(known)


@pytest.mark.parametrize(('job', 'distil'), [
    (train.TrainJob, 'margin_mse'), (train_reranker.TrainRerankerJob, 'kl'),
])
def test_trainings_are_taught_by_the_judge(root, tmp_path, job, distil):
  """Each batch has the judge's scores, and a loss that is only theirs."""
  name = 'train' if job is train.TrainJob else 'train_reranker'
  config = make_config(
      root, job=name, negatives__sources=('bm25:2',), loss__distil=distil,
      loss__distil_weight=1.0, evaluation__eval_steps=0, optim__steps=12,
      optim__learning_rate=3e-3, negatives__judge_below=1.0,
      negatives__judge_above=1.0, evaluation__metrics=('accuracy@1',),
      candidates='bm25' if name == 'train_reranker' else '',
      checkpointing__log_steps=1, mesh__data=1)
  jobs.check(config)
  run = job(config, tmp_path).run
  plan.run([run])
  steps = [json.loads(line) for line
           in (tmp_path / 'log.jsonl').read_text().splitlines()]
  losses = [step['loss'] for step in steps if 'loss' in step]
  assert len(losses) == 12 and np.isfinite(losses).all()
  if distil == 'margin_mse':  # At a scale of 20, far from the teacher at first.
    assert np.mean(losses[-4:]) < np.mean(losses[:4])
  logged = next(step for step in steps if 'distil_loss' in step)
  assert logged['distil_loss'] == pytest.approx(logged['loss'], rel=1e-5)
  assert logged['distilled'] == 1
  batcher, _ = run.training()._make_batch()
  batch, _ = batcher(3)
  numbers = batcher_lib.example_numbers(
      len(batcher.examples), config.data.batch_size, config.seed, 3)
  queries = batcher.examples.query_rows[numbers]
  drawn = batcher.draw(3, numbers, queries)
  rows = np.concatenate(
      [batcher.examples.positive_rows[numbers, None], drawn.rows], axis=1)
  is_there = rows >= 0
  lines, _ = np.nonzero(is_there)
  np.testing.assert_allclose(batch.teacher_scores[is_there][:5], by_hand(
      root, queries[lines][:5], rows[is_there][:5]), atol=2e-5)
  assert np.isnan(batch.teacher_scores[~is_there]).all()


def test_miners_have_no_teacher(root, tmp_path):
  for name, kind in (('train', 'bce'), ('train_reranker', 'bce')):
    config = make_config(
        root, job=name, negatives__sources=('fine:2',), loss__kind=kind,
        loss__distil='kl', loss__distil_weight=0.3, candidates='bm25',
        evaluation__metrics=('accuracy@1',))
    jobs.check(config)
    negatives = test_mined_pool.declare(config, tmp_path)
    miner, = (one for one in artifact.closure([negatives])
              if isinstance(one, run_artifacts.EncoderRun))
    want = 'softmax' if name == 'train_reranker' else 'bce'
    assert (miner.config.loss.distil, miner.config.loss.kind) == ('', want)
    assert 'distil_weight' not in miner.config.counted['loss']


def test_miners_compare_in_batch_and_at_their_own_width(root, tmp_path):
  config = make_config(
      root, job='train', negatives__sources=('coarse:2',),
      negatives__coarse_dim=5, negatives__judge='', optim__steps=1,
      evaluation__eval_steps=0, loss__candidates='own',
      loss__bidirectional=False, loss__matryoshka=(8,))
  jobs.check(config)
  negatives = test_mined_pool.declare(config, tmp_path)
  miner, = (one for one in artifact.closure([negatives])
            if isinstance(one, run_artifacts.EncoderRun))
  plan.run([miner])
  assert miner.training().is_trained()
  loss = miner.config.loss
  assert (loss.candidates, loss.matryoshka) == ('batch', ())


def test_a_pool_that_nobody_judged_teaches_nothing(root, tmp_path):
  make(root, tmp_path / 'given', job='mine', negatives__judge='')
  config = make_config(
      root, job='train', negatives__sources=('pool:2',), negatives__judge='',
      negatives__pool=str(tmp_path / 'given' / 'pool'), loss__distil='kl')
  jobs.check(config)
  training = train.TrainJob(config, tmp_path / 'work').run.training()
  with pytest.raises(errors.UserError, match='nobody has judged .*given/pool'):
    training._make_batch()


def test_a_judge_of_others_is_calibrated_here(root, tmp_path, monkeypatch):
  """On the tune split, at the depth that is judged."""
  scores = []
  monkeypatch.setattr(calibration, 'fit', lambda *pairs: (
      scores.append(pairs) or calibration.Calibration(2.0, -0.5)))
  shutil.copytree(root / 'judge', tmp_path / 'plain')
  options = {'negatives__judge': str(tmp_path / 'plain'),
             'negatives__sources': ('bm25:2',),
             'negatives__mined_dir': str(tmp_path / 'mined')}
  negatives = test_mined_pool.declare(
      make_config(root, **options), tmp_path / 'work')
  names = [one.name for one in artifact.closure([negatives]) if one.is_listed]
  assert 'calibration' in names
  fitted = negatives.judge.calibration
  ranking = fitted.candidates.load().found
  assert ranking.rows.shape[1] == 12  # As deep as what is judged.
  plan.run([fitted])
  made = fitted.load()
  assert (made['temperature'], made['bias']) == (2.0, -0.5)
  other = test_mined_pool.declare(make_config(
      root, **options, data__tune_fraction=0.6), tmp_path / 'work')
  calibrated_by = other.judge.calibration
  assert calibrated_by.path != fitted.path and not calibrated_by.is_made()
  assert calibrated_by.settings()['tune_queries'] != (
      fitted.settings()['tune_queries'])
  assert made['pairs'] == (ranking.rows >= 0).sum() == len(scores[0][0])
  assert made['positives'] == scores[0][1].sum() > 0

  def fail(*pairs):
    raise ValueError('positives do not score higher than other candidates')

  monkeypatch.setattr(calibration, 'fit', fail)
  fitted.path.unlink()
  artifact.forget()
  with pytest.raises(errors.UserError, match="can't be calibrated: positives"):
    plan.run([fitted])


@pytest.mark.parametrize(('overrides', 'told'), [
    ({'negatives__judge': ''}, 'negatives.judge.* is needed'),
    ({'negatives__judge_below': 0.95, 'negatives__judge_above': 0.9},
     'must be at most negatives.judge_above=0.9'),
    ({'negatives__judge_below': 0.0}, 'judge_below'),
    ({'negatives__judge': '', 'negatives__judge_relabel': True},
     'name one in negatives.judge'),
    ({'job': 'mine', 'negatives__judge': '', 'negatives__margin_by': 'judge'},
     'margin_by.* name one in negatives.judge'),
    ({'job': 'train', 'negatives__sources': ()}, 'judges mined candidates'),
    ({'job': 'train', 'negatives__judge': '', 'loss__distil': 'kl',
      'negatives__sources': ('bm25:1',)}, 'needs the scores of a judge'),
    ({'job': 'train_reranker', 'negatives__judge': '', 'loss__distil': 'kl',
      'negatives__sources': ('bm25:1',)}, 'needs the scores of a judge'),
    ({'job': 'train', 'negatives__sources': ('bm25:1', 'context:1')},
     'is drawn for each example'),
    ({'job': 'train', 'negatives__sources': ('model:1',),
      'negatives__refresh_steps': 5}, 'leave one of them out'),
])
def test_what_does_not_go_together_is_refused(root, overrides, told):
  with pytest.raises(errors.UserError, match=told):
    jobs.check(make_config(root, **overrides))


def test_what_is_no_judge_is_refused(root, tmp_path):
  def refused(told, name):
    negatives = test_mined_pool.declare(make_config(
        root, negatives__judge=str(name)), tmp_path / 'work')
    with pytest.raises(errors.UserError, match=told):
      plan.run([negatives])

  refused("without a score layer can't judge", root / 'model')
  refused('nowhere', tmp_path / 'nowhere')
  test_cross_encoder_folder = tmp_path / 'two'
  test_cross_encoder_folder.mkdir()
  test_cross_encoder.write_classifier(test_cross_encoder_folder, labels=2)
  refused(r'classifier.weight is \[2, 16\].* one label',
          test_cross_encoder_folder)
