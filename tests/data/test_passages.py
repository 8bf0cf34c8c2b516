"""The corpus that documents are cut into: its lines, counts and identity."""

import json
import logging
import shutil

import numpy as np

from neg_contrast.artifacts import artifact, folders
from neg_contrast.data import examples, passages
from neg_contrast.models import given
from tests import corpora, tiny

DOCUMENTS = {
    'a': ('Title', 'word1  word2\nword3 word4 word5'),
    'b': ('Alone', ''),
    'c': 'word6 wörd7',
}


def make(folder, documents=DOCUMENTS, words=2, tokens=0, tokenizer=None):
  data = corpora.data_of(
      folder, corpora.write_beir(folder / 'data', documents))
  data.build()
  return passages.Passages(data, folder / 'work', words, tokens, tokenizer)


def lines(made):
  text = (made.folder / 'corpus.jsonl').read_text(encoding='utf-8')
  return [json.loads(line) for line in text.splitlines()]


def test_lines_and_counts(tmp_path):
  made = make(tmp_path)
  assert not made.is_made()
  made.build()
  row = lambda name, title, text: {
      '_id': name, 'title': title, 'text': text,
      'metadata': {'document_id': name.partition('#')[0]}}
  assert lines(made) == [
      row('a#1', 'Title', 'word1  word2'), row('a#2', 'Title', 'word3 word4'),
      row('a#3', 'Title', 'word5'), row('c#1', '', 'word6 wörd7')]
  manifest = folders.read_manifest(made.folder)
  assert manifest['counts'] == {'documents': 3, 'passages': 4, 'blank': 1}
  assert manifest['source'] == made.data.config.source
  assert made.is_made()


def test_documents_of_documents_keep_their_name(tmp_path):
  (tmp_path / 'data').mkdir()
  (tmp_path / 'data' / 'corpus.jsonl').write_text(json.dumps(
      {'_id': 'a', 'text': 'one two', 'metadata': {'document_id': 'whole'}}))
  data = corpora.data_of(tmp_path, f'beir:{tmp_path / "data"}')
  data.build()
  made = passages.Passages(data, tmp_path / 'work', 1, 0, None)
  made.build()
  assert [(one['_id'], one['metadata']['document_id']) for one in lines(made)
          ] == [('a#1', 'whole'), ('a#2', 'whole')]


def test_ids_are_names_in_trec_files(tmp_path):
  documents = {'a b/c\td.md': 'one two', 'e\u00a0f': 'three'}
  made = make(tmp_path, documents, words=1)
  made.build()
  assert [(one['_id'], one['metadata']['document_id']) for one in lines(made)
          ] == [('a%20b/c%09d.md#1', 'a b/c\td.md'),
                ('a%20b/c%09d.md#2', 'a b/c\td.md'), ('e\u00a0f#1', 'e\u00a0f')]


def test_another_length_is_cut_anew(tmp_path):
  make(tmp_path).build()
  other = make(tmp_path, words=5)
  assert not other.is_made()
  other.build()
  assert [one['_id'] for one in lines(other)] == ['a#1', 'c#1']
  assert other.is_made() and not make(tmp_path).is_made()


def test_other_documents_are_cut_anew(tmp_path):
  make(tmp_path).build()
  artifact.forget()
  assert make(tmp_path).is_made()
  artifact.forget()
  assert not make(tmp_path, {**DOCUMENTS, 'c': 'word6'}).is_made()


def test_tokens_are_those_of_the_model(tmp_path):
  words = [*tiny.WORDS, 'wo']
  tiny.write_model(tmp_path / 'model', words=words, vocab_size=66)
  tokenizer = given.Tokenizer(str(tmp_path / 'model'))
  made = make(tmp_path, tokens=3, tokenizer=tokenizer)
  made.build()
  assert [one['text'] for one in lines(made)] == [
      'word1  word2\nword3', 'word4 word5', 'word6 wörd7']
  one = made.identity
  assert one == make(tmp_path, words=9, tokens=3, tokenizer=tokenizer).identity
  shutil.copytree(tmp_path / 'model', tmp_path / 'other')
  tiny.write_tokenizer(tmp_path / 'other')
  for other in (make(tmp_path, tokens=4, tokenizer=tokenizer),
                make(tmp_path, tokens=3, tokenizer=given.Tokenizer(
                    str(tmp_path / 'other'))), make(tmp_path)):
    assert other.identity != one


