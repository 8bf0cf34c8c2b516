"""The mine job: pools, and files that other trainers and we read alike."""

import json
import shutil

import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.artifacts import artifact, folders, plan
from neg_contrast.data import preparation
from neg_contrast.jobs import mine
from neg_contrast.mining import texts as texts_lib
from neg_contrast.mining import trainer_files
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.settings import config as config_lib
from tests import tiny

MIXED = 'given+bm25+context'
READABLE = ('dpr', 'tevatron', 'flag_embedding')


def make_job(root, workdir, strategy, **overrides):
  config = tiny.make_config(
      root, job='mine',
      negatives__sources=(f'{MIXED if strategy == "mixed" else strategy}:1',),
      negatives__mined_dir=str(root / 'mined'),
      **{'negatives__formats': config_lib.FORMATS, **overrides},
  )
  folders.make_folder(workdir)
  return mine.MineJob(config_lib.parse(config), workdir)


def run(*args, **overrides):
  job = make_job(*args, **overrides)
  plan.run(job.targets())
  job.finish()
  return job


def states(*args, **overrides):
  """Artifact -> whether it is made; None: something is missing."""
  artifact.forget()
  targets = make_job(*args, **overrides).targets()
  return {one.name: is_made if (is_made := one.is_made()) or not one.lacks()
          else None
          for one in artifact.closure(targets) if one.is_listed}


@pytest.fixture(scope='module')
def root(tmp_path_factory):
  """Tiny data where some passages have titles and some queries two positives.

  Passages of the documents d0 and d1 are documents of their own, so that their
  context negatives are halves.
  """
  root = tmp_path_factory.mktemp('mine')
  tiny.make_config(root)
  corpus = root / 'data' / 'corpus.jsonl'
  rows = [json.loads(line) for line in corpus.read_text().splitlines()]
  for number, row in enumerate(rows):
    row['title'] = f'word{number}' if number % 3 else ''
    if number < 8:
      row['metadata']['document_id'] = row['_id']
  corpus.write_text(''.join(json.dumps(row) + '\n' for row in rows))
  with open(root / 'data' / 'qrels' / 'train.tsv', 'a') as f:
    f.write('q4-0\td5p3\t1\nq4-1\td6p2\t2\n')
  return root


@pytest.fixture(scope='module', params=['bm25', 'context', 'given', 'mixed'])
def mined(root, request):
  """(strategy, its workdir)."""
  workdir = root / f'work-{request.param}'
  run(root, workdir, request.param)
  return request.param, workdir


def data_of(root):
  return preparation.prepare(f'beir:{root / "data"}', root / 'prepared', False)


def judged(data, split):
  """(query id, passage id) -> grade."""
  found = data.judgements(split)
  ids = zip(map(data.query_ids.__getitem__, found.query_rows),
            map(data.passage_ids.__getitem__, found.passage_rows), strict=True)
  return dict(zip(((bytes(q).decode(), bytes(p).decode()) for q, p in ids),
                  found.grades.tolist(), strict=True))


def wanted(root, workdir):
  """What a reader should find: the pool as judgements."""
  data = data_of(root)
  pool = pool_lib.read(workdir / 'pool')
  result = {pair: 1 for pair, grade in judged(data, 'train').items()
            if grade > 0}
  ids = [passage.id for passage in data.passages]
  for line, query in enumerate(pool.query_rows):
    for place in range(pool.rows.shape[1]):
      row = int(pool.rows[line, place])
      if row < 0 or pool.dropped_by[line, place]:
        continue
      if row >= len(ids):
        parent, begin, end = pool.halves[row - len(ids)].tolist()
        name = f'{ids[parent]}[{begin}:{end}]'
      else:
        name = ids[row]
      result[data.queries[int(query)].id, name] = 0
  return result


@pytest.mark.parametrize('scheme', READABLE)
def test_our_readers_find_the_same_judgements(root, mined, tmp_path, scheme):
  _, workdir = mined
  want = wanted(root, workdir)
  with_negatives = {query for (query, _), grade in want.items() if not grade}
  if scheme != 'dpr':
    want = {pair: grade for pair, grade in want.items()
            if pair[0] in with_negatives}
  assert sorted(set(want.values())) == [0, 1]
  file, = (workdir / trainer_files.FOLDER).glob(f'{scheme}-train.*')
  again = preparation.prepare(f'{scheme}:{file}', tmp_path, False)
  assert judged(again, 'train') == want


