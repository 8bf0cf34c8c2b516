"""Wild values, and small folders of every format with one wild file."""

import gzip
import io
import json

import pyarrow
from hypothesis import strategies as st
from pyarrow import parquet

WILD_TEXT = st.one_of(
    st.sampled_from(['', ' ', '\t', '\x00', '\ufeff', '\ud800', '1_000', 'nan',
                     '1e999', '-0', '٣', '\x1b[2J', '../..', '"', "['a'",
                     'a' * 3000, '\u2028', '9' * 5000, '{}', '[]', 'null']),
    st.text(max_size=12),
)
WILD_NUMBER = st.one_of(
    st.integers(), st.floats(),
    st.sampled_from([0, -1, 2**31, 2**63, -(2**70), 10**400, 1e300, 1e-320]),
)
WILD = st.recursive(
    st.one_of(st.none(), st.booleans(), WILD_NUMBER, WILD_TEXT),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.text(max_size=5), inner, max_size=3),
    ), max_leaves=4,
)


@st.composite
def changed(draw, value):
  """A json value in which one value somewhere is a wild one."""
  if isinstance(value, dict) and value and draw(st.integers(0, 6)):
    key = draw(st.sampled_from(sorted(value)))
    action = draw(st.integers(0, 9))
    if action == 0:
      return {name: one for name, one in value.items() if name != key}
    return {**value, key: draw(changed(value[key]))}
  if isinstance(value, list) and value and draw(st.integers(0, 6)):
    place = draw(st.integers(0, len(value) - 1))
    return [*value[:place], draw(changed(value[place])), *value[place + 1:]]
  return draw(WILD)


def encoded(value) -> bytes:
  """The json of a value; of half a surrogate pair too."""
  return json.dumps(value).encode()


@st.composite
def changed_bytes(draw, data):
  """The bytes of a file of lines, changed."""
  kind = draw(st.integers(0, 5))
  if kind == 0:
    return draw(st.binary(max_size=60))
  place = draw(st.integers(0, len(data)))
  if kind == 1:
    return data[:place]
  if kind == 2:
    wild = draw(st.one_of(st.binary(min_size=1, max_size=8), WILD_TEXT.map(
        lambda text: text.encode('utf-8', 'surrogatepass'))))
    return data[:place] + wild + data[place + draw(st.integers(0, 3)):]
  rows = data.split(b'\n')
  row = draw(st.integers(0, len(rows) - 1))
  if kind == 3:
    return b'\n'.join([*rows[:row], *rows[row + 1:], rows[row]])
  separator = draw(st.sampled_from([b'\t', b' ', b',', b'"']))
  fields = rows[row].split(separator)
  field = draw(st.integers(0, len(fields) - 1))
  wild = draw(WILD_TEXT).encode('utf-8', 'surrogatepass')
  fields[field:field + 1] = draw(st.sampled_from([[wild], [], [wild, wild]]))
  rows[row] = separator.join(fields)
  return b'\n'.join(rows)


@st.composite
def changed_file(draw, name, content):
  """A file's bytes: what it holds, or its bytes, changed; maybe gzipped.

  Args:
    draw: of hypothesis.
    name: of the file.
    content: bytes; or a json value; or, of `.jsonl`, a list of them; or, of
      `.parquet`, the rows.
  """
  if isinstance(content, bytes):
    return draw(changed_bytes(content))
  is_whole = draw(st.booleans())
  value = draw(changed(content)) if is_whole else content
  if name.endswith('.parquet'):
    try:
      data = as_parquet(value)
    except (pyarrow.ArrowException, AttributeError, LookupError,
            OverflowError, TypeError, ValueError):  # No table has such rows.
      data, is_whole = as_parquet(content), False
    return data if is_whole else draw(changed_bytes(data))
  if name.endswith('.jsonl') and isinstance(value, list):
    data = b'\n'.join(map(encoded, value)) + b'\n'
  else:
    data = encoded(value)
  data = data if is_whole else draw(changed_bytes(data))
  return gzip.compress(data) if name.endswith('.gz') else data


def whole_file(name, content) -> bytes:
  """The bytes of a file as it should be."""
  if isinstance(content, bytes):
    return content
  if name.endswith('.parquet'):
    return as_parquet(content)
  if name.endswith('.jsonl'):
    return b'\n'.join(map(encoded, content)) + b'\n'
  return encoded(content)


def as_parquet(rows) -> bytes:
  """A table of rows."""
  out = io.BytesIO()
  parquet.write_table(pyarrow.Table.from_pylist(rows), out)
  return out.getvalue()


