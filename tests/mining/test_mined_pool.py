"""Mining as a whole: laws of the pool, reuse, refusals, training on it."""

import dataclasses
import json
import pathlib
import shutil

import numpy as np
import pytest

from neg_contrast import errors, jobs
from neg_contrast.artifacts import artifact, plan
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import examples, inputs
from neg_contrast.jobs import mine, train
from neg_contrast.jobs.common import declared_pools
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.settings import config as config_lib
from tests import tiny


def make_config(tmp_path, **overrides):
  config = tiny.make_config(tmp_path, **{
      'job': 'mine', 'negatives__mined_dir': str(tmp_path / 'mined'),
      'negatives__depth': 20, 'negatives__pool_size': 10, **overrides})
  return config_lib.parse(config)


def declare(config, workdir):
  """The pool of a config; nothing is known of it."""
  artifact.forget()
  data = dataset_lib.data_of(config.data)
  return declared_pools.negatives(config, workdir, data, data)


def made(targets):
  """(name, whether it is made) of each artifact in the plan."""
  artifact.forget()
  return [(one.title, one.is_made()) for one in artifact.closure(targets)
          if one.is_listed]


def make_pool(config, workdir):
  """The finished pool, and what was made for it."""
  negatives = declare(config, workdir)
  before = made([negatives])
  plan.run([negatives])
  return negatives, [name for name, was_made in before
                     if not was_made and name != 'data']


def write_random_corpus(folder, seed):
  """Copies under other ids, several positives, answers, unequal documents."""
  rng = np.random.default_rng(seed)
  (folder / 'qrels').mkdir(parents=True)
  texts = [' '.join(rng.choice(tiny.WORDS[:25], rng.integers(1, 12)))
           for _ in range(25)]
  passages, queries = [], []
  for n in range(60):
    text = texts[int(rng.integers(len(texts)))]
    if rng.random() < 0.3:
      text = text.upper().replace(' ', '  ')
    passages.append({'_id': f'p{n}', 'title': '', 'text': text, 'metadata': {
        'document_id': f'd{int(rng.integers(25))}'}})
  lines = {'train': [], 'test': []}
  for n in range(30):
    own = rng.choice(60, rng.integers(1, 4), replace=False)
    words = passages[own[0]]['text'].lower().split()
    queries.append({'_id': f'q{n}', 'text': ' '.join(words[:3]),
                    'answers': words[:1] if rng.random() < 0.7 else []})
    for place, row in enumerate(own):
      split = 'train' if place == 0 or rng.random() < 0.5 else 'test'
      lines[split].append(f'q{n}\tp{row}\t1')
    for row in rng.choice(60, 3, replace=False):
      if row not in own:
        lines['train'].append(f'q{n}\tp{row}\t0')
  dump = lambda rows: ''.join(json.dumps(row) + '\n' for row in rows)
  (folder / 'corpus.jsonl').write_text(dump(passages))
  (folder / 'queries.jsonl').write_text(dump(queries))
  for split, rows in lines.items():
    (folder / 'qrels' / f'{split}.tsv').write_text(
        '\n'.join(['query-id\tcorpus-id\tscore', *rows, '']))


@pytest.mark.parametrize('seed', range(4))
def test_no_pool_holds_a_positive_or_its_copy(tmp_path, seed):
  write_random_corpus(tmp_path / 'data', seed)
  tiny.write_model(tmp_path / 'model')
  config = make_config(
      tmp_path, model__init=str(tmp_path / 'model'),
      negatives__sources=('bm25+context+given+model:2',), negatives__depth=60,
      negatives__pool_size=60, negatives__checkpoint=str(tmp_path / 'model'),
      negatives__drop_answers=(('bm25', 'context', 'given', 'model')
                               if seed % 2 else ('bm25',)),
  )
  negatives, _ = make_pool(config, tmp_path / 'work')
  pool, prepared = negatives.pool, dataset_lib.Dataset(config.data).prepared
  passages = list(prepared.passages)
  fold = lambda text: ' '.join(text.casefold().split())
  positives = {}
  for split in prepared.splits:  # Of any split.
    judged = prepared.judgements(split)
    for query, row, grade in zip(judged.query_rows, judged.passage_rows,
                                 judged.grades, strict=True):
      if grade > 0:
        positives.setdefault(int(query), set()).add(fold(passages[row].text))
  seen = dict.fromkeys(pool.sources, 0)
  for line, query in enumerate(pool.query_rows):
    chosen = pool.is_negative()[line]
    texts = []
    for row, source in zip(pool.rows[line][chosen], pool.source[line][chosen],
                           strict=True):
      seen[pool.sources[source]] += 1
      text = fold(negatives.texts(int(row)).text)
      assert text not in positives[int(query)]
      if row < len(passages):
        texts.append(text)
      else:
        assert pool.sources[source] == 'context'
    assert len(set(texts)) == len(texts)  # Each text once.
  assert min(seen.values()) > 0 and len(pool.halves) > 0


