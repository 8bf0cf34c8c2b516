"""Readers and preparation on small awkward files; every message."""

import gzip
import json
import os
import pathlib
import shutil

import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.artifacts import folders
from neg_contrast.data import examples, preparation, records, sources
from neg_contrast.data.formats import beir, python_docs, squad

STRICT = records.InvalidRecords(skip=False)


def write(path: pathlib.Path, text: str):
  path.parent.mkdir(parents=True, exist_ok=True)
  opener = gzip.open if path.suffix == '.gz' else open
  with opener(path, 'wb') as f:
    f.write(text.encode())
  return path


CORPUS = [
    {'_id': 'a', 'title': 'Ünï', 'text': 'one\u2028line\u0085still one'},
    {'_id': 7, 'title': '', 'text': 'seven', 'metadata': {'document_id': 'D'}},
    {'_id': 'c', 'title': 'only a title', 'text': ''},
    {'_id': 'a2', 'title': 'ünï', 'text': 'ONE\u2028line  \u0085still one'},
]
QUERIES = [{'_id': 'q1', 'text': 'why', 'answers': ['x', 'y z']},
           {'_id': 'q2', 'text': 'how'}, {'_id': 'unjudged', 'text': 'no'}]
QRELS = 'query-id\tcorpus-id\tscore\r\nq1\ta\t2\r\nq1\t7\t1\r\nq2\tc\t0\r\n'


def make_beir(folder, corpus=CORPUS, queries=QUERIES, qrels=QRELS, gz=''):
  dump = lambda rows: '\n'.join(
      row if isinstance(row, str) else json.dumps(row, ensure_ascii=False)
      for row in rows) + '\n'
  write(folder / f'corpus.jsonl{gz}', dump(corpus))
  write(folder / f'queries.jsonl{gz}', dump(queries))
  write(folder / 'qrels' / f'test.tsv{gz}', qrels)
  return folder


@pytest.mark.parametrize('gz', ['', '.gz'])
def test_beir_round_trip(tmp_path, gz):
  spec = f'beir:{make_beir(tmp_path / "data", gz=gz)}'
  corpus = preparation.prepare(spec, tmp_path / 'out', False)
  assert list(corpus.passages) == [
      records.Passage('a', 'Ünï', 'one\u2028line\u0085still one', ''),
      records.Passage('7', '', 'seven', 'D'),
      records.Passage('c', 'only a title', '', ''),
      records.Passage('a2', 'ünï', 'ONE\u2028line  \u0085still one', ''),
  ]
  assert [q.id for q in corpus.queries] == ['q1', 'q2']  # Judged ones.
  assert corpus.queries[0].answers == ('x', 'y z')
  np.testing.assert_array_equal(corpus.passage_groups, [0, 1, 2, 0])
  np.testing.assert_array_equal(corpus.passage_documents, [-1, 0, -1, -1])
  assert list(corpus.passage_ids) == [b'a', b'7', b'c', b'a2']
  assert list(corpus.query_ids) == [b'q1', b'q2']
  assert corpus.passages[1:3] == [corpus.passages[1], corpus.passages[2]]
  with pytest.raises(IndexError, match='row -1 of 4'):
    corpus.passages[-1]  # What pads pools is no passage.
  judgements = corpus.judgements('test')
  np.testing.assert_array_equal(judgements.query_rows, [0, 0, 1])
  np.testing.assert_array_equal(judgements.passage_rows, [0, 1, 2])
  np.testing.assert_array_equal(judgements.grades, [2, 1, 0])
  with pytest.raises(errors.UserError, match='no split "dev"; it has test'):
    corpus.judgements('dev')


