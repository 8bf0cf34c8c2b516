"""Pairs that a teacher settles, from a config to data: SPAR, salient spans."""

import numpy as np
import pytest

from neg_contrast import api
from neg_contrast.artifacts import artifact, plan
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.jobs.common import declared_pairs
from neg_contrast.models import by_name
from neg_contrast.retrieval import bm25_search
from neg_contrast.settings import config as config_lib
from neg_contrast.stage1 import pretexts
from neg_contrast.stage1.pretexts import salient_spans, words
from tests import corpora, tiny

DEPTH = 3


@pytest.fixture(scope='module')
def root(tmp_path_factory):
  """A corpus of sentences, and a model."""
  folder = tmp_path_factory.mktemp('settled')
  tiny.write_sentences(folder / 'data')
  tiny.write_model(folder / 'model')
  return folder


def parse(root, pairs, **overrides):
  return config_lib.parse(tiny.make_config(root, **{
      'synthetic__pairs': pairs, 'synthetic__dir': str(root / 'synthetic'),
      'synthetic__per_passage': 2, 'synthetic__teacher_depth': DEPTH,
      **overrides}))


def declare(config):
  return declared_pairs.training_data(
      config, dataset_lib.data_of(config.data))


def make(config):
  """Made pairs by query: the positives, and all passages known to hold it."""
  declared = declare(config)
  plan.run([declared])
  made = declared.load()
  judged, prepared = made.train_and_tune[0], made.prepared
  positives: dict[str, set[int]] = {}
  known: dict[str, set[int]] = {}
  for query, row, is_example in zip(
      judged.query_rows, judged.passage_rows, judged.is_example, strict=True
  ):
    text = prepared.queries[int(query)].text
    known.setdefault(text, set()).add(int(row))
    if is_example:
      positives.setdefault(text, set()).add(int(row))
  return made, positives, known


def bm25(config):
  data = dataset_lib.data_of(config.data)
  return bm25_search.bm25_of(config.evaluation, data).load()


def best(search, query, depth):
  rows = search.search([query], depth).rows[0]
  return {int(row) for row in rows if row >= 0}


@pytest.mark.parametrize('pairs, overrides, searches', [
    ('spar', {}, True),
    ('spar', {'synthetic__spar_given': True}, True),
    ('salient_spans', {}, True),
    ('salient_spans', {'synthetic__salience': 'title'}, False),
    ('salient_spans', {'synthetic__salience': 'dual_encoder',
                       'synthetic__salience_checkpoint': 'model'}, False),
    ('masked_salient_spans', {}, False),
])
def test_the_plan_names_what_searches(tmp_path, pairs, overrides, searches):
  tiny.write_sentences(tmp_path / 'data')
  declared = declare(parse(tmp_path, pairs, **overrides))
  titles = [one.title for one in artifact.closure([declared])
            if one.is_listed]
  assert titles == ['data', *['bm25 index'] * searches, 'pairs']
  assert f'{pairs} pairs of ' in plan.describe([declared])


def test_positives_of_spar_are_found_by_bm25(root):
  config = parse(root, 'spar')
  made, positives, known = make(config)
  search, texts = bm25(config), [
      passage.text for passage in made.prepared.passages]
  away = 0
  for query, rows in positives.items():
    assert rows <= best(search, query, DEPTH)
    homes = {row for row, text in enumerate(texts)
             if query in words.fold_space(text)}
    assert homes and homes <= known[query]  # No negative of its own sentence.
    away += not rows <= homes
  assert len(positives) == 48  # Two sentences of each of 24 passages.
  assert 8 < away < 48


def test_questions_of_spar_have_all_that_bm25_finds(root):
  config = parse(root, 'spar', synthetic__spar_given=True,
                 synthetic__per_passage=DEPTH)
  made, positives, known = make(config)
  gold = declare(config).data.load()
  train, tune = gold.train_and_tune
  asked = {gold.prepared.queries[int(row)].text for row in train.query_rows}
  search = bm25(config)
  assert positives == known == {
      query: best(search, query, DEPTH) for query in asked}
  held_out = {gold.prepared.queries[int(row)].text for row in tune.query_rows}
  assert held_out and not held_out & set(positives)
  assert np.array_equal(made.train_and_tune[1].query_rows, tune.query_rows)
  fewer = make(parse(root, 'spar', synthetic__spar_given=True,
                     synthetic__per_passage=1))[1]
  assert all(len(rows) == 1 and rows < positives[query]
             for query, rows in fewer.items())
  assert set(fewer) == asked


