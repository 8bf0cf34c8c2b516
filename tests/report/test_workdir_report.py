"""The report of a workdir, from files as jobs leave them."""

import dataclasses
import json
import os
import re

import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.artifacts import folders, plan
from neg_contrast.data import answers as answers_lib
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import examples, records, sources
from neg_contrast.evaluation import evaluations, per_query, trec
from neg_contrast.jobs import mine
from neg_contrast.jobs.common import reporting
from neg_contrast.mining import candidates, pool_files
from neg_contrast.mining import texts as texts_lib
from neg_contrast.models import loading
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.report import negatives_facts
from neg_contrast.settings import config as config_lib
from tests import tiny
from tests.report import test_page

EVIL = test_page.EVIL


class Listed:
  """A source of given records."""

  def __init__(self, passages, queries, judgements):
    self.files, self.splits = (), tuple(judgements) or ('test',)
    self.passages = lambda: iter(passages)
    self.queries = lambda: iter(queries)
    self.judgements = lambda split: iter(judgements.get(split, ()))


def passage(name, text='', title='', document=''):
  return records.Passage(name, title, text or f'text {name}', document)


def query(name, *answers, split=''):
  return records.Query(name, f'{name}?', answers, split=split)


def evaluation_config(tmp_path, checkpoint='model', answer_ks=()):
  config = config_lib.base_config()
  config.job, config.checkpoint = 'evaluate', checkpoint
  config.data.source = 'beir:thing'
  config.data.prepared_dir = str(tmp_path / 'prepared')
  config.evaluation.answer_ks = answer_ks
  return config_lib.parse(config)


@pytest.fixture
def listed(tmp_path, monkeypatch):
  """Makes (config, dataset) of given records."""

  def make(passages, queries, judgements, **overrides):
    monkeypatch.setattr(
        sources, 'open_source',
        lambda *_: Listed(passages, queries, judgements),
    )
    config = evaluation_config(tmp_path, **overrides)
    return config, dataset_lib.Dataset(config.data)

  return make


def write_system(workdir, name, run, by_query, split='test', key='thing',
                 by_query_file=True):
  manifest = {
      'identity': {}, 'key': f'{key}/{split}/{name}', 'queries': len(run),
      'passages': 4,
      'metrics': {metric: float(np.mean(list(values.values())))
                  for metric, values in by_query.items()},
      'environment': folders.environment(),
  }
  folder = workdir / 'evaluation' / f'{split}-{name.replace("/", "_")}'
  with folders.writing(folder, manifest, format=evaluations.FORMAT) as scratch:
    if run:
      trec.write_run(scratch / 'run.trec', run, 'tag')
    if not by_query_file:
      return folder
    queries = dict.fromkeys(q for of in by_query.values() for q in of)
    per_query.write(scratch / 'per_query.tsv', [
        per_query.Result(query, '', None, '', False, (), {
            metric: of[query] for metric, of in by_query.items() if query in of
        }) for query in queries
    ], list(by_query))
  return folder


def ranking(*passages):
  return [(p, 1.0 - i / 8) for i, p in enumerate(passages)]


def page_of(workdir, config, dataset, model=None, negatives=None):
  path = reporting.write_report(workdir, config, dataset, model, negatives)
  assert path == workdir / 'report.html'
  assert not list(workdir.glob('*.partial'))
  text = path.read_text(encoding='utf-8')
  assert '\x1b' not in text
  return test_page.Page(text)


def section(page, begin, end):
  return page.text.partition(begin)[2].partition(end)[0]


PASSAGES = [passage('a', EVIL, EVIL, 'd'), passage('b', EVIL, EVIL, 'd'),
            passage('c', 'an answer: x', document='e'), passage('d')]


def judged(listed):
  return listed(
      PASSAGES, [query('q1', 'x'), query('q2'), query('q3', EVIL)],
      {'test': [records.Judgement('q1', 'c', 1),
                records.Judgement('q2', 'a', 2),
                records.Judgement('q2', 'b', 1),
                records.Judgement('q3', 'd', 0)]},
  )


