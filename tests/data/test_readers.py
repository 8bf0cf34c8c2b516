"""Readers of DPR, MS MARCO, Tevatron, FlagEmbedding and TREC qrels."""

import collections
import csv
import gzip
import io
import itertools
import json
import pathlib
import tracemalloc
from typing import Any

import pytest

from neg_contrast import errors
from neg_contrast.data import examples, preparation, records, sources
from neg_contrast.data.formats import beir, files
from neg_contrast.evaluation import trec

# All that only a newline character may end: VT, FF, FS, NEL, LS, PS, ...
AWKWARD = 'Ünï one\u2028two\u2029three\x85four\x0bfive\x0csix\x1c "q" \'s\' \\n'


def write(path: pathlib.Path, content: str | bytes) -> pathlib.Path:
  path.parent.mkdir(parents=True, exist_ok=True)
  opener = gzip.open if path.suffix == '.gz' else open
  with opener(path, 'wb') as f:
    f.write(content.encode() if isinstance(content, str) else content)
  return path


def lines(rows) -> str:
  return ''.join((row if isinstance(row, str) else
                  json.dumps(row, ensure_ascii=False)) + '\n' for row in rows)


def quoted(rows) -> str:
  f = io.StringIO()
  csv.writer(f, delimiter='\t', lineterminator='\n').writerows(rows)
  return f.getvalue()


def tabbed(rows) -> str:
  return ''.join('\t'.join(map(str, row)) + '\n' for row in rows)


Contents = collections.namedtuple('Contents', 'passages queries judgements')


def read(spec, skip=False):
  """All records; asserts that a second reading gives the same."""
  source = sources.open_source(str(spec), records.InvalidRecords(skip))
  assert isinstance(source, records.Source)
  assert all(isinstance(path, pathlib.Path) and path.is_file()
             for path in source.files)
  once, twice = (Contents(
      list(source.passages()),
      [(query, query.split) for query in source.queries()],
      {split: list(source.judgements(split)) for split in source.splits},
  ) for _ in range(2))
  assert once == twice
  return Contents(once.passages, [query for query, _ in once.queries],
                  once.judgements)


def prepare(spec, tmp_path, skip=False):
  return preparation.prepare(str(spec), tmp_path / 'out', skip)


def judged(contents, split):
  return [(j.query_id, j.passage_id, j.grade, j.is_example)
          for j in contents.judgements[split]]


# ---------------------------------------------------------------------------
# DPR.

ITEMS = [
    {'dataset': 'nq', 'question': 'who ' + AWKWARD,
     'answers': ['a "b"', AWKWARD],
     'positive_ctxs': [
         {'title': 'T', 'text': AWKWARD, 'score': 1000, 'title_score': 1,
          'passage_id': '11'},
         {'title': None, 'text': 'no title\tand a tab\n', 'psg_id': 12}],
     'negative_ctxs': [{'title': 'R', 'text': 'random', 'passage_id': '13'}],
     'hard_negative_ctxs': [
         {'title': 'H', 'text': 'hard', 'score': 12.5, 'passage_id': 'wiki:14'},
         {'text': 'no title and a tab is not this', 'passage_id': '15'},
         {'title': 'T', 'text': AWKWARD, 'passage_id': '11'}]},
    {'question_id': 'own id', 'question': 'fallback', 'answers': [],
     'positive_ctxs': [{'title': 'T', 'text': AWKWARD, 'passage_id': '11'}],
     'negative_ctxs': [{'title': 'R', 'text': 'random', 'passage_id': '13'}],
     'hard_negative_ctxs': []},
    {'question': 'no positive', 'answers': ['x'], 'positive_ctxs': [],
     'negative_ctxs': [{'title': 'N', 'text': 'of it', 'passage_id': '16'}]},
    {'question': 'no negatives', 'answers': ['x'],
     'positive_ctxs': [{'title': 'R', 'text': 'random', 'passage_id': '13'}]},
]
DPR_JUDGED = [
    ('train-1', '11', 1, True), ('train-1', '12', 1, False),
    ('train-1', '14', 0, True), ('train-1', '15', 0, True),
    ('own id', '11', 1, True), ('own id', '13', 0, True),
    ('train-4', '13', 1, True),
]
PSGS = [('id', 'text', 'title'), (11, AWKWARD, 'T'),
        (12, 'no title\tand a tab\n', ''), (13, 'random', 'R'),
        (14, 'hard', 'H'), (15, '"all quoted"', ''), (16, 'of it', '"N"')]


def dump(items, form):
  if form == 'lines':
    return lines(items)
  return json.dumps(items, ensure_ascii=False,
                    indent=2 if form == 'indented' else None)


@pytest.mark.parametrize('form', ['array', 'indented', 'lines'])
@pytest.mark.parametrize('mark', ['', '\ufeff'])
@pytest.mark.parametrize('ending', ['', '.gz'])
def test_dpr_contexts_are_the_corpus(tmp_path, form, mark, ending):
  path = write(tmp_path / f'biencoder-nq-train.json{ending}',
               mark + dump(ITEMS, form))
  for place in (tmp_path, path):
    found = read(f'dpr:{place}')
    assert judged(found, 'train') == DPR_JUDGED
    assert found.queries == [
        records.Query('train-1', 'who ' + AWKWARD, ('a "b"', AWKWARD)),
        records.Query('own id', 'fallback'),
        records.Query('train-4', 'no negatives', ('x',)),
    ]
    assert [p.id for p in found.passages] == [
        '11', '12', '14', '15', '11', '13', '11', '13', '16', '13']
    assert found.passages[1] == records.Passage('12', '',
                                                'no title\tand a tab\n')
  corpus = prepare(f'dpr:{tmp_path}', tmp_path)
  assert [p.id for p in corpus.passages] == ['11', '12', '14', '15', '13', '16']
  made = examples.make_examples(corpus, corpus.judgements('train'))
  assert made.positive_rows.tolist() == [0, 0, 4]


@pytest.mark.parametrize('ending', ['', '.gz'])
def test_dpr_with_its_corpus_and_answers(tmp_path, ending):
  write(tmp_path / f'psgs_w100.tsv{ending}', quoted(PSGS))
  write(tmp_path / f'biencoder-nq-train.json{ending}', json.dumps(ITEMS))
  write(tmp_path / f'biencoder-nq-dev.json{ending}', json.dumps(ITEMS[3:]))
  answers = ['a', 'say "x"', r'New\s?York', AWKWARD]
  write(tmp_path / f'nq-test.qa.csv{ending}',
        'who is\t' + repr(['x', "it's"]) + '\r\n\r\n'
        + quoted([('a "q"', repr(answers))])
        + "where\t['19\\d\\d', 7]")  # No newline at the end.
  found = read(f'dpr:{tmp_path}')
  assert list(found.judgements) == ['dev', 'train', 'test-qa']
  assert judged(found, 'train') == DPR_JUDGED
  assert judged(found, 'dev') == [('dev-1', '13', 1, True)]
  assert found.passages == [
      records.Passage(str(name), title, text) for name, text, title in PSGS[1:]]
  assert found.queries[-3:] == [
      records.Query('test-qa-1', 'who is', ('x', "it's")),
      records.Query('test-qa-2', 'a "q"', tuple(answers)),
      records.Query('test-qa-3', 'where', (r'19\d\d', '7'))]
  corpus = prepare(f'dpr:{tmp_path}', tmp_path)
  split = corpus.judgements('test-qa')
  assert len(split.grades) == 0
  assert [corpus.queries[row].id for row in split.queries.tolist()] == [
      'test-qa-1', 'test-qa-2', 'test-qa-3']


