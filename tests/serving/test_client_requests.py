"""Requests: what is read from them, and what is refused with which words."""

import json

import pytest
from hypothesis import given, settings, strategies

from neg_contrast.serving import client_requests
from neg_contrast.settings import serve_settings

READER = client_requests.Reader(serve_settings.ServeConfig(
    most_texts=3, most_characters=20, most_depth=9), 5)


def test_query_strings():
  read = READER.search_from_query_string
  assert read([('query', 'a')]) == client_requests.SearchRequest(('a',), 5)
  assert read([('query', 'b'), ('depth', '2'), ('query', ' a '),
               ('match', '1')]) == client_requests.SearchRequest(
                   ('b', ' a '), 2, True)


def test_json():
  read = lambda value: READER.search_from_json(json.dumps(value).encode())
  assert read({'query': 'é'}) == client_requests.SearchRequest(('é',), 5)
  assert read({'queries': ['a', 'b'], 'depth': 9, 'match': True}) == (
      client_requests.SearchRequest(('a', 'b'), 9, True))
  read = lambda value: READER.encode_from_json(json.dumps(value).encode())
  assert read({'queries': ['a']}) == client_requests.EncodeRequest(
      'query', (('', 'a'),))
  passages = [{'title': 't', 'text': 'x'}, 'y' * 99, {'text': ''}]
  assert read({'passages': passages}) == client_requests.EncodeRequest(
      'passage', (('t', 'x'), ('', 'y' * 99), ('', '')))


@pytest.mark.parametrize('values, message', [
    ([], 'queries: one text or more'), ([('query', ' ')], 'query 1: is blank'),
    ([('query', 'a'), ('query', 'b' * 21)], 'query 2: has 21 characters'),
    ([('query', 'a')] * 4, 'queries: 4 texts, and at most 3'),
    ([('query', 'a'), ('depth', '0')], 'depth: must be a whole number from 1'),
    ([('query', 'a'), ('depth', '10')], 'from 1 to 9, not 10'),
    ([('query', 'a'), ('depth', '٣')], 'depth: must be a whole number'),
    ([('query', 'a'), ('depth', '9' * 5000)], 'depth: must be a whole number'),
    ([('query', 'a'), ('depth', '1'), ('depth', '2')], 'is given twice'),
    ([('query', 'a'), ('match', 'perhaps')], 'match: must be 0 or 1'),
    ([('query', 'a'), ('top\nk', '1')],
     r"unknown key 'top\\nk'; known are query, depth, match"),
    ([('query', 'a'), ('queries', 'b')], "unknown key 'queries'; known are q"),
])
def test_query_strings_that_are_refused(values, message):
  with pytest.raises(client_requests.Refused, match=message) as error:
    READER.search_from_query_string(values)
  assert error.value.status == 400 and '\n' not in error.value.message


@pytest.mark.parametrize('body, message', [
    (b'', 'is not JSON'), (b'\xff{}', 'is not JSON'), (b'[' * 9999, 'not JSON'),
    (b'{"depth": ' + b'9' * 5000 + b'}', 'is not JSON'),
    (b'[1]', 'must be a JSON object'), (b'{}', 'one text or more'),
    (b'{"query": "a", "queries": ["b"]}', 'are both given'),
    (b'{"queries": "a"}', 'one text or more'),
    (b'{"query": 1}', 'query 1: must be a text, not 1'),
    (b'{"query": "\\ud800"}', 'half a character'),
    (b'{"query": "a", "depth": true}', 'whole number from 1 to 9, not True'),
    (b'{"query": "a", "depth": 1.0}', 'whole number'),
    (b'{"query": "a", "depth": 1e999}', 'whole number from 1 to 9, not inf'),
    (b'{"query": "a", "match": 1}', 'match: must be true or false, not 1'),
    (b'{"query": "a", "k": 1}', "unknown key 'k'"),
])
def test_json_that_is_refused(body, message):
  with pytest.raises(client_requests.Refused, match=message):
    READER.search_from_json(body)


@pytest.mark.parametrize('body, message', [
    (b'{}', 'one of "queries" and "passages" is needed'),
    (b'{"query": "a", "passages": ["b"]}', 'one of "queries" and "passages"'),
    (b'{"passages": [{"text": 1}]}', 'passage: must be a text'),
    (b'{"passages": ["a", {}]}', 'passage: has neither "title" nor "text"'),
    (b'{"passages": [{"title": null}]}', 'title: must be a text'),
    (b'{"passages": [{"body": ""}]}', "unknown key 'body'"),
    (b'{"query": "a", "depth": 2}', "unknown key 'depth'"),
])
def test_texts_that_are_refused(body, message):
  with pytest.raises(client_requests.Refused, match=message):
    READER.encode_from_json(body)


JSON = strategies.recursive(
    strategies.none() | strategies.booleans() | strategies.floats()
    | strategies.integers() | strategies.text(),
    lambda inner: strategies.lists(inner) | strategies.dictionaries(
        strategies.sampled_from(['query', 'queries', 'depth', 'match', 'text',
                                 'passages', 'title', 'x']), inner),
    max_leaves=8)


@settings(deadline=None, max_examples=60)
@given(JSON | strategies.binary())
def test_anything_is_read_or_refused(value):
  body = value if isinstance(value, bytes) else json.dumps(value).encode()
  for read in (READER.search_from_json, READER.encode_from_json):
    try:
      assert 1 <= read(body).size <= 3
    except client_requests.Refused as e:
      assert 400 <= e.status < 500 and e.message.isascii()
      assert '\n' not in e.message
