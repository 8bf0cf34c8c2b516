"""Click logs: positives, given negatives, failed searches, every message."""

import gzip
import json

import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.data import examples, id_table, preparation, records, sources
from neg_contrast.data.formats import files
from neg_contrast.jobs import mine
from neg_contrast.negatives import pool as pool_lib
from tests import bucket, tiny

PASSAGES = [{'id': name, 'title': '', 'text': f'text of {name}'}
            for name in 'abcdef'] + [{'_id': 7, 'title': 'Ünï', 'text': ''}]


def row(query, passage, rank, clicked, **more):
  return {'query': query, 'passage_id': passage, 'rank': rank,
          'clicked': clicked, **more}


LOG = [
    row('wer\u2028wo', 'a', 1, False, session='s', time=5),
    row('wer\u2028wo', 'b', 2, False, session='s', time=5),  # It failed,
    row('why', 'c', 1, 1, session='t', time=6, weight=3),
    row('wer wo ist', 'b', 1, True, session='s', time=9, weight=0.5),  # then
    row('wer wo ist', 'a', 2, False, session='s', time=9),
    row('wer wo ist', '7', 3, True, session='s', time=9),  # was satisfied.
    row('why', 'c', 1, 'true', session='u', time=1),
    row('why', 'd', 2, 0, session='u', time=1),
    row('why', 'e', 3, '0', session='u', time=1),
    row('nothing', 'e', 1, 'FALSE'),
]


def write(path, rows=LOG, passages=PASSAGES):
  path.parent.mkdir(parents=True, exist_ok=True)
  dump = lambda rows: ''.join(
      (one if isinstance(one, str) else json.dumps(one)) + '\n' for one in rows)
  corpus = path.parent / 'corpus.jsonl'
  if passages is not None and not corpus.exists():
    corpus.write_text(dump(passages))
  if '.tsv' in path.name:
    names = list(dict.fromkeys(key for one in rows for key in one))
    text = '\r\n'.join('\t'.join(line) for line in [names, *(
        [str(one.get(name, '')) for name in names] for one in rows)]) + '\r\n'
  else:
    text = dump(rows)
  opener = gzip.open if path.suffix == '.gz' else open
  with opener(path, 'wb') as f:
    f.write(text.encode())
  return path


def judged(spec, skip=False):
  """split -> {(query, passage): (grade, weight)}."""
  source = sources.open_source(spec, records.InvalidRecords(skip))
  texts = {query.id: query.text for query in source.queries()}
  return {split: {
      (texts[one.query_id], one.passage_id): (one.grade, one.weight)
      for one in source.judgements(split)
  } for split in source.splits}


WANTED = {
    ('wer\u2028wo', 'a'): (0, 1.0),
    ('wer\u2028wo', 'b'): (1, 0.5),  # By the search that satisfied it.
    ('wer\u2028wo', '7'): (1, 1.0),
    ('why', 'c'): (1, 4.0),
    ('why', 'd'): (0, 1.0),
    ('why', 'e'): (0, 1.0),
    ('wer wo ist', 'b'): (1, 0.5),
    ('wer wo ist', 'a'): (0, 1.0),
    ('wer wo ist', '7'): (1, 1.0),
}


@pytest.mark.parametrize('name', [
    'clicks-train.jsonl', 'clicks-train.tsv', 'clicks.train.jsonl.gz',
    'training.tsv.gz'])
def test_clicked_shown_and_failed(tmp_path, name):
  path = write(tmp_path / name)
  for place in (path, path.parent):
    assert judged(f'clicks:{place}') == {'train': WANTED}


def test_a_log_as_data_to_train_on(tmp_path):
  write(tmp_path / 'train.jsonl')
  corpus = preparation.prepare(f'clicks:{tmp_path}', tmp_path / 'out', False)
  assert len(corpus.passages) == 7
  train = corpus.judgements('train')
  made = examples.make_examples(corpus, train)
  assert sorted(made.weights.tolist()) == [0.5, 0.5, 1, 1, 4]
  assert (train.grades == 0).sum() == 4
  assert [query.text for query in corpus.queries] == [
      'wer\u2028wo', 'why', 'wer wo ist']