def test_dpr_files_of_one_split_are_counted_on(tmp_path):
  for name in ('biencoder-nq-train.json', 'biencoder-nq-adv-hn-train.json'):
    write(tmp_path / name, json.dumps(ITEMS))
  found = read(f'dpr:{tmp_path}')
  assert [q.id for q in found.queries] == [
      'train-1', 'own id', 'train-4', 'train-5', 'own id', 'train-8']
  corpus = prepare(f'dpr:{tmp_path}', tmp_path)
  assert corpus.manifest['counts']['queries'] == 5


def test_dpr_questions_of_several_items(tmp_path):
  context = lambda name: {'title': '', 'text': f'text {name}',
                          'passage_id': name}
  rows = [{'question_id': 'q1', 'question': 'a', 'answers': [],
           'positive_ctxs': [context(right)], 'negative_ctxs': [],
           'hard_negative_ctxs': [context(wrong)]}
          for right, wrong in (('1', '2'), ('2', '3'))]
  write(tmp_path / 'train.json', json.dumps(rows))
  corpus = prepare(f'dpr:{tmp_path}', tmp_path)
  judged = corpus.judgements('train')
  assert {(bytes(corpus.passage_ids[row]), grade) for row, grade in zip(
      judged.passage_rows.tolist(), judged.grades.tolist(), strict=True
  )} == {(b'1', 1), (b'2', 1), (b'3', 0)}


def test_dpr_contexts_without_ids(tmp_path):
  context = {'title': 'A', 'text': 'same'}
  items = [{'question': f'q{n}', 'answers': [], 'positive_ctxs': [
      context, {**context, 'title': title}]} for n, title in enumerate('BA')]
  write(tmp_path / 'train.json', json.dumps(items))
  corpus = prepare(f'dpr:{tmp_path}', tmp_path)
  assert [p.title for p in corpus.passages] == ['A', 'B']
  train = corpus.judgements('train')
  assert train.passage_rows.tolist() == [0, 1, 0]
  assert train.is_example.tolist() == [True, False, True]


def test_dpr_without_header_and_with_other_columns(tmp_path):
  body = quoted(PSGS[1:])
  path = write(tmp_path / 'psgs_w100.tsv', body)
  plain = read(f'dpr:{path}').passages
  assert [p.id for p in plain] == ['11', '12', '13', '14', '15', '16']
  write(path, quoted([('ID', 'Title', 'Text'), ('1', 'T', 'x'),
                      ('id', 'title', 'text')]))
  assert read(f'dpr:{path}').passages == [
      records.Passage('1', 'T', 'x'), records.Passage('id', 'title', 'text')]


CTX = {'title': 'T', 'text': 'x', 'passage_id': '1'}
GOOD = {'question': 'good', 'answers': ['g'], 'positive_ctxs': [CTX]}


@pytest.mark.parametrize('form', ['array', 'lines'])
@pytest.mark.parametrize('item, message', [
    (['x'], 'a json object was expected, found list'),
    (None, 'a json object was expected, found null'),
    ({'answers': [], 'positive_ctxs': [CTX]},
     'key "question" is missing; keys are .*positive_ctxs'),
    ({**GOOD, 'question': 7}, 'key "question" holds int, not text'),
    ({**GOOD, 'answers': 'x'}, 'key "answers" holds str, not a list'),
    ({**GOOD, 'answers': ['x', {}]}, r'answers\[1\] holds dict, not text'),
    ({'question': 'q', 'answers': []}, 'key "positive_ctxs" is missing'),
    ({**GOOD, 'positive_ctxs': {}}, 'key "positive_ctxs" holds dict'),
    ({**GOOD, 'positive_ctxs': [CTX, 'x']},
     r'positive_ctxs\[1\]: a json object was expected, found str'),
    ({**GOOD, 'hard_negative_ctxs': [{'title': 'T', 'passage_id': '9'}]},
     r'hard_negative_ctxs\[0\]: key "text" is missing'),
    ({**GOOD, 'negative_ctxs': [{**CTX, 'title': ['T']}]},
     r'negative_ctxs\[0\]: key "title" holds list, not text'),
    ({**GOOD, 'positive_ctxs': [{**CTX, 'passage_id': 1.5}]},
     r'positive_ctxs\[0\]: key "passage_id" holds .*, not an id'),
    ({**GOOD, 'question_id': True}, 'key "question_id" holds bool, not an id'),
])
def test_broken_dpr_items_are_named_or_skipped(tmp_path, form, item, message):
  path = write(tmp_path / 'dev.json', dump([GOOD, item, GOOD], form))
  place = 'item 2' if form == 'array' else ''
  with pytest.raises(errors.UserError,
                     match=f'dev.json: ?{place or 2}: {message}') as caught:
    prepare(f'dpr:{path}', tmp_path)
  assert 'on_invalid=skip' in str(caught.value)
  corpus = prepare(f'dpr:{path}', tmp_path, skip=True)
  assert corpus.manifest['counts']['skipped'] == {'broken_record': 1}
  assert [q.id for q in corpus.queries] == ['dev-1', 'dev-3']


@pytest.mark.parametrize('line, message', [
    ('why', '1 columns between tabs where a question and a list'),
    ("a\tb\t['c']", '3 columns between tabs'),
    ('why\tnot a list', "answers are not a list like .*: 'not a list'"),
    ("why\t'one'", 'answers are not a list'),
    ("why\t{'a': 1}", 'answers are not a list'),
    ('why\t[__import__("os")]', 'answers are not a list'),
    ('why\t' + '[' * 9999, 'answers are not a list'),
    ("why\t['a', None]", r'answers\[1\] holds null, not text'),
    ('why\t"' + 'x' * 200_000, r'unexpected end of data \(is a quote not'),
    ('why\t[0x' + 'f' * 9999 + ']', r'answers\[0\]: Exceeds the limit'),
    ("why\t['a', {'b', 'c'}]", r'answers\[1\] holds set, not text'),
    ("why\t[b'a']", r'answers\[0\] holds bytes, not text'),
    ('why\t[...]', r'answers\[0\] holds ellipsis, not text'),
])
def test_broken_answers_are_named_or_skipped(tmp_path, line, message):
  write(tmp_path / 'train.json', json.dumps([GOOD]))
  write(tmp_path / 'nq-dev.qa.csv', f"one\t['1']\n{line}\n")
  with pytest.raises(errors.UserError, match=f'nq-dev.qa.csv:2: {message}'):
    prepare(f'dpr:{tmp_path}', tmp_path)
  corpus = prepare(f'dpr:{tmp_path}', tmp_path, skip=True)
  assert corpus.manifest['counts']['skipped'] == {'broken_record': 1}
  assert len(corpus.judgements('dev-qa').queries) == 1