@pytest.mark.parametrize('scheme', READABLE)
def test_our_readers_find_the_same_texts(root, mined, tmp_path, scheme):
  _, workdir = mined
  file, = (workdir / trainer_files.FOLDER).glob(f'{scheme}-train.*')
  again = preparation.prepare(f'{scheme}:{file}', tmp_path, False)
  data = data_of(root)
  texts = {passage.id: (passage.title, passage.text)
           for passage in data.passages}
  seen = 0
  for passage in again.passages:
    if '[' in passage.id:
      name, _, span = passage.id.rstrip(']').partition('[')
      begin, end = map(int, span.split(':'))
      title, text = texts[name]
      text = ' '.join(text.split()[begin:end])  # Tokens of the tiny model.
    else:
      title, text = texts[passage.id]
    if scheme == 'flag_embedding':
      title, text = '', f'{title} [SEP] {text}' if title else text
    assert (passage.title, passage.text) == (title, text)
    seen += 1
  assert seen
  queries = {query.id: query for query in data.queries}
  for query in again.queries:
    assert query.text == queries[query.id].text
    if scheme != 'flag_embedding':
      assert query.answers == queries[query.id].answers


def test_triplets_are_the_pool(mined):
  _, workdir = mined
  folder = workdir / trainer_files.FOLDER
  triplets = [json.loads(line) for line
              in (folder / 'triplets-train.jsonl').open()]
  rows = [json.loads(line) for line
          in (folder / 'flag_embedding-train.jsonl').open()]
  assert triplets == [
      {'anchor': row['query'], 'positive': row['pos'][0], 'negative': negative}
      for row in rows for negative in row['neg']
  ]


def test_halves_scores_and_order(root, mined):
  strategy, workdir = mined
  folder = workdir / trainer_files.FOLDER
  items = json.loads((folder / 'dpr-train.json').read_text())
  ids = {item['question_id']: [context['passage_id'] for context
                               in item['hard_negative_ctxs']]
         for item in items}
  halves = [name for names in ids.values() for name in names if '[' in name]
  assert bool(halves) == (strategy in ('context', 'mixed'))
  contexts = [context for item in items
              for context in item['hard_negative_ctxs']]
  assert all(('score' in context) == (strategy == 'bm25')
             for context in contexts)
  if strategy == 'bm25':
    for item in items:
      scores = [c['score'] for c in item['hard_negative_ctxs']]
      assert scores == sorted(scores, reverse=True)
  if strategy == 'mixed':  # Those that were given stand before all others.
    given = judged(data_of(root), 'train')
    for query, names in ids.items():
      grades = [given.get((query, name)) for name in names]
      count = grades.count(0)
      assert grades == [0] * count + [None] * (len(grades) - count)


def test_both_positives_of_a_query(mined):
  folder = mined[1] / trainer_files.FOLDER
  items = json.loads((folder / 'dpr-train.json').read_text())
  ids = {item['question_id']: [context['passage_id'] for context
                               in item['positive_ctxs']] for item in items}
  assert ids['q4-0'] == ['d4p0', 'd5p3']
  assert ids['q4-1'] == ['d4p1', 'd6p2']
  assert len(ids) == 36


