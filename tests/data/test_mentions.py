"""Mentions: Zeshel, KILT and BEIR records, their tokens, and worlds."""

import json
import shutil

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from neg_contrast import errors
from neg_contrast.data import inputs, preparation, records, sequences, tokenized
from neg_contrast.data import tokenizer as tokenizer_lib
from neg_contrast.data.formats import beir, zeshel
from neg_contrast.data.formats import given_pairs as pairs
from neg_contrast.negatives import drawing
from tests import tiny
from tests.data.test_readers import lines, prepare, read, write

# ---------------------------------------------------------------------------
# Zeshel.

DOCUMENTS = {
    'sea': [
        {'document_id': 'S1', 'title': 'Ship', 'text': 'Ship A ship sails .'},
        {'document_id': 'S2', 'title': 'Sail', 'text': 'Sail On a ship , see'},
    ],
    'air': [{'document_id': 'A1', 'title': 'Kite', 'text': 'Kite It  flies'}],
}


def mention(name, world, document, label, start, end, text):
  return {'mention_id': name, 'corpus': world, 'context_document_id': document,
          'label_document_id': label, 'start_index': start, 'end_index': end,
          'text': text, 'category': 'LOW_OVERLAP'}


MENTIONS = {
    'train': [mention('m1', 'sea', 'S2', 'S1', 3, 3, 'Ship'),
              mention('m2', 'air', 'A1', 'A1', 0, 1, 'Kite It'),
              mention('m3', 'sea', 'S1', 'S2', 3, 4, 'sails .')],
    'heldout_train_seen': [mention('m1', 'sea', 'S2', 'S1', 3, 3, 'Ship')],
}


def make_zeshel(folder, documents=DOCUMENTS, mentions=MENTIONS, ending=''):
  for kind, files in (('documents', documents), ('mentions', mentions)):
    for name, rows in files.items():
      write(folder / kind / f'{name}.json{ending}', lines(rows))
  return f'zeshel:{folder}'


@pytest.mark.parametrize('ending', ['', '.gz'])
def test_zeshel(tmp_path, ending):
  found = read(make_zeshel(tmp_path, ending=ending))
  assert found.passages == [
      records.Passage('A1', 'Kite', 'Kite It  flies', world='air'),
      records.Passage('S1', 'Ship', 'Ship A ship sails .', world='sea'),
      records.Passage('S2', 'Sail', 'Sail On a ship , see', world='sea'),
  ]
  m1 = records.Query('m1', 'Ship', context=('Sail On a', ', see'), world='sea')
  assert found.queries == [
      records.Query('m2', 'Kite It', context=('', ' flies'), world='air'),
      records.Query('m3', 'sails .', context=('Ship A ship', ''), world='sea'),
      m1, m1,
  ]
  assert {split: [(j.query_id, j.passage_id, j.grade) for j in some]
          for split, some in found.judgements.items()} == {
              'train': [('m1', 'S1', 1), ('m2', 'A1', 1), ('m3', 'S2', 1)],
              'heldout_train_seen': [('m1', 'S1', 1)]}


def test_zeshel_as_prepared(tmp_path):
  corpus = prepare(make_zeshel(tmp_path / 'z'), tmp_path)
  assert corpus.worlds == ('air', 'sea') and corpus.has_mentions
  assert corpus.passage_worlds.tolist() == [0, 1, 1]
  assert [q.id for q in corpus.queries] == ['m2', 'm3', 'm1']
  assert corpus.query_worlds.tolist() == [0, 1, 1]
  assert corpus.queries[0].context == ('', ' flies')
  assert corpus.rows_of_worlds(np.array([1, 2])).tolist() == [1, 2]
  assert corpus.rows_of_worlds(np.array([0, 2])) is None  # All there are.
  assert corpus.manifest['counts']['judgements'] == {
      'heldout_train_seen': 1, 'train': 3}
  again = read(f'tfds:{corpus.folder}')
  first = read(f'zeshel:{tmp_path / "z"}')
  assert again.passages == first.passages
  assert again.queries == first.queries[:3]
  # Where a mention stands is part of what it is, and so is its world.
  shifted = json.loads(json.dumps(DOCUMENTS))
  shifted['sea'][1]['text'] = 'Sail On a ship ; see'
  renamed = {'air': DOCUMENTS['air'], 'ocean': DOCUMENTS['sea']}
  moved = {split: [{**row, 'corpus': row['corpus'].replace('sea', 'ocean')}
                   for row in rows] for split, rows in MENTIONS.items()}
  for number, (documents, mentions, key) in enumerate((
      (shifted, MENTIONS, 'queries_fingerprint'),
      (renamed, moved, 'corpus_fingerprint'),
      (renamed, moved, 'queries_fingerprint'),
  )):
    other = prepare(make_zeshel(tmp_path / f'o{number}', documents, mentions),
                    tmp_path)
    assert other.manifest[key] != corpus.manifest[key]


