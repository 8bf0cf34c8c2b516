"""Json and quoted rows piece by piece, names of splits, files of all sorts."""

import gzip
import json
import pathlib
import tracemalloc

import hypothesis
import pytest
from hypothesis import strategies as st

from neg_contrast import errors
from neg_contrast.data import preparation, records, sources
from neg_contrast.data.formats import files, json_reader, qrels

STRICT = records.InvalidRecords(skip=False)


def items(path, key=''):
  return [value for _, value in files.array_items(path, key)]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(), inner, max_size=3), max_leaves=8)


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
  return tmp_path_factory.mktemp('files')


@hypothesis.given(st.lists(VALUES, max_size=5), st.integers(1, 40),
                  st.booleans(), st.sampled_from([None, 1]))
@hypothesis.settings(deadline=None)
def test_arrays_are_read_piece_by_piece(folder, values, block, is_ascii,
                                        indent):
  path = folder / 'a.json'
  dump = lambda value: path.write_text(
      json.dumps(value, ensure_ascii=is_ascii, indent=indent) + ' \n')
  hypothesis.assume(is_ascii or all(
      not 0xd800 <= ord(c) < 0xe000 for c in json.dumps(
          values, ensure_ascii=False)))
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(json_reader, '_BLOCK', block)
    dump(values)
    assert items(path) == values
    dump({'version': 1, 'data': values, 'more': {'data': [1]}})
    assert items(path, 'data') == values
    dump({'version': ['data'], 'date': values})
    assert items(path, 'data') == []


@pytest.mark.parametrize('text', [
    '[1', '[1,', '[1,]', '[1 2]', '[1]]', '[', '[}', '["x', '[tru', '{"a": 1}',
    '[{"a" 1}]', '{"data": [1]', '{"data": [1],', '{"data" [1]}', '{data: 1}',
    '', '[' * 200_000,
])
def test_broken_arrays(tmp_path, text):
  path = tmp_path / 'x.json'
  path.write_text(text)
  with pytest.raises(errors.UserError, match='x.json: not valid json after it'):
    items(path, 'data' if '{d' in text or '"data"' in text else '')


def test_a_broken_item_is_found_without_reading_on(tmp_path):
  path = tmp_path / 'x.json'
  path.write_text('[{"a" 1},' + '{"b": 2},' * 1_000_000 + '3]')
  tracemalloc.start()
  with pytest.raises(errors.UserError, match="after item 0: Expecting ':'"):
    items(path)
  assert tracemalloc.get_traced_memory()[1] < 1_000_000
  tracemalloc.stop()


def dpr(tmp_path, form, *given):
  path = tmp_path / 'train.json'
  path.write_text(f'[{",".join(given)}]' if form == 'array' else
                  '\n'.join(given))
  return f'dpr:{path}'


@pytest.mark.parametrize('form', ['array', 'lines'])
def test_items_are_equal_in_both_forms(tmp_path, form):
  """Huge numbers, missing values as pandas writes them, half characters."""
  start = '{"question": "q", "positive_ctxs": [{"passage_id": '
  spec = dpr(
      tmp_path, form,
      start + '7' * 5000 + ', "text": "x", "title": NaN, "score": NaN}]}',
      start + '"\\ud800", "text": "y"}]}',
      start + '3, "text": "z"}], "answers": [Infinity]}',
      start + '4, "text": "\\ud83d\\ude00"}]}')
  source = sources.open_source(spec, records.InvalidRecords(True))
  passages = list(source.passages())
  assert [(p.id, p.text, p.title) for p in passages] == [
      ('7' * 5000, 'x', ''), ('\ud800', 'y', ''), ('4', '\U0001f600', '')]
  with pytest.raises(errors.UserError, match='no valid Unicode'):
    preparation.prepare(spec, tmp_path / 'out', False)
  corpus = preparation.prepare(spec, tmp_path / 'out', True)
  assert len(corpus.passages) == 2
  # The half character, its judgement, and an answer that is no text.
  assert corpus.manifest['counts']['skipped'] == {
      'broken_record': 2, 'unknown_id': 1}


def rows(path, invalid=STRICT):
  return [row for _, row in files.quoted_rows(path, invalid)]


def test_an_open_quote_swallows_no_rows(tmp_path):
  plain = [[str(n), f'text {n}', f'title "{n}'] for n in range(3000)]
  lines = ['\t'.join(row) + '\n' for row in plain]
  lines[1] = '1\ttext\t"open\n'  # No quote closes it.
  lines[700] = '700\ttext\t"closed\n'
  lines[702] = '702\t"text"\tof another row\n'
  path = tmp_path / 'x.tsv'
  path.write_text(''.join(lines))
  with pytest.raises(errors.UserError, match=r'x.tsv:2: .*a quote not closed'):
    rows(path)
  invalid = records.InvalidRecords(skip=True)
  found = rows(path, invalid)
  assert invalid.counts == {'broken_record': 2}
  plain[702][1:] = 'text', 'of another row'
  assert found == [row for n, row in enumerate(plain) if n not in (1, 700)]


