"""The application in this process: answers, refusals, limits and the page."""

import asyncio
import dataclasses
import threading
from typing import Any

import numpy as np
import pytest

pytest.importorskip('starlette')
from starlette import testclient

from neg_contrast.retrieval import bm25_search, hybrid
from neg_contrast.serving import (
  answering,
  search_page,
  server_metrics,
  web_app,
)
from neg_contrast.settings import config as config_lib
from neg_contrast.settings import serve_settings

LIMITS = serve_settings.ServeConfig(
    most_texts=8, most_characters=40, most_depth=9, wait_seconds=0.05,
    body_bytes=2000, read_seconds=0.3, answer_seconds=200)


@pytest.fixture(scope='module')
def counted(served):
  """Answers, and counts the calls of encoder and index."""
  _, found = served
  calls = []
  inner: Any = answering.Answerer(
      found, found._dataset.prepared.passages, LIMITS.most_depth,
      lambda stage, seconds: calls.append(stage))
  inner.calls = calls
  inner.warm_up(['word1', 'word2 word3'], 8, 20, 5)
  return inner


def make_app(answer, limits=LIMITS):
  about = search_page.About('model', 'beir:<data>', 26, 5, limits.most_depth,
                            limits.most_characters)
  metrics = server_metrics.ServerMetrics(26)
  return web_app.WebApp(answer, about, limits, metrics).app


def connect(answer, limits=LIMITS, **settings):
  return testclient.TestClient(
      make_app(answer, limits), base_url='http://127.0.0.1:8000', **settings)


@pytest.fixture
def client(counted):
  with connect(counted) as made:
    counted.calls.clear()
    yield made


def assert_is_found(result, expected, query):
  assert result['query'] == query
  assert [hit['rank'] for hit in result['hits']] == [
      *range(1, len(expected) + 1)]
  for hit, want in zip(result['hits'], expected, strict=True):
    assert hit['id'] == want.passage.id
    assert hit['title'] == want.passage.title
    assert hit['text'] == want.passage.text
    assert hit['score'] == pytest.approx(want.score, abs=1e-5)


def test_hybrids_are_those_of_the_retriever(served):
  found = served[1]
  sparse = bm25_search.Bm25Search(config_lib.EvaluationConfig(), found._dataset)
  together = hybrid.HybridRetriever(
      found, sparse, hybrid.Tuned((1.0, 4.0), 6, 0.9, 0.4))
  answer = answering.Answerer(
      found, found._dataset.prepared.passages, LIMITS.most_depth,
      together=together)
  queries = ['word6 word2', 'word30', 'unheard of', 'word5 word9 word15']
  with connect(answer) as client:
    made = client.post('/search', json={'queries': queries, 'depth': 4}).json()
  for query, result in zip(queries, made['results'], strict=True):
    assert_is_found(result, together.find(query, 4), query)
  counts = [len(one['hits']) for one in made['results']]
  assert counts[2] == 0 and min(counts[:2]) > 0
  assert [hit['id'] for hit in made['results'][0]['hits']] != [
      one.passage.id for one in found.find(queries[0], counts[0])]


def test_search_finds_what_the_retriever_finds(client, served):
  queries = ['word1 word2', 'word30', 'word5 word9 word15']
  asked = {'queries': queries, 'depth': 7, 'match': True}
  made = client.post('/search', json=asked).json()
  for query, result in zip(queries, made['results'], strict=True):
    expected = served[1].find(query, 7)
    assert_is_found(result, expected, query)
    assert [tuple(hit['match']) for hit in result['hits']] == [
        one.match for one in expected]
  again = client.get('/search', params={
      'query': queries, 'depth': 7, 'match': 1}).json()
  assert [[hit['id'] for hit in one['hits']] for one in again['results']] == [
      [hit['id'] for hit in one['hits']] for one in made['results']]
  plain = client.get('/search', params={'query': 'word30'}).json()
  assert len(plain['results'][0]['hits']) == 5
  assert 'match' not in plain['results'][0]['hits'][0]