def test_a_corpus_without_worlds_or_mentions_says_so(tmp_path):
  tiny.write_beir(tmp_path / 'data')
  corpus = prepare(f'beir:{tmp_path / "data"}', tmp_path)
  assert corpus.worlds == () and not corpus.has_mentions
  assert corpus.rows_of_worlds(np.array([0])) is None
  assert corpus.queries[0].context is None
  assert not list(corpus.folder.glob('*_worlds.npy'))


@pytest.mark.parametrize('row, message', [
    ({}, 'key "mention_id" is missing'),
    (mention('x', 'sea', 'S1', 'S2', -1, 1, 'a'),
     'key "start_index" holds -1, not a whole number'),
    (mention('x', 'sea', 'S1', 'S2', 1, '1', 'a'),
     "key \"end_index\" holds '1', not a whole number"),
    (mention('x', 'sea', 'S1', 'S2', 1, 1, 'ship'),
     "words 1 to 1 .* of document \"S1\" are 'A', not 'ship'"),
    (mention('x', 'sea', 'S1', 'S2', 9, 9, ''),
     "words 9 to 9 .* of document \"S1\" are '', not ''"),
    (mention('x', 'sea', 'A1', 'S2', 0, 0, 'Kite'),
     'stands in document "A1" .*, not in .*sea.json'),
    (mention('x', 'fire', 'S1', 'S2', 0, 0, 'Ship'),
     'of world "fire", which has no file'),
])
def test_broken_zeshel_is_named_or_skipped(tmp_path, row, message):
  mentions = {**MENTIONS, 'val': [*MENTIONS['train'], row]}
  spec = make_zeshel(tmp_path / 'z', mentions=mentions)
  with pytest.raises(errors.UserError, match=rf'val.json:4: .*{message}'):
    prepare(spec, tmp_path)
  corpus = prepare(spec, tmp_path, skip=True)
  assert corpus.manifest['counts']['judgements']['val'] == 3


def test_an_entity_of_another_world_is_refused(tmp_path):
  mentions = {'val': [mention('x', 'sea', 'S1', 'A1', 0, 0, 'Ship')]}
  spec = make_zeshel(tmp_path / 'z', mentions=mentions)
  with pytest.raises(errors.UserError, match='val.json:1: passage "A1" is of '
                     'another world than query "x"'):
    prepare(spec, tmp_path)


def test_zeshel_files_that_lack(tmp_path):
  make_zeshel(tmp_path / 'z')
  with pytest.raises(errors.UserError, match='unknown scheme.*did you mean '
                     f'zeshel:{tmp_path / "z"}'):
    read(tmp_path / 'z')
  shutil.rmtree(tmp_path / 'z' / 'mentions')
  with pytest.raises(errors.UserError, match='mentions/<split>.json. A Zeshel'):
    read(f'zeshel:{tmp_path / "z"}')


def test_zeshel_candidates(tmp_path):
  path = write(tmp_path / 'val.json', lines([
      {'mention_id': 'm', 'tfidf_candidates': ['b', 'a', 'b']},
      {'mention_id': 'n', 'tfidf_candidates': []}]))
  assert zeshel.read_candidates(path) == {
      'm': [('b', -1.0), ('a', -2.0)], 'n': []}
  for row, message in (({'mention_id': 'm'}, 'key "tfidf_candidates" is miss'),
                       ({'mention_id': 'n', 'tfidf_candidates': []}, 'before')):
    write(path, lines([{'mention_id': 'n', 'tfidf_candidates': []}, row]))
    with pytest.raises(errors.UserError, match=f'val.json:2: .*{message}'):
      zeshel.read_candidates(path)
  path.write_text('{\n')
  with pytest.raises(errors.UserError, match='Repair it$'):  # It reads no more.
    zeshel.read_candidates(path)


