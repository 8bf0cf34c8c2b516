"""Queries keep short answers; those without one are left out, judgements too.
"""

import json

import pytest

from neg_contrast import errors
from neg_contrast.data import preparation, records, sources

LONG = 'one two three four five six'
SHORT = 'one two  three four five'  # Five words.


def write_dpr(folder):
  folder.mkdir()
  context = lambda n: {'title': f't{n}', 'text': f'text {n}',
                       'passage_id': str(n)}
  rows = [{'question': question, 'answers': answers,
           'positive_ctxs': [context(n)], 'hard_negative_ctxs': [context(9)]}
          for n, (question, answers) in enumerate([
              ('both', [LONG, SHORT]), ('long', [LONG]), ('none', [])])]
  (folder / 'nq-train.json').write_text(json.dumps(rows))
  (folder / 'nq-test.qa.csv').write_text(
      f"kept\t['a', '{LONG}']\nleft\t['{LONG}']\n")
  return f'dpr:{folder}'


def write_tevatron(folder):
  folder.mkdir()
  rows = [{'query_id': question, 'query': question, 'answers': answers,
           'positive_passages': [{'docid': 'p', 'title': '', 'text': 'p'}],
           'negative_passages': []}
          for question, answers in (('both', [LONG, SHORT]), ('long', [LONG]))]
  (folder / 'train.jsonl').write_text('\n'.join(map(json.dumps, rows)) + '\n')
  return f'tevatron:{folder}'


@pytest.mark.parametrize(('write', 'kept', 'judged'), [
    (write_dpr, {'both': (SHORT,), 'kept': ('a',)}, 2),
    (write_tevatron, {'both': (SHORT,)}, 1)])
def test_questions_without_a_short_answer_are_left_out(
    tmp_path, write, kept, judged
):
  spec = write(tmp_path / 'd')
  some = preparation.prepare(spec, tmp_path / 'out', False, 5)
  assert {query.text: query.answers for query in some.queries} == kept
  train = some.judgements('train')
  assert train.queries.tolist() == [0] and len(train.grades) == judged
  every = preparation.prepare(spec, tmp_path / 'out', False)
  assert len(every.queries) > len(some.queries)
  # The corpus is the same, and both are kept.
  assert [p.id for p in every.passages] == [p.id for p in some.passages]
  assert every.folder != some.folder
  for words in (0, 5):
    assert preparation.is_prepared(spec, tmp_path / 'out', False, words)
  assert not preparation.is_prepared(spec, tmp_path / 'out', False, 4)


def test_unusable_records_are_counted_once(tmp_path):
  spec = write_dpr(tmp_path / 'd')
  path = tmp_path / 'd' / 'nq-train.json'
  path.write_text(json.dumps([*json.loads(path.read_text()), {'question': 1}]))
  with pytest.raises(errors.UserError, match='key "question" holds int'):
    preparation.prepare(spec, tmp_path / 'out', False, 5)
  made = preparation.prepare(spec, tmp_path / 'out', True, 5)
  assert made.manifest['counts']['skipped'] == {'broken_record': 1}


def test_it_reads_as_a_source(tmp_path):
  spec = write_dpr(tmp_path / 'd')
  plain, short = (sources.open_source(
      spec, records.InvalidRecords(skip=False), words) for words in (0, 5))
  assert isinstance(short, records.Source)
  assert (short.files, short.splits) == (plain.files, plain.splits)
  assert list(short.passages()) == list(plain.passages())
