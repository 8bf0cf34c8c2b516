"""Pseudo-labels: unlabelled queries, BM25's passages, a judge's thresholds."""

import dataclasses
import gzip
import json
import logging
import pathlib

import numpy as np
import pytest

from neg_contrast import errors, jobs
from neg_contrast.artifacts import artifact, folders, plan
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import synthetic_pairs
from neg_contrast.evaluation import calibration
from neg_contrast.jobs import train
from neg_contrast.jobs.common import declared_pairs
from neg_contrast.retrieval import bm25_search, pair_scorer
from neg_contrast.settings import config as config_lib
from neg_contrast.stage1 import (
  judged_pairs,
  question_shards,
  searched_queries,
)
from tests import tiny
from tests.mining import test_judged_pool
from tests.models import test_cross_encoder

DEPTH, BELOW, ABOVE = 4, 0.35, 0.55


@pytest.fixture(scope='module')
def root(tmp_path_factory):
  """A corpus, its queries as texts alone, and a judge of random weights."""
  root = tmp_path_factory.mktemp('pseudo')
  tiny.make_config(root)
  (root / 'judge').mkdir()
  test_cross_encoder.write_classifier(root / 'judge')
  texts = [json.loads(line)['text'] for line in (
      root / 'data' / 'queries.jsonl').read_text().splitlines()]
  (root / 'asked.txt').write_text('\r\n'.join([*texts, '', texts[0], '']))
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(calibration, 'fit', lambda scores, is_positive: (
        calibration.Calibration(test_judged_pool.TEMPERATURE,
                                test_judged_pool.BIAS)))
    yield root


def parse(root, **overrides):
  return config_lib.parse(tiny.make_config(root, **{
      'synthetic__pairs': 'judged', 'synthetic__teacher_depth': DEPTH,
      'synthetic__queries': str(root / 'asked.txt'),
      'synthetic__judge': str(root / 'judge'),
      'synthetic__judge_above': ABOVE, 'synthetic__judge_below': BELOW,
      'synthetic__dir': str(root / 'synthetic'),
      'negatives__mined_dir': str(root / 'mined'), **overrides}))


def declare(config):
  artifact.forget()
  return declared_pairs.training_data(
      config, dataset_lib.data_of(config.data))


def make(config):
  """(query's text, passage row) -> grade; and what the manifest counts."""
  declared = declare(config)
  plan.run([declared])
  made = declared.load()
  judged, prepared = made.train_and_tune[0], made.prepared
  return {
      (prepared.queries[int(query)].text, int(row)): int(grade)
      for query, row, grade in zip(judged.query_rows, judged.passage_rows,
                                   judged.grades, strict=True)
  }, prepared.manifest[judged_pairs.COUNTS], declared


def probabilities(root, config):
  """(query's text, passage row) -> p, one pair at a time, and all queries."""
  data = dataset_lib.data_of(config.data)
  prepared = data.load().prepared
  search = bm25_search.bm25_of(config.evaluation, data).load()
  rows = {query.text: number for number, query in enumerate(prepared.queries)}
  pairs = [(text, int(row)) for text in rows
           for row in search.search([text], DEPTH).rows[0] if row >= 0]
  some = pairs[:40]
  scores = np.array(test_judged_pool.by_hand(
      root, [rows[text] for text, _ in some], [row for _, row in some]))
  return dict(zip(some, 1 / (1 + np.exp(-(
      scores.reshape(-1) / test_judged_pool.TEMPERATURE
      + test_judged_pool.BIAS))), strict=True)), len(pairs), len(rows)


def test_the_plan_has_verdicts_before_the_pairs(root):
  declared = declare(parse(root))
  titles = [one.title for one in artifact.closure([declared])
            if one.is_listed]
  assert titles[-1] == 'pairs'
  assert titles.index('candidates') < titles.index(
      'verdicts on candidates') < titles.index('pairs')
  assert 'pairs that ' in plan.describe([declared])


def test_a_prefix_of_the_data_set_makes_other_verdicts(root):
  identities = []
  for prefix in (None, 'word1 word2', ''):
    verdicts = declare(parse(root, data__query_prefix=prefix)).verdicts
    plan.run([verdicts])
    identities.append(verdicts.identity)
  assert identities[0]['needs']['pairs'] != identities[1]['needs']['pairs']
  assert len({str(identity) for identity in identities}) == 3