@pytest.mark.parametrize('kwargs, message', [
    (dict(corpus=[*CORPUS, '{"_id": "x", "text']),
     r'corpus.jsonl:5: not valid json'),
    (dict(corpus=[*CORPUS, '[1]']), 'corpus.jsonl:5: a json object was'),
    (dict(corpus=[*CORPUS, {'_id': 'x', 'body': 'y'}]),
     'corpus.jsonl:5: key "text" is missing'),
    (dict(corpus=[*CORPUS, {'_id': '', 'text': 'y'}]),
     'corpus.jsonl:5: key "_id" is missing or empty'),
    (dict(corpus=[*CORPUS, {'_id': True, 'text': 'y'}]),
     'corpus.jsonl:5: key "_id" holds bool, not an id'),
    (dict(queries=[*QUERIES, {'_id': 'q', 'text': 'y',
                              'answers': ['a', None]}]),
     r'queries.jsonl:4: answers\[1\] holds null, not text'),
    (dict(queries=[*QUERIES, {'_id': 'q', 'text': 'y', 'metadata': {
        'answers': [{'text': 'a'}]}}]),
     r'queries.jsonl:4: answers\[0\] holds dict, not text'),
    (dict(corpus=[*CORPUS, {'_id': 'x', 'text': ' \n'}]),
     'corpus.jsonl:5: passage "x" has no title or text'),
    (dict(corpus=[*CORPUS, {'_id': 'c', 'text': 'again'}]),
     'corpus.jsonl:5: passage id "c" was there before'),
    (dict(queries=[*QUERIES, {'_id': 'q1', 'text': 'again'}]),
     'queries.jsonl:4: query id "q1" was there before'),
    (dict(qrels=QRELS + 'q1\tnone\t1\n'),
     'test.tsv:5: judgement of an unknown passage "none"'),
    (dict(qrels=QRELS + 'qq\ta\t1\n'),
     'test.tsv:5: judgement of an unknown query "qq"'),
    (dict(qrels=QRELS + 'q1\ta\tx\n'), 'test.tsv:5: expected query-id'),
    (dict(qrels=QRELS + 'q1\ta2\t²\n'), 'test.tsv:5: expected query-id'),
    (dict(qrels=QRELS + 'q1\ta2\t9999999999\n'), 'test.tsv:5: expected'),
    (dict(qrels=QRELS + 'q1 a2 1\n'), 'test.tsv:5: expected query-id'),
    (dict(corpus=[*CORPUS, {'_id': 'x', 'text': 'y', 'metadata': 'z'}]),
     'corpus.jsonl:5: key "metadata" holds str'),
    (dict(corpus=[*CORPUS, {'_id': 'x', 'text': 'y', 'title': ['z']}]),
     'corpus.jsonl:5: key "title" holds list'),
    (dict(corpus=[*CORPUS, '{"_id": "x", "text": "\\ud800"}']),
     "corpus.jsonl:5: passage 'x' is no valid Unicode"),
    (dict(queries=[*QUERIES, {'_id': 'q', 'text': 'y', 'answers': 'abc'}]),
     'queries.jsonl:4: key "answers" holds str, not a list'),
    (dict(queries=[*QUERIES, '{"_id": "q3", "text": "\\ud800"}'],
          qrels=QRELS.replace('q2\tc\t0', 'q2\tc\t0\r\nq3\tc\t1')),
     "queries.jsonl:4: query 'q3' is no valid Unicode"),
    (dict(queries=[*QUERIES, {'_id': 'q3', 'text': ' '}],
          qrels=QRELS.replace('q2\tc\t0', 'q2\tc\t0\r\nq3\tc\t1')),
     'queries.jsonl:4: query "q3" has no text'),
    (dict(qrels=QRELS + 'q1\ta\t1\n'),
     'judged before, with another grade than 1'),
])
def test_bad_records_are_named_or_skipped(tmp_path, kwargs, message):
  spec = f'beir:{make_beir(tmp_path / "data", **kwargs)}'
  with pytest.raises(errors.UserError, match=message) as caught:
    preparation.prepare(spec, tmp_path / 'out', False)
  assert 'on_invalid=skip' in str(caught.value)
  corpus = preparation.prepare(spec, tmp_path / 'out', True)
  skipped = corpus.manifest['counts']['skipped']
  # The judgement of a query that was skipped is skipped too.
  assert sum(skipped.values()) == 1 + ('q3' in message)
  assert len(corpus.passages) == 4
  assert len(corpus.judgements('test').grades) == 3
  with pytest.raises(errors.UserError, match=message):
    preparation.prepare(spec, tmp_path / 'out', False)