def test_ties_are_in_the_order_of_all_rankings(client):
  hits = client.get('/search', params={'query': 'word30 word31'}).json()[
      'results'][0]['hits']
  ids = [hit['id'] for hit in hits]
  assert [one for one in ids if one.startswith('same')] == [
      'same3', 'same2', 'same1']


def test_encode_gives_the_encoders_vectors(client, served):
  encoder = served[1].vectors.encoder
  made = client.post('/encode', json={'queries': ['word1', 'word2 word3']})
  np.testing.assert_allclose(
      made.json()['vectors'],
      encoder.encode_queries(['word1', 'word2 word3']), atol=1e-5)
  assert made.json()['role'] == 'query'
  made = client.post('/encode', json={
      'passages': ['word1', {'title': 'word4', 'text': 'word5'}]})
  np.testing.assert_allclose(
      made.json()['vectors'],
      encoder.encode_passages(['word1', ('word4', 'word5')]), atol=1e-5)


def test_requests_of_one_moment_are_one_call(client, counted, served):
  """Of the encoder and of the index; each gets its own answer."""
  made: dict[int, dict] = {}

  def ask(number):
    made[number] = client.get(
        '/search', params={'query': f'word{number}'}).json()

  threads = [threading.Thread(target=ask, args=(n,)) for n in range(1, 7)]
  for one in threads:
    one.start()
  for one in threads:
    one.join()
  assert 2 <= len(counted.calls) < 12 and counted.calls.count('encode') == (
      counted.calls.count('search'))
  for number, one in made.items():
    query = f'word{number}'
    assert_is_found(one['results'][0], served[1].find(query, 5), query)
  text = client.get('/metrics').text
  assert 'neg_contrast_requests_total{path="/search",status="200"} 6.0' in text
  assert 'neg_contrast_batch_texts_sum 6.0' in text
  assert 'neg_contrast_passages 26.0' in text


def test_health(client):
  made = client.get('/health')
  assert made.json() == {'status': 'ok', 'model': 'model',
                         'corpus': 'beir:<data>', 'passages': 26}
  assert made.headers['x-content-type-options'] == 'nosniff'


@pytest.mark.parametrize('method, path, settings, status, message', [
    ('GET', '/search', {}, 400, 'one text or more'),
    ('GET', '/search?query=%20', {}, 400, 'is blank'),
    ('GET', '/search?query=a&depth=10', {}, 400, 'from 1 to 9'),
    ('GET', '/search?query=' + 'a' * 41, {}, 400, 'has 41 characters'),
    ('GET', '/nowhere', {}, 404, 'not found'),
    ('DELETE', '/search', {}, 405, 'method not allowed'),
    ('GET', '/encode', {}, 405, 'method not allowed'),
    ('POST', '/search', {'content': b'{"query": '}, 400, 'not JSON'),
    ('POST', '/search', {'json': {'queries': ['a'] * 9}}, 400, 'at most 8'),
    ('POST', '/search', {'content': b'x' * 2001}, 413, '2000 bytes'),
    ('POST', '/encode', {'content': iter([b'x' * 1500] * 2)}, 413, '2000'),
    ('POST', '/encode', {'json': {'passages': [3]}}, 400, 'must be a text'),
    ('GET', '/health', {'headers': {'host': 'evil.example'}}, 421, 'its own'),
    ('GET', '/', {'headers': {'host': 'evil.example:8000'}}, 421, 'its own'),
])
def test_refusals_are_one_line_of_json(
    client, method, path, settings, status, message):
  made = client.request(method, path, **settings)
  assert made.status_code == status
  assert made.headers['content-type'] == 'application/json'
  assert made.json().keys() == {'error'} and message in made.json()['error']
  assert '\n' not in made.text
  assert client.get('/search?query=word1').status_code == 200