@pytest.mark.parametrize('line, message', [
    ('2\ttwo', '2 columns where id, text, title were expected'),
    ('2\ttwo\tT\tmore', '4 columns'),
    ('2\t"two\tT', r'unexpected end of data \(is a quote not closed'),
    ('2\ttwo\t"T" x', r"'.*' expected after .* \(is a quote not closed"),
    ('2\ttwo\rx\t"T"', 'new-line character seen in unquoted'),
    ('\t\t', 'the id is empty'),
    ('\ttwo\tT', 'the id is empty'),
    ('2\t \t', 'passage "2" has no title or text'),
    ('1\tother\tT', 'passage id "1" was there before, with another content'),
])
def test_broken_passages_are_named_or_skipped(tmp_path, line, message):
  write(tmp_path / 'psgs_w100.tsv', f'id\ttext\ttitle\n1\tx\tT\n{line}\n')
  write(tmp_path / 'train.json', json.dumps([GOOD]))
  with pytest.raises(errors.UserError, match=f'psgs_w100.tsv:3: {message}'):
    prepare(f'dpr:{tmp_path}', tmp_path)
  corpus = prepare(f'dpr:{tmp_path}', tmp_path, skip=True)
  assert sum(corpus.manifest['counts']['skipped'].values()) == 1
  assert len(corpus.passages) == 1


def test_dpr_contexts_that_the_corpus_lacks(tmp_path):
  write(tmp_path / 'psgs_w100.tsv', 'id\ttext\ttitle\n2\tx\tT\n')
  path = write(tmp_path / 'train.json', json.dumps([GOOD]))
  with pytest.raises(errors.UserError,
                     match='train.json: item 1: .* unknown passage "1"'):
    prepare(f'dpr:{tmp_path}', tmp_path)
  write(path, json.dumps([{**GOOD, 'positive_ctxs': [{'text': 'x'}]}]))
  with pytest.raises(errors.UserError,
                     match=r'positive_ctxs\[0\]: key "passage_id" or "psg_id" '
                     'is missing, by which psgs_w100.tsv is searched'):
    prepare(f'dpr:{tmp_path}', tmp_path)


def test_dpr_files_that_lack_or_clash(tmp_path):
  for place in (tmp_path, tmp_path / 'none.json'):
    with pytest.raises(errors.UserError, match=f'dpr:{place}: no such file'):
      read(f'dpr:{place}')
  write(tmp_path / 'x-test.qa.csv', "q\t['a']\n")
  with pytest.raises(errors.UserError, match='without a corpus'):
    read(f'dpr:{tmp_path}')
  write(tmp_path / 'psgs_a.tsv', quoted(PSGS))
  write(tmp_path / 'psgs_a.tsv.gz', 'not read: the plain one is here')
  assert len(read(f'dpr:{tmp_path}').passages) == 6
  write(tmp_path / 'psgs_b.tsv', quoted(PSGS))
  with pytest.raises(errors.UserError, match='psgs_a.tsv and psgs_b.tsv may'):
    read(f'dpr:{tmp_path}')


# ---------------------------------------------------------------------------
# MS MARCO.

COLLECTION = [('0', AWKWARD), ('1', ' "one" '), ('two words', 'two'),
              ('3', "'three")]
MARCO_QUERIES = [('10', 'why ' + AWKWARD), ('11', 'how'), ('12', 'unjudged')]


def make_msmarco(folder, ending='', **given):
  content = {
      'collection.tsv': tabbed(COLLECTION),
      'queries.train.tsv': tabbed(MARCO_QUERIES).replace('\n', '\r\n'),
      'queries.dev.small.tsv': '\ufeff' + tabbed([('20', 'when')]),
      'qrels.train.tsv': '10\t0\t0\t1\n10\t0\ttwo words\t1\n\n11\t0\t1\t1\n',
      'qrels.dev.small.tsv': '20 0 3 1',
      'qidpidtriples.train.full.2.tsv': tabbed([
          ('10', '0', '1'), ('10', '0', '3'), ('10', '0', '1'),
          ('10', '0', 'two words'), ('11', 'two words', '3')]),
      **given,
  }
  for name, text in content.items():
    if text is not None:
      write(folder / (name + ending), text)
  return folder


@pytest.mark.parametrize('ending', ['', '.gz'])
def test_msmarco(tmp_path, ending):
  found = read(f'msmarco:{make_msmarco(tmp_path, ending)}')
  assert found.passages == [records.Passage(name, '', text)
                            for name, text in COLLECTION]
  assert found.queries == [records.Query(*row) for row in
                           [('20', 'when'), *MARCO_QUERIES]]
  assert judged(found, 'dev.small') == [('20', '3', 1, True)]
  assert judged(found, 'train') == [
      ('10', '0', 1, True), ('10', 'two words', 1, True), ('11', '1', 1, True),
      ('10', '1', 0, True), ('10', '3', 0, True), ('10', '1', 0, True),
      ('11', '3', 0, True)]
  corpus = prepare(f'msmarco:{tmp_path}', tmp_path)
  assert corpus.manifest['counts']['judgements'] == {'dev.small': 1, 'train': 6}
  assert [q.id for q in corpus.queries] == ['20', '10', '11']


def test_msmarco_triples_without_qrels(tmp_path):
  folder = make_msmarco(tmp_path, **{'qrels.train.tsv': None})
  assert judged(read(f'msmarco:{folder}'), 'train') == [
      ('10', '0', 1, True), ('11', 'two words', 1, True),
      ('10', '1', 0, True), ('10', '3', 0, True), ('10', '1', 0, True),
      ('10', 'two words', 0, True), ('11', '3', 0, True)]


def test_msmarco_names_and_headers(tmp_path):
  folder = make_msmarco(tmp_path, **{
      'collection.tsv': 'pid\tpassage\n' + tabbed(COLLECTION)
                        + 'id\tpassage\n',
      'queries.dev.small.tsv': 'QID\tQuery\n20\twhen\n',
      'qrels.dev.small.tsv': None, 'qrels.dev.small.txt': '20 0 3 1',
      'qidpidtriples.train.full.2.tsv': None,
      'qidpidtriples.rnd-shuf.train.tsv': '10\t0\t1\n'})
  found = read(f'msmarco:{folder}')
  assert [p.id for p in found.passages] == ['0', '1', 'two words', '3', 'id']
  assert [q.id for q in found.queries][:2] == ['20', '10']
  assert list(found.judgements) == ['dev.small', 'train']
  assert judged(found, 'train')[-1] == ('10', '1', 0, True)
  write(folder / 'qrels.dev.small.tsv', '20 0 3 1')
  with pytest.raises(errors.UserError, match='a split has two files of qrels'):
    read(f'msmarco:{folder}')
  for path in folder.glob('q*'):
    if path.name != 'queries.train.tsv':
      path.unlink()
  write(folder / 'qrels.tsv', '10 0 3 1')
  assert list(read(f'msmarco:{folder}').judgements) == ['all']