def test_queries_that_moved(tmp_path, listed):
  config, dataset = judged(listed)
  metric = lambda *values: {'accuracy@1': dict(
      zip(('q1', 'q2', 'q3'), values, strict=True))}
  write_system(tmp_path, 'bm25', {
      'q1': ranking('a', 'b', 'd', 'c'), 'q2': ranking('b', 'c', 'a'),
      'q3': ranking('a'),
  }, metric(0.0, 1.0, 0.0))
  write_system(tmp_path, EVIL, {
      'q1': ranking('c', 'a', 'b', 'gone'), 'q2': ranking('c', 'gone'),
  }, metric(1.0, 0.0, 0.0))
  page = page_of(tmp_path, config, dataset)
  moves = section(page, 'Rank of the first positive', 'passages 4')
  assert '1 queries rose, 1 fell, 0 stayed' in moves
  risen, _, fallen = moves.partition('Fallen')
  assert '4 → to 1 q1?' in risen and 'answers: x' in risen
  assert f'positive first of {EVIL} holds an answer' in risen
  assert 'bm25 4 0.625' in risen and f'{EVIL} 1 1' in risen
  assert 'an answer: x' in risen and 'first of bm25' in risen
  # b is the positive of q2 that ranked best; EVIL ranks none of the two.
  assert '1 → to >4 q2?' in fallen and '2 positives' in fallen
  assert f'positive first of bm25 bm25 1 1 {EVIL} –' in fallen
  assert page.text.count(EVIL) > 8


def test_answers_without_judgements_or_titles(tmp_path, listed):
  config, dataset = listed(
      [passage('a', 'no x'), passage('b', 'y')],
      [query('q1', 'x', split='test'), query('q2', 'y', split='test'),
       query('q3', 'z', split='test')], {}, answer_ks=(1, 2),
  )
  values = lambda first, second: {
      f'answer_accuracy@{k}': {f'q{i}': v for i, v in enumerate(values, 1)}
      for k, values in ((1, first), (2, second))
  }
  run = {q: ranking('a', 'b') for q in ('q1', 'q2', 'q3')}
  write_system(tmp_path, 'bm25', run, values((1., 0., 0.), (1., 0., 0.)))
  write_system(tmp_path, 'initial', run, values((0., 1., 0.), (1., 1., 0.)))
  page = page_of(tmp_path, config, dataset)
  moves = section(page, 'Rank of the first passage that holds', 'passages 2')
  assert '1 queries rose, 1 fell, 1 stayed' in moves
  assert '>2 → to top 1 q2?' in moves and 'top 1 → to top 2 q1?' in moves
  assert 'holds an answer' in moves and 'positive' not in moves
  data = section(page, 'answers only', 'Config')
  assert data.split()[:8] == ['test', 'evaluation', *'300003']


def test_what_is_missing_is_left_out(tmp_path, listed):
  config, dataset = judged(listed)
  assert 'Results' not in page_of(tmp_path, config, dataset).text
  values = {'mrr': {f'q{n}': n % 2 / 2 + 0.5 for n in range(40)}}
  write_system(tmp_path, 'bm25', {'q1': ranking('c')}, values)
  page = page_of(tmp_path, config, dataset)
  assert 'bm25 reaches mrr 0.7500 (95%' in page.text
  other = write_system(tmp_path, 'initial', {'q1': ranking('c')}, values)
  assert 'moved most' in page_of(tmp_path, config, dataset).text
  write_system(tmp_path, 'bm25', {'q1': ranking('c')}, values,
               by_query_file=False)
  write_system(tmp_path, 'initial', {}, values)
  page = page_of(tmp_path, config, dataset)
  assert re.search('0.7500 0.[67]...–0.8', page.text)  # Of initial alone.
  assert 'moved most' not in page.text
  (tmp_path / 'evaluation' / 'test-x.partial').mkdir()
  (other / 'manifest.json').write_text('{')
  with pytest.raises(errors.UserError, match='manifest.json:1'):
    page_of(tmp_path, config, dataset)