def test_rows_of_a_page_may_stand_anywhere(tmp_path):
  """Where a session and a time tell which page it is, as in a log by time."""
  rows = sorted(LOG, key=lambda one: (one.get('time', 0), one['rank']))
  at_once = [
      row('train times', 'e', 1, 1, session='s', time=5), *rows,
      row('train times', 'f', 2, 0, session='s', time=5),
  ]
  path = write(tmp_path / 'train.jsonl', at_once)
  assert judged(f'clicks:{path}')['train'] == WANTED | {
      ('train times', 'e'): (1, 1.0), ('train times', 'f'): (0, 1.0)}
  twice = [row('x', 'a', 1, 1, session='s', time=5), *LOG,
           row('x', 'b', 1, 1, session='s', time=5)]
  with pytest.raises(errors.UserError, match='jsonl:12: rank 1 stands twice'):
    judged(f'clicks:{write(tmp_path / "twice" / "train.jsonl", twice)}')


def test_what_failed_counts_as_much_as_is_said(tmp_path):
  path = write(tmp_path / 'train.jsonl')
  half = judged(f'clicks:{path}?failed=0.5')['train']
  changed = {('wer\u2028wo', 'b'): (1, 0.25), ('wer\u2028wo', '7'): (1, 0.5)}
  assert half == WANTED | changed
  off = judged(f'clicks:{path}?failed=0')['train']
  assert off == {pair: of for pair, of in WANTED.items()
                 if pair[0] != 'wer\u2028wo'}


def test_only_the_next_search_with_a_click_satisfies(tmp_path):
  """By line, without times; of one session and one file."""
  of = lambda query, passage, clicked, session: row(
      query, passage, 1, clicked, session=session)
  path = write(tmp_path / 'train.jsonl', [
      of('one', 'a', 0, 's'), of('two', 'b', 0, 's'), of('x', 'f', 1, 'other'),
      of('three', 'c', 1, 's'), of('four', 'd', 1, 's'), of('five', 'e', 0, 's')
  ])
  write(tmp_path / 'train-2.jsonl', [of('six', 'f', 1, 's')])
  found = judged(f'clicks:{path.parent}')['train']
  assert {pair for pair, (grade, _) in found.items() if grade} == {
      ('one', 'c'), ('two', 'c'), ('three', 'c'), ('four', 'd'), ('x', 'f'),
      ('six', 'f')}


def test_a_query_that_is_satisfied_itself_has_not_failed(tmp_path):
  of = lambda query, passage, clicked: row(
      query, passage, 1, clicked, session=3)
  path = write(tmp_path / 'train.jsonl', [
      of('one', 'a', 0), of('one', 'b', 1), of('two', 'c', 1)])
  found = judged(f'clicks:{path}')['train']
  assert found == {('one', 'a'): (0, 1.0), ('one', 'b'): (1, 1.0),
                   ('two', 'c'): (1, 1.0)}


def test_times_order_a_session(tmp_path):
  of = lambda query, passage, clicked, time: row(
      query, passage, 1, clicked, session='s', time=time)
  path = write(tmp_path / 'train.jsonl', [
      of('late', 'b', 1, '2024-05-01T10:00:00'),
      of('early', 'a', 0, '2024-05-01T11:30:00+02:00')])
  assert ('early', 'b') in judged(f'clicks:{path}')['train']
  path = write(tmp_path / 'other' / 'train.jsonl', [
      of('late', 'b', 1, 10), of('early', 'a', 0, 11.5)])
  assert ('early', 'b') not in judged(f'clicks:{path}')['train']