def test_a_triple_with_an_empty_field_is_one_fault(tmp_path):
  path = write(tmp_path / 'triples.train.small.tsv',
               'why\tso\tno\nwhy\t \tno\nwhy\tso\t\n')
  with pytest.raises(errors.UserError, match=f'{path.name}:2: expected'):
    prepare(f'msmarco:{tmp_path}', tmp_path)
  corpus = prepare(f'msmarco:{tmp_path}', tmp_path, skip=True)
  assert corpus.manifest['counts']['skipped'] == {'broken_record': 2}


def test_msmarco_text_triples(tmp_path, caplog):
  rows = [('why', AWKWARD, 'no'), ('why', AWKWARD, 'nay'), ('how', 'so', 'no'),
          ('why', 'so', 'no')]
  write(tmp_path / 'triples.train.small.tsv', tabbed(rows))
  corpus = prepare(f'msmarco:{tmp_path}', tmp_path)
  assert [p.text for p in corpus.passages] == [AWKWARD, 'no', 'nay', 'so']
  assert [q.text for q in corpus.queries] == ['why', 'how']
  train = corpus.judgements('train')
  assert list(zip(train.query_rows, train.passage_rows, train.grades,
                  strict=True)) == [
      (0, 0, 1), (0, 1, 0), (0, 2, 0), (0, 3, 1), (1, 1, 0), (1, 3, 1)]
  make_msmarco(tmp_path)
  found = read(f'msmarco:{tmp_path}')
  assert len(found.passages) == len(COLLECTION)
  assert 'not reading triples.train.small.tsv' in caplog.text


def test_msmarco_negatives_are_bounded(tmp_path):
  make_msmarco(tmp_path, **{
      'qidpidtriples.train.full.2.tsv': None,
      'qidpidtriples.train.full.tsv': tabbed(
          ('10', '0', str(n)) for n in range(30_000))})
  source = sources.open_source(f'msmarco:{tmp_path}',
                               records.InvalidRecords(False))
  tracemalloc.start()
  grades = [j.grade for j in source.judgements('train')]
  peak = tracemalloc.get_traced_memory()[1]
  tracemalloc.stop()
  assert (grades.count(1), grades.count(0)) == (3, 32)
  assert peak < 1_000_000


@pytest.mark.parametrize('name, line, message', [
    ('collection.tsv', 'x', 'expected an id, a tab and a passage, found 1 col'),
    ('collection.tsv', 'x\ty\tz', 'a passage, found 3 columns'),
    ('collection.tsv', '\tno id', 'expected an id'),
    ('collection.tsv', '9\t', 'passage "9" has no title or text'),
    ('collection.tsv', '0\tother', 'passage id "0" was there before'),
    ('queries.train.tsv', '10', 'expected an id, a tab and a query'),
    ('queries.train.tsv', '10\tother', 'query id "10" was there before'),
    ('qrels.train.tsv', '10\t0\t3', 'expected query, 0, passage and'),
    ('qrels.train.tsv', '10\t0\t3\tx', 'expected query, 0, passage and'),
    ('qrels.train.tsv', '10\t0\t77\t1', 'judgement of an unknown passage "77"'),
    ('qrels.train.tsv', '77\t0\t3\t1', 'judgement of an unknown query "77"'),
    ('qrels.train.tsv', '10\t0\t0\t2', 'judged before, with another grade'),
    ('qidpidtriples.train.full.2.tsv', '10\t0', 'expected a query, a positive'),
    ('qidpidtriples.train.full.2.tsv', '11\t1\t77', 'unknown passage "77"'),
])
def test_broken_msmarco_is_named_or_skipped(tmp_path, name, line, message):
  folder = make_msmarco(tmp_path / 'data')
  with open(folder / name, 'ab') as f:
    f.write(f'{line}\n'.encode())
  number = (folder / name).read_bytes().count(b'\n')
  with pytest.raises(errors.UserError, match=f'{name}:{number}: .*{message}'):
    prepare(f'msmarco:{folder}', tmp_path)
  corpus = prepare(f'msmarco:{folder}', tmp_path, skip=True)
  assert sum(corpus.manifest['counts']['skipped'].values()) == 1
  assert len(corpus.passages) == 4
  assert len(corpus.judgements('train').grades) == 6


@pytest.mark.parametrize('missing, message', [
    (['collection.tsv'], 'no such file: collection.tsv'),
    (['queries.train.tsv', 'queries.dev.small.tsv'], 'queries.<split>.tsv'),
    (['qrels.train.tsv', 'qrels.dev.small.tsv',
      'qidpidtriples.train.full.2.tsv'], 'no such file: qrels.<split>.tsv'),
])
def test_msmarco_files_that_lack(tmp_path, missing, message):
  make_msmarco(tmp_path, **dict.fromkeys(missing))
  with pytest.raises(errors.UserError, match=message):
    read(f'msmarco:{tmp_path}')
  with pytest.raises(errors.UserError, match='is a file; name the folder'):
    read(f'msmarco:{write(tmp_path / "collection.tsv", "1	x")}')


def test_msmarco_collection_alone(tmp_path):
  write(tmp_path / 'collection.tsv.gz', tabbed(COLLECTION))
  found = read(f'msmarco:{tmp_path}')
  assert (len(found.passages), found.queries, found.judgements) == (4, [], {})


# ---------------------------------------------------------------------------
# Tevatron.

TEVATRON: list[dict[str, Any]] = [
    {'query_id': 1, 'query': AWKWARD, 'answers': ['x', 'y'],
     'positive_passages': [{'docid': 'a b', 'title': 'T', 'text': AWKWARD},
                           {'docid': 5, 'text': 'five\nlines\t'}],
     'negative_passages': [{'docid': 'n', 'title': '', 'text': 'neg'},
                           {'docid': '5', 'title': None,
                            'text': 'five\nlines\t'}]},
    {'query_id': '2', 'query': 'two',
     'positive_passages': [{'docid': 'n', 'title': '', 'text': 'neg'}]},
    {'query_id': '3', 'query': 'three', 'answers': ['z'],
     'positive_passages': [], 'negative_passages': []},
    {'query_id': '4', 'query': 'nothing known', 'positive_passages': [],
     'negative_passages': []},
]