def test_a_tokenizer_that_lacks_leaves_nothing_made(tmp_path):
  made = make(tmp_path, tokens=3,
              tokenizer=given.Tokenizer(str(tmp_path / 'gone')))
  assert made.identity is None and not made.is_made()
  assert made.needs()['tokenizer'].lacks()


def test_judgements_come_along(tmp_path):
  """Of the nearest passage or of all; known negatives are all negatives."""
  folder = tmp_path / 'data'
  (folder / 'qrels').mkdir(parents=True)
  dump = lambda rows: ''.join(json.dumps(row) + '\n' for row in rows)
  (folder / 'corpus.jsonl').write_text(dump([
      {'_id': 'a', 'title': 'T', 'text': 'red fox. blue whale. green frog.'},
      {'_id': 'b', 'text': 'white bear. black cat.'},
      {'_id': 'c', 'title': 'no text', 'text': ''}]))
  (folder / 'queries.jsonl').write_text(dump([
      {'_id': 'q1', 'text': 'what is blue?', 'answers': ['whale']},
      {'_id': 'q2', 'text': 'a cat'}]))
  (folder / 'qrels' / 'train.tsv').write_text(
      'query-id\tcorpus-id\tscore\nq1\ta\t2\nq1\tb\t0\nq2\tc\t1\n')
  (folder / 'qrels' / 'test.tsv').write_text(
      'query-id\tcorpus-id\tscore\nq2\tb\t1\n')
  data = corpora.data_of(tmp_path, f'beir:{folder}')
  data.build()
  make = lambda rule, work: passages.Passages(
      data, tmp_path / work, 2, 0, None, rule,
      lambda question, texts: max(
          range(len(texts)), key=lambda i: len(
              set(texts[i].rstrip('.').split()) & set(question.split()))))
  made = make('nearest', 'work')
  made.build()
  read = lambda split: (made.folder / 'qrels' / f'{split}.tsv').read_text()
  head = 'query-id\tcorpus-id\tscore\n'
  assert read('train') == head + 'q1\ta#1\t2\nq1\tb#1\t0\nq1\tb#2\t0\n'
  assert read('test') == head + 'q2\tb#2\t1\n'
  counts = folders.read_manifest(made.folder)['counts']
  assert (counts['judgements'], counts['lost_judgements']) == (4, 1)
  again = corpora.data_of(tmp_path, f'beir:{made.folder}')
  again.build()
  prepared = again.load().prepared
  assert [(query.text, query.answers) for query in prepared.queries] == [
      ('what is blue?', ('whale',)), ('a cat', ())]
  assert not make('all', 'work').is_made()
  assert passages.are_nearest(f'beir:{made.folder}')
  made = make('all', 'all')
  made.build()
  assert not passages.are_nearest(f'beir:{made.folder}')
  assert not passages.are_nearest(f'beir:{folder}')
  assert read('test') == head + 'q2\tb#1\t1\nq2\tb#2\t1\n'
  # Trained on the nearest; measured by documents.
  made = make('document', 'document')
  made.build()
  assert read('train') == head + 'q1\ta#1\t2\nq1\tb#1\t0\nq1\tb#2\t0\n'
  assert read('test') == head + 'q2\tb#1\t1\nq2\tb#2\t1\n'


def trained_on(data):
  """(query, weight) of the examples of the split `train`."""
  prepared = data.load().prepared
  made = examples.make_examples(prepared, prepared.judgements('train'))
  weights = made.weights_of(np.arange(len(made)))
  return [(prepared.queries[row].text, 1 if weights is None else weights[i])
          for i, row in enumerate(made.query_rows.tolist())]


def split_of(tmp_path, data):
  """Passages of two words, and the data that they are."""
  data.build()
  made = passages.Passages(data, tmp_path / 'work', 2, 0, None)
  made.build()
  again = corpora.data_of(tmp_path, f'beir:{made.folder}')
  again.build()
  return made, again


