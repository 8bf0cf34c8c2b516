"""The audit of a tiny data set, from mining to flags."""

import ast
import json
import shlex

import numpy as np
import pytest

from neg_contrast import errors, jobs
from neg_contrast.artifacts import artifact, plan
from neg_contrast.data import answers as answers_lib
from neg_contrast.data import likeness, preparation
from neg_contrast.evaluation import calibration
from neg_contrast.jobs import audit as audit_job
from neg_contrast.mining import (
  audit_verdict,
  false_negatives,
  label_share,
  pool_audit,
  recommendation,
)
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.settings import config as config_lib
from tests import tiny
from tests.models import test_cross_encoder


def make(tmp_path, name='audit', **overrides):
  config = tiny.make_config(tmp_path, **{
      'negatives__mined_dir': str(tmp_path / 'mined'),
      'negatives__depth': 40, 'negatives__pool_size': 20, **overrides,
  })
  config.job = 'audit'
  config.model.init = ''
  config.checkpoint = str(tmp_path / 'model')
  return audit_job.AuditJob(config_lib.parse(config), tmp_path / name)


def run(tmp_path, name='audit', **overrides):
  (tmp_path / name).mkdir(exist_ok=True)
  job = make(tmp_path, name, **overrides)
  plan.run(job.targets())
  return json.loads((tmp_path / name / pool_audit.FILE).read_text())


def change(path, edit):
  """Edits the records of a json lines file."""
  rows = [json.loads(line) for line in path.read_text().splitlines()]
  rows = edit(rows) or rows
  path.write_text(''.join(json.dumps(row) + '\n' for row in rows))


@pytest.fixture
def data(tmp_path):
  """The files of the tiny data set, to be edited before the audit."""
  tiny.make_config(tmp_path)
  return tmp_path / 'data'


def test_shares_equal_loops(tmp_path):
  made = run(tmp_path)
  config = tiny.make_config(tmp_path)
  data = preparation.prepare(config.data.source, tmp_path / 'prepared', False)
  pool = pool_lib.read(tmp_path / 'audit/candidates/pool')
  assert set(made['sources']) == {'model', 'bm25', 'context', 'given', 'random'}
  for number, name in enumerate(pool.sources):
    means = []
    for line, query in enumerate(pool.query_rows):
      hits = [
          answers_lib.has_answer(data.passages[int(row)].text,
                                 data.queries[int(query)].answers)
          for row, source, rank, why in zip(
              pool.rows[line], pool.source[line], pool.rank[line],
              pool.dropped_by[line], strict=True,
          ) if source == number and 0 <= row < len(data.passages) and rank <= 5
          and why != pool_lib.code('positive')
      ]
      means += [np.mean(hits)] if hits else []
    facts = made['sources'][name]['1-5']
    assert facts['queries'] == len(means)
    # Without those that are positives of the compared query.
    assert facts['answer'] == pytest.approx(np.mean(means), abs=0.1)
  assert made['facts']['queries'] == 36
  assert made['facts']['answer_in_positive'] == 1.0
  assert made['facts']['context'] == {
      'at_least_1': 1.0, 'at_least_2': 1.0, 'at_least_10': 0.0, 'halves': 0.0,
      'none': 0.0}
  first = pool.dropped_by[:, 40:45] == pool_lib.code('positive')
  assert made['facts']['accuracy']['bm25']['@5'] == pytest.approx(
      first.any(axis=1).mean(), abs=1e-4)


def test_copies_and_twins_are_seen(tmp_path, data):
  """Every passage twice, with one more word; each query twice."""
  def double(rows):
    return rows + [{**row, '_id': f'{row["_id"]}x',
                    'text': row['text'] + ' word0'} for row in rows]

  def repeat(rows):
    return rows + [{**row, '_id': f'{row["_id"]}x',
                    'text': f'{row["text"]}?'} for row in rows]

  change(data / 'corpus.jsonl', double)
  change(data / 'queries.jsonl', repeat)
  path = data / 'qrels/train.tsv'
  head, *lines = path.read_text().splitlines()
  pairs = [line.split('\t') for line in lines]
  doubled = [f'{q}x\t{p}x\t{g}' for q, p, g in pairs]
  path.write_text('\n'.join([head, *lines, *doubled, '']))
  made = run(tmp_path)
  assert made['facts']['queries_with_twins'] == 1.0
  assert made['facts']['answer_in_twins'] == 1.0
  top = made['sources']['bm25']['1-5']
  assert top['twin'] > 0.15 and top['false'] >= top['twin']
  assert any('same words' in line for line in made['verdict'])
  prepared = preparation.prepare(f'beir:{data}', tmp_path / 'prepared', False)
  texts = [likeness.words(p.text) for p in prepared.passages]
  near = np.mean([likeness.likeness(texts[i], texts[i + 48]) >= likeness.NEAR
                  for i in range(48)])
  assert near > 0 and 0 < top['copy'] <= top['twin']


