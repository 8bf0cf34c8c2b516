"""What is gathered from the evaluations of a workdir."""

import json

import pytest

from neg_contrast.artifacts import plan
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.evaluation import evaluations, judged, summary
from neg_contrast.retrieval import bm25_search
from neg_contrast.settings import config as config_lib
from tests import tiny


def test_table_is_aligned():
  table = summary.format_table({
      'bm25': {'mrr@10': 0.5, 'accuracy@1': 0.77237},
      'fusion_rank': {'accuracy@1': 1.0},
  })
  assert table == (
      'system       mrr@10  accuracy@1\n'
      'bm25         0.5000      0.7724\n'
      'fusion_rank       -      1.0000'
  )


def add_query(folder, name):
  with open(folder / 'queries.jsonl', 'a') as f:
    f.write(json.dumps({'_id': name, 'text': 'word1'}) + '\n')
  with open(folder / 'qrels' / 'test.tsv', 'a') as f:
    f.write(f'{name}\td0p0\t1\n')


@pytest.mark.parametrize('flags', [
    {}, {'data__query_prefix': 'word1 '}, {'data__passage_prefix': 'word2 '},
])
@pytest.mark.parametrize('query', ['new', 'd0p1'])  # A passage has this name.
def test_what_was_found_in_older_data_is_left_out(tmp_path, flags, query):
  config = config_lib.parse(tiny.make_config(tmp_path, **flags))
  add_query(tmp_path / 'data', query)
  data = dataset_lib.data_of(config.data)
  queries = judged.Judged(data, 'test', config.evaluation)
  (tmp_path / 'work').mkdir()
  plan.run([evaluations.Evaluation(judged.Bm25Ranking(
      queries, 'bm25', bm25_search.bm25_of(config.evaluation, data)
  ), tmp_path / 'work')])
  dataset = data.load()
  (folder, manifest), = summary.read_evaluations(tmp_path / 'work', dataset)
  assert manifest['key'] == 'data/test/bm25' and folder.is_dir()
  add_query(tmp_path / 'data', 'newer')
  changed = dataset_lib.Dataset(config.data)
  assert changed.prepared.fingerprint != dataset.prepared.fingerprint
  assert not summary.read_evaluations(tmp_path / 'work', changed)


@pytest.mark.parametrize(('names', 'line'), [
    (('bm25', 'hybrid'), 'metric: bm25 and hybrid\n'),
    ((*'abcd',), 'metric: 6 of 6 pairs\n'),
    (('a.old', 'b.partial'), 'metric: a.old and b.partial\n'),
])
def test_what_queries_do_not_tell_apart_is_said(tmp_path, capsys, names, line):
  config = config_lib.parse(tiny.make_config(tmp_path))
  data = dataset_lib.data_of(config.data)
  queries = judged.Judged(data, 'test', config.evaluation)
  (tmp_path / 'work').mkdir()
  plan.run([evaluations.Evaluation(judged.Bm25Ranking(
      queries, name, bm25_search.bm25_of(config.evaluation, data)
  ), tmp_path / 'work') for name in names])
  capsys.readouterr()
  summary.gather(tmp_path / 'work', data.load())
  assert line in capsys.readouterr().out


@pytest.mark.parametrize(('metric', 'is_other'), [
    ('document_mrr@10', True), ('macro_document_mrr@10', True),
    ('mrr@10', False),
])
def test_what_documents_are_counts_for_metrics_of_them(
    tmp_path, metric, is_other
):
  identities = []
  for by in ('reader', 'title'):
    config = config_lib.parse(tiny.make_config(
        tmp_path, data__document=by, evaluation__metrics=(metric,)))
    data = dataset_lib.data_of(config.data)
    _ = data.load()
    identities.append(evaluations.Evaluation(judged.Bm25Ranking(
        judged.Judged(data, 'test', config.evaluation), 'bm25',
        bm25_search.bm25_of(config.evaluation, data)), tmp_path).identity)
  assert (identities[0] != identities[1]) == is_other