def test_fields_between_quotes_keep_all_their_lines(tmp_path):
  path = tmp_path / 'x.tsv'
  path.write_bytes(b'1\t"a\n\n \nb\r\n\tc ""q"""\tT\r\n\n2\tx\ry\tsay "z"\n'
                   b'3\t"' + b'w' * 300_000 + b'"\t"T"')
  assert rows(path) == [['1', 'a\n\n \nb\r\n\tc "q"', 'T'],
                        ['2', 'x\ry', 'say "z"'], ['3', 'w' * 300_000, 'T']]


@pytest.mark.parametrize('name, split', [
    ('train-v1.1.json', 'train'), ('biencoder-nq-adv-hn-train.json.gz',
                                   'train'),
    ('pretrained_test.jsonl', 'test'), ('contest.jsonl', 'all'),
    ('latest.json', 'all'), ('device.json', 'all'), ('latest_dev.json', 'dev'),
    ('validation.jsonl', 'dev'), ('val2.jsonl', 'dev'), ('Test.JSON', 'test'),
    ('evaluation.json', 'all'), ('qidpidtriples.rnd-shuf.train.tsv.gz',
                                 'train'),
])
def test_splits_are_whole_words(name, split):
  assert files.split_of(pathlib.Path('train') / name) == split


@pytest.mark.parametrize('name, is_gzip', [
    ('x.jsonl', True), ('x.jsonl.gz', False), ('x.jsonl.gz', True)])
def test_gzip_is_seen_by_the_bytes(tmp_path, name, is_gzip):
  data = b'\xef\xbb\xbf{"a": 1}\n'
  (tmp_path / name).write_bytes(gzip.compress(data) if is_gzip else data)
  assert [value for _, value in files.json_items(tmp_path / name, STRICT)
          ] == [{'a': 1}]


def test_what_the_system_refuses_is_a_user_error(tmp_path, monkeypatch):
  """Tests may run as root, whom nothing is refused."""
  for place in ('x' * 300, f'{tmp_path}/{"x" * 300}'):
    for scheme in ('squad:', 'beir:', 'text:', 'tfds:', ''):
      with pytest.raises(errors.UserError):
        sources.open_source(f'{scheme}{place}', STRICT)
  path = tmp_path / ('x' * 240) / 'train.json'
  path.parent.mkdir()
  path.write_text('[{"question": "q", "positive_ctxs": [{"text": "x"}]}]')
  spec = f'dpr:{path.parent}'
  assert len(preparation.prepare(spec, tmp_path / 'out', False).passages) == 1

  def refuse(opened, *args, **kwargs):
    raise PermissionError(13, 'Permission denied', str(opened))

  monkeypatch.setattr('builtins.open', refuse)
  monkeypatch.setattr('io.open', refuse)  # Of paths.
  with pytest.raises(errors.UserError, match='train.json: Permission denied'):
    list(sources.open_source(spec, STRICT).passages())
  with pytest.raises(errors.UserError, match='Permission denied'):
    preparation.prepare(spec, tmp_path / 'new', False)


def test_a_damaged_file_gives_no_hint(tmp_path):
  data = gzip.compress(b'{"_id": 1}' * 99)
  (tmp_path / 'x.jsonl.gz').write_bytes(data[:10] + b'\xff' * 9 + data[19:])
  with pytest.raises(errors.UserError, match='parquet:faq.parquet$'):
    sources.open_source(f'none:{tmp_path}', STRICT)


def test_hint_for_passages_that_we_cut(tmp_path):
  """`job=split` writes a corpus and a manifest."""
  (tmp_path / 'corpus.jsonl').write_text('{"_id": "a", "text": "x"}')
  (tmp_path / 'manifest.json').write_text('{}')
  with pytest.raises(errors.UserError, match=f'did you mean beir:{tmp_path}'):
    sources.open_source(str(tmp_path), STRICT)


@pytest.mark.parametrize('first', [b'\t', b'\t\t\t', b' \t'])
def test_a_first_line_of_tabs_is_no_header(tmp_path, first):
  path = tmp_path / 'test.tsv'
  path.write_bytes(first + b'\nq\td\t1\n')
  with pytest.raises(errors.UserError, match=r'test.tsv:1: the header line'):
    list(qrels.read(path, STRICT))


@pytest.mark.parametrize('indent', [1, 2])
def test_json_over_many_lines_is_explained(tmp_path, indent):
  path = tmp_path / 'corpus.jsonl'
  path.write_text(json.dumps([{'_id': 'a', 'text': 'b'}], indent=indent))
  with pytest.raises(errors.UserError, match=r'corpus.jsonl:1: .*`jq -c`'):
    list(files.json_lines(path, STRICT))