def test_real_zeshel_records(shared_data, tmp_path):
  folder = shared_data / 'zeshel-sample' / 'raw'
  corpus = prepare(f'zeshel:{folder}', tmp_path)
  assert corpus.worlds == ('doctor_who', 'military', 'pro_wrestling',
                           'starwars')
  assert len(corpus.passages) == 23 and len(corpus.queries) == 4
  counts = corpus.manifest['counts']
  assert counts['skipped'] == {}
  assert counts['judgements'] == {
      'debug': 1, **dict.fromkeys(('heldout_train_seen', 'test', 'train', 'val',
                                   'heldout_train_unseen'), 4)}
  by_id = {q.id: q for q in corpus.queries}
  found = by_id['3217033630813FEC']
  assert found.text == 'Amasis , Ophidian'
  document = next(p for p in corpus.passages if p.id == 'DF1F3355A93D5403')
  left, right = found.context
  assert f'{left} {found.text} {right}' in document.text
  assert len(left.split(' ')) == pairs.MOST_WORDS < 565
  for split in counts['judgements']:
    judgements = corpus.judgements(split)
    assert (corpus.query_worlds[judgements.query_rows]
            == corpus.passage_worlds[judgements.passage_rows]).all()
    path = folder / 'tfidf_candidates' / f'{split}.json'
    if path.exists():
      run = zeshel.read_candidates(path)
      for query, passage in zip(judgements.query_rows,
                                judgements.passage_rows, strict=True):
        names = [name for name, _ in run[corpus.query_ids[query].decode()]]
        assert corpus.passage_ids[passage].decode() in names


# ---------------------------------------------------------------------------
# KILT.

PAGES = [
    {'_id': '7', 'wikipedia_id': 7, 'wikipedia_title': 'Paris',
     'text': ['Paris\n', 'Paris is a city.\n', 'Section::::History.\n'],
     'categories': 'x', 'anchors': []},
    {'wikipedia_id': '8', 'wikipedia_title': 'Long',
     'text': ['w ' * 700]},
]
RECORDS = [
    {'id': 'a:0', 'input': 'left [START_ENT] Paris [END_ENT] right',
     'output': [{'answer': 'Paris', 'provenance': [
         {'wikipedia_id': '7', 'title': 'Paris'}]}],
     'meta': {'left_context': 'far left', 'mention': 'Paris',
              'right_context': 'right'}},
    {'id': 'a:1', 'input': 'In [START_ENT] Paris  [END_ENT] .', 'output': [
        {'provenance': [{'wikipedia_id': '7'}, {'wikipedia_id': '7'}]},
        {'provenance': [{'wikipedia_id': '8'}]}]},
    {'id': 'a:2', 'input': '[START_ENT] Rome [END_ENT]'},
]


def make_kilt(folder, rows=RECORDS, ending=''):
  write(folder / f'kilt_knowledgesource.json{ending}', lines(PAGES))
  write(folder / f'aidayago2-dev-kilt.jsonl{ending}', lines(rows))
  return f'kilt:{folder}'


@pytest.mark.parametrize('ending', ['', '.gz'])
def test_kilt(tmp_path, ending):
  found = read(make_kilt(tmp_path, ending=ending))
  assert found.passages[0] == records.Passage(
      '7', 'Paris', 'Paris is a city. Section::::History.')
  assert found.passages[1].text.split() == ['w'] * 512
  assert found.queries == [
      records.Query('a:0', 'Paris', context=('far left', 'right')),
      records.Query('a:1', 'Paris', context=('In ', ' .')),
      records.Query('a:2', 'Rome', context=('', '')),
  ]
  assert found.queries[2].split == 'dev'
  assert [(j.query_id, j.passage_id) for j in found.judgements['dev']] == [
      ('a:0', '7'), ('a:1', '7'), ('a:1', '8')]


def test_kilt_questions_have_answers(tmp_path):
  row = {'id': 'q', 'input': 'where?', 'output': [
      {'answer': 'here', 'provenance': [{'wikipedia_id': '7'}]},
      {'answer': 'there'}, {'answer': 'here'}]}
  found = read(make_kilt(tmp_path, [row]))
  assert found.queries == [records.Query('q', 'where?', ('here', 'there'))]
  # As tables write rows that have no mention, and mentions without context.
  meta = {'left_context': '', 'mention': '', 'right_context': ''}
  assert read(make_kilt(tmp_path / 'table', [{**row, 'meta': meta}])
              ).queries == found.queries
  bare = {**row, 'meta': {'left_context': None, 'mention': 'it',
                          'right_context': None}}
  [query] = read(make_kilt(tmp_path / 'bare', [bare])).queries
  assert (query.text, query.context) == ('it', ('', ''))