@pytest.mark.parametrize('ending', ['', '.gz'])
@pytest.mark.parametrize('by_id', [False, True])
@pytest.mark.parametrize('key', ['text', 'document_text'])
def test_tevatron(tmp_path, ending, by_id, key):
  rows = TEVATRON
  if by_id:
    names = lambda row, kind: [passage['docid'] for passage in
                               row.get(f'{kind}_passages', [])]
    rows = [{'query_id': row['query_id'], 'query_text': row['query'],
             'query_image': None, 'answers': row.get('answers'),
             'positive_document_ids': names(row, 'positive'),
             'negative_document_ids': names(row, 'negative')} for row in rows]
    passages = {str(p['docid']): p for row in TEVATRON for kind in
                ('positive', 'negative') for p in row.get(f'{kind}_passages',
                                                          ())}
    write(tmp_path / f'corpus.jsonl{ending}', '\ufeff' + lines(
        {'docid': p['docid'], 'title': p.get('title'), key: p['text'],
         'image': None} for p in passages.values()))
  path = write(tmp_path / f'dev.jsonl{ending}', lines(rows[:1]) + '\n \n'
               + lines(rows[1:])[:-1])
  expected = [('1', 'a b', 1, True), ('1', '5', 1, True), ('1', 'n', 0, True),
              ('2', 'n', 1, True)]
  found = read(f'tevatron:{tmp_path}')
  assert judged(found, 'dev') == expected
  assert [(q.id, q.text, q.answers) for q in found.queries] == [
      ('1', AWKWARD, ('x', 'y')), ('2', 'two', ()), ('3', 'three', ('z',))]
  assert set(found.passages) == {
      records.Passage('a b', 'T', AWKWARD), records.Passage('n', '', 'neg'),
      records.Passage('5', '', 'five\nlines\t')}
  corpus = prepare(f'tevatron:{tmp_path}', tmp_path)
  dev = corpus.judgements('dev')
  assert [corpus.queries[row].id for row in dev.unjudged.tolist()] == ['3']
  assert len(dev.grades) == 4
  if not by_id:
    assert read(f'tevatron:{path}') == found


PSG = {'docid': 'a', 'title': 'T', 'text': 'x'}
ROW = {'query_id': '1', 'query': 'one', 'positive_passages': [PSG]}


@pytest.mark.parametrize('row, message', [
    ('{"query_id": "2", ', 'not valid json: .* at column 19'),
    ('[' * 100_000, 'not valid json: nested too deeply'),
    ('1' * 5000, 'a json object was expected, found str'),
    ('"x"', 'a json object was expected, found str'),
    ({**ROW, 'query_id': None}, 'key "query_id" is missing'),
    ({**ROW, 'query_id': [1]}, 'key "query_id" holds list, not an id'),
    ({'query_id': '2', 'positive_passages': [PSG]},
     'key "query" or "query_text" is missing'),
    ({**ROW, 'query': [101, 102]}, 'key "query" holds list, not text'),
    ({**ROW, 'positive_passages': 'a'}, 'key "positive_passages" holds str'),
    ({**ROW, 'positive_passages': ['a']},
     r'positive_passages\[0\]: a json object was expected, found str'),
    ({**ROW, 'positive_passages': [PSG, {'docid': 'b', 'title': 'T'}]},
     r'positive_passages\[1\]: key "text" or "document_text" is missing'),
    ({**ROW, 'negative_passages': [{'text': 'x'}]},
     r'negative_passages\[0\]: key "docid" is missing'),
    ({**ROW, 'negative_passages': [{**PSG, 'text': None}]},
     r'negative_passages\[0\]: key "text" holds null, not text'),
    ({**ROW, 'positive_document_ids': [{'docid': 'a'}]},
     r'positive_document_ids\[0\] holds dict, not text'),
    ({'query_id': '2', 'query': 'two', 'positive_passage': [PSG]},
     'key "positive_passages" or "positive_document_ids" is missing'),
    ({'query_id': '2', 'query': 'two', 'negative_passages': [PSG]},
     'key "positive_passages" or "positive_document_ids" is missing'),
])
def test_broken_tevatron_is_named_or_skipped(tmp_path, row, message):
  path = write(tmp_path / 'train.jsonl',
               lines([ROW, row, {**ROW, 'query_id': '3'}]))
  with pytest.raises(errors.UserError, match=f'train.jsonl:2: {message}'):
    prepare(f'tevatron:{path}', tmp_path)
  corpus = prepare(f'tevatron:{path}', tmp_path, skip=True)
  assert corpus.manifest['counts']['skipped'] == {'broken_record': 1}
  assert [q.id for q in corpus.queries] == ['1', '3']


def test_tevatron_queries_to_encode(tmp_path):
  write(tmp_path / 'corpus.jsonl', lines(
      [{**PSG, 'text': '', 'document_text': 'x'}]))
  write(tmp_path / 'dev.jsonl', lines([
      {'query_id': '1', 'query': 'one'}, {'query_id': 2, 'query_text': 'two'}]))
  corpus = prepare(f'tevatron:{tmp_path}', tmp_path)
  assert corpus.passages[0].text == 'x'
  dev = corpus.judgements('dev')
  assert [corpus.queries[row].text for row in dev.queries.tolist()] == [
      'one', 'two']
  assert len(dev.grades) == 0


@pytest.mark.parametrize('row, message', [
    ({'docid': 'b', 'body': 'x'}, 'key "text" or "document_text" is missing'),
    ({'docid': 'b', 'text': '', 'title': None},
     '"b": key "text" or "document_text" is empty'),
    ({'docid': 'b', 'document_text': ' ', 'text': '', 'title': 'T'},
     '"b": key "text" or "document_text" is empty'),
    ({'text': 'x'}, 'key "docid" is missing'),
    ({**PSG, 'text': 'other'}, 'passage id "a" was there before, with another'),
])
def test_broken_tevatron_corpus_is_named_or_skipped(tmp_path, row, message):
  write(tmp_path / 'corpus.jsonl', lines([PSG, row, PSG]))
  write(tmp_path / 'train.jsonl', lines([ROW]))
  with pytest.raises(errors.UserError, match=f'corpus.jsonl:2: .*{message}'):
    prepare(f'tevatron:{tmp_path}', tmp_path)
  corpus = prepare(f'tevatron:{tmp_path}', tmp_path, skip=True)
  assert sum(corpus.manifest['counts']['skipped'].values()) == 1
  assert corpus.manifest['counts']['repeated'] == 1


def test_tevatron_files_that_lack_or_are_something_else(tmp_path):
  with pytest.raises(errors.UserError, match='no such file, or a folder witho'):
    read(f'tevatron:{tmp_path}')
  write(tmp_path / 'train.jsonl', lines([
      {'query_id': '1', 'query_text': 'x', 'positive_document_ids': ['a']}]))
  with pytest.raises(errors.UserError, match='has no corpus'):
    read(f'tevatron:{tmp_path}')
  write(tmp_path / 'other.jsonl', lines([{'_id': '1', 'text': 'x'}]))
  with pytest.raises(errors.UserError,
                     match=r"other.jsonl: neither .* first row has \['_id', "):
    read(f'tevatron:{tmp_path}')
  write(tmp_path / 'other.jsonl', '')
  with pytest.raises(errors.UserError, match=r'neither .* first row has \[\]'):
    read(f'tevatron:{tmp_path}')


# ---------------------------------------------------------------------------
# FlagEmbedding.

