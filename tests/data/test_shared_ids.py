"""Which queries have passages of their own, and where that is a rule."""

import numpy as np
import pytest

from neg_contrast.artifacts import artifact
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import shared_ids
from neg_contrast.settings import config as config_lib
from tests import corpora

PASSAGES = {'a': 'one', 'b': 'two', 'c': 'three'}


def data_of(folder, queries=('b', 'x', 'a'), **config):
  return corpora.data_of(folder, corpora.write_beir(
      folder / 'data', PASSAGES, dict.fromkeys(queries, 'a question'),
      train={query: {'c': 1} for query in queries}), **config)


@pytest.mark.parametrize(('source', 'switch', 'has_rule'), [
    ('beir:data/arguana', None, True), ('beir:data/arguana', False, False),
    ('msmarco:data/msmarco', None, False), ('msmarco:data', True, True),
    ('python_docs', None, False), ('dpr:data/nq', None, False),
])
def test_the_rule_is_of_the_source_or_the_switch(source, switch, has_rule):
  config = config_lib.DataConfig(source=source, drop_own_passage=switch)
  assert shared_ids.has_rule(config) == has_rule


def test_own_passages(tmp_path):
  dataset = data_of(tmp_path).load()
  np.testing.assert_array_equal(
      dataset.own_passages, np.array([1, -1, 0], np.int32))
  assert data_of(tmp_path, drop_own_passage=False).load().own_passages is None


def test_none_where_no_id_is_shared(tmp_path):
  assert data_of(tmp_path, queries=('q', 'x')).load().own_passages is None


def test_what_is_retrieved_depends_on_it(tmp_path):
  def contents(role, **config):
    artifact.forget()
    data = data_of(tmp_path, **config)
    data.build()
    return data.contents(role)

  for role, told in (('texts', True), ('data', 'in batches too')):
    on, off = contents(role), contents(role, drop_own_passage=False)
    assert on == {**off, 'drop_own_passage': told}
  assert contents('corpus') == contents('corpus', drop_own_passage=False)


def test_synthetic_queries_have_none(tmp_path):
  gold = data_of(tmp_path).load()
  made = dataset_lib.SyntheticDataset(gold, gold.prepared, 'crops')
  assert made.own_passages is None
