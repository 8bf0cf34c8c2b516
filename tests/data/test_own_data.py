"""Tables of questions as people have them: columns, documents, splits."""

import csv
import gzip
import json

import pandas
import pyarrow
import pytest
from absl import logging
from pyarrow import parquet

from neg_contrast import errors
from neg_contrast.data import preparation, records, sources
from neg_contrast.data.formats import (
    column_tables,
    files,
    own_columns,
    own_data,
)

ROWS = [
    {'question': 'wer, wo?', 'text': 'eine "Antwort"\nin zwei Zeilen',
     'title': 'Ünï', 'answer': 'zwei'},
    {'question': 'why\tso', 'text': 'because, yes', 'title': '', 'answer': ''},
    {'question': 'wer, wo?', 'text': 'noch eine', 'title': '',
     'answer': 'eine'},
    {'question': 'how', 'text': 'because, yes', 'title': '', 'answer': ''},
]


def write(path, rows, kind, gz=False):
  if kind == 'parquet':
    parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return path
  with open(path, 'w', encoding='utf-8-sig', newline='') as f:
    if kind == 'jsonl':
      f.writelines(json.dumps(row) + '\n' for row in rows)
    else:
      writer = csv.DictWriter(f, list(rows[0]),
                              delimiter=',' if kind == 'csv' else '\t')
      writer.writeheader()
      writer.writerows(rows)
  if gz:
    packed = path.with_name(path.name + '.gz')
    packed.write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    return packed
  return path


def prepare(spec, out, skip=False):
  return preparation.prepare(spec, out, skip)


def known(prepared):
  """(question, title and text) -> grade, of all splits."""
  found = {}
  for split in prepared.splits:
    judged = prepared.judgements(split)
    for query, row, grade in zip(judged.query_rows, judged.passage_rows,
                                 judged.grades, strict=True):
      passage = prepared.passages[int(row)]
      found[prepared.queries[int(query)].text, passage.title,
            passage.text] = int(grade)
  return found


def refused(spec, message, out):
  with pytest.raises(errors.UserError, match=message) as error:
    prepare(spec, out)
  assert '\n' not in str(error.value)


@pytest.mark.parametrize('gz', [False, True])
@pytest.mark.parametrize('kind', column_tables.KINDS)
def test_rows_with_their_texts(tmp_path, kind, gz):
  if gz and kind == 'parquet':
    return
  path = write(tmp_path / f'faq.{kind}', ROWS, kind, gz)
  prepared = prepare(f'{kind}:{path}', tmp_path / 'out')
  assert known(prepared) == {
      (row['question'], row['title'], row['text']): 1 for row in ROWS}
  assert len(prepared.passages) == 3  # One stands in two rows.
  assert {query.text: query.answers for query in prepared.queries} == {
      'wer, wo?': ('zwei', 'eine'), 'why\tso': (), 'how': ()}


@pytest.mark.parametrize('kind', ['csv', 'tsv'])
def test_columns_without_a_name_are_not_read(tmp_path, kind):
  """pandas writes its index as one; spreadsheets end lines in commas."""
  path, mark = tmp_path / f'faq.{kind}', ',' if kind == 'csv' else '\t'
  pandas.DataFrame(ROWS).to_csv(path, sep=mark)
  assert path.read_text().startswith(f'{mark}question{mark}')
  plain = write(tmp_path / f'plain.{kind}', ROWS, kind)
  read, wanted = (known(prepare(f'{kind}:{one}', tmp_path / one.stem))
                  for one in (path, plain))
  assert read == wanted and len(read) == 4
  path.write_text(f'question{mark}text{mark}{mark} \nq{mark}p{mark}{mark}x\n')
  assert known(prepare(f'{kind}:{path}', tmp_path / 'more')) == {
      ('q', '', 'p'): 1}
  path.write_text(f'{mark}{mark}\nq{mark}p{mark}x\n')
  refused(f'{kind}:{path}', r":1: the first line names the columns, each once; "
          r"it has \['', '', ''\]", tmp_path / 'none')


def test_all_kinds_give_the_same_data(tmp_path):
  prints = {prepare(f'{kind}:' + str(
      write(tmp_path / f'faq.{kind}', ROWS, kind)), tmp_path / kind
  ).fingerprint for kind in column_tables.KINDS}
  assert len(prints) == 1