def test_order_groups_and_pairs_of_unlike_queries(tmp_path, listed):
  config, dataset = judged(listed)
  for name, values in (('trained', {'q1': 1.0, 'q2': 0.0}),
                       ('a fusion', {'q1': 0.5}), ('bm25', {'q9': 1.0}),
                       ('initial', {'q2': 0.25, 'q3': 1.0})):
    write_system(tmp_path, name, {'q1': ranking('c')}, {'mrr': values})
  write_system(tmp_path, 'bm25', {'q1': ranking('c')}, {'map': {'q1': 1.0}},
               split='dev', key='another')
  page = page_of(tmp_path, config, dataset)
  results = section(page, 'Results', 'Below each mean')
  names = ('bm25', 'initial', 'trained', 'a fusion', 'trained − initial',
           'another/dev')
  places = [results.index(name) for name in names]
  assert places == sorted(places)
  # q2 is all that both have.
  assert 'trained − initial −0.2500' in results  # Too few for an interval.


def test_names_that_are_no_utf8(tmp_path, listed):
  _, dataset = judged(listed)
  config = evaluation_config(tmp_path, checkpoint=os.fsdecode(b'caf\xe9'))
  assert r'caf\udce9' in page_of(tmp_path, config, dataset).text


@pytest.fixture(scope='module')
def made(tmp_path_factory):
  """(config, dataset, model) of a training job."""
  config = config_lib.parse(tiny.make_config(tmp_path_factory.mktemp('tiny')))
  return config, dataset_lib.Dataset(config.data), loading.from_pretrained(
      config.model.init, config.model, 0
  )


@pytest.fixture
def trained(tmp_path, made):
  """The same behind a workdir with two evaluations."""
  _, dataset, _ = made
  ids = [dataset.prepared.query_ids[row].decode()
         for row in dataset.splits.test.queries]
  for name in ('initial', 'trained'):
    write_system(tmp_path, name, {q: ranking('d0p0') for q in ids},
                 {'accuracy@1': dict.fromkeys(ids, 0.5)}, key='data')
  return tmp_path, *made


def test_training(trained):
  workdir, config, dataset, model = trained
  record = lambda step, **kwargs: json.dumps({'step': step, **kwargs}) + '\n'
  lines = [record(step, loss=1 / step, accuracy=0.5, step_seconds=1800.0)
           for step in range(1, 7)]
  # Of equals the first is the best.
  for step, value in ((2, 0.3), (4, 0.6), (6, 0.6)):
    lines.insert(step + step // 2 - 1, record(
        step, evaluation={'accuracy@1': value, 'mrr@10': 0.1}))
  lines.insert(6, record(4, bias={'model': {}, 'kinds': {'hard': {'bias': 2}}}))
  (workdir / 'log.jsonl').write_text(''.join(lines) + '{"step": 7, "lo')
  folders.write_json(workdir / 'run.json', {
      'examples': 1903, 'total_steps': 9, 'environment': {'devices': '8 x cpu'},
  })
  page = page_of(workdir, config, dataset, model)
  facts = section(page, 'Training', 'Loss')
  assert 'steps 6 of 9 examples 1,903 best step 4' in facts.partition(
      'Training')[2]
  assert 'time in steps 3:00:00' in facts
  assert 'best: step 4' in page.text
  assert 'accuracy@1 on the tune split' in page.text
  assert 'Norm of the bias' in page.text
  assert 'devices 8 x cpu' in page.text
  # The tiny corpus: 9 of 12 documents to train on, some set apart to tune.
  splits = section(page, 'answers only', 'Length of queries')
  assert 'train training' in splits and 'test evaluation 12' in splits
  assert 'train, set apart tuning' in splits
  lengths = section(page, 'without title', 'Lengths before')
  assert 'queries 48 5 5 5 16 0 0.0% –' in lengths
  assert lengths.split()[9:11] == ['passages', '48']
  assert 'optimizer adam' in page.text and 'learning_rate 0.001' in page.text


@pytest.mark.parametrize('log', [None, '', 'null\n{}\n{"step": 1'])
def test_training_without_a_log(trained, log):
  workdir, config, dataset, _ = trained
  if log is not None:
    (workdir / 'log.jsonl').write_text(log)
  page = page_of(workdir, config, dataset)
  assert 'Loss' not in page.text and 'Length of' not in page.text
  assert 'goes from 0.5000 (initial) to 0.5000 (trained): 0' in page.text