def test_document_number_zero_is_a_document(tmp_path):
  corpus = [{**row, 'metadata': {'document_id': 0}} for row in CORPUS]
  spec = f'beir:{make_beir(tmp_path / "data", corpus=corpus)}'
  rows = preparation.prepare(spec, tmp_path / 'out', False).passage_documents
  assert rows.tolist() == [0, 0, 0, 0]


def test_equal_judgements_are_one(tmp_path):
  folder = make_beir(tmp_path / 'data', qrels=QRELS + 'q1\ta\t2\n')
  corpus = preparation.prepare(f'beir:{folder}', tmp_path / 'out', False)
  assert corpus.manifest['counts']['judgements'] == {'test': 3}


def test_no_passages(tmp_path):
  spec = f'beir:{make_beir(tmp_path / "data", corpus=[])}'
  with pytest.raises(errors.UserError, match=f'{spec}: holds no passages'):
    preparation.prepare(spec, tmp_path / 'out', False)
  assert not preparation.is_prepared(spec, tmp_path / 'out', False)


def test_no_passage_can_be_used(tmp_path):
  """Readers of pairs report an item's faults among the queries."""
  path = write(tmp_path / 'train.json', '[{"question": "q"}, 7]')
  with pytest.raises(errors.UserError, match='train.json: item 1: key "posit'):
    preparation.prepare(f'dpr:{path}', tmp_path / 'out', False)
  with pytest.raises(errors.UserError,
                     match='no passages that .* skipped: 2 broken records'):
    preparation.prepare(f'dpr:{path}', tmp_path / 'out', True)


def test_an_empty_split_does_not_keep_from_training(tmp_path):
  folder = make_beir(tmp_path / 'data')
  write(folder / 'qrels' / 'dev.tsv', QRELS.splitlines()[0])
  corpus = preparation.prepare(f'beir:{folder}', tmp_path / 'out', False)
  made = examples.make_examples(corpus, corpus.judgements('test'))
  assert made.positive_rows.tolist() == [0, 1]


def test_empty_ids_are_refused_in_every_format(tmp_path, monkeypatch):
  given = [passage('', 'text', 'f:1')]
  with pytest.raises(errors.UserError, match='f:1: the id of the passage'):
    prepare_listed(tmp_path, monkeypatch, passages=given)
  with pytest.raises(errors.UserError, match='no passages .*1 broken rec'):
    prepare_listed(tmp_path, monkeypatch, True, passages=given)
  with pytest.raises(errors.UserError, match='f:2: the id of the query'):
    prepare_listed(
        tmp_path, monkeypatch, passages=[passage('a', 'text')],
        queries=[records.Query('', 'why', where='f:2')],
        judgements=[records.Judgement('', 'a', 1)])


def test_generated_queries_of_beir(tmp_path):
  folder = make_beir(tmp_path / 'data')
  write(folder / 'gen-queries.jsonl.gz', '{"_id": "g1", "text": "made"}')
  write(folder / 'gen-qrels' / 'train.tsv', 'query-id\tcorpus-id\tscore\n'
        'g1\ta\t1\n')
  corpus = preparation.prepare(f'beir:{folder}', tmp_path / 'out', False)
  assert corpus.splits == ('test', 'gen-train')
  train = corpus.judgements('gen-train')
  assert corpus.queries[int(train.query_rows[0])].text == 'made'
  shutil.rmtree(folder / 'gen-qrels')
  with pytest.raises(errors.UserError, match='no such file: .*gen-qrels'):
    beir.Beir(str(folder), STRICT)


@pytest.mark.parametrize('first', ['q1\ta\t1.0', 'q1\ta\tx', 'q1 0 a',
                                   'query-id corpus-id'])
def test_beir_qrels_whose_first_line_is_no_header(tmp_path, first):
  folder = make_beir(tmp_path, qrels=f'{first}\nq1\t7\t1\n')
  for skip in (False, True):
    with pytest.raises(errors.UserError, match='test.tsv:1: the header line'):
      list(beir.Beir(str(folder), records.InvalidRecords(skip)
                     ).judgements('test'))
  write(folder / 'qrels' / 'test.tsv', 'Query_ID\tDoc\tScore\nq1\t7\t1\n')
  assert len(list(beir.Beir(str(folder), STRICT).judgements('test'))) == 1


