"""What tasks are made of: which texts, how long, and which batches."""

import dataclasses
import pathlib

import numpy as np
import pytest

from neg_contrast.benchmarks import material, measurement
from neg_contrast.jobs import benchmark
from neg_contrast.settings import config as config_lib
from tests import tiny


def make(folder, **overrides):
  """The material of a benchmark on the tiny corpus."""
  config = config_lib.parse(tiny.make_config(folder, **{
      'job': 'benchmark', 'negatives__sources': ('corpus:2',), **overrides}))
  target, = benchmark.BenchmarkJob(config, folder / 'work').targets()
  assert isinstance(target, measurement.Measurement)
  return target.material()


@pytest.fixture(scope='module')
def root(tmp_path_factory):
  root = tmp_path_factory.mktemp('material')
  tiny.make_config(root)
  return root


def test_texts_are_the_first_of_the_corpus(root):
  made = make(root, benchmark__passages=5, benchmark__queries=3)
  assert isinstance(made, material.Material) and not made.is_made_up
  assert made.passage_rows().tolist() == [0, 1, 2, 3, 4]
  assert made.passage_rows().dtype == made.query_rows().dtype == np.int32
  # Queries are judged ones of the train split, once each.
  train = made.dataset.prepared.judgements('train')
  judged = sorted(set(train.query_rows[train.grades > 0].tolist()))
  assert made.query_rows().tolist() == judged[:3]


def test_a_small_corpus_has_no_more(root):
  made = make(root, benchmark__passages=500, benchmark__queries=500)
  assert made.passage_rows().tolist() == list(range(48))
  assert len(made.query_rows()) == 36  # Three of four documents train.


def test_lengths_are_those_of_the_inputs(root):
  made = make(root)
  prepared = made.dataset.prepared
  # Words are tokens here, with [CLS] and [SEP] around them.
  for role, texts, most in (('query', prepared.queries, 16),
                            ('passage', prepared.passages, 24)):
    assert made.lengths(role).tolist() == [
        min(most, 2 + len(text.text.split())) for text in texts]


def test_batches_are_those_of_training(root):
  made = make(root, negatives__sources=('corpus:2',))
  prepared = made.dataset.prepared
  judged = prepared.judgements('train')
  positives = {(query, passage) for query, passage, grade in zip(
      judged.query_rows.tolist(), judged.passage_rows.tolist(),
      judged.grades.tolist(), strict=True) if grade > 0}
  seen = []
  for step in (0, 1):
    queries, rows, negatives = made.batch_rows(step)
    assert (len(queries), len(rows), negatives.shape) == (8, 8, (8, 2))
    assert set(zip(queries.tolist(), rows.tolist(), strict=True)) <= positives
    for query, line in zip(queries.tolist(), negatives.tolist(), strict=True):
      assert not {(query, row) for row in line} & positives
    seen.append(queries.tolist())
  assert seen[0] != seen[1]
  np.testing.assert_array_equal(made.batch_rows(0)[0], seen[0])


def test_nothing_is_read_before_it_is_asked_for(root):
  made = dataclasses.replace(make(root), workdir=pathlib.Path('elsewhere'))
  assert not {'ready', 'encoder'} & vars(made).keys()
  assert made.encoder is made.encoder and made.encoder.model is made.model