FLAG = [
    {'query': AWKWARD, 'pos': [AWKWARD, 'second\n'], 'neg': ['n1', 'n2'],
     'pos_scores': [1, 0.5], 'neg_scores': [0.1, 0], 'prompt': 'Find:',
     'type': 'normal'},
    {'query': 'other', 'pos': ['n1']},
    {'query': AWKWARD, 'pos': ['third', 'second\n'], 'neg': []},
    {'query': 'no positive', 'pos': [], 'neg': ['n3']},
    {'query_id': 'q 5', 'query': 'ids', 'pos': ['n1'], 'neg': ['n4'],
     'pos_id': ['p1'], 'neg_id': [4]},
]


@pytest.mark.parametrize('ending', ['', '.gz'])
def test_flag_embedding(tmp_path, ending):
  write(tmp_path / f'train.jsonl{ending}', '\ufeff' + lines(FLAG)[:-1])
  write(tmp_path / f'candidate_pool.jsonl{ending}', lines(
      [{'text': 'pooled'}, {'text': 'n1'}, {'text': AWKWARD}]))
  corpus = prepare(f'flag_embedding:{tmp_path}', tmp_path)
  texts = [p.text for p in corpus.passages]
  assert texts == ['pooled', 'n1', AWKWARD, 'second\n', 'n2', 'third', 'n3',
                   'n1', 'n4']
  assert [q.text for q in corpus.queries] == [AWKWARD, 'other', 'ids']
  assert bytes(corpus.query_ids[2]) == b'q 5'
  assert [corpus.passage_ids.row_of(name) for name in ('p1', '4')] == [7, 8]
  train = corpus.judgements('train')
  assert {(corpus.queries[q].text, texts[p], g) for q, p, g in
          zip(train.query_rows.tolist(), train.passage_rows.tolist(),
              train.grades.tolist(), strict=True)} == {
      (AWKWARD, AWKWARD, 1), (AWKWARD, 'second\n', 1), (AWKWARD, 'third', 1),
      (AWKWARD, 'n1', 0), (AWKWARD, 'n2', 0), ('other', 'n1', 1),
      ('ids', 'n1', 1), ('ids', 'n4', 0)}
  read(f'flag_embedding:{tmp_path}')


@pytest.mark.parametrize('row, message', [
    ({'query': 'x'}, 'key "pos" is missing'),
    ({'query': None, 'pos': ['x']}, 'key "query" holds null, not text'),
    ({'query': 'x', 'pos': 'x'}, 'key "pos" holds str, not a list'),
    ({'query': 'x', 'pos': ['a'], 'neg': ['b', 2]},
     r'neg\[1\] holds int, not text'),
    ({'query': 'x', 'pos': ['a'], 'pos_id': ['1', '2']},
     'key "pos_id" holds 2 ids for 1 texts'),
    (['query'], 'a json object was expected'),
])
def test_broken_flag_embedding_is_named_or_skipped(tmp_path, row, message):
  path = write(tmp_path / 'data.jsonl', lines([FLAG[1], row]))
  with pytest.raises(errors.UserError, match=f'data.jsonl:2: {message}'):
    prepare(f'flag_embedding:{path}', tmp_path)
  corpus = prepare(f'flag_embedding:{path}', tmp_path, skip=True)
  assert corpus.manifest['counts']['skipped'] == {'broken_record': 1}
  assert corpus.splits == ('all',)


def test_flag_embedding_empty_texts_and_repeated_queries(tmp_path):
  path = write(tmp_path / 'train.jsonl', lines(
      [{'query': 'q', 'pos': ['a'], 'neg': [' ']}]))
  with pytest.raises(errors.UserError,
                     match='train.jsonl:1: passage ".*" has no title or text'):
    prepare(f'flag_embedding:{path}', tmp_path)
  write(path, lines([{'query': 'q', 'pos': ['a'], 'neg': ['b', 'a', 'c']},
                     {'query': 'q', 'pos': ['b'], 'neg': ['a']}]))
  corpus = prepare(f'flag_embedding:{path}', tmp_path)
  judged = corpus.judgements('train')
  # A positive of one item is no negative of another.
  assert {(corpus.passages[row].text, grade) for row, grade in zip(
      judged.passage_rows.tolist(), judged.grades.tolist(), strict=True
  )} == {('a', 1), ('b', 1), ('c', 0)}


def test_flag_embedding_files_that_lack_or_are_something_else(tmp_path):
  with pytest.raises(errors.UserError, match='no such file, or a folder witho'):
    read(f'flag_embedding:{tmp_path}')
  write(tmp_path / 'x.jsonl', lines([{'query': 'x', 'positives': []}]))
  with pytest.raises(errors.UserError, match='x.jsonl: neither questions'):
    read(f'flag_embedding:{tmp_path}')


# ---------------------------------------------------------------------------
# Damaged files, in every format.

def make_each(folder):
  """Spec and a file of each format; all are gzipped."""
  write(folder / 'dpr' / 'train.json.gz', json.dumps(ITEMS))
  write(folder / 'dpr' / 'psgs_w100.tsv.gz', quoted(PSGS))
  write(folder / 'dpr' / 'x-test.qa.csv.gz', "q\t['a']\n")
  write(folder / 'jsonl' / 'train.jsonl.gz', lines(ITEMS))
  make_msmarco(folder / 'msmarco', '.gz')
  write(folder / 'triples' / 'triples.train.small.tsv.gz', 'a\tb\tc\n')
  write(folder / 'tevatron' / 'train.jsonl.gz', lines(TEVATRON))
  write(folder / 'flag' / 'train.jsonl.gz', lines(FLAG))
  return folder


EACH = [
    ('dpr:{}/dpr', 'dpr/train.json.gz'), ('dpr:{}/dpr', 'dpr/psgs_w100.tsv.gz'),
    ('dpr:{}/dpr', 'dpr/x-test.qa.csv.gz'),
    ('dpr:{}/jsonl', 'jsonl/train.jsonl.gz'),
    ('msmarco:{}/msmarco', 'msmarco/collection.tsv.gz'),
    ('msmarco:{}/msmarco', 'msmarco/queries.train.tsv.gz'),
    ('msmarco:{}/msmarco', 'msmarco/qrels.train.tsv.gz'),
    ('msmarco:{}/msmarco', 'msmarco/qidpidtriples.train.full.2.tsv.gz'),
    ('msmarco:{}/triples', 'triples/triples.train.small.tsv.gz'),
    ('tevatron:{}/tevatron', 'tevatron/train.jsonl.gz'),
    ('flag_embedding:{}/flag', 'flag/train.jsonl.gz'),
]


