"""Kinds of features beside text: their forms, values, and what is fitted."""

import json

import numpy as np
import pytest

from neg_contrast.data.side_features import (
  categorical,
  character_ngrams,
  feature_kinds,
  feature_table,
  numeric,
  side_feature,
)


@pytest.mark.parametrize('text', [
    'location:categorical', 'location?:categorical-100', 'price:numeric',
    'social:vector-64', 'text:char3', 'title?:char4-500',
])
def test_forms_come_back(text):
  feature = feature_kinds.parse(text)
  assert feature.text == text
  assert feature.may_miss == ('?' in text)
  assert feature_kinds.from_json(
      json.loads(json.dumps(feature.to_json()))) == feature
  assert hash(feature) == hash(feature_kinds.parse(text))


def test_every_kind_has_a_form_that_can_be_written():
  for kind, cls in feature_kinds.FEATURES.items():
    assert cls.kind == kind
    for form in cls.forms:
      assert type(feature_kinds.parse(form)) is cls


@pytest.mark.parametrize(('text', 'message'), [
    ('location', 'not of the form name:kind; write one of location:categ'),
    ('location:place', 'not of the form name:kind'),
    ('location:categorical-0', 'another number of categories'),
    ('price:numeric-3', 'something after its kind; write price:numeric'),
    ('social:vector', 'no number of features'),
    ('social:vector-0', 'no number of features'),
    ('text:char', 'no number of characters'),
    ('text:char3-70000', '70000 buckets, and 65,535 are the most'),
    ('location:char3', 'is of "location", and n-grams are of text or title'),
])
def test_other_forms_are_refused(text, message):
  with pytest.raises(ValueError, match=message):
    feature_kinds.parse(text)


def test_a_feature_is_named_once():
  both = feature_kinds.parse_all(['price:numeric', 'price:categorical'])
  assert [one.key for one in both] == ['price-numeric', 'price-categorical']
  with pytest.raises(ValueError, match='named twice'):
    feature_kinds.parse_all(['text:char3', 'text:char4'])


@pytest.mark.parametrize(('text', 'value', 'message'), [
    ('location:categorical', 1.5, r'holds 1\.5, not a text or a whole number'),
    ('location:categorical', True, 'holds True, not a text'),
    ('location:categorical', ['Oslo'], 'not a text'),
    ('price:numeric', 'cheap', "holds 'cheap', not a finite number"),
    ('price:numeric', float('nan'), 'holds nan, not a finite number'),
    ('price:numeric', 'inf', 'not a finite number'),
    ('price:numeric', True, 'not a finite number'),
    ('price:numeric', 10**400, 'not a finite number'),
    ('social:vector-3', [1, 2], 'holds 2 numbers, not 3'),
    ('social:vector-3', 7, 'holds 7, not a list of 3 numbers'),
    ('social:vector-3', [1, 2, None], 'not a finite number'),
    ('social:vector-3', [1, 2, float('nan')], 'holds nan'),
    ('social:vector-3', [1, 2, 1e39], 'float32 has not'),
    ('text:char3', 4, 'holds 4, not text'),
])
def test_values_that_are_none(text, value, message):
  with pytest.raises(ValueError, match=message):
    feature_kinds.parse(text).keep([value])


def test_categories_that_the_model_knows():
  feature: categorical.Categorical = feature_kinds.parse(
      'location:categorical-2')
  queries = feature.keep(['Oslo', None, 'Bern', 'Oslo', 7])
  passages = feature.keep(['Bern', 'Lima', 'Oslo', '7'])
  assert queries.vocabulary == ('Oslo', 'Bern', '7')
  fitted = feature.fitted([queries, passages])
  # Oslo three times; Bern and 7 twice, of which 7 is the first by name.
  assert fitted.categories == ('Oslo', '7') and fitted.table_rows == 4
  of = fitted.for_model(queries.vocabulary)(queries.values)
  assert of.dtype == np.int32
  assert of[:, 0].tolist() == [2, 0, 1, 2, 3]
  other = fitted.keep(['Quito', '7', None])  # Another corpus, other numbers.
  assert fitted.for_model(other.vocabulary)(
      other.values)[:, 0].tolist() == [1, 3, 0]
  assert feature_kinds.from_json(fitted.to_json()) == fitted
  every: categorical.Categorical = feature_kinds.parse(
      'location:categorical').fitted([queries])
  assert every.categories == ('Oslo', '7', 'Bern') and every.table_rows == 5


def test_categories_of_no_row_are_not_known():
  """Training reads the queries of its split alone."""
  feature: categorical.Categorical = feature_kinds.parse(
      'location:categorical')
  kept = feature.keep(['Oslo', 'Bern'])
  some = side_feature.Kept(kept.values[:1], kept.vocabulary)
  assert feature.fitted([some]).categories == ('Oslo',)


def test_too_many_categories_want_a_number(monkeypatch):
  monkeypatch.setattr(categorical, 'MOST', 2)
  feature = feature_kinds.parse('location:categorical')
  with pytest.raises(ValueError, match='has 3 categories; say how many'):
    feature.fitted([feature.keep(['a', 'b', 'c'])])


def test_numbers_are_standardised_where_there_are_some():
  rng = np.random.default_rng(0)
  numbers = 1.7e9 + 50 * rng.standard_normal(40)
  feature: numeric.Numeric = feature_kinds.parse('when:numeric')
  kept = feature.keep([*numbers, None, str(numbers[0])])
  fitted = feature.fitted([kept])
  values = fitted.for_model(())(kept.values)
  want = (numbers - np.append(numbers, numbers[0]).mean()) / np.append(
      numbers, numbers[0]).std()
  np.testing.assert_allclose(values[:40, 1], want, rtol=1e-4, atol=1e-4)
  assert values.dtype == np.float32
  assert values[40].tolist() == [0, 0] and values[41, 1] == values[0, 1]
  same = feature.fitted([feature.keep([3, 3])])
  assert same.deviation == 1.0


def test_vectors_as_they_are_and_from_text():
  feature = feature_kinds.parse('social:vector-3')
  kept = feature.keep([[1, -2, 0.5], None, '1 -2 0.5', '[1, -2, 0.5]',
                       np.array([1, -2, 0.5])])
  np.testing.assert_array_equal(
      feature.for_model(())(kept.values),
      [[1, 1, -2, 0.5], [0, 0, 0, 0], *[[1, 1, -2, 0.5]] * 3])


def test_ngrams_of_words():
  assert character_ngrams.ngrams('Naïve  a', 3) == [
      '#na', 'naï', 'aïv', 'ïve', 've#', '#a#']
  assert character_ngrams.ngrams('ab', 5) == ['#ab#']
  feature = feature_kinds.parse('text:char3-50')
  kept = feature.keep(['Kyiv', 'kyiv', None, ' ', 'word ' * 99])
  values = feature.for_model(())(kept.values)
  assert values.dtype == np.int32 and values.shape == (5, 128)
  np.testing.assert_array_equal(values[0], values[1])
  assert (values[0] > 0).sum() == 4 and values.max() <= 50
  assert not values[2:4].any() and (values[4] > 0).all()


def test_a_table_reads_some_rows():
  features = feature_kinds.parse_all(['price:numeric', 'place:categorical'])
  table = feature_table.FeatureTable.of(features, [
      features[0].keep([1.0, None, 4.0]),
      features[1].keep(['a', 'b', None]),
  ])
  values = table.values(np.array([2, 0, 2]))
  np.testing.assert_array_equal(
      values['price-numeric'], [[1, 4], [1, 1], [1, 4]])
  np.testing.assert_array_equal(values['place-categorical'], [[0], [1], [0]])