def test_damaged_files_for_trainers_are_told(root, mined, tmp_path):
  strategy, workdir = mined
  shutil.copytree(workdir, tmp_path / 'work')
  path = next((tmp_path / 'work' / trainer_files.FOLDER).glob('*train*'))
  data = bytearray(path.read_bytes())
  data[len(data) // 2] ^= 1
  path.write_bytes(data)
  with pytest.raises(errors.UserError, match=f'{path.name}: damaged'):
    run(root, tmp_path / 'work', strategy)


def test_second_run_does_nothing(root, mined, capsys):
  strategy, workdir = mined
  folder = workdir / trainer_files.FOLDER
  times = lambda: {path: path.stat().st_mtime_ns for path in folder.iterdir()}
  before = times()
  run(root, workdir, strategy)
  assert times() == before
  assert set(states(root, workdir, strategy).values()) == {True}
  printed = capsys.readouterr().out
  assert f'--config.negatives.pool={workdir / "pool"} ' in printed
  assert '--config.negatives.sources=pool:2' in printed
  counts = pool_lib.read(workdir / 'pool').manifest['counts']
  table = [line.split() for line in printed.splitlines()]
  for source, values in counts.items():
    row = next(words for words in table if words[:1] == [source])
    assert row[1] == str(values['negatives'])
  for path in before:
    if path.name != folders.MANIFEST:
      assert str(path) in printed
  saved = folders.read_manifest(workdir)
  assert saved['pool']['counts'] == counts


def test_a_changed_pool_is_written_anew(root, tmp_path):
  options = {'negatives__formats': ('triplets', 'triplets')}
  file = tmp_path / trainer_files.FOLDER / 'triplets-train.jsonl'
  assert states(root, tmp_path, 'bm25', **options)['files'] is False
  run(root, tmp_path, 'bm25', **options)
  assert [p.name for p in sorted(file.parent.iterdir())] == [
      'manifest.json', 'triplets-train.jsonl']
  many = len(file.read_text().splitlines())
  options['negatives__pool_size'] = 1
  now = states(root, tmp_path, 'bm25', **options)
  assert (now['bm25'], now['pool'], now['files']) == (True, False, False)
  run(root, tmp_path, 'bm25', **options)
  assert len(file.read_text().splitlines()) == 36 < many
  options['negatives__formats'] = ('dpr',)
  now = states(root, tmp_path, 'bm25', **options)
  assert (now['pool'], now['files']) == (True, False)
  run(root, tmp_path, 'bm25', **options)
  assert [p.name for p in sorted(file.parent.iterdir())] == [
      'dpr-train.json', 'manifest.json']
  (file.parent / 'dpr-train.json').unlink()
  assert states(root, tmp_path, 'bm25', **options)['files'] is False


def test_without_formats_there_are_no_files(root, tmp_path):
  run(root, tmp_path, 'bm25', negatives__formats=())
  assert not (tmp_path / trainer_files.FOLDER).exists()
  assert 'files' not in states(root, tmp_path, 'bm25', negatives__formats=())


def test_files_of_a_given_pool(root, tmp_path):
  run(root, tmp_path / 'first', 'bm25')
  options = {'negatives__pool': str(tmp_path / 'first' / 'pool')}
  run(root, tmp_path / 'second', 'bm25', **options)
  first, second = (
      (tmp_path / name / trainer_files.FOLDER / 'dpr-train.json').read_bytes()
      for name in ('first', 'second')
  )
  assert first == second
  assert not (tmp_path / 'second' / 'pool').exists()
  with pytest.raises(errors.UserError, match="split: 'train' there, 'test'"):
    run(root, tmp_path / 'third', 'bm25', data__train_split='test', **options)
  options['negatives__pool'] = str(tmp_path / 'nowhere')
  now = states(root, tmp_path / 'third', 'bm25', **options)
  assert (now['pool'], now['files']) == (None, False)
  shutil.copytree(tmp_path / 'first' / 'pool', tmp_path / 'cut')
  with open(tmp_path / 'cut' / 'rows.npy', 'r+b') as f:
    f.truncate(100)
  options['negatives__pool'] = str(tmp_path / 'cut')
  with pytest.raises(errors.UserError, match=(
      'negatives.pool: .*rows.npy: damaged.*cut; job=mine makes it again')):
    run(root, tmp_path / 'third', 'bm25', **options)


def test_what_is_not_ours_stays(root, tmp_path):
  (tmp_path / trainer_files.FOLDER).mkdir()
  (tmp_path / trainer_files.FOLDER / 'thesis.tex').write_text('dear')
  with pytest.raises(errors.UserError, match='not made by this program'):
    run(root, tmp_path, 'bm25')
  assert (tmp_path / trainer_files.FOLDER / 'thesis.tex').read_text() == 'dear'


def test_a_failure_leaves_no_files(root, tmp_path, monkeypatch):
  def fail(self, row):
    if row == 7:
      raise OSError('no such luck')
    return right(self, row)

  right = texts_lib.Texts.__call__
  job = make_job(root, tmp_path, 'given')
  plan.run(job.targets()[:-1])
  with monkeypatch.context() as patch:
    patch.setattr(texts_lib.Texts, '__call__', fail)
    with pytest.raises(errors.UserError, match='no such luck'):
      job.targets()[-1].build()
  assert not list(tmp_path.glob(f'{trainer_files.FOLDER}*'))
  plan.run(job.targets())
  rows = (tmp_path / trainer_files.FOLDER / 'tevatron-train.jsonl').read_text()
  assert len(rows.splitlines()) == len(np.unique(
      [pair[0] for pair, grade in wanted(root, tmp_path).items() if not grade]
  ))