@pytest.mark.parametrize('damage', ['cut', 'flip', 'none', 'latin-1'])
@pytest.mark.parametrize('spec, name', EACH)
def test_damaged_files_are_named(tmp_path, spec, name, damage):
  spec = spec.format(make_each(tmp_path))
  path = tmp_path / name
  text = gzip.decompress(path.read_bytes())
  data = gzip.compress(text)  # With a header of ten bytes.
  if damage == 'latin-1':
    write(path, text[:-2] + b'\xe9\n')
  else:
    path.write_bytes({
        'cut': data[:-9], 'none': data,
        'flip': data[:10] + b'\xff' * 9 + data[19:],
    }[damage])
  if damage == 'none':
    read(spec)
    return
  for skip in (False, True):
    with pytest.raises(errors.UserError, match=f'{path.name}:'):
      read(spec, skip)


@pytest.mark.parametrize('text, message', [
    (json.dumps(ITEMS)[:-2], 'not valid json after item 3'),
    (json.dumps(ITEMS) + 'x', 'not valid json after item 4'),
    ('[{"question": }]', 'not valid json after item 0'),
])
def test_broken_arrays_are_named(tmp_path, text, message):
  path = write(tmp_path / 'train.json', text)
  for skip in (False, True):
    with pytest.raises(errors.UserError, match=f'train.json: {message}'):
      read(f'dpr:{path}', skip)


def test_half_a_surrogate_pair(tmp_path):
  write(tmp_path / 'train.jsonl', lines(
      [ROW, '{"query_id": "2", "query": "\\ud800", "positive_passages": '
       '[{"docid": "\\udfff", "text": "x"}]}']))
  with pytest.raises(errors.UserError, match='train.jsonl:2: .*valid Unicode'):
    prepare(f'tevatron:{tmp_path}', tmp_path)
  corpus = prepare(f'tevatron:{tmp_path}', tmp_path, skip=True)
  assert [q.id for q in corpus.queries] == ['1']
  assert len(files.content_id('\ud800')) == 24


# ---------------------------------------------------------------------------
# TREC qrels in BEIR folders.

def make_beir(folder, name, qrels):
  write(folder / 'corpus.jsonl', lines(
      {'_id': n, 'text': f'text {n}'} for n in ('a', 'b c', '9')))
  write(folder / 'queries.jsonl', lines(
      {'_id': n, 'text': f'query {n}'} for n in ('q1', 'q 2')))
  write(folder / 'qrels' / name, qrels)
  return folder


@pytest.mark.parametrize('name', ['dev.trec', 'dev.tsv', 'dev.trec.gz'])
def test_beir_with_trec_qrels(tmp_path, name):
  make_beir(tmp_path, name, '\r\nq1\t0\tb c\t2\r\nq 2\tQ0\t9\t-1\r\nq1 0 a 1')
  found = read(f'beir:{tmp_path}')
  assert judged(found, 'dev') == [
      ('q1', 'b c', 2, True), ('q 2', '9', -1, True), ('q1', 'a', 1, True)]
  assert found.judgements['dev'][0].where.endswith(':2')


@pytest.mark.parametrize('line, message', [
    ('q1 0 a', 'expected query, 0, passage and a whole-number grade, found'),
    ('q1\t0\ta\t1.5', 'expected query, 0, passage'),
    ('q1\ta\t1', 'expected query, 0, passage'),
])
def test_broken_trec_qrels(tmp_path, line, message):
  make_beir(tmp_path, 'dev.tsv', f'q1\t0\ta\t1\n{line}\n')
  with pytest.raises(errors.UserError, match=f'dev.tsv:2: {message}'):
    read(f'beir:{tmp_path}')
  assert judged(read(f'beir:{tmp_path}', True), 'dev') == [('q1', 'a', 1, True)]


def test_beir_qrels_without_header_or_twice(tmp_path):
  make_beir(tmp_path, 'dev.tsv', 'q1 a 1\n')
  with pytest.raises(errors.UserError, match='dev.tsv:1: the header line'):
    read(f'beir:{tmp_path}')
  write(tmp_path / 'qrels' / 'dev.trec', 'q1 0 a 1')
  with pytest.raises(errors.UserError, match='both as .tsv and as .trec'):
    read(f'beir:{tmp_path}')


def test_trec_qrels_as_the_evaluation_reads_them(shared_data, tmp_path):
  path = shared_data / 'oracles' / 'trec_eval-test' / 'qrels.test'
  make_beir(tmp_path, 'test.trec', path.read_bytes())
  expected = [(query, passage, grade) for query, found in
              trec.read_qrels(path).items() for passage, grade in found.items()]
  source = beir.Beir(str(tmp_path), records.InvalidRecords(False))
  assert [(j.query_id, j.passage_id, j.grade)
          for j in source.judgements('test')] == expected


# ---------------------------------------------------------------------------
# Real data: a BEIR folder written in each format and read back.

@pytest.fixture(scope='module')
def base():
  """What the BEIR reader makes of real data; some hundreds of judgements.

  Shape checks make a call of a reader's function cost 25 microseconds.
  """
  folder = pathlib.Path(__file__).parents[3] / 'shared' / 'data'
  if not folder.is_dir():
    pytest.skip('no ../shared/data here')
  found = {}
  for name, splits in (('squad-v1.1-dev', ('split-dev',)),
                       ('fairytaleqa', ('val', 'test'))):
    source = beir.Beir(str(folder / name), records.InvalidRecords(False))
    found[name] = Contents(
        list(source.passages()), list(source.queries()),
        {split: list(itertools.islice(source.judgements(split), 1, 2000, 4))
         for split in splits})
  return found


def to_dpr(folder, base, has_corpus):
  passages = {p.id: p for p in base.passages}
  queries = {q.id: q for q in base.queries}
  if has_corpus:
    write(folder / 'psgs_w100.tsv.gz', quoted(
        [('id', 'text', 'title'), *((p.id, p.text, p.title)
                                    for p in base.passages)]))
  for split, found in base.judgements.items():
    write(folder / f'biencoder-x-{split}.json', json.dumps([
        {'question_id': j.query_id, 'question': queries[j.query_id].text,
         'answers': queries[j.query_id].answers,
         'positive_ctxs': [{'passage_id': j.passage_id,
                            'title': passages[j.passage_id].title,
                            'text': passages[j.passage_id].text}],
         'negative_ctxs': [], 'hard_negative_ctxs': []} for j in found]))
  return f'dpr:{folder}'


def to_tevatron(folder, base, has_corpus):
  passages = {p.id: p for p in base.passages}
  queries = {q.id: q for q in base.queries}
  if has_corpus:
    write(folder / 'corpus.jsonl', lines(
        {'docid': p.id, 'title': p.title, 'text': p.text}
        for p in base.passages))
  for split, found in base.judgements.items():
    write(folder / f'{split}.jsonl.gz', lines(
        {'query_id': j.query_id, 'query': queries[j.query_id].text,
         'answers': queries[j.query_id].answers,
         **({'positive_document_ids': [j.passage_id]} if has_corpus else
            {'positive_passages': [
                {'docid': j.passage_id, 'title': passages[j.passage_id].title,
                 'text': passages[j.passage_id].text}]})} for j in found))
  return f'tevatron:{folder}'