def test_without_answers_the_judge_alone_is_believed(tmp_path, data):
  change(data / 'queries.jsonl',
         lambda rows: [{**row, 'answers': []} for row in rows])
  made = run(tmp_path)
  assert made['judging']['kind'] == 'judge'
  assert made['judging']['trust'] == made['facts']['accuracy']['model']['@1']
  assert made['facts']['answer_in_positive'] is None
  assert made['sources']['bm25']['1-5']['answer'] is None
  assert any('judge alone (no answers are known)' in line
             for line in made['verdict'])


def test_a_cross_encoder_is_believed_where_there_is_one(
    tmp_path, monkeypatch, capsys
):
  """Shares are means of its probabilities, and are held against answers."""
  tiny.make_config(tmp_path)
  (tmp_path / 'judge').mkdir()
  test_cross_encoder.write_classifier(tmp_path / 'judge')
  monkeypatch.setattr(calibration, 'fit', lambda scores, is_positive: (
      calibration.Calibration(0.35, -1.0)))
  options = {'negatives__judge': str(tmp_path / 'judge'),
             'negatives__depth': 12, 'negatives__pool_size': 6}
  planned = plan.describe(make(tmp_path, **options).targets())
  assert f'train, judged by {tmp_path / "judge"} in' in planned
  made = run(tmp_path, **options)
  assert made['judging']['kind'] == 'verdicts'
  pool = pool_lib.read(tmp_path / 'audit/candidates/pool')
  is_known = pool.dropped_by == pool_lib.code('positive')
  probability = pool.verdicts.probability.astype(float)
  each = {}  # A passage of two sources is one.
  for line, column in zip(*np.nonzero(np.isfinite(probability)), strict=True):
    each[line, pool.rows[line, column]] = (
        pool.verdicts.logit[line, column], is_known[line, column])
  assert len(each) < np.isfinite(probability).sum()
  labelled = label_share.least_share(*map(np.array, zip(
      *each.values(), strict=True)))
  assert made['facts']['labelled'] == pytest.approx(labelled, rel=1e-3)
  number = pool.sources.index('bm25')
  columns = np.flatnonzero(pool.source[0] == number)[:5]
  means = []
  for line in range(len(pool)):
    some = [(1 - labelled) / labelled * p / (1 - p)
            for p, known, row in zip(
                probability[line, columns], is_known[line, columns],
                pool.rows[line, columns], strict=True)
            if not known and row >= 0]
    means += [np.mean(np.minimum(some, 1))] if some else []
  line = made['sources']['bm25']['1-5']
  assert line['copy'] == line['twin'] == 0
  assert line['false'] == pytest.approx(np.clip(np.mean(means), 0, 1), rel=1e-3)
  against = made['facts']['verdicts_against_answers']
  assert set(against) == {'model', 'bm25', 'context', 'given'}
  assert all({*one} == {'verdicts', 'answers'} for one in against.values())
  assert made['sources']['random']['any']['false'] is None
  make(tmp_path, **options).finish()
  said = capsys.readouterr().out
  assert f'verdicts of {tmp_path / "judge"}' in said
  assert 'by verdicts and by answers: model' in said


def test_the_data_says_which_sources_there_are(tmp_path, data):
  listed = lambda: [one.name for one in artifact.closure(
      make(tmp_path).targets()) if one.is_listed]
  assert listed() == ['data', 'candidates', 'embeddings', 'audit']
  change(data / 'corpus.jsonl', lambda rows: [
      {**row, 'metadata': {}} for row in rows])
  preparation.prepare(f'beir:{data}', tmp_path / 'prepared', False)
  artifact.forget()
  assert listed() == ['data', 'embeddings', 'model', 'bm25 index', 'bm25',
                      'given', 'candidates', 'audit']