@pytest.mark.parametrize('row, message', [
    ({'id': 'x', 'input': 'a [START_ENT] b'}, r'holds \[START_ENT\] without'),
    ({'id': 'x', 'input': 'a', 'output': [{'provenance': [{}]}]},
     'key "wikipedia_id" is missing'),
    ({'id': 'x', 'input': 'a question', 'output': [
        {'provenance': [{'wikipedia_id': 7}]}]}, 'is a question and the first'),
])
def test_broken_kilt_is_named_or_skipped(tmp_path, row, message):
  spec = make_kilt(tmp_path / 'k', [*RECORDS, row])
  with pytest.raises(errors.UserError, match=f'kilt.jsonl:4: .*{message}'):
    prepare(spec, tmp_path)
  corpus = prepare(spec, tmp_path, skip=True)
  assert [q.id for q in corpus.queries] == ['a:0', 'a:1', 'a:2']


def test_kilt_without_pages(tmp_path):
  make_kilt(tmp_path / 'k')
  with pytest.raises(errors.UserError, match='did you mean kilt:'):
    read(tmp_path / 'k')
  (tmp_path / 'k' / 'kilt_knowledgesource.json').unlink()
  with pytest.raises(errors.UserError, match='put kilt_knowledgesource.json'):
    read(f'kilt:{tmp_path / "k"}')


# ---------------------------------------------------------------------------
# BEIR.

def make_beir(folder, *queries):
  write(folder / 'corpus.jsonl', lines([{'_id': 'd', 'text': 'disease'}]))
  write(folder / 'queries.jsonl', lines(queries))
  write(folder / 'qrels' / 'dev.tsv', 'query-id\tcorpus-id\tscore\n' + ''.join(
      f'{query["_id"]}\td\t1\n' for query in queries))
  return f'beir:{folder}'


def test_beir_mentions(tmp_path):
  far = 'x ' * 600
  spec = make_beir(
      tmp_path,
      {'_id': '1', 'text': 'flu', 'left': far + 'the ', 'right': ' of ' + far},
      {'_id': '2', 'text': 'flu', 'left': 'a '},
      {'_id': '3', 'text': 'a flu, yes', 'mention_span': [2, 5]},
  )
  first, *others = read(spec).queries
  assert others == [records.Query('2', 'flu', context=('a ', '')),
                    records.Query('3', 'flu', context=('a ', ', yes'))]
  left, right = first.context
  assert left.split() == ['x'] * 511 + ['the'] and left.endswith(' ')
  assert right.split() == ['of'] + ['x'] * 511 and right.startswith(' ')


@pytest.mark.parametrize('row, message', [
    ({'left': 7}, 'key "left" holds int, not text'),
    ({'mention_span': [1, 4]}, r'key "mention_span" holds \[1, 4\], not .* 3'),
    ({'mention_span': [1, 1]}, 'key "mention_span" holds'),
    ({'mention_span': [True, 2]}, 'key "mention_span" holds'),
    ({'mention_span': 'flu'}, 'key "mention_span" holds str, not a list'),
    ({}, 'is a question and the first one is a mention'),
])
def test_broken_beir_mentions(tmp_path, row, message):
  spec = make_beir(tmp_path / 'b', {'_id': '1', 'text': 'flu', 'left': ''},
                   {'_id': '2', 'text': 'flu', **row})
  with pytest.raises(errors.UserError, match=f'queries.jsonl:2: .*{message}'):
    prepare(spec, tmp_path)
  assert len(prepare(spec, tmp_path, skip=True).queries) == 1


def test_real_beir_mentions(shared_data):
  source = beir.Beir(str(shared_data / 'ncbi-disease-el'),
                     records.InvalidRecords(False))
  query = next(source.queries())
  assert (query.text, query.context[0]) == ('skin tumour', 'A common human ')
  assert query.context[1].startswith(' is caused by activating mutations')


# ---------------------------------------------------------------------------
# Tokens.

CLS, SEP, START, END = 2, 3, 4, 5
IDS = st.lists(st.integers(10, 2**16 - 1), max_size=14)