def some_splits(base, **names):
  """Some judgements and their queries; splits as files are named."""
  found = {new: base.judgements[old] for new, old in names.items()}
  used = {j.query_id for part in found.values() for j in part}
  return Contents(base.passages, [q for q in base.queries if q.id in used],
                  found)


@pytest.mark.parametrize('to_format', [to_dpr, to_tevatron])
@pytest.mark.parametrize('has_corpus', [True, False])
@pytest.mark.parametrize('name, splits', [
    ('squad-v1.1-dev', {'dev': 'split-dev'}),
    ('fairytaleqa', {'val': 'val', 'test': 'test'}),
])
def test_real_data_in_formats_of_pairs(
    tmp_path, base, to_format, has_corpus, name, splits
):
  expected = some_splits(base[name], **splits)
  found = read(to_format(tmp_path, expected, has_corpus))
  plain = lambda passage: (passage.id, passage.title, passage.text)
  if has_corpus:
    assert list(map(plain, found.passages)) == list(
        map(plain, expected.passages))
  else:
    used = {j.passage_id for part in expected.judgements.values() for j in part}
    assert set(map(plain, found.passages)) == {
        plain(p) for p in expected.passages if p.id in used}
  assert set(found.queries) == set(expected.queries)
  for split in expected.judgements:
    assert sorted(judged(found, {'val': 'dev'}.get(split, split))) == sorted(
        judged(expected, split))


def test_real_data_as_msmarco(tmp_path, base):
  expected = base['squad-v1.1-dev']
  clean = lambda text: ' '.join(text.replace('\t', ' ').split('\n'))
  write(tmp_path / 'collection.tsv', tabbed(
      (p.id, clean(p.text)) for p in expected.passages))
  expected = some_splits(expected, **{'dev.small': 'split-dev'})
  write(tmp_path / 'queries.dev.tsv', tabbed(
      (q.id, clean(q.text)) for q in expected.queries))
  for split, found in expected.judgements.items():
    write(tmp_path / f'qrels.{split}.tsv', tabbed(
        (j.query_id, 0, j.passage_id, j.grade) for j in found))
  found = read(f'msmarco:{tmp_path}')
  assert [(p.id, p.text) for p in found.passages] == [
      (p.id, clean(p.text)) for p in expected.passages]
  assert [(q.id, q.text) for q in found.queries] == [
      (q.id, clean(q.text)) for q in expected.queries]
  assert {s: judged(found, s) for s in found.judgements} == {
      s: judged(expected, s) for s in expected.judgements}


def test_real_data_as_flag_embedding(tmp_path, base):
  expected = base['squad-v1.1-dev']
  texts = {p.id: p.text for p in expected.passages}
  queries = {q.id: q for q in expected.queries}
  by_query = itertools.groupby(expected.judgements['split-dev'],
                               lambda judgement: judgement.query_id)
  write(tmp_path / 'dev.jsonl', lines(
      {'query_id': name, 'query': queries[name].text,
       'answers': queries[name].answers,
       'pos': [texts[j.passage_id] for j in found]}
      for name, found in by_query))
  write(tmp_path / 'pool.jsonl', lines(
      {'text': text} for text in texts.values()))
  found = read(f'flag_embedding:{tmp_path}')
  assert {p.text for p in found.passages} == set(texts.values())
  of = {p.id: p.text for p in found.passages}
  assert [(j.query_id, of[j.passage_id], j.grade)
          for j in found.judgements['dev']] == [
      (j.query_id, texts[j.passage_id], j.grade)
      for j in expected.judgements['split-dev']]
  assert found.queries == [queries[j.query_id]
                           for j in expected.judgements['split-dev']]


def test_real_data_by_trec_qrels(tmp_path, base, shared_data):
  expected = base['squad-v1.1-dev'].judgements['split-dev']
  for name in ('corpus.jsonl', 'queries.jsonl'):
    (tmp_path / name).symlink_to(shared_data / 'squad-v1.1-dev' / name)
  write(tmp_path / 'qrels' / 'dev.trec', ''.join(
      f'{j.query_id} 0 {j.passage_id} {j.grade}\n' for j in expected))
  source = beir.Beir(str(tmp_path), records.InvalidRecords(False))
  found = list(source.judgements('dev'))
  assert len(found) == 500
  assert [(j.query_id, j.passage_id, j.grade) for j in found] == [
      (j.query_id, j.passage_id, j.grade) for j in expected]


# ---------------------------------------------------------------------------
# The hint when a scheme is forgotten.

@pytest.mark.parametrize('name, text, scheme', [
    ('corpus.jsonl.gz', lines([{'_id': '1', 'text': 'x'}]), 'beir'),
    ('corpus.jsonl', lines([PSG]), 'tevatron'),
    ('train.jsonl', lines([ROW]), 'tevatron'),
    ('train.jsonl.gz', lines(FLAG), 'flag_embedding'),
    ('collection.tsv.gz', tabbed(COLLECTION), 'msmarco'),
    ('qidpidtriples.train.full.2.tsv', '', 'msmarco'),
    ('psgs_w100.tsv.gz', '', 'dpr'),
    ('nq-test.qa.csv', '', 'dpr'),
    ('biencoder-nq-train.json.gz', '', 'dpr'),
    ('other.json', json.dumps(ITEMS), 'dpr'),
    ('train-v1.1.json', '{"data": []}', 'squad'),
    ('manifest.json', '{}', 'tfds'),
    ('doc.TXT', 'words', 'text'),
])
def test_hints(tmp_path, name, text, scheme):
  path = write(tmp_path / name, text)
  is_alone = scheme in ('tevatron', 'flag_embedding', 'squad') or (
      scheme == 'dpr' and '.csv' not in name)
  for place, shown in ((tmp_path, tmp_path),
                       (path, path if is_alone else tmp_path)):
    with pytest.raises(errors.UserError,
                       match=f'did you mean {scheme}:{shown}\\?'):
      sources.open_source(f'none:{place}', records.InvalidRecords(False))


@pytest.mark.parametrize('name, kind', [
    ('faq.csv', 'csv'), ('faq.tsv.gz', 'tsv'), ('faq.parquet', 'parquet'),
])
def test_hints_of_tables(tmp_path, name, kind):
  path = write(tmp_path / name, 'question,text\n')
  with pytest.raises(errors.UserError,
                     match=f'did you mean {kind}:{path}\\?'):
    sources.open_source(str(path), records.InvalidRecords(False))


def test_hint_of_a_folder_of_parquet(tmp_path):
  (tmp_path / 'data').mkdir()
  write(tmp_path / 'data' / 'train-0.parquet', '')
  with pytest.raises(errors.UserError, match=f'did you mean hf:{tmp_path}'):
    sources.open_source(str(tmp_path), records.InvalidRecords(False))


def test_no_hint_without_a_place(tmp_path, monkeypatch):
  """The folder of the program is not searched."""
  write(tmp_path / 'train-0.parquet', '')
  monkeypatch.chdir(tmp_path)
  with pytest.raises(errors.UserError, match='unknown scheme "x"; write one'):
    sources.open_source('x:', records.InvalidRecords(False))