def test_same_bytes_again_and_done_is_kept(tmp_path, capsys):
  run(tmp_path, 'one')
  run(tmp_path, 'two')
  one, two = (tmp_path / name / pool_audit.FILE for name in ('one', 'two'))
  assert one.read_bytes() == two.read_bytes()
  job = make(tmp_path, 'two')
  artifact.forget()
  assert all(one.is_made() for one in artifact.closure(job.targets())
             if one.is_listed)
  assert not make(tmp_path, 'two', loss__scale=7.0).targets()[-1].is_made()
  job.finish()
  said = capsys.readouterr().out
  assert (tmp_path / 'two/report.html').is_file()
  assert 'Rests on' in said and '--config.negatives.sources=' in said
  assert f'{"bm25":8} {"1-5":>7}' in said


def test_some_queries_have_their_own_candidates(tmp_path, monkeypatch):
  monkeypatch.setattr(audit_job, '_QUERIES', 10)
  made = run(tmp_path, 'ten')
  assert made['facts']['queries'] == 10
  inputs = made['identity']['needs']['candidates']['needs']
  assert set(inputs) == {'model', 'bm25', 'context', 'given'}
  assert all(source['settings']['max_queries'] == 10
             for source in inputs.values())


@pytest.mark.parametrize('members', [(), ('bm25',), ('model', 'context')])
def test_flags_are_flags(tmp_path, members):
  """They set a config that trains, as a shell passes them."""
  found = recommendation.Recommendation(
      members, 6, 50, 0.05, members[:1], {}, {}, {})
  config = tiny.make_config(tmp_path)
  flags = audit_verdict.flags_of(found, 'minilm')
  for flag in shlex.split(' '.join(flags)):
    key, _, value = flag.removeprefix('--config.').partition('=')
    holder = config
    *sections, last = key.split('.')
    for section in sections:
      holder = holder[section]
    holder[last] = (value if isinstance(holder[last], str)
                    else ast.literal_eval(value))
  parsed = config_lib.parse(config).negatives
  assert parsed.sources == found.sources
  assert set(parsed.strategies) == set(members)
  if 'bm25' in members:
    assert (parsed.first_rank, parsed.last_rank) == (6, 50)
    assert parsed.relative_margin == 0.05
    assert parsed.drop_answers == ('bm25',)


def test_no_judge_is_an_error(tmp_path):
  config = tiny.make_config(tmp_path)
  config.job = 'audit'
  with pytest.raises(errors.UserError, match='config.checkpoint'):
    jobs.make_job(config_lib.parse(config), tmp_path)


def test_what_is_not_known_is_no_number():
  """Nothing on one side of the positive, and no twins."""
  unknown = {'answer': float('nan'), 'chance': float('nan')}
  facts = {
      'queries': 500, 'answer_in_positive': 0.1,
      'answer_in_twins': float('nan'), 'labelled': None,
      'accuracy': {'model': {'@1': 0.7}},
      'judge_against_answers': {
          'above': unknown, 'below': {'answer': 0.25, 'chance': 0.125}},
      'verdicts_against_answers': {}, 'random_above': 0.0,
      'queries_with_twins': 0.0, 'copied_passages': 0.0}
  found = recommendation.Recommendation((), 1, 0, None, (), {}, {}, {})
  said = ' '.join(audit_verdict.sentences_of(
      found, false_negatives.Judging('judge', trust=0.7), facts))
  assert 'nan' not in said and 'and none of the twins' in said
  assert 'an answer in none (chance none), the rest in 25.0% (12.5%)' in said


@pytest.mark.parametrize('labelled, sure', [
    (0.02, 'weak'), (0.29, 'weak'), (0.3, 'fair'), (0.79, 'fair'),
    (0.8, 'good')])
def test_a_judge_that_knows_no_positive_is_weak(labelled, sure):
  facts = {
      'queries': 500, 'answer_in_positive': None, 'answer_in_twins': None,
      'labelled': labelled, 'cross_encoder': 'workdirs/judge',
      'accuracy': {'model': {'@1': 0.7}}, 'judge_against_answers': {},
      'verdicts_against_answers': {}, 'random_above': 0.0,
      'queries_with_twins': 0.0, 'copied_passages': 0.0}
  found = recommendation.Recommendation((), 1, 0, None, (), {}, {}, {})
  said = ' '.join(audit_verdict.sentences_of(
      found, false_negatives.Judging('verdicts'), facts))
  assert f'Sure: {sure}' in said