def test_labels_are_those_of_the_judge(root, caplog):
  config = parse(root)
  with caplog.at_level(logging.INFO):
    found, counts, declared = make(config)
  expected, pairs, queries = probabilities(root, config)
  believed = {query for (query, _), p in expected.items() if p > ABOVE}
  whole = {query for query, _ in expected} - {[*expected][-1][0]}
  seen = 0
  for (query, row), p in expected.items():
    if query not in whole or min(abs(p - ABOVE), abs(p - BELOW)) < 1e-4:
      continue
    grade = 1 if p > ABOVE else 0 if p < BELOW else None
    assert found.get((query, row)) == (grade if query in believed else None)
    seen += grade is not None
  assert seen > 10 and {*found.values()} == {0, 1}
  assert counts['pairs'] == pairs and counts['queries'] == queries
  assert (counts['positives'] + counts['negatives'] + counts['between']
          == counts['pairs'])
  assert counts['positives'] == sum(found.values())
  assert counts['queries_with_positives'] == len({q for q, _ in found})
  assert (f'of {pairs} pairs of {queries} queries the judge believes '
          f'{counts["positives"]} positive (above 0.55)') in caplog.text
  assert declared.summary() in caplog.text


def test_thresholds_judge_nothing_again(root, monkeypatch):
  first, _, declared = make(parse(root))
  monkeypatch.setattr(pair_scorer.PairScorer, 'score', None)
  other, counts, changed = make(parse(root, synthetic__judge_above=0.5,
                                      synthetic__judge_below=0.5))
  assert changed.folder != declared.folder and len(other) > len(first)
  assert counts['between'] == 0
  assert all(other[pair] == grade for pair, grade in first.items())