def test_negatives_above_a_click(tmp_path):
  path = write(tmp_path / 'train.jsonl', [
      row('q', 'a', 1, 0), row('q', 'b', 2, 1), row('q', 'c', 3, 0),
      row('q', 'd', 1, 0)])  # Its rank begins another page.
  negatives = lambda spec: {
      passage for (_, passage), (grade, _) in judged(spec)['train'].items()
      if not grade}
  assert negatives(f'clicks:{path}') == {'a', 'c', 'd'}
  assert negatives(f'clicks:{path}?negatives=above') == {'a'}


def test_splits_by_name_or_by_a_hash(tmp_path):
  rows = [row(f'query {n}', 'a', 1, 1) for n in range(200)]
  path = write(tmp_path / 'log.jsonl', rows)
  found = judged(f'clicks:{path}')
  counts = {split: len(of) for split, of in found.items()}
  assert counts['train'] + counts['test'] == 200 and 20 < counts['test'] < 60
  more = write(tmp_path / 'more.jsonl', [*rows, row('new', 'b', 1, 1)])
  again = judged(f'clicks:{more}')
  assert all(found[split].keys() <= again[split].keys() for split in found)
  assert {*judged(f'clicks:{path}?test=0')} == {'train'}
  write(tmp_path / 'x' / 'dev.jsonl', rows[:1])
  write(tmp_path / 'x' / 'test.tsv', rows[1:2])
  assert {*judged(f'clicks:{tmp_path / "x"}')} == {'dev', 'test'}


@pytest.mark.parametrize(('change', 'message'), [
    (dict(passage_id='zz'), 'judgement of an unknown passage "zz"'),
    (dict(passage_id=''), 'key "passage_id" is missing or empty'),
    (dict(rank=0), '"rank" holds 0, not a whole number from 1'),
    (dict(rank=-3), '"rank" holds -3'),
    (dict(rank=1.5), '"rank" holds 1.5'),
    (dict(rank=True), '"rank" holds True'),
    (dict(rank='²'), '"rank" holds \'²\''),
    (dict(rank=None), '"rank" holds None'),
    (dict(rank=10**12), '"rank" holds 1000000000000'),
    (dict(clicked='maybe'), '"clicked" holds \'maybe\', not true, false, 1'),
    (dict(clicked=2), '"clicked" holds 2'),
    (dict(clicked=None), '"clicked" holds None'),
    (dict(query=' '), '"query" holds \' \', not the words'),
    (dict(query=3), '"query" holds 3'),
    (dict(weight=-1), '"weight" holds -1, not a number from 0 to 1e'),
    (dict(weight='nan'), '"weight" holds \'nan\''),
    (dict(weight=float('nan')), '"weight" holds None'),
    (dict(weight=float('inf')), '"weight" holds None'),
    (dict(weight='much'), '"weight" holds \'much\''),
    (dict(time='yesterday'), '"time" holds \'yesterday\', neither seconds'),
    (dict(time='inf'), '"time" holds \'inf\''),
    (dict(session=[1]), 'key "session" holds list, not an id'),
    (dict(session='t'), 'other rows of session "t" have a time'),
    (dict(query='why', rank=3, session='u', time=1),
     r'rank 3 stands twice on one page of results \("e" and "f" for "why"\)'),
])
def test_rows_that_are_none(tmp_path, change, message):
  """File and line of each; with `skip` the rest is read as without it."""
  bad = {**row('what', 'f', 1, 1), **change}
  path = write(tmp_path / 'train.jsonl', [*LOG[:9], bad, *LOG[9:]])
  spec = f'clicks:{path}'
  with pytest.raises(errors.UserError, match=f'train.jsonl:10: {message}'):
    preparation.prepare(spec, tmp_path / 'out', False)
  corpus = preparation.prepare(spec, tmp_path / 'out', True)
  assert sum(corpus.manifest['counts']['skipped'].values()) == 1
  assert len(corpus.judgements('train').grades) == len(WANTED)