def drawn(config, made):
  """(passage's row, spans that it can be asked for with), in drawn order."""
  passages = made.prepared.passages
  tokenizer = by_name.load_as_it_comes(config.model.init, 0).tokenizer
  for row in range(len(passages)):
    candidates, = pretexts.draw_candidates(
        'salient_spans', [(row, passages[row])], tokenizer.offsets,
        config.seed, salient_spans.SPANS)
    yield row, passages[row], [pair.query for pair in candidates.pairs]


def test_salient_spans_by_bm25_have_the_best_score_of_a_word(root):
  config = parse(root, 'salient_spans', synthetic__per_passage=1)
  made, positives, _ = make(config)
  search, count = bm25(config), len(made.prepared.passages)
  for row, _, spans in drawn(config, made):
    scores = []
    for span in spans:
      hits = search.search([span], count)  # As an evaluation searches.
      score, = hits.scores[0][hits.rows[0] == row]
      scores.append(score / len(span.split()))
    ours, = (query for query, rows in positives.items() if row in rows)
    assert scores[spans.index(ours)] == pytest.approx(max(scores), rel=1e-6)


def by_a_model(root, **overrides):
  return parse(root, 'salient_spans', **{
      'synthetic__per_passage': 1, 'synthetic__salience': 'dual_encoder',
      'synthetic__salience_checkpoint': str(root / 'model'), **overrides})


@pytest.mark.parametrize(('query', 'passage'), [
    (None, None), ('word1 word2 word3 ', 'word4 ')])
def test_salient_spans_by_a_model_have_the_best_product(root, query, passage):
  config = by_a_model(
      root, data__query_prefix=query, data__passage_prefix=passage)
  made, positives, _ = make(config)
  model = api.load_encoder(str(root / 'model'))
  for row, text, spans in drawn(config, made):
    passage_vec = model.encode_passages(
        [((passage or '') + text.title, text.text)])[0]
    scores = model.encode_queries(
        [(query or '') + span for span in spans]) @ passage_vec
    ours, = (query for query, rows in positives.items() if row in rows)
    assert scores[spans.index(ours)] == pytest.approx(scores.max(), abs=1e-5)
  assert len(positives) == 24


def test_how_a_model_computes_counts_where_it_is_not_the_default(root):
  teacher = lambda **overrides: declare(by_a_model(root, **overrides)).teacher
  usual = teacher().identity
  assert usual['settings'] == {}
  assert teacher(model__dtype='float32').identity == usual
  assert teacher(model__dtype='bfloat16').identity == {
      **usual, 'settings': {'dtype': 'bfloat16'}}
  assert teacher(data__query_prefix='word1 ').identity == {
      **usual, 'settings': {'query_prefix': 'word1 '}}


def test_titles_choose_others_and_other_folders(root):
  configs = [parse(root, 'salient_spans', synthetic__salience=salience)
             for salience in ('bm25', 'title')]
  assert declare(configs[0]).folder != declare(configs[1]).folder
  made, positives, _ = make(configs[1])
  titles = [set(passage.title.split()) for passage in made.prepared.passages]
  for query, rows in positives.items():
    assert all(titles[row] & set(query.casefold().split()) for row in rows)
  assert len(positives) > 24


def test_masked_names_and_numbers_become_pairs(root, tmp_path):
  source = corpora.write_beir(
      tmp_path / 'named', {
          'a': 'The river Rhine runs through Basel to the sea.',
          'b': 'It was measured again in 1904 , they say. Nothing else.',
          'c': 'There is no such thing in this sentence.',
      }, {'q': 'which river', 'r': 'which year'},
      train={'q': {'a': 1}, 'r': {'b': 1}})
  config = parse(root, 'masked_salient_spans', data__source=source,
                 synthetic__per_passage=9)
  _, positives, _ = make(config)
  assert positives == {
      'The river [MASK] runs through Basel to the sea.': {0},
      'The river Rhine runs through [MASK] to the sea.': {0},
      'It was measured again in [MASK], they say.': {1},
  }