def test_what_is_prepared_depends_on_what_may_be_skipped(tmp_path):
  spec = f'beir:{make_beir(tmp_path / "data", corpus=[*CORPUS, "{"])}'
  preparation.prepare(spec, tmp_path / 'out', True)
  assert preparation.is_prepared(spec, tmp_path / 'out', True)
  assert not preparation.is_prepared(spec, tmp_path / 'out', False)


def test_records_of_one_pair(tmp_path, monkeypatch):
  """A later record can make a positive an example; a negative can't."""
  known = lambda n, grade, **kwargs: records.Judgement(
      'q', n, grade, f'f:{n}{grade}', **kwargs)
  given = dict(
      passages=[passage(n, f'text {n}') for n in 'abcde'],
      queries=[records.Query('q', 'why', ('x',), split='train')],
      judgements=[known('b', 1, is_example=False), known('a', 0),
                  known('b', 0), known('c', 1, is_example=False),
                  known('a', 0), known('c', 1), known('d', 2),
                  *[known('e', 1, is_example=False)] * 2])
  with pytest.raises(errors.UserError, match='f:b0: .* another grade than 0'):
    prepare_listed(tmp_path, monkeypatch, **given)
  corpus = prepare_listed(tmp_path, monkeypatch, skip=True, **given)
  train = corpus.judgements('train')
  assert train.passage_rows.tolist() == [0, 1, 2, 3, 4]
  assert train.grades.tolist() == [0, 1, 1, 2, 1]
  assert train.is_example.tolist() == [True, False, True, True, False]
  assert train.unjudged.tolist() == []  # Judged, although it names its split.
  assert corpus.manifest['counts']['skipped'] == {'duplicate_id': 1}


def test_empty_split_and_corpus_alone(tmp_path):
  folder = make_beir(tmp_path / 'data', qrels=QRELS.splitlines()[0])
  corpus = preparation.prepare(f'beir:{folder}', tmp_path / 'out', False)
  with pytest.raises(errors.UserError, match='"test" holds no judgements'):
    corpus.judgements('test')
  shutil.rmtree(folder / 'qrels')
  with pytest.raises(errors.UserError, match='no such file: .*<split>.tsv'):
    preparation.prepare(f'beir:{folder}', tmp_path / 'out', False)
  (folder / 'queries.jsonl').unlink()
  corpus = preparation.prepare(f'beir:{folder}', tmp_path / 'out', False)
  assert (len(corpus.passages), len(corpus.queries)) == (4, 0)
  with pytest.raises(errors.UserError, match='it is a corpus alone'):
    corpus.judgements('test')


class Listed:
  """A source of given records."""

  def __init__(self, passages=(), queries=(), judgements=()):
    self.files, self.splits = (), ('train', 'test')
    self.passages = lambda: iter(passages)
    self.queries = lambda: iter(queries)
    self.judgements = lambda split: iter(judgements if split == 'train' else ())


def prepare_listed(tmp_path, monkeypatch, skip=False, **kwargs):
  monkeypatch.setattr(sources, 'open_source', lambda *_: Listed(**kwargs))
  shutil.rmtree(tmp_path / 'out', ignore_errors=True)
  return preparation.prepare('beir:thing', tmp_path / 'out', skip)


def passage(name, text, where=''):
  return records.Passage(name, '', text, where=where)