def test_a_tsv_names_its_lines(tmp_path):
  path = write(tmp_path / 'train.tsv', [LOG[0], {**LOG[2], 'rank': 'x'}])
  with pytest.raises(errors.UserError, match='train.tsv:3: "rank" holds'):
    preparation.prepare(f'clicks:{path}', tmp_path / 'out', False)


@pytest.mark.parametrize(('place', 'message'), [
    ('nowhere', 'no such file, or a folder without logs'),
    ('?documents=absent.jsonl', 'absent.jsonl: no such table of passages'),
    ('?failed=-1', '"failed=-1" is none of documents=TABLE'),
    ('?failed=nan', '"failed=nan" is none of'),
    ('?test=1', '"test=1" is none of'),
    ('?negatives=all', '"negatives=all" is none of'),
    ('?what', '"what" is none of'),
])
def test_places_that_are_none(tmp_path, place, message):
  write(tmp_path / 'train.jsonl')
  where = tmp_path / place if place[0] != '?' else f'{tmp_path}{place}'
  with pytest.raises(errors.UserError, match=message):
    sources.open_source(f'clicks:{where}', files.unheard())


def test_columns_that_are_missing(tmp_path):
  path = write(tmp_path / 'train.jsonl', [{'query': 'why', 'clicked': 1}])
  with pytest.raises(errors.UserError, match=(
      'train.jsonl: a row has no passage_id and no rank; it has query, clicked'
  )):
    sources.open_source(f'clicks:{path}', files.unheard())
  (tmp_path / 'train.jsonl').unlink()
  with pytest.raises(errors.UserError, match='a folder without logs'):
    sources.open_source(f'clicks:{tmp_path}', files.unheard())
  with pytest.raises(errors.UserError, match='did you mean clicks:'):
    write(tmp_path / 'clicks.jsonl')
    sources.open_source(f'own:{tmp_path}', files.unheard())


def test_a_table_of_passages(tmp_path):
  path = write(tmp_path / 'logs' / 'train.jsonl', passages=None)
  table = tmp_path / 'pages.tsv'
  table.write_text('id\ttitle\ttext\n' + ''.join(
      f'{name}\t\t{name} text\n' for name in [*'abcdef', '7']))
  corpus = preparation.prepare(
      f'clicks:{path}?documents={table}', tmp_path / 'out', False)
  assert len(corpus.passages) == 7


def test_logs_in_a_bucket(tmp_path):
  path = write(tmp_path / 'logs' / 'train.jsonl')
  with bucket.running(tmp_path / 'cache'):
    bucket.upload(path.parent, f'{bucket.BUCKET}/logs')
    corpus = f'{bucket.BUCKET}/logs/corpus.jsonl'
    for place in (f'{bucket.BUCKET}/logs', f'{path}?documents={corpus}'):
      assert judged(f'clicks:{place}') == {'train': WANTED}
      prepared = preparation.prepare(f'clicks:{place}', tmp_path / 'out', False)
      assert len(prepared.passages) == 7


def test_passages_that_were_not_clicked_are_given_negatives(tmp_path):
  """Through `job=mine` with the source `given`."""
  config = tiny.make_config(tmp_path)
  write(tmp_path / 'logs' / 'train.jsonl', [
      *LOG, *(row(f'query {n}', 'abcdef'[n], 1, 1) for n in range(6))])
  config.data.source = f'clicks:{tmp_path / "logs"}'
  config.negatives.sources = ('given:2',)
  config.negatives.mined_dir = str(tmp_path / 'mined')
  config.job = 'mine'
  tiny.run(mine.MineJob, config, tmp_path / 'work')
  pool = pool_lib.read(tmp_path / 'work' / 'pool')
  corpus = preparation.prepare(
      config.data.source, tmp_path / 'prepared', False)
  names = corpus.passage_ids
  queries: id_table.IdTable = corpus.query_ids
  line = pool.lines_of(np.array([queries.row_of(
      files.content_id('why'))]))[0]
  rows = pool.rows[line]
  assert {names[int(r)] for r in rows if r >= 0} == {b'd', b'e'}
