import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neg_contrast import errors
from neg_contrast.evaluation import per_query

ROW = per_query.Result(
    'q1', 'who\twrote\r\nit?', 3, 'd7', False, ('Homer', 'a\tb'),
    {'mrr@10': 1 / 3, 'accuracy@1': 0.0},
)
OTHER = per_query.Result(
    'é 2', '"To be" said who', None, '', True, (), {'accuracy@1': 1.0,
                                                  'mrr@10': 0.1},
)
METRICS = ('mrr@10', 'accuracy@1')
IDS = st.text(
    st.characters(blacklist_categories=['Cs'], blacklist_characters='\t\n\r'),
    max_size=4,
)


def test_written_lines(tmp_path):
  per_query.write(tmp_path / 'table.tsv', iter([ROW, OTHER]), METRICS)
  assert (tmp_path / 'table.tsv').read_bytes().decode() == (
      'query_id\tquery\tfirst_positive_rank\tfirst_passage_id\t'
      'first_passage_is_positive\tanswers\tmrr@10\taccuracy@1\n'
      'q1\twho wrote  it?\t3\td7\t0\tHomer | a b\t0.3333333333333333\t0.0\n'
      'é 2\t"""To be"" said who"\t\t\t1\t\t0.1\t1.0\n'
  )


def test_pandas_reads_it(tmp_path):
  pandas = pytest.importorskip('pandas')
  per_query.write(tmp_path / 'table.tsv', [ROW, OTHER], METRICS)
  table = pandas.read_csv(tmp_path / 'table.tsv', sep='\t')
  assert table['query'].tolist() == ['who wrote  it?', OTHER.query]
  assert table['first_positive_rank'].isna().tolist() == [False, True]
  assert table['mrr@10'].tolist() == [1 / 3, 0.1]


@pytest.mark.parametrize('name', ['table.tsv', 'table.tsv.gz'])
@settings(deadline=None)
@given(
    values=st.dictionaries(
        IDS, st.tuples(st.floats(-1e9, 1e9), st.floats(0, 1)), min_size=1
    ),
    text=st.text(st.characters(blacklist_categories=['Cs'])),
)
def test_values_read_back_equal(tmp_path_factory, name, values, text):
  path = tmp_path_factory.getbasetemp() / name
  per_query.write(path, [
      per_query.Result(query, text, 1, query, True, (text, text),
                       {'map': first, 'ndcg@10': second})
      for query, (first, second) in values.items()
  ], ('map', 'ndcg@10'))
  found = per_query.read(path)
  assert found == {
      'map': {query: pair[0] for query, pair in values.items()},
      'ndcg@10': {query: pair[1] for query, pair in values.items()},
  }
  assert list(found['map']) == list(values)


def test_what_was_not_measured_is_left_out(tmp_path):
  path = tmp_path / 'table.tsv'
  unjudged = dataclasses.replace(ROW, metrics={'accuracy@1': 1.0})
  per_query.write(path, [OTHER, unjudged], METRICS)
  assert per_query.read(path) == {
      'mrr@10': {'é 2': 0.1}, 'accuracy@1': {'é 2': 1.0, 'q1': 1.0},
  }


def test_table_without_queries(tmp_path):
  per_query.write(tmp_path / 'table.tsv', [], METRICS)
  assert per_query.read(tmp_path / 'table.tsv') == {m: {} for m in METRICS}


@pytest.mark.parametrize('changes, error, message', [
    ({'query_id': 'a\tb'}, errors.UserError, r"query id 'a\\tb' holds a tab"),
    ({'query_id': 'a\r'}, errors.UserError, 'rename it'),
    ({'first_passage_id': 'a\n'}, errors.UserError, 'passage id'),
    ({'metrics': {'map': 1.0}}, ValueError, "'q1' has other metrics"),
    ({'metrics': {'mrr@10': 0.0, 'accuracy@1': float('nan')}}, ValueError,
     'nan'),
])
def test_refused_rows_leave_the_old_file(tmp_path, changes, error, message):
  path = tmp_path / 'table.tsv'
  path.write_text('old')
  with pytest.raises(error, match=message):
    per_query.write(path, [OTHER, dataclasses.replace(ROW, **changes)],
                    METRICS)
  assert path.read_text() == 'old'
  assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize('old, new, message', [
    ('query_id', 'qid', 'tsv:1: the header does not begin with query_id,'),
    ('accuracy@1', 'mrr@10', 'tsv:1: a metric has two columns'),
    ('\t0.1\t1.0', '\t0.1', 'tsv:3: 7 fields under a header of 8'),
    ('0.1\t1.0', 'nan\t1.0', "tsv:3: mrr@10: 'nan' is no finite number"),
    ('é 2\t', 'q1\t', "tsv:3: query 'q1' occurs twice"),
    ('said who"', 'said who', r'tsv:3: .*quote not closed'),
])
def test_damaged_tables_are_named_by_line(tmp_path, old, new, message):
  path = tmp_path / 'tsv'
  per_query.write(path, [ROW, OTHER], METRICS)
  text = path.read_bytes().decode()
  assert text.count(old) == 1
  path.write_bytes(text.replace(old, new).encode())
  with pytest.raises(errors.UserError, match=message):
    per_query.read(path)


def test_missing_and_empty_tables_are_named(tmp_path):
  with pytest.raises(errors.UserError, match='absent: no such file'):
    per_query.read(tmp_path / 'absent')
  (tmp_path / 'empty').touch()
  with pytest.raises(errors.UserError, match='empty: empty, without'):
    per_query.read(tmp_path / 'empty')