def test_repeats_are_merged_and_changed_ones_reported(tmp_path, monkeypatch):
  names = ['b', 'a b', 'b', 'é', 'c\0', 'a b', 'c']
  given = [passage(n, f'text {n}', f'f:{i}') for i, n in enumerate(names)]
  corpus = prepare_listed(tmp_path, monkeypatch, passages=given)
  assert list(corpus.passage_ids) == [
      n.encode() for n in ('b', 'a b', 'é', 'c\0', 'c')
  ]
  assert corpus.manifest['counts']['repeated'] == 2
  assert [corpus.passage_ids.row_of(n) for n in ('c', 'c\0', 'é', 'x', '\ud800')
          ] == [4, 3, 2, None, None]
  # The order of trec_eval: ids by bytes, descending.
  assert corpus.tie_ranks.tolist() == [3, 4, 0, 1, 2]
  given.append(passage('é', 'another', 'f:9'))
  with pytest.raises(errors.UserError,
                     match='f:9: passage id "é" was there before, with ano'):
    prepare_listed(tmp_path, monkeypatch, passages=given)
  corpus = prepare_listed(tmp_path, monkeypatch, skip=True, passages=given)
  assert corpus.manifest['counts']['skipped'] == {'duplicate_id': 1}
  assert corpus.manifest['counts']['repeated'] == 2
  assert len(corpus.passages) == 5


def test_answers_alone_and_positives_that_are_no_examples(
    tmp_path, monkeypatch
):
  corpus = prepare_listed(
      tmp_path, monkeypatch,
      passages=[passage(n, f'text {n}') for n in 'abc'],
      queries=[records.Query('q1', 'why'), records.Query('q2', 'how', ('x',),
                                                         split='test'),
               records.Query('q3', 'nobody wants it')],
      judgements=[records.Judgement('q1', 'a', 1),
                  records.Judgement('q1', 'b', 1, is_example=False),
                  records.Judgement('q1', 'c', 0)],
  )
  assert [q.id for q in corpus.queries] == ['q1', 'q2']
  test = corpus.judgements('test')
  assert (test.queries.tolist(), len(test.grades)) == ([1], 0)
  train = corpus.judgements('train')
  assert train.queries.tolist() == [0]
  made = examples.make_examples(corpus, train)
  assert made.positive_rows.tolist() == [0]
  assert sorted(made.positive_groups[0].tolist()) == [0, 1]


@pytest.mark.parametrize('damage', ['cut', 'flip'])
@pytest.mark.parametrize('scheme, name, text', [
    ('beir', 'corpus.jsonl.gz', '{"_id": "a", "text": "x"}\n'),
    ('squad', 'dev.json.gz',
     '{"data": [{"title": "T", "paragraphs": []}]}'),
])
def test_damaged_gzip(tmp_path, scheme, name, text, damage):
  make_beir(tmp_path, gz='.gz')
  place = tmp_path if scheme == 'beir' else tmp_path / name
  data = gzip.compress(text.encode())
  read = lambda: list(sources.open_source(f'{scheme}:{place}', STRICT
                                          ).passages())
  (tmp_path / name).write_bytes(data)
  read()  # Whole, it is read.
  # After the header's ten bytes, ones begin a block of no known type.
  (tmp_path / name).write_bytes(
      data[:-9] if damage == 'cut' else data[:10] + b'\xff' * 9 + data[19:])
  with pytest.raises(errors.UserError, match=name):
    read()


def test_beir_without_header_or_files(tmp_path):
  make_beir(tmp_path / 'a', qrels='q1\ta\t1\n')
  with pytest.raises(errors.UserError, match='test.tsv:1: the header line'):
    preparation.prepare(f'beir:{tmp_path / "a"}', tmp_path / 'out', False)
  with pytest.raises(errors.UserError, match='corpus.jsonl'):
    beir.Beir(str(tmp_path / 'nowhere'), STRICT)


def test_changes_are_noticed_and_touches_are_not(tmp_path, monkeypatch):
  data = make_beir(tmp_path / 'data')
  spec, out = f'beir:{data}', tmp_path / 'out'
  first = preparation.prepare(spec, out, False)
  made = (first.folder / 'passages.ids.bin').stat().st_mtime_ns
  os.utime(data / 'corpus.jsonl', (1, 1))
  assert preparation.is_prepared(spec, out, False)
  again = preparation.prepare(spec, out, False)
  assert (again.folder / 'passages.ids.bin').stat().st_mtime_ns == made
  monkeypatch.setattr(preparation.folders, 'sha256_file', None)
  preparation.prepare(spec, out, False)
  # The new time is known: nothing was hashed.
  monkeypatch.undo()
  make_beir(data, corpus=[*CORPUS, {'_id': 'new', 'text': 'new'}])
  assert not preparation.is_prepared(spec, out, False)
  changed = preparation.prepare(spec, out, False)
  assert len(changed.passages) == 5
  assert (changed.manifest['corpus_fingerprint']
          != first.manifest['corpus_fingerprint'])
  (data / 'qrels' / 'test.tsv').rename(data / 'qrels' / 'dev.tsv')
  assert preparation.prepare(spec, out, False).splits == ('dev',)


