"""The report of a workdir, from files as jobs leave them."""

import json
import os
import re

import numpy as np
import pytest

from neg_contrast import artifacts, errors
from neg_contrast import config as config_lib
from neg_contrast.data import records, sources
from neg_contrast.evaluation import trec
from neg_contrast.jobs import dataset as dataset_lib
from neg_contrast.jobs import report
from neg_contrast.models import loading
from tests import tiny
from tests.evaluation import test_report

EVIL = test_report.EVIL


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
  config.data.source = 'any:thing'
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


def write_system(workdir, name, run, per_query, split='test', key='thing'):
  manifest = {
      'identity': {}, 'key': f'{key}/{split}/{name}', 'queries': len(run),
      'passages': 4,
      'metrics': {metric: float(np.mean(list(values.values())))
                  for metric, values in per_query.items()},
      'environment': artifacts.environment(),
  }
  folder = workdir / 'evaluation' / f'{split}-{name.replace("/", "_")}'
  with artifacts.writing(folder, manifest) as scratch:
    trec.write_run(scratch / 'run.trec', run, 'tag')
    artifacts.write_json(scratch / 'per_query.json', per_query)
  return folder


def ranking(*passages):
  return [(p, 1.0 - i / 8) for i, p in enumerate(passages)]


def page_of(workdir, config, dataset, model=None):
  path = report.write_report(workdir, config, dataset, model)
  assert path == workdir / 'report.html'
  assert not list(workdir.glob('*.partial'))
  return test_report.Page(path.read_text(encoding='utf-8'))


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
  folder = write_system(tmp_path, 'bm25', {'q1': ranking('c')}, values)
  page = page_of(tmp_path, config, dataset)
  assert 'bm25 reaches mrr 0.7500 (95%' in page.text
  other = write_system(tmp_path, 'initial', {'q1': ranking('c')}, values)
  assert 'moved most' in page_of(tmp_path, config, dataset).text
  (folder / 'per_query.json').unlink()
  (other / 'run.trec').unlink()
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
  (workdir / 'log.jsonl').write_text(''.join(lines) + '{"step": 7, "lo')
  artifacts.write_json(workdir / 'run.json', {
      'examples': 1903, 'total_steps': 9, 'environment': {'devices': '8 x cpu'},
  })
  page = page_of(workdir, config, dataset, model)
  facts = section(page, 'Training', 'Loss')
  assert 'steps 6 of 9 examples 1,903 best step 4' in facts.partition(
      'Training')[2]
  assert 'time in steps 3:00:00' in facts
  assert 'best: step 4' in page.text
  assert 'accuracy@1 on the tune split' in page.text
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