class Mined:
  """A pool of given candidates: source -> query -> (row, score) pairs."""

  def __init__(self, folder, dataset, found, positive_scores):
    prepared = dataset.prepared
    queries = prepared.judgements(prepared.splits[0]).queries
    mined = {}
    for source, by_query in found.items():
      mined[source] = candidates.listed(
          [[row for row, _ in some] for some in by_query],
          [[score for _, score in some] for some in by_query], 4,
      )
      mined[source].positive_scores[:] = positive_scores
    halves = np.array([[0, 1, 3]], np.int32)
    manifest = {}
    with folders.writing(folder, manifest, format=pool_lib.FORMAT) as scratch:
      corpus = pool_files.Corpus(
          prepared.passage_groups, examples.known_positives(prepared),
          lambda _, rows, where: np.zeros_like(where),
      )
      pool_files.write(
          scratch, manifest, queries, mined, halves, len(corpus.groups),
          pool_files.drop_all(queries, mined, corpus,
                              config_lib.NegativesConfig(pool_size=2, depth=4)),
      )
    self.pool, self.dataset = pool_lib.read(folder), dataset
    self.texts = texts_lib.Texts(prepared.passages, halves, lambda: Words())


class Words:
  """Tokens of one letter each."""

  def offsets(self, text):
    return [(i, i + 1) for i in range(len(text))]


def mined_pool(tmp_path, listed, rule='string', answers=('five x',)):
  config, dataset = listed(
      [passage('a', 'one two three four five x'),
       passage('b', 'one two three four five y'),
       passage('c', 'Three TWO one, four five x.'), passage('d', EVIL, EVIL)],
      [query('q1', *answers), query('q2'), query(EVIL, 'five y')],
      {'test': [records.Judgement(*pair, 1)
                for pair in (('q1', 'a'), ('q2', 'b'), (EVIL, 'd'))]},
  )
  config = dataclasses.replace(
      config, job='mine',
      data=dataclasses.replace(config.data, train_split='test'),
      negatives=dataclasses.replace(
          config.negatives, sources=('bm25+context:2',)),
      model=dataclasses.replace(config.model, init='x'),
      evaluation=dataclasses.replace(config.evaluation, answer_rule=rule),
  )
  mined = Mined(tmp_path / 'pool', dataset, {
      'bm25': [[(0, 3.0), (2, 2.5), (3, 1.0)], [(3, 2.0)], [(1, 9.0)]],
      'context': [[(2, -1.0), (1, -2.0), (3, -3.0)], [], [(4, 0.0)]],
  }, [2.0, 2.0, 2.0])
  return config, dataset, mined


def test_negatives(tmp_path, listed):
  config, dataset, mined = mined_pool(tmp_path, listed)
  page = page_of(tmp_path, config, dataset, negatives=mined)
  text = page.text
  assert 'sources bm25, context' in text and 'mining' in text
  assert 'best 100 of 200 of each source' in text  # As the config says.
  assert 'bm25 5 4 1 1 0 context 4 2 1 0 1 33.3%' in section(
      page, 'queries without', 'For 3')
  # c is the second of bm25 for q1 and the first of context.
  overlap = section(page, 'Overlap', 'Of the passages')
  assert '25%' in overlap and '33%' in overlap
  found = section(page, 'score above the positive', 'All negatives of 3')
  # Above: c and b; those of q1 and EVIL have answers, c and b hold them.
  assert found.startswith(' bm25 4 66.7% 25.0% 50.0% context 2 0.0% 0.0% –')
  shown = section(page, 'Side by side', 'Data')
  first, second, third = shown.split(' query ')[1:]
  assert 'positive' in first and 'a one two' not in first
  places = 'bm25 rank 2 score 2.5 positive 2 context rank 1 score −1'
  assert f'{places} holds an answer' in first
  assert 'context' not in second and 'bm25 rank 1 score 2 positive 2' in second
  # Tokens 1 and 2 of the first text.
  assert 'a[1:3]' in third and 'ne' in third


@pytest.mark.parametrize('rule, answers, percent', [
    ('string', ('five x',), '66.7%'), ('regex', ('F[iou]+ve +x',), '66.7%'),
    ('string', (), '100.0%'),
])
def test_negatives_that_hold_answers(tmp_path, listed, rule, answers, percent):
  config, dataset, mined = mined_pool(tmp_path, listed, rule, answers)
  page = page_of(tmp_path, config, dataset, negatives=mined)
  assert f'bm25 4 {percent} 25.0%' in page.text