def test_fingerprints(tmp_path):
  """Each tells of its own records and of nothing else."""
  def of(name, **kwargs):
    spec = f'beir:{make_beir(tmp_path / name, **kwargs)}'
    made = preparation.prepare(spec, tmp_path / 'out', False)
    return (made.manifest['corpus_fingerprint'],
            made.manifest['queries_fingerprint'], made.fingerprint)

  base = of('base')
  assert of('copy', gz='.gz') == base
  other = of('grade', qrels=QRELS.replace('q1\ta\t2', 'q1\ta\t1'))
  assert other[:2] == base[:2] and other[2] != base[2]
  other = of('query', queries=[{'_id': 'q1', 'text': 'why'}, *QUERIES[1:]])
  assert other[0] == base[0] and other[1] != base[1] and other[2] != base[2]
  other = of('corpus', corpus=[*CORPUS, {'_id': 'new', 'text': 'new'}])
  assert other[0] != base[0] and other[1] == base[1] and other[2] != base[2]


def test_reading_what_is_made_writes_nothing(tmp_path, monkeypatch):
  """A prepared folder may lie where nothing can be written."""
  spec, out = f'beir:{make_beir(tmp_path / "data")}', tmp_path / 'out'
  preparation.prepare(spec, out, False)
  monkeypatch.setattr(folders, 'only_one', None)
  assert len(preparation.prepare(spec, out, False).passages) == 4


def squad_json(*articles):
  return json.dumps({'version': '1.1', 'data': list(articles)})


ARTICLE = {'title': 'Super_Bowl', 'paragraphs': [
    {'context': 'It was 2016.', 'qas': [
        {'id': '1', 'question': 'When?',
         'answers': [{'text': '2016', 'answer_start': 7},
                     {'text': '2016', 'answer_start': 7},
                     {'text': 'in 2016', 'answer_start': 4}]},
        {'id': '2', 'question': 'Who?', 'answers': [], 'is_impossible': True},
    ]},
    {'context': 'Another.', 'qas': [
        {'id': '4', 'question': 'No answers key?', 'is_impossible': True}]},
]}


@pytest.mark.parametrize('gz', ['', '.gz'])
def test_squad(tmp_path, gz):
  write(tmp_path / 'd' / f'train-v1.1.json{gz}', squad_json(ARTICLE))
  write(tmp_path / 'd' / f'dev-v1.1.json{gz}', squad_json(
      {'title': 'Super_Bowl', 'paragraphs': [{'context': 'Third.', 'qas': [
          {'id': '3', 'question': 'What?', 'answers': [{'text': 'Third'}]}]}]}))
  corpus = preparation.prepare(f'squad:{tmp_path / "d"}', tmp_path / 'out',
                               False)
  assert corpus.splits == ('dev', 'train')
  assert ({p.id for p in corpus.passages}
          == {f'Super_Bowl#{n}' for n in (1, 2, 3)})
  assert {p.title for p in corpus.passages} == {'Super Bowl'}
  assert {q.id: q.answers for q in corpus.queries} == {
      '3': ('Third',), '1': ('2016', 'in 2016')}
  train = corpus.judgements('train')
  assert corpus.queries[int(train.query_rows[0])].id == '1'
  assert corpus.passages[int(train.passage_rows[0])].text == 'It was 2016.'


