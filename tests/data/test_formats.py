"""Readers and preparation on small awkward files; every message."""

import gzip
import json
import pathlib

import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.data import prepared, records, sources
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
  corpus = prepared.prepare(spec, tmp_path / 'out', False)
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
    (dict(qrels=QRELS + 'q1\ta\t1\n'), 'judged twice, with grades 2 and 1'),
])
def test_bad_records_are_named_or_skipped(tmp_path, kwargs, message):
  spec = f'beir:{make_beir(tmp_path / "data", **kwargs)}'
  with pytest.raises(errors.UserError, match=message) as caught:
    prepared.prepare(spec, tmp_path / 'out', False)
  assert 'on_invalid=skip' in str(caught.value)
  corpus = prepared.prepare(spec, tmp_path / 'out', True)
  assert sum(corpus.manifest['counts']['skipped'].values()) == 1
  assert len(corpus.passages) == 4


def test_beir_without_header_or_files(tmp_path):
  make_beir(tmp_path / 'a', qrels='q1\ta\t1\n')
  with pytest.raises(errors.UserError, match='test.tsv:1: the header line'):
    prepared.prepare(f'beir:{tmp_path / "a"}', tmp_path / 'out', False)
  with pytest.raises(errors.UserError, match='corpus.jsonl'):
    beir.Beir(str(tmp_path / 'nowhere'), STRICT)


def test_changes_are_noticed_and_touches_are_not(tmp_path):
  data = make_beir(tmp_path / 'data')
  spec, out = f'beir:{data}', tmp_path / 'out'
  first = prepared.prepare(spec, out, False)
  made = (first.folder / 'manifest.json').stat().st_mtime_ns
  (data / 'corpus.jsonl').touch()
  assert prepared.is_prepared(spec, out)
  again = prepared.prepare(spec, out, False)
  assert (again.folder / 'manifest.json').stat().st_mtime_ns == made
  make_beir(data, corpus=[*CORPUS, {'_id': 'new', 'text': 'new'}])
  assert not prepared.is_prepared(spec, out)
  changed = prepared.prepare(spec, out, False)
  assert len(changed.passages) == 5
  assert (changed.manifest['corpus_fingerprint']
          != first.manifest['corpus_fingerprint'])


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
    {'context': 'Another.', 'qas': []},
]}


@pytest.mark.parametrize('gz', ['', '.gz'])
def test_squad(tmp_path, gz):
  write(tmp_path / 'd' / f'train-v1.1.json{gz}', squad_json(ARTICLE))
  write(tmp_path / 'd' / f'dev-v1.1.json{gz}', squad_json(
      {'title': 'Super_Bowl', 'paragraphs': [{'context': 'Third.', 'qas': [
          {'id': '3', 'question': 'What?', 'answers': [{'text': 'Third'}]}]}]}))
  corpus = prepared.prepare(f'squad:{tmp_path / "d"}', tmp_path / 'out', False)
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
                     match=r'article 2 \("T"\), paragraph 1: key .context. is'):
    list(squad.Squad(str(path), STRICT).passages())
  path = write(tmp_path / 'cut.json', squad_json(ARTICLE)[:-10])
  with pytest.raises(errors.UserError, match='cut.json: not valid json'):
    list(squad.Squad(str(path), STRICT).passages())
  with pytest.raises(errors.UserError, match='no such file'):
    squad.Squad(str(tmp_path / 'none.json'), STRICT)


def test_same_corpus_in_two_formats(shared_data):
  """SQuAD json and the BEIR folder made from it hold the same texts."""
  folder = shared_data / 'squad-v1.1-dev'
  by_squad = squad.Squad(str(folder / 'dev.squad.json'), STRICT)
  by_beir = beir.Beir(str(folder), STRICT)
  texts = lambda source: sorted(p.text for p in source.passages())
  assert texts(by_squad) == texts(by_beir)
  assert ({q.id for q in by_squad.queries()}
          == {q.id for q in by_beir.queries()})


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


def test_python_docs_of_this_machine(tmp_path):
  corpus = prepared.prepare('python_docs', tmp_path, False)
  assert len(corpus.passages) > 1500
  documents = [set(corpus.passage_documents[corpus.judgements(s).passage_rows])
               for s in ('train', 'tune', 'test')]
  assert not (documents[0] & documents[1] or documents[0] & documents[2]
              or documents[1] & documents[2])


def test_schemes(tmp_path):
  with pytest.raises(errors.UserError, match='unknown scheme "squadd"'):
    sources.open_source('squadd:x', STRICT)
  with pytest.raises(errors.UserError, match=f'did you mean beir:{tmp_path}'):
    sources.open_source(str(tmp_path), STRICT)
  with pytest.raises(errors.UserError, match='names no file'):
    sources.open_source('squad:', STRICT)
