import collections
import json
import math
import pathlib

import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.retrieval import bm25, bm25_folder, hits
from tests import bm25_texts

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
  return bm25_texts.index_of(texts, hits.tie_ranks(ids), **config)


def wild_texts(count, most_words, seed):
  """Texts of few words, so that scores tie, some of them of none."""
  rng = np.random.default_rng(seed)
  words = [f'{letter}{letter}{number}' for letter in 'bcdfg'
           for number in range(12)]
  chances = 1 / np.arange(1, len(words) + 1)
  return [' '.join(rng.choice(words, rng.integers(0, most_words),
                              p=chances / chances.sum()))
          for _ in range(count)]


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


def bm25s_scores(texts, queries, k1, b):
  """What bm25s makes of the same texts."""
  import bm25s
  import Stemmer
  from bm25s import tokenization

  tokenizer = tokenization.Tokenizer(
      stopwords='english', stemmer=Stemmer.Stemmer('english'))
  read = lambda some, grow: list(tokenizer.streaming_tokenize(
      some, update_vocab=grow, allow_empty=False))
  index = bm25s.BM25(k1=k1, b=b, method='lucene', backend='numpy')
  index.index(tokenization.Tokenized(read(texts, True),
                                     tokenizer.get_vocab_dict()),
              create_empty_token=False, show_progress=False)
  return np.array([index.get_scores_from_ids(terms)
                   for terms in read(queries, False)])


@pytest.mark.parametrize('size', [400, 200, 37])
def test_hits_are_those_of_bm25s_to_the_last_bit_for_any_shards(size):
  texts, queries = wild_texts(400, 40, 0), wild_texts(30, 9, 1)
  queries[0] = 'zebra bb0 bb0 unheard'
  ids = [str(number * 7919 % 401) for number in range(400)]
  rows = np.random.default_rng(2).integers(-1, 400, (30, 3))
  found, some = index_of(texts, ids, k1=0.82, b=0.68, size=size
                         ).search_and_score(queries, 25, rows)
  scores = bm25s_scores(texts, queries, 0.82, 0.68)
  expected = hits.top_k(np.where(scores > 0, scores, np.float32(-np.inf)),
                        hits.tie_ranks(ids), 25)
  ties = found.scores[:, 1:] == found.scores[:, :-1]
  assert ties[found.scores[:, 1:] > 0].any()
  np.testing.assert_array_equal(found.rows, expected.rows)
  np.testing.assert_array_equal(found.scores, expected.scores)
  np.testing.assert_array_equal(some, np.where(
      rows < 0, -np.inf, np.take_along_axis(scores, rows, axis=1)))


def test_queries_are_searched_some_at_a_time(monkeypatch):
  texts, queries = wild_texts(50, 20, 3), wild_texts(10, 5, 4)
  rows = np.arange(20).reshape(10, 2)
  whole = index_of(texts).search_and_score(queries, 5, rows)
  monkeypatch.setattr(bm25, '_QUERIES_AT_ONCE', 3)
  parts = index_of(texts, size=7).search_and_score(queries, 5, rows)
  np.testing.assert_array_equal(whole[0].rows, parts[0].rows)
  np.testing.assert_array_equal(whole[1], parts[1])


def test_a_part_is_a_corpus_of_its_own():
  texts = ['cat dog', 'cat', 'bird cat', 'fish', 'bird bird']
  ranks = hits.tie_ranks(list('abcde'))
  some = bm25.Bm25Index([
      bm25_folder.Shard(bm25_folder.Rows(np.array([1, 3], np.int32)),
                        bm25_texts.shards_of(['cat', 'fish'])[0].postings),
      bm25_folder.Shard(bm25_folder.Rows(np.array([4], np.int32)),
                        bm25_texts.shards_of(['bird bird'])[0].postings),
  ], ranks)
  own = index_of(['cat', 'fish', 'bird bird'])
  found, scores = some.search_and_score(
      ['cat', 'bird'], 3, np.array([[1, 2], [4, -1]]))
  alone, their = own.search_and_score(
      ['cat', 'bird'], 3, np.array([[0, -1], [2, -1]]))
  assert found.rows.tolist() == [[1, -1, -1], [4, -1, -1]]
  np.testing.assert_array_equal(found.scores, alone.scores)
  np.testing.assert_array_equal(scores, their)
  assert len(texts) == len(ranks)


def test_texts_that_are_no_passages_have_the_scores_of_their_words():
  index = index_of(CORPUS, size=2)
  passages = index.search_and_score(['cat sun'], 1, np.arange(5)[None])[1][0]
  np.testing.assert_allclose(index.score_texts('cat sun', CORPUS), passages,
                             rtol=1e-6)
  longer = 'cat dog unheard zebras'  # Unknown words do not lengthen it.
  assert index.score_texts('cat sun', [longer]) == (
      index.score_texts('cat sun unknown', ['cat dog']))
  for config in {'k1': 0}, {'b': 1}:  # A text without a term adds 0 to 0.
    index = index_of(CORPUS, **config)
    assert index.score_texts('cat', ['', 'cat'])[0] == 0
    assert index.score_texts('cat', ['', 'cat'])[1] > 0


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