def test_squad_messages(tmp_path):
  path = write(tmp_path / 'dev.json', squad_json(
      ARTICLE, {'title': 'T', 'paragraphs': [{'qas': []}]}))
  with pytest.raises(errors.UserError,
                     match=r'item 2 \("T"\), paragraph 1: key .context. is'):
    list(squad.Squad(str(path), STRICT).passages())
  path = write(tmp_path / 'cut.json', squad_json(ARTICLE)[:-10])
  with pytest.raises(errors.UserError, match='cut.json: not valid json'):
    list(squad.Squad(str(path), STRICT).passages())
  path = write(tmp_path / 'other.json', '{"rows": []}')
  with pytest.raises(errors.UserError, match='no articles under the key'):
    list(squad.Squad(str(path), STRICT).passages())
  with pytest.raises(errors.UserError, match='no such file'):
    squad.Squad(str(tmp_path / 'none.json'), STRICT)


GOOD = {'id': 'good', 'question': 'Which?', 'answers': [{'text': 'c'}]}


@pytest.mark.parametrize('article, message', [
    ({'paragraphs': []}, 'item 2: key "title" is missing'),
    ({'title': None, 'paragraphs': []}, 'key "title" holds null'),
    ({'title': 'T', 'paragraphs': 'ab'}, 'key "paragraphs" holds str'),
    ({'title': 'T', 'paragraphs': ['ab']},
     r'item 2 \("T"\), paragraph 1: .* found str'),
    ({'title': 'T', 'paragraphs': [{'context': None, 'qas': []}]},
     r'paragraph 1: .*key .context. holds null'),
    ({'title': 'T', 'paragraphs': [{'context': 'c', 'qas': [
        {**GOOD, 'id': None}, GOOD]}]},
     r'paragraph 1, question 1: .*key .id. is missing or empty'),
    ({'title': 'T', 'paragraphs': [{'context': 'c', 'qas': [
        GOOD, {**GOOD, 'question': 3}]}]},
     r'paragraph 1, question 2: .*key .question. holds int'),
    ({'title': 'T', 'paragraphs': [{'context': 'c', 'qas': [
        GOOD, {'id': 'x', 'question': 'y', 'answers': [{'answer': 'c'}]}]}]},
     r'paragraph 1, question 2: key .text. is missing'),
])
def test_broken_squad_is_named_or_skipped(tmp_path, article, message):
  path = write(tmp_path / 'dev.json', squad_json(ARTICLE, article))
  with pytest.raises(errors.UserError, match=f'dev.json: .*{message}'):
    preparation.prepare(f'squad:{path}', tmp_path / 'out', False)
  corpus = preparation.prepare(f'squad:{path}', tmp_path / 'out', True)
  assert corpus.manifest['counts']['skipped'] == {'broken_record': 1}
  # A broken question leaves its paragraph and its neighbours in place.
  expected = ['1', 'good'] if 'question ' in message else ['1']
  assert [q.id for q in corpus.queries] == expected
  assert len(corpus.passages) == 1 + len(expected)


def test_squad_files_in_two_forms(tmp_path):
  """With a byte order mark, gzipped beside plain, a folder called .json."""
  write(tmp_path / 'd' / 'train.json', '\ufeff' + squad_json(ARTICLE))
  write(tmp_path / 'd' / 'train.json.gz', squad_json(ARTICLE))
  (tmp_path / 'd' / 'x.json').mkdir()
  source = squad.Squad(str(tmp_path / 'd'), STRICT)
  assert [p.id for p in source.passages()] == ['Super_Bowl#1', 'Super_Bowl#2']
  write(tmp_path / 'd' / 'train.json', squad_json(
      {**ARTICLE, 'title': '\ud800'}).replace('"2016"', '"\\udfff"'))
  source = squad.Squad(str(tmp_path / 'd'), STRICT)
  assert [p.title for p in source.passages()] == ['\ud800'] * 2
  with pytest.raises(errors.UserError, match='is no valid Unicode'):
    preparation.prepare(f'squad:{tmp_path / "d"}', tmp_path / 'out', False)


