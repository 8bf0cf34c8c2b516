import gzip
import pathlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neg_contrast import errors
from neg_contrast.evaluation import trec

ORACLES = pathlib.Path(__file__).parents[3] / 'shared' / 'data' / 'oracles'
TREC_EVAL = ORACLES / 'trec_eval-test'

needs_data = pytest.mark.skipif(
    not ORACLES.exists(), reason='the real data is not here'
)


def written(tmp_path, content, name='file'):
  path = tmp_path / name
  path.write_bytes(content)
  return path


@given(
    st.dictionaries(st.text(max_size=3), st.floats(-2, 2, width=16)),
    st.randoms(use_true_random=False),
)
def test_ranked_is_a_sort_and_forgets_the_order_it_was_given(scores, random):
  pairs = list(scores.items())
  random.shuffle(pairs)
  expected = sorted(
      scores.items(), key=lambda pair: (pair[1], pair[0].encode()), reverse=True
  )
  assert trec.ranked(pairs) == expected


def test_scores_that_are_equal_as_float32_are_ties():
  assert [p for p, _ in trec.ranked([('a', 1 + 1e-9), ('b', 1.0)])] == [
      'b', 'a',
  ]


@pytest.mark.parametrize('pairs, message', [
    ([('a', 1.0), ('a', 2.0)], 'twice'),
    ([('a', float('nan'))], 'NaN'),
])
def test_ranked_refuses(pairs, message):
  with pytest.raises(ValueError, match=message):
    trec.ranked(pairs)


def test_read_ignores_ranks_extra_fields_and_blank_lines(tmp_path):
  path = written(tmp_path, (
      b'q2\tQ0\ta\t0\t 1.5\ttag more junk\r\n'
      b'\n'
      b'q1 Q0 a 0 3 tag\n'
      b'q2 Q0 c 0 1.5 tag\n'
      b'q2 Q0 b 0 2e0 tag\n'
  ))
  run = trec.read_run(path)
  assert list(run) == ['q2', 'q1']
  assert run == {'q2': [('b', 2.0), ('c', 1.5), ('a', 1.5)], 'q1': [('a', 3.0)]}


@pytest.mark.parametrize('line, message', [
    (b'q Q0 d 1 2.0', 'file:2: 5 fields'),
    (b'q Q0 d 1 high tag', "file:2: the score 'high'"),
    (b'q Q0 d 1 nan tag', "file:2: the score 'nan'"),
    (b'q Q0 d 1 1_000 tag', "file:2: the score '1_000'"),
    ('q Q0 d 1 \u0661 tag'.encode(), "file:2: the score '\u0661'"),
    (b'q Q0 d 1 1e99 tag', "file:2: the score '1e99'"),
    (b'q Q0 first 2 2.0 tag', "file:2: passage 'first' occurs twice .* 'q'"),
    (b'q Q0 \xff 1 2.0 tag', 'file:2: .* not UTF-8'),
])
def test_broken_run_is_named_by_line(tmp_path, line, message):
  path = written(tmp_path, b'q Q0 first 1 9.0 tag\n' + line + b'\n')
  with pytest.raises(errors.UserError, match=message):
    trec.read_run(path)


@pytest.mark.parametrize('line, message', [
    (b'q 0 d', 'file:3: 3 fields'),
    (b'q 0 d 1 x', 'file:3: 5 fields'),
    (b'q 0 d 1.0', "file:3: the grade '1.0'"),
    (b'q 0 d 1_0', "file:3: the grade '1_0'"),
    (b'q 0 first 0', "file:3: passage 'first' is judged twice .* 'q'"),
])
def test_broken_qrels_are_named_by_line(tmp_path, line, message):
  path = written(tmp_path, b'# comment\nq 0 first 1\n' + line + b'\n')
  with pytest.raises(errors.UserError, match=message):
    trec.read_qrels(path)


def test_a_byte_order_mark_is_no_part_of_an_id(tmp_path):
  run = written(tmp_path, b'\xef\xbb\xbfq Q0 d 1 2.0 tag\n')
  assert list(trec.read_run(run)) == ['q']
  assert trec.read_qrels(written(tmp_path, b'\xef\xbb\xbfq 0 d 1\n')) == {
      'q': {'d': 1}}


