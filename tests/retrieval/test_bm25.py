import collections
import json
import math
import pathlib

import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.retrieval import bm25, hits

SQUAD = (
    pathlib.Path(__file__).parents[3] / 'shared' / 'data' / 'squad-v1.1-dev'
)

# Already lower-case stems, and no stop words.
CORPUS = (
    'cat dog',
    'cat cat cat fish bird',
    'bird sun moon',
    'sun sun cat dog dog dog fish',
    'moon',
)


def explicit_score(query, text, k1, b):
  """Lucene's BM25, as Kamphuis et al. write it."""
  docs = [collections.Counter(doc.split()) for doc in CORPUS]
  mean_length = sum(doc.total() for doc in docs) / len(docs)
  terms = collections.Counter(text.split())
  score = 0.0
  for term in query.split():
    holding = sum(term in doc for doc in docs)
    idf = math.log(1 + (len(docs) - holding + 0.5) / (holding + 0.5))
    norm = k1 * (1 - b + b * terms.total() / mean_length)
    score += idf * terms[term] / (terms[term] + norm)
  return score


def index_of(texts, ids=None, **config):
  ids = ids or [f'{i:03d}' for i in range(len(texts))]
  return bm25.Bm25Index(iter(texts), hits.tie_ranks(ids), **config)


@pytest.mark.parametrize('config', [{}, {'k1': 0.82, 'b': 0.68}])
@pytest.mark.parametrize('query', ['cat', 'dog sun', 'fish cat fish', 'moon'])
def test_scores_equal_the_formula(config, query):
  found = index_of(CORPUS, **config).search([query], len(CORPUS))
  expected = np.array([
      explicit_score(query, text, **({'k1': 0.9, 'b': 0.4} | config))
      for text in CORPUS
  ])
  count = int((expected > 0).sum())
  assert found.rows.dtype == np.int32
  assert found.scores.dtype == np.float32
  np.testing.assert_array_equal(
      found.rows[0, :count], np.argsort(-expected)[:count]
  )
  np.testing.assert_allclose(
      found.scores[0, :count], np.sort(expected)[::-1][:count], atol=1e-5
  )
  assert (found.rows[0, count:] == -1).all()
  assert (found.scores[0, count:] == -np.inf).all()


def test_words_are_lower_cased_stemmed_and_stopped():
  index = index_of(['The RUNNING of the bulls', 'a cat'])
  found = index.search(['runs bull', 'the of a', 'Cats'], 2)
  assert found.rows.tolist() == [[0, -1], [-1, -1], [1, -1]]


def test_query_without_known_terms_has_no_hits():
  found = index_of(CORPUS).search(['zebra', '', '?!'], 3)
  assert (found.rows == -1).all()
  assert (found.scores == -np.inf).all()


def test_queries_do_not_change_later_ones():
  index = index_of(CORPUS)
  before = index.search(['cats dogs'], 5)
  index.search(['zebra cats catting', 'unheard'], 5)
  after = index.search(['cats dogs'], 5)
  np.testing.assert_array_equal(before.rows, after.rows)
  np.testing.assert_array_equal(before.scores, after.scores)


def test_equal_scores_go_to_the_larger_id_at_the_boundary_too():
  ids = ['p2', 'p10', 'q', 'p1', 'p9']
  index = index_of(['same words'] * 4 + ['same words words'], ids)
  assert index.search(['words'], 3).rows.tolist() == [[4, 2, 0]]
  assert index.search(['words'], 7).rows.tolist() == [[4, 2, 0, 1, 3, -1, -1]]


def test_it_is_silent(capfd, caplog):
  with caplog.at_level('DEBUG'):
    index_of(CORPUS).search(['cat', 'zebra'], 2)
  assert capfd.readouterr() == ('', '')
  assert not [record for record in caplog.records if record.name == 'bm25s']


def test_corpus_without_words_is_refused():
  with pytest.raises(errors.UserError, match='no word'):
    index_of(['', 'the', '?'])


def test_ranks_of_another_corpus_are_refused():
  with pytest.raises(ValueError, match='5 passages but 2 tie ranks'):
    bm25.Bm25Index(CORPUS, hits.tie_ranks(['a', 'b']))


@pytest.mark.skipif(not SQUAD.exists(), reason='the real data is not here')
def test_squad_dev_accuracy_is_the_published_one():
  def records(name):
    with open(SQUAD / name, encoding='utf-8', newline='\n') as f:
      return [json.loads(line) for line in f]

  passages = records('corpus.jsonl')
  ids = [passage['_id'] for passage in passages]
  texts = {query['_id']: query['text'] for query in records('queries.jsonl')}
  with open(SQUAD / 'qrels' / 'split-dev.tsv', encoding='utf-8') as f:
    pairs = [line.split('\t')[:2] for line in f][1:]
  index = index_of([f'{p["title"]} {p["text"]}' for p in passages], ids)
  found = index.search([texts[query] for query, _ in pairs], 20)
  positives = np.array([ids.index(passage) for _, passage in pairs])
  is_hit = found.rows == positives[:, None]
  # shared/data/README.md: R@1 0.7675, R@5 0.9438, R@20 0.9810.
  for k, expected in ((1, 0.7675), (5, 0.9438), (20, 0.9810)):
    assert is_hit[:, :k].any(axis=1).mean() == pytest.approx(expected, abs=5e-5)