def test_bm25_pool_is_the_librarys_ranking_without_the_filtered(tmp_path):
  import bm25s
  import Stemmer

  config = make_config(tmp_path, negatives__sources=('bm25:2',),
                       negatives__pool_size=48, negatives__depth=48)
  negatives, _ = make_pool(config, tmp_path / 'work')
  pool, prepared = negatives.pool, dataset_lib.Dataset(config.data).prepared
  passages, queries = list(prepared.passages), list(prepared.queries)
  stem = lambda texts: bm25s.tokenize(
      texts, stopwords='english', stemmer=Stemmer.Stemmer('english'),
      show_progress=False)
  library = bm25s.BM25(k1=0.9, b=0.4, method='lucene')
  library.index(stem([f'{p.title} {p.text}' for p in passages]),
                show_progress=False)
  for line, query in enumerate(pool.query_rows):
    rows, scores = library.retrieve(
        stem([queries[query].text]), k=len(passages), show_progress=False)
    want = {int(r): float(s) for r, s in zip(rows[0], scores[0], strict=True)
            if s > 0}
    have = pool.rows[line] >= 0
    got = dict(zip(pool.rows[line][have].tolist(),
                   pool.score[line][have].tolist(), strict=True))
    assert got.keys() == want.keys()
    assert got == pytest.approx(want, rel=1e-5)
    scores = pool.score[line][have]
    assert (np.diff(scores) <= 0).all()
    assert pool.rank[line][have].tolist() == list(range(1, have.sum() + 1))
    answers = set(queries[query].answers)
    for row, code in zip(pool.rows[line][have], pool.dropped_by[line][have],
                         strict=True):
      holds = bool(answers & set(passages[row].text.split()))
      name = pool_lib.DROPPED_BY[code]
      assert name in ('', 'positive', 'answer')
      assert name == 'positive' or holds == (name == 'answer')


def test_filters_commute_with_reuse(tmp_path):
  members = {'negatives__sources': ('bm25+context+given:2',)}
  variants = [
      {}, {'negatives__drop_answers': ()},
      {'negatives__first_rank': 3, 'negatives__last_rank': 8},
      {'negatives__relative_margin': 0.5, 'negatives__pool_size': 4},
      {'negatives__sources': ('context:1', 'bm25+given:1')},
      {'negatives__sources': ('context+bm25:2',)},
  ]
  for number, variant in enumerate(variants):
    config = make_config(tmp_path, **{**members, **variant})
    reused, ran = make_pool(config, tmp_path / 'reused')
    assert ran == (
        ['bm25 index', 'bm25', 'context', 'given', 'pool'] if number == 0
        else ['pool'])
    fresh, _ = make_pool(
        dataclasses.replace(config, negatives=dataclasses.replace(
            config.negatives, mined_dir=str(tmp_path / f'fresh{number}'))),
        tmp_path / f'work{number}')
    same_pools(reused.pool, fresh.pool)
    assert make_pool(config, tmp_path / 'reused')[1] == []


def same_pools(ours, theirs):
  for field in dataclasses.fields(pool_lib.Pool):
    if field.name not in ('manifest', 'sources'):
      np.testing.assert_array_equal(
          getattr(ours, field.name), getattr(theirs, field.name))


@pytest.mark.parametrize('kind', ['exact', 'scann'])
def test_pool_is_the_same_on_one_and_eight_devices(tmp_path, kind):
  pools = [
      make_pool(make_config(
          tmp_path, negatives__sources=('model:2',), mesh__data=devices,
          negatives__checkpoint=str(tmp_path / 'model'), index__block_rows=8,
          negatives__mined_dir=str(tmp_path / f'mined{devices}'),
          index__kind=kind,
      ), tmp_path / f'work{devices}')[0].pool
      for devices in (1, 8)
  ]
  same_pools(*pools)
  assert pools[0].is_negative().any()