def test_weights_come_along(tmp_path):
  """With 0 a positive is known, and not trained on."""
  texts = {name: f'{name}1 {name}2' for name in 'abcd'}
  source = corpora.write_beir(
      tmp_path / 'data', texts, {f'q{name}': name for name in texts},
      test={'qa': {'a': 2, 'b': 0}}, train={'qa': {'a': 1}})
  data = corpora.data_of(tmp_path, source)
  data.build()
  plain = passages.Passages(data, tmp_path / 'work', 2, 0, None).identity
  qrels = tmp_path / 'data' / 'qrels' / 'train.tsv'
  qrels.write_text('query-id\tcorpus-id\tscore\tweight\n'
                   'qa\ta\t1\t5\nqb\tb\t1\t0\nqc\tc\t1\t.1\nqd\td\t0\t7\n')
  artifact.forget()
  made, again = split_of(tmp_path, data)
  read = lambda split: (made.folder / 'qrels' / f'{split}.tsv').read_text()
  assert read('train') == (
      'query-id\tcorpus-id\tscore\tweight\n'
      'qa\ta#1\t1\t5.0\nqb\tb#1\t1\t0.0\nqc\tc#1\t1\t0.1\nqd\td#1\t0\t1.0\n')
  assert read('test') == (
      'query-id\tcorpus-id\tscore\nqa\ta#1\t2\nqa\tb#1\t0\n')
  assert trained_on(again) == trained_on(data) == [
      ('a', 5), ('c', np.float32(.1))]
  # What was cut by a version that dropped them is cut again.
  assert 'weighted' not in plain['settings']
  assert made.identity['settings']['weighted'] == ['train']


def test_the_first_positive_is_trained_on_and_answers_are_left_out(
    tmp_path, caplog):
  """As DPR has them; BEIR has no place for queries with answers alone."""
  folder = tmp_path / 'dpr'
  folder.mkdir()
  (folder / 'psgs.tsv').write_text(
      'id\ttext\ttitle\n1\tone two\tA\n2\tthree four\tB\n')
  (folder / 'nq-test.qa.csv').write_text("who\t['w1']\nwhat\t['w2']\n")
  training = folder / 'biencoder-nq-train.json'
  training.write_text(json.dumps([{
      'question': 'q?', 'answers': ['one'],
      'positive_ctxs': [{'passage_id': '1'}, {'passage_id': '2'}],
      'hard_negative_ctxs': []}]))
  data = corpora.data_of(tmp_path, f'dpr:{folder}')
  with caplog.at_level(logging.WARNING):
    made, again = split_of(tmp_path, data)
  assert [one for one in caplog.messages if 'answers alone' in one] == [
      f'{made.folder}: a BEIR folder has no place for queries that have '
      'answers alone; they are left out: 2 of test-qa']
  assert [one.name for one in (made.folder / 'qrels').iterdir()] == [
      'train.tsv']
  assert trained_on(again) == trained_on(data) == [('q?', 1)]
  prepared = again.load().prepared
  assert prepared.judgements('train').grades.tolist() == [1, 1]  # Both known.
  training.unlink()
  artifact.forget()
  made, again = split_of(tmp_path, data)  # Nothing is judged.
  assert not (made.folder / 'queries.jsonl').exists()
  assert again.load().prepared.splits == ()


def test_what_chooses_the_nearest_counts(tmp_path):
  data = make(tmp_path).data
  of = lambda rule, **constants: passages.Passages(
      data, tmp_path / 'work', 2, 0, None, rule, **constants).identity
  for rule in ('nearest', 'document'):
    usual = of(rule)
    assert 'bm25_k1' not in usual['settings']
    assert of(rule, bm25_k1=0.9, bm25_b=0.4) == usual
    settings = of(rule, bm25_k1=50.0, bm25_b=0.0)['settings']
    assert settings == {
        **usual['settings'], 'bm25_k1': 50.0, 'bm25_b': 0.0}
  assert of('all', bm25_k1=50.0) == of('all')