def test_splits_by_a_hash_of_the_question(tmp_path):
  rows = [{'question': f'question {n // 2}', 'text': f'text {n}'}
          for n in range(400)]
  path = write(tmp_path / 'faq.csv', rows, 'csv')
  asked = {}
  for share in ('0.2', '0.5', '0'):
    source = sources.open_source(f'csv:{path}?test={share}',
                                 records.InvalidRecords(False))
    both = {'train', 'test'} if share != '0' else {'train'}
    assert set(source.splits) == both
    asked[share] = {one.query_id for one in source.judgements('test')}
    train = {one.query_id for one in source.judgements('train')}
    assert len(train | asked[share]) == 200 and not train & asked[share]
  assert 25 <= len(asked['0.2']) <= 55 and 80 <= len(asked['0.5']) <= 120
  assert asked['0.2'] < asked['0.5'] and not asked['0']
  # More questions leave those that are there in their splits.
  again = write(tmp_path / 'more.csv', [
      {'question': 'another', 'text': 'x'}, *rows], 'csv')
  source = sources.open_source(f'csv:{again}', records.InvalidRecords(False))
  assert asked['0.2'] <= {one.query_id for one in source.judgements('test')}


def test_splits_and_grades_of_columns(tmp_path):
  rows = [{'Frage': 'a', 'text': 'x', 'Teil': 'dev', 'grade': 2},
          {'Frage': 'a', 'text': 'y', 'Teil': 'dev', 'grade': 0},
          {'Frage': 'b', 'text': 'x', 'Teil': '', 'grade': 1}]
  path = write(tmp_path / 'faq.tsv', rows, 'tsv')
  prepared = prepare(f'tsv:{path}?question=Frage&split=Teil', tmp_path / 'out')
  assert set(prepared.splits) == {'dev', 'train'}
  assert known(prepared) == {('a', '', 'x'): 2, ('a', '', 'y'): 0,
                             ('b', '', 'x'): 1}


@pytest.mark.parametrize('name', ['train ', ' \ttrain', '  '])
def test_blanks_around_a_split_are_no_part_of_it(tmp_path, name):
  path = write(tmp_path / 'faq.jsonl', [
      {'question': 'a', 'text': 'x', 'split': 'train'},
      {'question': 'b', 'text': 'y', 'split': name}], 'jsonl')
  prepared = prepare(f'jsonl:{path}', tmp_path / 'out')
  assert prepared.splits == ('train',)
  assert len(prepared.judgements('train').queries) == 2


@pytest.mark.parametrize('name', ['train/a', '../train', 'a\0b', '\ud800',
                                  'ü' * 101])
def test_a_split_that_can_name_no_file(tmp_path, name):
  path = write(tmp_path / 'faq.jsonl', [
      {'question': 'a', 'text': 'x', 'split': 'train'},
      {'question': 'b', 'text': 'y', 'split': name}], 'jsonl')
  with pytest.raises(errors.UserError, match=(
      'faq.jsonl:2: column "split" holds .*: splits are printable names')):
    prepare(f'jsonl:{path}', tmp_path / 'out')
  prepared = prepare(f'jsonl:{path}', tmp_path / 'out', skip=True)
  assert prepared.manifest['counts']['skipped'] == {'broken_record': 1}
  assert prepared.splits == ('train',)


def test_keys_that_later_lines_have(tmp_path):
  path = write(tmp_path / 'faq.jsonl', [
      {'question': 'a', 'text': 'x'},
      {'question': 'a', 'text': 'y', 'grade': 0},
      {'question': 'b', 'text': 'z', 'title': 'T', 'weight': 5, 'split': 'dev',
       'answer': 'w', 'grade': None}], 'jsonl')
  prepared = prepare(f'jsonl:{path}', tmp_path / 'out')
  assert known(prepared) == {('a', '', 'x'): 1, ('a', '', 'y'): 0,
                             ('b', 'T', 'z'): 1}
  assert set(prepared.splits) == {'dev', 'train'}
  assert prepared.judgements('dev').weights.tolist() == [5]
  assert [one.answers for one in prepared.queries] == [(), ('w',)]