def test_fine_trains_its_miner_once(tmp_path):
  flags = {'job': 'train', 'negatives__sources': ('fine:2',),
           'negatives__fine_dim': 20, 'negatives__miner_steps': 6}
  config = make_config(tmp_path, **flags)
  job = train.TrainJob(config, tmp_path / 'work')
  targets = job.targets()
  assert [name for name, _ in made(targets)] == [
      'data', 'bm25 index', 'bm25', 'embeddings', 'initial', 'stop rows',
      'fine miner', 'embeddings', 'fine', 'pool', 'training', 'embeddings',
      'trained']
  text = plan.describe(targets)
  assert text.count('[to do') == 13
  plan.run(targets)
  job.finish()
  again = train.TrainJob(config, tmp_path / 'work').targets()
  assert all(is_made for _, is_made in made(again))
  # Without its pool it would be made again, and nothing else.
  (tmp_path / 'work' / 'pool').rename(tmp_path / 'away')
  now = made(train.TrainJob(config, tmp_path / 'work').targets())
  assert [name for name, is_made in now if not is_made] == ['pool']
  (tmp_path / 'away').rename(tmp_path / 'work' / 'pool')
  # Another run with the same miner trains and mines nothing again.
  other = dataclasses.replace(config, seed=0, negatives=dataclasses.replace(
      config.negatives, sources=('fine:1',)))
  now = made(train.TrainJob(other, tmp_path / 'two').targets())
  assert [name for name, is_made in now if is_made] == [
      'data', 'bm25 index', 'stop rows', 'fine miner', 'embeddings', 'fine']
  pool = pool_lib.read(tmp_path / 'work' / 'pool')
  miner = pathlib.Path(pool.manifest['checkpoints']['fine'])
  described = json.loads((miner / 'encoder.json').read_text())
  assert described['encoder']['projection_dim'] == 20
  record = json.loads((tmp_path / 'work' / 'log.jsonl').read_text()
                      .splitlines()[-2])
  assert set(record['contrast']) == {'batch', 'fine'}
  assert 0 < record['contrast']['fine']['mass'] < 1


def test_context_trains_on_halves_too(tmp_path):
  """With a pool of the others alone; halves are what their texts say."""
  write_random_corpus(tmp_path / 'data', 1)
  tiny.write_model(tmp_path / 'model')
  config = make_config(
      tmp_path, model__init=str(tmp_path / 'model'), job='train',
      negatives__sources=('context:1', 'bm25:1'),
      optim__steps=2, evaluation__eval_steps=0)
  job = train.TrainJob(config, tmp_path / 'work')
  (tmp_path / 'work').mkdir()
  plan.run([job.run])
  assert job._pool.load().sources == ('bm25',)
  log = (tmp_path / 'work' / 'log.jsonl').read_text().splitlines()
  assert set(json.loads(log[-2])['contrast']) == {'batch', 'bm25', 'context'}
  batcher, count = job.run.training()._make_batch()
  dataset, halves = job.gold.load(), dict(job.run.drawn_from)['halves'].load()
  texts = job._pool.task.texts(halves.spans)
  passages = len(dataset.prepared.passages)
  numbers = np.arange(count)
  drawn = batcher.draw(0, numbers, batcher.examples.query_rows)
  rows = drawn.rows[drawn.rows >= passages]
  assert 0 < len(rows) < count and (drawn.sources[drawn.rows >= passages]
                                    == 1).all()
  whole = np.array([inputs.WHOLE] * len(rows))
  for row, tokens, parent in zip(
      rows, batcher.passage_tokens(rows, whole),
      batcher.passage_tokens(halves.spans[rows - passages, 0], whole),
      strict=True):
    want = job.run.start.load().tokenizer.encode(texts(int(row)).text)
    begin, end = halves.spans[row - passages, 1:]
    assert tokens[1:-1].tolist() == want
    assert parent[1:-1].tolist()[begin:end] == want


def test_filters_of_what_has_no_pool_are_refused(tmp_path):
  config = make_config(
      tmp_path, job='train', negatives__sources=('context:2',),
      negatives__drop_answers=('context',))
  with pytest.raises(errors.UserError, match='drop_answers.*configs/mine.py'):
    jobs.check(config)
  jobs.check(dataclasses.replace(config, job='mine'))