def test_fingerprints_do_not_depend_on_the_format(tmp_path):
  path = write(tmp_path / 'dev.json', squad_json(ARTICLE))
  by_squad = preparation.prepare(f'squad:{path}', tmp_path / 'out', False)
  folder = make_beir(
      tmp_path / 'data',
      corpus=[{'_id': f'Super_Bowl#{n}', 'title': 'Super Bowl', 'text': text,
               'metadata': {'document_id': 'Super_Bowl'}}
              for n, text in enumerate(['It was 2016.', 'Another.'], 1)],
      queries=[{'_id': '1', 'text': 'When?', 'answers': ['2016', 'in 2016']}],
      qrels='query-id\tcorpus-id\tscore\n1\tSuper_Bowl#1\t1\n',
  )
  (folder / 'qrels' / 'test.tsv').rename(folder / 'qrels' / 'dev.tsv')
  by_beir = preparation.prepare(f'beir:{folder}', tmp_path / 'out', False)
  assert by_squad.fingerprint == by_beir.fingerprint
  assert (by_squad.manifest['corpus_fingerprint']
          == by_beir.manifest['corpus_fingerprint'])


def test_same_corpus_in_two_formats(shared_data):
  """SQuAD json and the BEIR folder made from it hold the same texts."""
  folder = shared_data / 'squad-v1.1-dev'
  by_squad = squad.Squad(str(folder / 'dev.squad.json'), STRICT)
  by_beir = beir.Beir(str(folder), STRICT)
  texts = lambda source: sorted(p.text for p in source.passages())
  assert texts(by_squad) == texts(by_beir)
  questions = lambda source: {
      q.id: (q.text.strip(), set(q.answers)) for q in source.queries()}
  assert questions(by_squad) == questions(by_beir)


def test_python_docs(tmp_path):
  write(tmp_path / 'mod.py', '"""A module of three words.\n\n'
        + 'It says a lot about itself here, ' * 3 + '"""\n'
        'class A:\n  """Too short."""\n  def f(self):\n'
        '    """Return the thing wanted.\n\n    ' + 'More words. ' * 10
        + '"""\n')
  write(tmp_path / 'copy.py', (tmp_path / 'mod.py').read_text())
  write(tmp_path / 'broken.py', 'def (:\n')
  write(tmp_path / 'test' / 'x.py', (tmp_path / 'mod.py').read_text())
  source = python_docs.PythonDocs(tmp_path)
  assert [p.id for p in source.passages()] == ['copy', 'copy.A.f']
  assert [q.text for q in source.queries()] == [
      'A module of three words.', 'Return the thing wanted.']
  judged = [j for s in source.splits for j in source.judgements(s)]
  assert {(j.query_id, j.passage_id) for j in judged} == {
      ('copy', 'copy'), ('copy.A.f', 'copy.A.f')}


def test_python_docs_of_a_package(tmp_path):
  text = '"""A module of three words.\n\n' + 'It says %s. ' * 9 + '"""\n'
  for name in ('__init__', 'more', 'sub/__init__'):
    write(tmp_path / 'mine' / f'{name}.py', text.replace('%s', name))
  source = python_docs.PythonDocs(tmp_path / 'mine')
  assert [p.id for p in source.passages()] == ['mine', 'more', 'sub']


def test_python_docs_of_this_machine(tmp_path):
  corpus = preparation.prepare('python_docs', tmp_path, False)
  assert len(corpus.passages) > 1500
  documents = [set(corpus.passage_documents[corpus.judgements(s).passage_rows])
               for s in ('train', 'tune', 'test')]
  assert not (documents[0] & documents[1] or documents[0] & documents[2]
              or documents[1] & documents[2])


def test_schemes(tmp_path):
  with pytest.raises(errors.UserError, match='unknown scheme "squadd"'):
    sources.open_source('squadd:x', STRICT)
  with pytest.raises(errors.UserError, match='parquet:faq.parquet$'):
    sources.open_source('squadd:x', STRICT)  # No such place: no hint.
  write(tmp_path / 'paper.pdf', '%PDF')
  with pytest.raises(errors.UserError, match='parquet:faq.parquet$'):
    sources.open_source(f'squadd:{tmp_path}', STRICT)  # Nothing to read there.
  make_beir(tmp_path, gz='.gz')
  with pytest.raises(errors.UserError, match=f'did you mean beir:{tmp_path}'):
    sources.open_source(str(tmp_path), STRICT)
  with pytest.raises(errors.UserError, match='names no file'):
    sources.open_source('squad:', STRICT)