@pytest.mark.parametrize('at', [0, 2])
def test_an_interruption_loses_one_part(root, tmp_path, monkeypatch, at):
  whole, counts, _ = make(parse(root))
  monkeypatch.setattr(judged_pairs, '_PAIRS_AT_ONCE', 32)
  monkeypatch.setattr(judged_pairs, '_QUERIES_AT_ONCE', 8)
  score, calls = pair_scorer.PairScorer.score, []

  def interrupt(self, *args, **kwargs):
    if kwargs:  # The calibration's.
      return score(self, *args, **kwargs)
    calls.append(len(args[-1]))
    if len(calls) == at + 1:
      raise KeyboardInterrupt
    return score(self, *args, **kwargs)

  monkeypatch.setattr(pair_scorer.PairScorer, 'score', interrupt)
  config = parse(root, synthetic__dir=str(tmp_path / 'synthetic'))
  with pytest.raises(KeyboardInterrupt):
    make(config)
  again, counted, _ = make(config)
  parts = -(-counts['pairs'] // 32)
  assert parts > 3 and len(calls) == parts + 1
  assert again == whole and counted == counts
  assert not list(tmp_path.rglob('*.parts'))


def test_it_is_trained_on_with_the_negatives_that_were_judged(root, tmp_path):
  config = parse(root, negatives__sources=('given:2',), job='train')
  jobs.check(config)
  job = train.TrainJob(config, tmp_path)
  plan.run([*job.run.needs().values()])
  batcher, count = job.run.training()._make_batch()
  found, _, declared = make(config)
  prepared = declared.load().prepared
  assert count == sum(found.values())
  seen = 0
  for step in range(3):
    numbers = batcher.example_numbers(step)
    rows = batcher.examples.query_rows[numbers]
    drawn = batcher.draw(step, numbers, rows).rows
    for query, some in zip(rows, drawn, strict=True):
      text = prepared.queries[int(query)].text
      assert all(found[text, int(row)] == 0 for row in some if row >= 0)
      seen += (some >= 0).sum()
  assert seen


@dataclasses.dataclass(frozen=True)
class Written(question_shards.ShardedQuestions):
  """Two shards of questions that somebody wrote."""

  kind = 'written'
  name = 'questions'
  folder: pathlib.Path
  passages: int

  @property
  def shards(self):
    return question_shards.shards_of(self.folder, self.passages, 40)

  @property
  def written(self):
    return self

  def counts(self):
    return {}

  needs = settings = counts

  def describe(self):
    return 'written'

  build = read = describe


def test_generated_questions_have_their_own_passage_too(root, tmp_path):
  config = parse(root, synthetic__dir=str(tmp_path / 'synthetic'),
                 synthetic__teacher_depth=1)
  gold = dataset_lib.data_of(config.data)
  passages = gold.load().prepared.passages
  questions = Written(tmp_path / 'shards', len(passages))
  shards = questions.shards
  assert len(shards) == 2
  word = passages[0].text.split()[0]
  for number in range(2):
    with shards.writing(number, {}) as f:
      synthetic_pairs.write_pair(f, f'{word} {number}', passages[7].id)
  searched = searched_queries.SearchedQueries(
      gold, config.synthetic, questions,
      bm25_search.bm25_of(config.evaluation, gold))
  plan.run([searched])
  judged = searched.load().train_and_tune[0]
  best = searched.index.load().search([word], 1).rows[0, 0]
  assert best not in (7, -1)
  assert judged.passage_rows.tolist() == sorted([best, 7]) * 2


@pytest.mark.parametrize('name', ['q.txt', 'q.jsonl', 'q.jsonl.gz'])
def test_files_of_queries(tmp_path, name):
  texts = ['wer,\u2028wo', ' why  so', 'why so']
  lines = [json.dumps({('query', 'text')[n % 2]: text})
           for n, text in enumerate(texts)] if 'json' in name else texts
  opener = gzip.open if name.endswith('gz') else open
  with opener(tmp_path / name, 'wb') as f:
    f.write('\n'.join([*lines, '']).encode())
  made = searched_queries.QueryFile(tmp_path / name)
  assert made.lacks() is None and made.read() == ['wer, wo', 'why so']


@pytest.mark.parametrize(('name', 'text', 'message'), [
    ('q.jsonl', '{"query": "a"}\n{"q": "b"}\n', 'q.jsonl:2: key "query" or'),
    ('q.jsonl', '{"query": 3}\n', 'q.jsonl:1: key "query" holds int'),
    ('q.jsonl', '{"query": " "}\n', 'q.jsonl:1: key "query" or "text" is emp'),
    ('q.jsonl', '[1]\n', 'q.jsonl:1: a json object was expected'),
    ('q.jsonl', '{\n', 'q.jsonl:1: not valid json'),
    ('q.txt', '\n \n', 'q.txt: holds no query'),
    ('q.txt', 'one\n1\ttwo\n', 'q.txt:2: has a tab, as rows of a table have'),
    ('q.tsv', '1\ttwo\n', 'q.tsv: is no list of queries; write a query a line'),
    ('q.json', '["a"]', 'q.json: is no list of queries'),
    ('q.csv', 'query\na\n', 'q.csv: is no list of queries'),
])
def test_files_that_hold_something_else(tmp_path, name, text, message):
  (tmp_path / name).write_text(text)
  with pytest.raises(errors.UserError, match=message):
    searched_queries.QueryFile(tmp_path / name).read()


def test_as_many_pairs_as_are_judged_at_most(root):
  declared = declare(parse(root))
  asked = searched_queries.QueryFile(root / 'asked.txt').read()
  assert declared.most(1000, 500) == len(asked) * DEPTH
  plan.run([declared])
  assert 0 < declared.count() < len(asked) * DEPTH


def test_a_missing_file_is_told_by_the_plan(root):
  declared = declare(parse(root, synthetic__queries='absent.txt'))
  with pytest.raises(errors.UserError, match='absent.txt: no such file'):
    plan.run([declared])


@pytest.mark.parametrize(('changes', 'message'), [
    ({'judge': ''}, 'synthetic.judge=\'\': is needed for synthetic.pairs=judg'),
    ({'queries': ''}, 'checkpoint=\'\': is needed: the workdir of a trained'),
    ({'judge_below': 0.7}, 'judge_below=0.7: must be at most synthetic.judge'),
    ({'pairs': 'crops'}, 'synthetic.queries=.*: is for synthetic.pairs=judged'),
    ({'judge_above': 1.5}, 'judge_above=1.5: '),
])
def test_keys_that_do_not_agree(root, changes, message):
  with pytest.raises(errors.UserError, match=message):
    jobs.check(parse(root, job='train', **{
        f'synthetic__{key}': value for key, value in changes.items()}))


def test_a_judge_that_believes_nothing(root, tmp_path):
  config = parse(root, synthetic__judge_above=1.0,
                 synthetic__dir=str(tmp_path / 'synthetic'))
  with pytest.raises(errors.UserError, match=(
      'makes no pair of .*; it needs a query with a passage that the judge '
      r'believes .* above config.synthetic.judge_above=1, and the highest is '
      r'0\.[1-9]\d*\. Lower that')):
    make(config)


def test_a_judge_of_two_labels(root, tmp_path):
  (tmp_path / 'two').mkdir()
  test_cross_encoder.write_classifier(tmp_path / 'two', labels=2)
  declared = declare(parse(root, synthetic__judge=str(tmp_path / 'two')))
  with pytest.raises(errors.UserError, match=(
      r'two: classifier.weight is .2, 16., .* which has one label')):
    plan.run([declared])


def test_damaged_verdicts_are_refused(root, tmp_path):
  config = parse(root, synthetic__dir=str(tmp_path / 'synthetic'))
  _, _, declared = make(config)
  path = declared.verdicts.folder / 'logits.npy'
  folders.file_names(declared.verdicts.folder)
  data = bytearray(path.read_bytes())
  data[-1] ^= 255
  path.write_bytes(bytes(data))
  other = declare(parse(root, synthetic__dir=str(tmp_path / 'synthetic'),
                        synthetic__judge_above=0.5))
  with pytest.raises(errors.UserError, match='logits.npy: damaged'):
    plan.run([other])