_PASSAGE = {'title': 't', 'text': 'p one', 'passage_id': '1', 'score': 1.5}
SOURCES = {
    'beir': {
        'corpus.jsonl': [{'_id': 'p1', 'title': 't', 'text': 'one'},
                         {'_id': 'p2', 'title': '', 'text': 'two'}],
        'queries.jsonl': [{'_id': 'q1', 'text': 'what'},
                          {'_id': 'q2', 'text': 'who'}],
        'qrels/test.tsv': b'query-id\tcorpus-id\tscore\nq1\tp1\t1\nq2\tp2\t0\n',
        'qrels/dev.trec': b'q1 0 p2 1\nq2 0 p1 2\n',
    },
    'msmarco': {
        'collection.tsv': b'1\tone text\n2\ttwo texts\n3\tthree\n',
        'queries.train.tsv': b'7\twhat is\n8\twho is\n',
        'qrels.train.tsv': b'7\t0\t1\t1\n8\t0\t2\t1\n',
        'qidpidtriples.train.full.2.tsv': b'7\t1\t2\n8\t2\t3\n',
    },
    'dpr': {
        'train.json': [{'question': 'q', 'answers': ['a'],
                        'positive_ctxs': [_PASSAGE],
                        'negative_ctxs': [],
                        'hard_negative_ctxs': [{**_PASSAGE, 'passage_id': 2}]}],
        'psgs.tsv': b'id\ttext\ttitle\n1\t"p one"\tt\n2\t"p ""two"""\tu\n',
        'x-test.qa.csv': b"what\t['a', 'b']\nwho\t[\"c\"]\n",
    },
    'tevatron': {'train.jsonl': [
        {'query_id': '1', 'query': 'q', 'answers': ['a'],
         'positive_passages': [{'docid': 'd', 'title': 't', 'text': 'one'}],
         'negative_passages': [{'docid': 'e', 'title': '', 'text': 'two'}]},
        {'query_id': '2', 'query': 'r', 'positive_document_ids': ['d'],
         'negative_document_ids': ['e']}]},
    'flag_embedding': {'train.jsonl': [
        {'query': 'q', 'pos': ['one', 'two'], 'neg': ['three'],
         'pos_scores': [1.0, 0.5], 'pos_id': ['1', '2']}]},
    'squad': {'dev.json': {'version': '1.1', 'data': [{
        'title': 'T', 'paragraphs': [{'context': 'one two', 'qas': [
            {'id': 'q1', 'question': 'what', 'is_impossible': False,
             'answers': [{'text': 'one', 'answer_start': 0}]}]}]}]}},
    'kilt': {
        'kilt_knowledgesource.json': encoded({
            '_id': '12', 'wikipedia_id': '12', 'wikipedia_title': 'A',
            'text': ['A\n', 'one two\n']}) + b'\n',
        'aidayago2-dev-kilt.jsonl': [{
            'id': 'x', 'input': 'he [START_ENT] A [END_ENT] ran',
            'output': [{'answer': 'A', 'provenance': [
                {'wikipedia_id': '12', 'title': 'A'}]}],
            'meta': {'left_context': 'he', 'mention': 'A',
                     'right_context': 'ran'}}]},
    'zeshel': {
        'documents/w.json': b'\n'.join(map(encoded, (
            {'document_id': 'd1', 'title': 'A', 'text': 'A : one two'},
            {'document_id': 'd2', 'title': 'B', 'text': 'B two A three'}))),
        'mentions/train.json': encoded({
            'mention_id': 'm', 'context_document_id': 'd2',
            'label_document_id': 'd1', 'corpus': 'w', 'text': 'A',
            'start_index': 2, 'end_index': 2,
            'category': 'LOW_OVERLAP'}) + b'\n'},
    'text': {'a.md': b'---\ntitle: x\n---\n# A\n\none\n', 'b/c.txt': b'two\n',
             'd.html': b'<html><title>T</title><p>x &amp; <b>y</p></html>'},
    'csv': {'faq.csv': b'question,text,grade\nwhat,"one, two",1\n'
                       b'who,"a\nb",0\n'},
    'tsv': {'faq.tsv': b'question\tpassage\tsplit\nwhat\tone\ttrain\n'
                       b'who\ttwo\ttest\n'},
    'jsonl': {'faq.jsonl': [{'question': 'what', 'text': 'one', 'grade': 1},
                            {'question': 'who', 'text': 'two', 'id': 3}]},
    'parquet': {'faq.parquet': [
        {'question': 'what', 'text': 'one', 'grade': 1, 'weight': 0.5},
        {'question': 'who', 'text': 'two', 'grade': 0, 'weight': 1.0}]},
    'hf': {
        'corpus/corpus.parquet': [{'_id': '1', 'title': 't', 'text': 'one'},
                                  {'_id': '2', 'title': '', 'text': 'two'}],
        'queries/queries.parquet': [{'_id': 'q1', 'text': 'what'},
                                    {'_id': 'q2', 'text': 'who'}],
        'qrels/train.parquet': [
            {'query-id': 'q1', 'corpus-id': '1', 'score': 1.0}],
        'qrels/test.parquet': [
            {'query-id': 'q2', 'corpus-id': '2', 'score': 2.0}]},
    'hf_pairs': {'train.parquet': [
        {'query': 'what', 'answer': ['a'], 'positive': 'one',
         'negative_1': 'two'},
        {'query': 'who', 'answer': [], 'positive': 'three',
         'negative_1': None}]},
    'clicks': {
        'corpus.jsonl': [{'id': 'a', 'title': 't', 'text': 'one'},
                         {'id': 'b', 'title': '', 'text': 'two'}],
        'log.jsonl': [
            {'query': 'what', 'passage_id': 'a', 'rank': 1, 'clicked': True,
             'session': 's', 'time': 5, 'weight': 2},
            {'query': 'who', 'passage_id': 'b', 'rank': 2, 'clicked': 0}],
        'test.tsv': b'query\tpassage_id\trank\tclicked\tsession\ttime\n'
                    b'why\ta\t1\t1\ts\t1\nwhy\tb\t2\tfalse\ts\t1\n'},
    'tfds': {},
}
"""Scheme -> files of a folder that its reader reads.

What stands after an underscore tells two folders of a scheme apart. The files
of `tfds` are made when they are needed, by `test_fuzz.py`.
"""

ONE_FILE = 'csv', 'tsv', 'jsonl', 'parquet'
"""Schemes whose place is a file."""