def test_answers_that_cannot_be_looked_for(tmp_path, listed, monkeypatch):
  def fail(*_):
    raise errors.UserError('backtracks without end')

  config, dataset, mined = mined_pool(tmp_path, listed)
  monkeypatch.setattr(texts_lib, 'find_answers', fail)
  monkeypatch.setattr(answers_lib, 'has_answer', fail)
  page = page_of(tmp_path, config, dataset, negatives=mined)
  assert 'bm25 4 no answers known 25.0%' in page.text
  assert 'holds an answer' not in page.text


def test_random_passages_are_no_positives(tmp_path, listed):
  config, dataset, mined = mined_pool(tmp_path, listed)
  found = negatives_facts.describe(mined, config.evaluation)
  again = negatives_facts.describe(mined, config.evaluation)
  assert (found.random, found.shown) == (again.random, again.shown)
  # Of four passages each query has three that are no positive.
  assert found.random.negatives == 9 and found.sampled == 3
  for shown in found.shown:
    ids = {each.role: each.id for each in shown.passages}
    assert ids['random'] != ids['positive']
  # c holds the answer of q1, b that of EVIL; c and a are alike.
  assert (found.random.answerable, found.random.answers) == (6, 2)
  assert found.random.copies == 1


def test_mining_shows_no_evaluations(tmp_path, listed):
  config, dataset, mined = mined_pool(tmp_path, listed)
  write_system(tmp_path, 'bm25', {'q1': ranking('c')}, {'mrr': {'q1': 1.0}})
  page = page_of(tmp_path, config, dataset, negatives=mined)
  assert 'Results' not in page.text and 'reaches' not in page.text
  links = {a['href'] for tag, a in page.elements
           if tag == 'a' and 'download' not in a}
  assert links == {'#negatives', '#data', '#config', '#environment',
                   'manifest.json'}
  assert 'cpu count' in page.text  # The environment is that of now.


@pytest.mark.parametrize('job', ['mine', 'audit'])
def test_a_job_without_a_pool(tmp_path, listed, job):
  config, dataset, _ = mined_pool(tmp_path, listed)
  page = page_of(tmp_path, dataclasses.replace(config, job=job), dataset)
  assert 'Hard negatives' not in page.text
  assert f'test {dict(mine="mining", audit="audit")[job]} 3' in page.text


def test_contrast_in_training(trained):
  workdir, config, dataset, _ = trained
  value = lambda n: dict(score=0.5 * n, mass=0.25 * n, accuracy=1 - 0.1 * n)
  (workdir / 'log.jsonl').write_text(''.join(
      json.dumps({'step': step, 'loss': 1.0, 'contrast': {
          'batch': value(1), EVIL: value(step % 2)}}) + '\n'
      for step in range(1, 5)))
  page = page_of(workdir, config, dataset)
  negatives = section(page, 'Share of the softmax', 'Data')
  assert 'batch' in negatives and EVIL in negatives
  assert 'Side by side' not in page.text
  contrast = negatives_facts.read_contrast({
      1: {'batch': value(1), 'x': value(0)}, 4: {'batch': value(2)},
      5: {'batch': value(1), 'x': value(1)},
  })
  assert list(contrast) == ['score', 'mass', 'accuracy']
  steps, values = contrast['accuracy']['batch']
  assert steps.tolist() == [1, 4, 5] and values.tolist() == [0.9, 0.8, 0.9]
  assert contrast['mass']['x'][0].tolist() == [5]  # It gave none before.


def test_a_whole_mining_job(tmp_path):
  config = config_lib.parse(tiny.make_config(
      tmp_path, job='mine',
      negatives__sources=('bm25+context+given:2',),
      negatives__pool_size=5, negatives__depth=9,
      negatives__mined_dir=str(tmp_path / 'mined'),
  ))
  job = mine.MineJob(config, tmp_path / 'workdir')
  (tmp_path / 'workdir').mkdir()
  plan.run(job.targets())
  job.finish()
  page = test_page.Page(
      (tmp_path / 'workdir' / 'report.html').read_text(encoding='utf-8'))
  assert 'data/train' in page.text and 'Side by side' in page.text
  # Words answer by chance too.
  assert re.search(r'random passages 1,\d+ \d+\.\d% ', page.text)