def test_unknown_documents_refuse_context(tmp_path):
  config = make_config(tmp_path, negatives__sources=('context:2',))
  corpus = tmp_path / 'data' / 'corpus.jsonl'
  rows = [json.loads(line) for line in corpus.read_text().splitlines()]
  for number, row in enumerate(rows):
    del row['metadata']
    row['title'] = f'title {number // 6}'
  corpus.write_text(''.join(json.dumps(row) + '\n' for row in rows))
  with pytest.raises(errors.UserError, match='Choose "coarse"'):
    make_pool(config, tmp_path / 'work')
  config = dataclasses.replace(config, data=dataclasses.replace(
      config.data, document='title'))
  pool = make_pool(config, tmp_path / 'work')[0].pool
  dataset = dataset_lib.Dataset(config.data)
  judged = dataset.prepared.judgements('train')
  for line, query in enumerate(pool.query_rows):
    own = judged.passage_rows[(judged.query_rows == query)
                              & (judged.grades > 0)]
    rows = pool.rows[line][pool.rows[line] >= 0]
    assert set(rows // 6) == set(own // 6) and len(rows) == 5


class TestRefusals:
  """A pool that does not belong here is refused, with what to do."""

  @pytest.fixture(scope='class')
  def root(self, tmp_path_factory):
    """All that was made, and a copy of it."""
    root = tmp_path_factory.mktemp('refusals')
    config = make_config(
        root, negatives__sources=('model:2',),
        negatives__checkpoint=str(root / 'model'))
    make_pool(config, root / 'work')
    copy = tmp_path_factory.mktemp('copies') / 'copy'
    shutil.copytree(root, copy)
    return config, root, copy

  @pytest.fixture
  def mined(self, root):
    """What a test changes is put back."""
    config, folder, copy = root
    yield config, folder / 'work'
    shutil.rmtree(folder)
    shutil.copytree(copy, folder)

  def given(self, config, workdir):
    return dataclasses.replace(config, negatives=dataclasses.replace(
        config.negatives, pool=str(workdir / 'pool')))

  def check(self, config, workdir, match):
    """Refused when given, and where it would be mined."""
    for settings, place in ((self.given(config, workdir), workdir / 'other'),
                            (config, workdir)):
      with pytest.raises(errors.UserError, match=match) as caught:
        plan.run([declare(settings, place)])
      assert 'Put that back' in str(caught.value)

  def test_matching_pool_is_used(self, mined):
    config, workdir = mined
    same_pools(make_pool(self.given(config, workdir), workdir / 'x')[0].pool,
               pool_lib.read(workdir / 'pool'))

  def test_wrong_corpus(self, mined):
    config, workdir = mined
    corpus = pathlib.Path(config.data.source.partition(':')[2], 'corpus.jsonl')
    there = pool_lib.read(workdir / 'pool').manifest['identity']['needs'][
        'model']['needs']['texts']['corpus']
    corpus.write_text(corpus.read_text().replace('word1', 'word2'))
    self.check(config, workdir, f'corpus: .{there}. there, .* here')

  def test_changed_checkpoint(self, mined):
    config, workdir = mined
    shutil.rmtree(workdir.parent / 'model')
    tiny.write_model(workdir.parent / 'model', seed=9)
    self.check(config, workdir, 'the model of model.*: .* there, .* here')

  @pytest.mark.parametrize('name', ['rows', 'dropped_by', 'halves'])
  def test_truncated_file(self, mined, name):
    config, workdir = mined
    path = workdir / 'pool' / f'{name}.npy'
    path.write_bytes(path.read_bytes()[:-8] if name != 'halves'
                     else path.read_bytes()[:40])
    with pytest.raises(errors.UserError, match=f'{name}.npy: damaged.*Remove'):
      make_pool(self.given(config, workdir), workdir / 'x')[0].pool  # noqa: B018
    with pytest.raises(errors.UserError, match=f'{name}.npy: damaged.*Remove'):
      make_pool(config, workdir)[0].pool  # noqa: B018

  def test_other_split(self, mined):
    config, workdir = mined
    other = self.given(dataclasses.replace(config, data=dataclasses.replace(
        config.data, train_split='test', test_split='train')), workdir)
    with pytest.raises(errors.UserError, match="split: 'train' there, 'test'"):
      make_pool(other, workdir / 'x')

  def test_sources_that_it_has_not(self, mined):
    config, workdir = mined
    given = self.given(config, workdir)
    with pytest.raises(errors.UserError, match='it has model, and not bm25; '):
      make_pool(dataclasses.replace(given, negatives=dataclasses.replace(
          given.negatives, sources=('bm25:1', 'model:1'))), workdir / 'x')

  def test_other_folder(self, mined, tmp_path, monkeypatch):
    config, workdir = mined
    shutil.rmtree(workdir.parent / 'model')
    tiny.write_model(workdir.parent / 'model', seed=9)
    (tmp_path / 'elsewhere').mkdir()
    monkeypatch.chdir(tmp_path / 'elsewhere')
    with pytest.raises(errors.UserError, match='the model of model'):
      make_pool(self.given(config, workdir), workdir / 'x')

  @pytest.mark.parametrize('listed', [(), ('corpus:2',)])
  def test_sources_that_ignore_it(self, mined, listed):
    config, workdir = mined
    with pytest.raises(errors.UserError, match='draw nothing from'):
      jobs.check(dataclasses.replace(
          self.given(config, workdir), job='train',
          negatives=config_lib.NegativesConfig(listed, pool='somewhere')))

  def test_no_pool_there(self, mined):
    config, workdir = mined
    pool = declare(self.given(config, workdir / 'nowhere'), workdir)
    assert 'config.negatives.pool: ' in pool.lacks()
    assert 'not a pool of negatives' in pool.lacks()
    assert not pool.is_made()

  def test_a_folder_of_candidates_is_none(self, mined):
    config, workdir = mined
    folder = next((workdir.parent / 'mined' / 'candidates').glob('*/manifest*'))
    pool = declare(self.given(config, folder.parent), workdir)
    assert 'not a pool of negatives; configs/mine.py' in pool.lacks()


def test_negatives_of_sources_that_are_not_named_do_not_count(tmp_path):
  """`run` has positives alone, and `bm25` is in the pool, but not asked."""
  run = tmp_path / 'run.trec'
  sources = {'negatives__sources': ('bm25+run:2',),
             'negatives__runs': (str(run),)}
  config = make_config(tmp_path, **sources)
  query, passage, _ = (tmp_path / 'data/qrels/train.tsv').read_text(
      ).splitlines()[1].split('\t')
  run.write_text(f'{query} Q0 {passage} 1 3.0 tag\n')
  mined, _ = make_pool(config, tmp_path / 'work')
  assert mined.pool.is_negative().any()
  with pytest.raises(errors.UserError, match='no hard negative of the sources'):
    tiny.train_only(
        tmp_path, tmp_path / 'trained', negatives__sources=('run:2',),
        negatives__pool=str(tmp_path / 'work' / 'pool'))


def test_a_pool_with_known_negatives_can_be_given(tmp_path):
  config = make_config(tmp_path, negatives__sources=('given:1', 'bm25:1'))
  mined, _ = make_pool(config, tmp_path / 'work')
  given, _ = make_pool(dataclasses.replace(
      config, negatives=config_lib.NegativesConfig(
          ('pool:2',), pool=str(tmp_path / 'work' / 'pool')),
  ), tmp_path / 'other')
  same_pools(given.pool, mined.pool)


def test_order_of_sources_counts(tmp_path):
  for members in (('bm25', 'given'), ('given', 'bm25')):
    negatives, ran = make_pool(
        make_config(tmp_path, negatives__sources=(f'{"+".join(members)}:2',)),
        tmp_path / 'work')
    assert ran[-1] == 'pool' and negatives.pool.sources == members
    drawn = negatives.pool.listed(negatives.pool.query_rows).draw(
        2, 0, 0, np.arange(36), (0, 1), (2, 0))
    assert (drawn.sources == 0).mean() > 0.9


def test_miner_needs_no_test_split_and_an_untrained_start(tmp_path):
  flags = {'negatives__sources': ('coarse:2',), 'negatives__miner_steps': 2,
           'negatives__coarse_dim': 4, 'data__test_split': 'nowhere'}
  config = make_config(tmp_path, **flags)
  _, ran = make_pool(config, tmp_path / 'work')
  assert ran == ['bm25 index', 'stop rows', 'coarse miner', 'embeddings',
                 'coarse', 'pool']
  miner = next((tmp_path / 'mined' / 'miners').glob('*-coarse-*'))
  later = make_config(tmp_path, model__init=str(miner), **flags)
  pool = declare(later, tmp_path / 'later')
  assert 'negatives.miner_init' in pool.needs()['coarse'].lacks()
  assert not pool.is_made()


def test_mine_job_leaves_a_pool(tmp_path):
  config = make_config(tmp_path, negatives__sources=('bm25+context:2',))
  job = mine.MineJob(config, tmp_path / 'work')
  (tmp_path / 'work').mkdir()
  plan.run(job.targets())
  job.finish()
  pool = pool_lib.read(tmp_path / 'work' / 'pool')
  prepared = dataset_lib.Dataset(config.data).prepared
  known = examples.known_positives(prepared)
  assert pool.rows.shape == (36, 40) and pool.sources == ('bm25', 'context')
  assert (pool.is_negative().sum(axis=1) <= 20).all()
  groups = pool_lib.groups_of(prepared.passage_groups, pool.rows)
  assert not (pool.is_negative() & (
      groups == known[pool.query_rows][:, :1])).any()