def test_keys_of_the_first_line_go_first(tmp_path):
  rows = [{'question': 'a', 'text': 'x', 'relevance': 0},
          {'question': 'a', 'text': 'y', 'relevance': 1},
          {'question': 'b', 'text': 'z', 'relevance': 1, 'score': 1}]
  path = write(tmp_path / 'faq.jsonl', rows, 'jsonl')
  assert known(prepare(f'jsonl:{path}?test=0', tmp_path / 'out')) == {
      ('a', '', 'x'): 0, ('a', '', 'y'): 1, ('b', '', 'z'): 1}


def test_an_empty_first_object_is_told_as_it_is(tmp_path):
  path = tmp_path / 'faq.jsonl'
  path.write_text('{}\n')
  refused(f'jsonl:{path}', 'no column called question', tmp_path / 'out')


def test_keys_that_come_too_late_are_refused(tmp_path, monkeypatch):
  monkeypatch.setattr(own_columns, '_LINES', 2)
  rows = [{'question': f'q{n}', 'text': 'x'} for n in range(3)]
  path = write(tmp_path / 'faq.jsonl', [*rows, {
      'question': 'q4', 'text': 'y', 'label': 0, 'comment': 'any'}], 'jsonl')
  refused(f'jsonl:{path}', r'faq.jsonl:4: key "label" is in none of the first '
          r'2 lines.* read none by \?grade=', tmp_path / 'out')
  assert known(prepare(f'jsonl:{path}?grade=', tmp_path / 'out'))[
      'q4', '', 'y'] == 1
  pages = write(tmp_path / 'pages.jsonl', [
      {'id': n, 'text': 'x'} for n in range(2)] + [
          {'id': 2, 'text': 'x', 'title': 'T'}], 'jsonl')
  table = write(tmp_path / 'asked.jsonl', [
      {'question': 'q', 'document': '0'}], 'jsonl')
  refused(f'jsonl:{table}?documents={pages}', 'pages.jsonl:3: key "title" is',
          tmp_path / 'out')


def test_a_table_is_looked_at_from_its_beginning(tmp_path, monkeypatch):
  path = write(tmp_path / 'faq.jsonl', [
      {'question': f'q{n}', 'text': 'x'} for n in range(30)], 'jsonl')
  monkeypatch.setattr(own_columns, '_LINES', 3)
  read = []
  json_lines = files.json_lines
  monkeypatch.setattr(files, 'json_lines', lambda *args: (
      read.append(one) or one for one in json_lines(*args)))
  sources.open_source(f'jsonl:{path}', records.InvalidRecords(False))
  assert len(read) < 10


def test_answers_that_are_blank_are_none(tmp_path):
  path = tmp_path / 'faq.csv'
  path.write_text('question,text,answer\na,x, \nb,y,z\n')
  prepared = prepare(f'csv:{path}', tmp_path / 'out')
  assert sorted(one.answers for one in prepared.queries) == [(), ('z',)]


@pytest.mark.parametrize('kind, grades', [
    ('csv', ('1.0', '0.0', '')), ('parquet', (1.0, 0.0, None)),
    ('jsonl', (True, False, None))])
def test_grades_that_are_written_as_other_numbers(tmp_path, kind, grades):
  path = write(tmp_path / f'faq.{kind}', [
      {'question': 'a', 'text': f't{n}', 'grade': grade}
      for n, grade in enumerate(grades)], kind)
  assert known(prepare(f'{kind}:{path}?test=0', tmp_path / 'out')) == {
      ('a', '', 't0'): 1, ('a', '', 't1'): 0, ('a', '', 't2'): 1}


def test_empty_grades_and_weights_and_columns_that_are_none(tmp_path):
  path = tmp_path / 'faq.csv'
  path.write_text('question,text,label,weight\na,x,,\na,y,0, \nb,z,2,3\n')
  assert known(prepare(f'csv:{path}?test=0', tmp_path / 'out')) == {
      ('a', '', 'x'): 1, ('a', '', 'y'): 0, ('b', '', 'z'): 2}
  path.write_text('question,text,label\na,x,greeting\n')
  refused(f'csv:{path}', r'faq.csv:2: column "label" holds .greeting., not a '
          r'whole number; \?grade= reads none', tmp_path / 'out')
  assert known(prepare(f'csv:{path}?grade=', tmp_path / 'out')) == {
      ('a', '', 'x'): 1}


