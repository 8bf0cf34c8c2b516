"""Pairs of synthetic queries as data: each query once, and no set of ids."""

import numpy as np
import pytest

from neg_contrast.artifacts import folders
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.data import records, synthetic_pairs, usable_records
from tests import corpora

PASSAGES = {f'p{n}': f'text {n}' for n in range(4)}
PAIRS = [('who', 'p2'), ('what', 'p0'), ('who', 'p1'), ('who', 'p2'),
         ('ünd', 'p3'), ('what', 'p3')]


def make_base(folder):
  source = corpora.write_beir(folder / 'data', PASSAGES)
  return corpora.data_of(folder, source).load().prepared


def write(base, folder, pairs):
  with open(folder / 'pairs.jsonl', 'w', encoding='utf-8') as f:
    for pair in pairs:
      synthetic_pairs.write_pair(f, *pair)
  manifest = {}
  with folders.writing(folder / 'made', manifest,
                       format=prepared_lib.QUERIES) as scratch:
    synthetic_pairs.write(base, [folder / 'pairs.jsonl'], scratch, manifest)
  return prepared_lib.Prepared(folder / 'made', base.folder)


def test_equal_questions_are_one_with_several_positives(tmp_path, monkeypatch):
  def judged(self):
    pytest.fail('a set of the ids of all pairs')

  base = make_base(tmp_path)
  monkeypatch.setattr(usable_records.UsableRecords, 'judged', judged)
  made = write(base, tmp_path, PAIRS)
  assert [query.text for query in made.queries] == ['who', 'what', 'ünd']
  assert [query.id for query in made.queries] == [
      synthetic_pairs.query_id(text) for text in ('who', 'what', 'ünd')]
  judgements = made.judgements(synthetic_pairs.SPLIT)
  assert judgements.query_rows.tolist() == [0, 0, 1, 1, 2]
  assert judgements.passage_rows.tolist() == [1, 2, 0, 3, 3]
  assert judgements.is_example.all() and not len(judgements.unjudged)
  assert synthetic_pairs.read_cuts(made) is None
  assert made.manifest['counts']['repeated'] == 0  # Nothing is written twice.


def test_cuts_are_those_of_the_first_of_equal_pairs(tmp_path):
  made = write(make_base(tmp_path), tmp_path, [
      ('who', 'p2'), ('what', 'p0', (1, 2, 0)), ('what', 'p0', (3, 4, 1))])
  cuts = synthetic_pairs.read_cuts(made)
  assert cuts.tolist() == [[0, -1, 1], [1, 2, 0]]
  assert cuts.dtype == np.int32


def test_ids_stay_what_they_were():
  assert synthetic_pairs.query_id('who') == (
      'synthetic-6ed0337140bd32b4adc5')
  source = synthetic_pairs.PairSource([])
  assert list(source.queries()) == [] and isinstance(source, records.Source)