def one_by_one(left, mention, right, max_length, prefix):
  """A sequence as lists make it: context is added a token at a time."""
  room = max_length - 2 - len(prefix) - 2
  mention = mention[:room]
  before, after = 0, 0
  for turn in range(2 * room):
    if before + after + len(mention) == room:
      break
    if (turn % 2 and before < len(left)) or after == len(right):
      before = min(before + 1, len(left))
    else:
      after += 1
  return [CLS, *prefix, *left[len(left) - before:], START, *mention, END,
          *right[:after], SEP]


@hypothesis.given(
    texts=st.lists(st.tuples(IDS, IDS, IDS), max_size=8),
    prefix=st.lists(st.integers(6, 9), max_size=3),
    max_length=st.integers(8, 40),
)
def test_mentions_are_cut_around_the_middle(texts, prefix, max_length):
  left, mentions, right = (
      sequences.listed(np.array(of[i], np.uint16) for of in texts)
      for i in range(3))
  pieces = inputs.mention_pieces(
      left, mentions, right, marker_ids=(START, END),
      room=max_length - 2 - len(prefix))
  built = [ids.tolist() for ids in inputs.input_sequences(
      sequences.listed([np.zeros(0, np.int32)] * len(texts)), pieces,
      inputs.Template((CLS,), (SEP,), (SEP,)), max_length=max_length,
      prefix_ids=tuple(prefix))]
  assert built == [one_by_one(before, mention, after, max_length, prefix)
                   for before, mention, after in texts]


@pytest.fixture
def corpus(tmp_path):
  tiny.write_zeshel(tmp_path / 'z')
  return preparation.prepare(f'zeshel:{tmp_path / "z"}', tmp_path / 'out',
                             False)


def marked(tmp_path, words=tiny.MARKED):
  tiny.write_tokenizer(tmp_path / 't', words)
  return tokenizer_lib.load_tokenizer(str(tmp_path / 't'))


@pytest.mark.parametrize('length', [5, 7, 9, 30])
def test_tokens_of_mentions(tmp_path, corpus, length):
  own = marked(tmp_path)
  texts = tokenized.tokenize(corpus, 'query', own, length, '')
  rows = np.arange(len(corpus.queries))
  made = texts.tokens(rows)
  assert texts.lengths().tolist() == made.lengths.tolist()
  start, end = own.token_id('[unused0]'), own.token_id('[unused1]')
  for query, ids in zip(corpus.queries, made, strict=True):
    ids = ids.tolist()
    assert ids.count(start) == ids.count(end) == 1 and len(ids) <= length
    words = own.encode(query.text)[:length - 4]
    assert ids[ids.index(start) + 1 : ids.index(end)] == words
    left, right = map(own.encode, query.context)
    before, after = ids[1 : ids.index(start)], ids[ids.index(end) + 1 : -1]
    assert left[len(left) - len(before):] == before
    assert right[:len(after)] == after
  # One store serves any markers, and passages have none.
  cls, sep = own.template.start + own.template.end
  other = tokenized.tokenize(corpus, 'query', own, length, '',
                             ('word1', 'word2'))
  assert other.store.texts[0].tolist() == texts.store.texts[0].tolist()
  assert own.token_id('word1') in other.tokens(rows[:1])[0]
  assert tokenized.tokenize(corpus, 'passage', own, 30, '').tokens(
      rows[:1])[0].tolist() == [cls, *own.encode(
          corpus.passages[0].title), sep, *own.encode(
              corpus.passages[0].text), sep]


def test_markers_that_lack_and_lengths_too_short(tmp_path, corpus):
  own = marked(tmp_path, tiny.WORDS)
  with pytest.raises(errors.UserError, match=r"model.mention_start='\[unused0\]"
                     "': the tokenizer has no such token"):
    tokenized.tokenize(corpus, 'query', own, 16, '')
  with pytest.raises(errors.UserError, match='model.mention_end=\'"\''):
    tokenized.tokenize(corpus, 'query', own, 16, '', ('word1', '"'))
  tokenized.tokenize(corpus, 'passage', own, 16, '')  # They need no markers.
  with pytest.raises(errors.UserError, match='query_length=5: .* 6 are needed'):
    tokenized.tokenize(corpus, 'query', marked(tmp_path), 5, 'word1')


def test_negatives_are_drawn_among_some_rows():
  among = np.array([1, 4, 5, 8], np.int32)
  drawn = [drawing.draw_from_corpus(
      9, np.arange(9, dtype=np.int32), np.array([[4]], np.int32), 2, 0, step,
      np.array([0]), among).rows for step in range(40)]
  assert set(np.concatenate(drawn).ravel().tolist()) == {1, 5, 8}