def test_names_of_this_machine_are_answered(client):
  for host in ('localhost', '127.0.0.1:99', '[::1]:8000', '[::1]'):
    assert client.get('/health', headers={'host': host}).status_code == 200


def test_a_public_server_answers_to_any_name(counted):
  limits = dataclasses.replace(LIMITS, host='0.0.0.0')
  with connect(counted, limits) as client:
    made = client.get('/health', headers={'host': 'search.example'})
    assert made.status_code == 200


def test_a_failure_says_no_more_than_that():
  def fail(batch):
    raise RuntimeError('secret /path')

  with connect(fail, raise_server_exceptions=False) as client:
    made = client.get('/search?query=a')
    assert made.status_code == 500 and 'secret' not in made.text
    assert made.json() == {'error': 'the server failed; its log says why'}


def test_an_answer_that_takes_too_long():
  may_go = threading.Event()

  def wait(batch):
    may_go.wait(20)
    return [[[]] for _ in batch]

  with connect(wait, dataclasses.replace(LIMITS, answer_seconds=0.2)) as client:
    made = client.get('/search?query=a')
    may_go.set()
    assert made.status_code == 503 and made.headers['retry-after'] == '1'
    assert made.json() == {
        'error': 'no answer within 0.2 seconds; try again later'}


def test_the_page(client):
  made = client.get('/')
  assert made.status_code == 200 and '<ol>' not in made.text
  assert 'beir:&lt;data&gt;' in made.text
  query = '<script>alert(3)</script>"\' word5'
  made = client.get('/', params={'query': query, 'depth': 9})
  assert made.status_code == 200 and made.text.count('<li>') == 9
  for part in ('<script', '<img', '<b>', 'src=', '=""'):
    assert part not in made.text.replace('src=x onerror', ''), part
  assert '&lt;script&gt;alert(3)&lt;/script&gt;&#34;&#39; word5' in made.text
  assert "default-src 'none'" in made.headers['content-security-policy']
  made = client.get('/', params={'query': ' '})
  assert made.status_code == 400 and 'query 1: is blank' in made.text
  made = client.get('/?query=a&query=b')
  assert made.status_code == 400 and 'one query at a time' in made.text
  plain = client.get('/?query=word5').text.count('<li>')
  for match in '01':  # An address of `/search`, asked of the page.
    made = client.get(f'/?query=word5&match={match}')
    assert made.status_code == 200 and made.text.count('<li>') == plain


async def ask(app, messages, path='/search', method='POST'):
  """What an application sends to a client that sends these messages."""
  sent = []
  scope = {
      'type': 'http', 'method': method, 'path': path, 'raw_path': path.encode(),
      'query_string': b'query=a', 'headers': [(b'host', b'localhost')],
      'http_version': '1.1', 'scheme': 'http', 'root_path': '',
  }
  queue: asyncio.Queue = asyncio.Queue()
  for message in messages:
    queue.put_nowait(message)

  async def send(message):
    sent.append(message)

  async with app.router.lifespan_context(app):
    await asyncio.wait_for(app(scope, queue.get, send), 20)
  return sent


def test_a_body_that_does_not_come(counted):
  sent = asyncio.run(ask(make_app(counted), [
      {'type': 'http.request', 'body': b'{', 'more_body': True}]))
  assert sent[0]['status'] == 408
  assert (b'connection', b'close') in sent[0]['headers']
  assert b'did not arrive within 0.3 seconds' in sent[1]['body']


def test_a_client_that_leaves_takes_its_request_back():
  """It is dropped from the batch that it waits for."""
  answered = []
  limits = dataclasses.replace(LIMITS, wait_seconds=0.5)
  app = make_app(lambda batch: answered.extend(batch) or [[]], limits)
  sent = asyncio.run(ask(app, [
      {'type': 'http.request', 'body': b'', 'more_body': False},
      {'type': 'http.disconnect'}], method='GET'))
  assert sent[0]['status'] == 499 and not answered