@pytest.fixture
def folder(tmp_path):
  """Documents in files, one below another."""
  (tmp_path / 'docs' / 'deep').mkdir(parents=True)
  for name, content in (
      ('one.md', '# One\nfirst'), ('deep/two.txt', 'second'),
      ('deep/same.md', 'third'), ('same.md', 'fourth'),
      ('page.html', '<html><head><title>A &amp; B</title><style>p {}</style>'
       '</head><body><h1>Head</h1><p>Some <b>bold</b> words<br>next&nbsp;line'
       '</p><script>var x = "no";</script></body></html>'),
  ):
    (tmp_path / 'docs' / name).write_text(content)
  return tmp_path


def test_documents_of_a_folder(folder):
  """By their path, or by the file's name where there is one such file."""
  names = ['one.md', 'deep/two.txt', 'two.txt', 'two', 'same.md', 'page.html',
           'docs/deep/same.md', 'deep\\same.md', 'docs\\same.md', './one.md']
  path = write(folder / 'faq.csv', [
      {'question': f'q{n}', 'File': name} for n, name in enumerate(names)
  ], 'csv')
  prepared = prepare(f'csv:{path}?documents={folder / "docs"}', folder / 'out')
  texts = {question: text for question, _, text in known(prepared)}
  assert [texts[f'q{n}'].strip() for n in range(5)] == [
      'One\nfirst', 'second', 'second', 'second', 'fourth']
  assert [texts[f'q{n}'].strip() for n in range(6, 10)] == [
      'third', 'third', 'fourth', 'One\nfirst']
  page = next(p for p in prepared.passages if p.id == 'page.html')
  assert page.title == 'A & B'
  assert page.text.replace('\n', ' ') == 'Head Some bold words next line'
  lost = write(folder / 'lost.csv', [
      {'question': 'q', 'document': 'three.md'}], 'csv')
  refused(f'csv:{lost}?documents={folder / "docs"}', 'lost.csv:2: .*three.md',
          folder / 'out')
  refused(f'csv:{path}?documents={folder / "docs"}&document=Fil',
          'no column "Fil"; its columns are question, File$', folder / 'out')


@pytest.mark.parametrize('kind', column_tables.KINDS)
def test_documents_of_a_table(tmp_path, kind):
  documents = write(tmp_path / f'pages.{kind}', [
      {'id': 'd1', 'title': 'T', 'body': 'first'},
      {'id': 'd2', 'title': '', 'body': 'second'}], kind)
  path = write(tmp_path / 'faq.csv', [
      {'question': 'a', 'document': 'd2'}, {'question': 'b', 'document': 'd1'},
      {'question': 'a', 'document': 'd1'}], 'csv')
  prepared = prepare(f'csv:{path}?documents={documents}', tmp_path / 'out')
  assert known(prepared) == {('a', '', 'second'): 1, ('b', 'T', 'first'): 1,
                             ('a', 'T', 'first'): 1}


def test_columns_of_documents_are_named(tmp_path):
  """`text`, `title` and `id` are theirs, whatever the questions have."""
  documents = write(tmp_path / 'pages.csv', [
      {'Nr': 'd1', 'Titel': 'T', 'Inhalt': 'first', 'id': 'x'},
      {'Nr': 'd2', 'Titel': '', 'Inhalt': 'second', 'id': 'y'}], 'csv')
  path = write(tmp_path / 'faq.csv', [
      {'question': 'a', 'document': 'd2', 'answer': 'A', 'title': 'of a'},
      {'question': 'b', 'document': 'd1', 'answer': '', 'title': ''}], 'csv')
  spec = f'csv:{path}?documents={documents}'
  prepared = prepare(spec + '&text=Inhalt&title=Titel&id=Nr', tmp_path / 'out')
  assert known(prepared) == {('a', '', 'second'): 1, ('b', 'T', 'first'): 1}
  assert prepared.queries[0].answers == ('A',)
  refused(spec, r'pages.csv: no column called text .*&text=COLUMN"$',
          tmp_path / 'out')
  for asked in ('text=answer', 'text=Inhalt&id=Nummer'):
    refused(f'{spec}&{asked}', f'pages.csv: no column "{asked.split("=")[-1]}";'
            ' its columns are Nr, Titel, Inhalt, id$', tmp_path / 'out')
  (tmp_path / 'docs').mkdir()
  refused(f'csv:{path}?documents={tmp_path}/docs&text=answer',
          'text= names a column of a table of documents, and .*docs is a '
          'folder$', tmp_path / 'out')