@pytest.mark.parametrize('read', [trec.read_run, trec.read_qrels])
def test_missing_and_damaged_files_are_named(tmp_path, read):
  with pytest.raises(errors.UserError, match='absent: no such file'):
    read(tmp_path / 'absent')
  cut = written(tmp_path, gzip.compress(b'\n' * 99)[:-9], 'cut.gz')
  with pytest.raises(errors.UserError, match='cut.gz: not a whole gzip file'):
    read(cut)
  whole = bytearray(gzip.compress(b'q Q0 d 1 2.0 tag\n' * 99))
  whole[len(whole) // 2] ^= 255
  flipped = written(tmp_path, bytes(whole), 'flipped.gz')
  with pytest.raises(errors.UserError, match='flipped.gz: not a whole gzip'):
    read(flipped)
  plain = written(tmp_path, b'q 0 d 1\n', 'plain.gz')
  with pytest.raises(errors.UserError, match='plain.gz: not a whole gzip file'):
    read(plain)


@pytest.mark.parametrize('name', ['run', 'run.gz'])
def test_run_reads_back_as_it_was(tmp_path, name):
  rng = np.random.default_rng(1)
  scores = rng.normal(size=50).astype(np.float32) * 10.0 ** rng.integers(
      -30, 30, 50
  ).astype(np.float32)
  run = {
      'q9': trec.ranked((f'd{i}', s) for i, s in enumerate(scores.tolist())),
      'q1': [('é\u2028\u00a0x', 0.1)],
      'q5': [('d', 0.0)],
  }
  shuffled = {query: pairs[::-1] for query, pairs in run.items()}
  trec.write_run(tmp_path / name, shuffled, 'tag')
  read = trec.read_run(tmp_path / name)
  assert list(read) == list(run)
  assert read['q9'] == run['q9']
  assert read['q1'] == [('é\u2028\u00a0x', float(np.float32(0.1)))]
  assert [path.name for path in tmp_path.iterdir()] == [name]


def test_written_lines(tmp_path):
  run = {'q': [('a', 0.1), ('c', -1e-7), ('b', 0.1)]}
  trec.write_run(tmp_path / 'run', run, 'bm25')
  assert (tmp_path / 'run').read_text() == (
      'q Q0 b 1 0.1 bm25\nq Q0 a 2 0.1 bm25\nq Q0 c 3 -1e-07 bm25\n'
  )


def test_compressed_runs_are_equal_files(tmp_path):
  for name in ('a.gz', 'b.gz'):
    trec.write_run(tmp_path / name, {'q': [('d', 1.0)]}, 'tag')
  packed = (tmp_path / 'a.gz').read_bytes()
  assert packed == (tmp_path / 'b.gz').read_bytes()
  assert packed[4:8] == bytes(4)  # the time of writing in a gzip header


@pytest.mark.parametrize('run, tag, message', [
    ({'q 1': [('d', 1.0)]}, 'tag', "query id 'q 1'"),
    ({'q': [('d\t1', 1.0)]}, 'tag', 'passage id'),
    ({'q': [('', 1.0)]}, 'tag', "passage id ''"),
    ({'q': [('d', 1.0)]}, 'my run', "tag 'my run'"),
])
def test_refused_run_leaves_the_old_file(tmp_path, run, tag, message):
  path = written(tmp_path, b'old')
  with pytest.raises(errors.UserError, match=message):
    trec.write_run(path, run, tag)
  assert path.read_bytes() == b'old'
  assert list(tmp_path.iterdir()) == [path]


def test_infinite_score_is_not_written(tmp_path):
  with pytest.raises(ValueError, match="passage 'd' has -inf"):
    trec.write_run(tmp_path / 'run', {'q': [('d', -np.inf)]}, 'tag')


def test_qrels_read_back_as_they_were(tmp_path):
  qrels = {'q2': {'b': 0, 'a': 3}, 'q1': {'a': -1}}
  for name in ('qrels', 'qrels.gz'):
    trec.write_qrels(tmp_path / name, qrels)
    assert trec.read_qrels(tmp_path / name) == qrels
  assert (tmp_path / 'qrels').read_text() == 'q2 0 b 0\nq2 0 a 3\nq1 0 a -1\n'


def test_query_id_that_would_be_a_comment_is_refused(tmp_path):
  with pytest.raises(errors.UserError, match='#1'):
    trec.write_qrels(tmp_path / 'qrels', {'#1': {'d': 1}})


@needs_data
def test_comments_change_nothing():
  qrels = trec.read_qrels(TREC_EVAL / 'qrels.test')
  commented = trec.read_qrels(TREC_EVAL / 'qrels.test.with-comments')
  # The file also renames one passage, so that its id holds a #: no comment.
  commented['301']['CR93E-1860'] = commented['301'].pop('CR#93E-1860')
  assert commented == qrels
  assert {query: len(judged) for query, judged in qrels.items()} == {
      '301': 1708, '302': 1061, '303': 912,
  }


@needs_data
@pytest.mark.parametrize('name, lines', [
    ('trec_eval-test/results.test', 1500),
    ('trec_eval-test/results.trunc', 584),
    ('trec_eval-test/results-302.test', 500),
    ('trectools/r1.run', 6),
    ('trectools/r2.run', 6),
    ('trectools/r3.run', 6),
    ('trectools/r4.run', 9),
    ('ir_measures/compat.run', 1927),
])
def test_runs_of_other_tools_are_read_whole_and_in_order(name, lines, tmp_path):
  run = trec.read_run(ORACLES / name)
  assert sum(map(len, run.values())) == lines
  for ranking in run.values():
    assert ranking == sorted(
        ranking, key=lambda pair: (pair[1], pair[0].encode()), reverse=True
    )
  trec.write_run(tmp_path / 'run', run, 'tag')
  assert trec.read_run(tmp_path / 'run') == run


@needs_data
@pytest.mark.parametrize('name, lines', [
    ('trec_eval-test/qrels.rel_level', 3681),
    ('trec_eval-test/qrels-302.test', 1061),
    ('trectools/qrel1.txt', 30),
    ('ir_measures/compat.qrels', 311),
])
def test_qrels_of_other_tools_are_read_whole(name, lines):
  assert sum(map(len, trec.read_qrels(ORACLES / name).values())) == lines