@pytest.mark.parametrize('kind', column_tables.KINDS)
def test_a_passage_is_no_answer_to_look_for(tmp_path, kind):
  rows = [{'question': 'a', 'answer': 'first'},
          {'question': 'b', 'answer': 'second'}]
  answers = lambda rows, asked='': [one.answers for one in prepare(
      f'{kind}:{write(tmp_path / f"faq.{kind}", rows, kind)}{asked}',
      tmp_path / 'out').queries]
  assert answers(rows) == [(), ()]
  assert answers(rows, '?answer=answer') == [('first',), ('second',)]
  assert answers([{**row, 'answers': 'x'} for row in rows]) == [('x',), ('x',)]
  assert answers([{**row, 'text': 'long'} for row in rows]) == [
      ('first',), ('second',)]


@pytest.mark.parametrize(('content', 'message'), [
    ('question,text\na,b,c\n', r'faq.csv:2: 3 fields, where .* 2 columns'),
    ('question,text\n,b\n', r'faq.csv:2: column "question" is empty'),
    ('question,text,grade\na,b,high\n', r'faq.csv:2: .*"grade" holds'),
    ('question,text\na,"b\n', r'faq.csv:2: .*quote not closed'),
    ('question,question\na,b\n', r'faq.csv:1: the first line names .* once'),
    (',\na,b\n', r'faq.csv:1: the first line names'),
    ('question,\na,b\n', r'no column called text .*; its columns are quest'),
    ('Frage,text\na,b\n', r'no column called question or query; its columns '
     r'are Frage, text\. .*\?question=COLUMN'),
    ('question,wort\na,b\n', r'\?text=COLUMN"; or name the documents'),
    ('', r'no column called question'),
    ('question,text\n', r'faq.csv: no question can be used; no rows'),
    ('question,text,grade\na,b,1\na,b,0\n', r'faq.csv:3: .* grade 0, and befo'),
])
def test_faults_of_tables(tmp_path, content, message):
  path = tmp_path / 'faq.csv'
  path.write_text(content)
  refused(f'csv:{path}', message, tmp_path / 'out')


@pytest.mark.parametrize(('asked', 'message'), [
    ('documents=nowhere', 'neither a folder nor a table'),
    ('documents=nowhere.csv', 'nowhere.csv: no such file'),
    ('colour=x', '"colour=x" is none of documents=PLACE, test=SHARE'),
    ('test=2', 'test=2 is a share'), ('test=x', 'test=x is a share'),
    ('title=Titel', 'no column "Titel"; its columns are question, text'),
])
def test_faults_of_places(tmp_path, asked, message):
  path = tmp_path / 'faq.csv'
  path.write_text('question,text,document\na,b,c\n')
  refused(f'csv:{path}?{asked}', message, tmp_path / 'out')


@pytest.mark.parametrize(('rows', 'message'), [
    ('a,Beta.md\nb,b.md\nc,x\nd,y\n', r'faq.csv:2: column "document" names '
     r'"Beta.md", which is no document; did you mean "beta.md"\? \(3 of 4'),
    ('a,b.md\na,same.md\n', r'faq.csv:3: .*"same.md", as 2 documents are '
     r'called: write "one/same.md" or "two/same.md"\. Repair'),
    ('a,b.md\na,same\n', r'faq.csv:3: .*"same", as 2 documents are called'),
    ('', r'faq.csv: no question can be used; no rows'),
])
def test_rows_that_name_no_document(tmp_path, rows, message):
  for name in ('b.md', 'beta.md', 'one/same.md', 'two/same.md'):
    (tmp_path / 'docs' / name).parent.mkdir(exist_ok=True, parents=True)
    (tmp_path / 'docs' / name).write_text('words')
  (tmp_path / 'faq.csv').write_text('question,document\n' + rows)
  refused(f'csv:{tmp_path}/faq.csv?documents={tmp_path}/docs', message,
          tmp_path / 'out')


def test_rows_that_name_no_document_of_a_table(tmp_path, monkeypatch):
  (tmp_path / 'docs.csv').write_text('id,text\nrefund,words\n')
  table = tmp_path / 'faq.csv'
  table.write_text('question,document\na,refund\nb,refunds\nc,\n')
  spec = f'csv:{table}?documents={tmp_path}/docs.csv&test=0'
  refused(spec, 'faq.csv:3: .* did you mean "refund"\\? Repair',
          tmp_path / 'out')
  said = []
  monkeypatch.setattr(logging, 'warning',
                      lambda text, *args: said.append(text % args))
  prepared = prepare(spec, tmp_path / 'out', skip=True)
  assert known(prepared) == {('a', '', 'words'): 1}
  assert prepared.manifest['counts']['skipped'] == {
      'broken_record': 1, 'unknown_id': 1,
  }
  assert {one for one in said if one.endswith('; skipped')} == {
      f'{table}:3: column "document" names "refunds", which is no document; '
      'did you mean "refund"?; skipped'}


def test_tables_of_spreadsheets_that_write_semicolons(tmp_path):
  table = tmp_path / 'faq.csv'
  table.write_text('\ufeffquestion;text\n"a; b";c, d\n', 'utf-8')
  prepared = prepare(f'csv:{table}?test=0', tmp_path / 'out')
  assert known(prepared) == {('a; b', '', 'c, d'): 1}
  table.write_text('question;x,text\na,b\n')
  refused(f'csv:{table}', 'its columns are question;x, text', tmp_path / 'out')


def test_headers_as_people_write_them(tmp_path):
  (tmp_path / 'faq.csv').write_text('Question,Answer\nwhat,words\n')
  prepared = prepare(f'csv:{tmp_path}/faq.csv?test=0', tmp_path / 'out')
  assert known(prepared) == {('what', '', 'words'): 1}
  assert prepared.queries[0].answers == ()  # It is the passage.


def test_hints_for_other_schemes(tmp_path):
  table = tmp_path / 'faq.csv'
  table.write_text('question,text\na,b\n')
  folder = tmp_path / 'workdir' / 'corpus'
  folder.mkdir(parents=True)
  (folder / 'corpus.jsonl').write_text('{"_id": "1", "text": "a"}\n')
  out = tmp_path / 'out'
  refused(f'{table}?documents=x', f'mean "csv:{table}.documents=x"', out)
  refused(f'beir:{table}', f'a file, not a folder.*mean csv:{table}', out)
  refused(f'jsonl:{table}', f'no line is a json obj.*mean csv:{table}', out)
  refused(f'beir:{tmp_path}/workdir', f'did you mean beir:{folder}', out)


def test_damaged_tables(tmp_path):
  path = write(tmp_path / 'faq.parquet', ROWS, 'parquet')
  data = path.read_bytes()
  for damaged in (data[:len(data) // 2], b'PAR1', b''):
    path.write_bytes(damaged)
    refused(f'parquet:{path}', 'faq.parquet: broken: ',
            tmp_path / 'out')
  refused(f'csv:{tmp_path / "no.csv"}', 'no.csv: no such file',
          tmp_path / 'out')
  refused(f'csv:{tmp_path}', 'a folder, where a table is wanted',
          tmp_path / 'out')
  for printed in ('{\n "question": "a"\n}', '[{"question": "a"}]'):
    (tmp_path / 'rows.jsonl').write_text(printed)
    refused(f'jsonl:{tmp_path / "rows.jsonl"}', 'no line is a json object',
            tmp_path / 'out')
  (tmp_path / 'rows.jsonl').write_text('{"question": "a", "text": 3}\n')
  refused(f'jsonl:{tmp_path / "rows.jsonl"}',
          'rows.jsonl:1: column "text" holds int', tmp_path / 'out')


def test_skipped_rows_are_counted(tmp_path):
  path = tmp_path / 'faq.csv'
  path.write_text('question,text\na,b\n,c\nd,e,f\ng,h\n')
  prepared = prepare(f'csv:{path}?test=0', tmp_path / 'out', skip=True)
  assert {query.text for query in prepared.queries} == {'a', 'g'}
  assert prepared.manifest['counts']['skipped'] == {'broken_record': 2}


def test_rows_that_are_all_skipped(tmp_path):
  path = tmp_path / 'faq.csv'
  path.write_text('question,text\n,c\nd,e,f\n')
  with pytest.raises(errors.UserError, match='used; skipped: 2 broken records'):
    prepare(f'csv:{path}', tmp_path / 'out', skip=True)


def test_its_formats_are_in_the_table():
  for declared in own_data.FORMATS:
    assert sources.FORMATS[declared.scheme] is declared
