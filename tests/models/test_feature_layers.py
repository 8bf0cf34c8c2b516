"""Features beside text in a tower, against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neg_contrast import scoring, sharding
from neg_contrast.batches import packing
from neg_contrast.data import sequences as sequences_lib
from neg_contrast.data.side_features import feature_kinds, feature_table
from neg_contrast.models import dual_encoder, feature_layers, projections
from neg_contrast.settings import config as config_lib
from tests import tiny

FEATURES = ('place:categorical', 'price:numeric', 'social:vector-3',
            'text:char3-40')
VALUES = {
    'place': ['Oslo', None, 'Lima', 'Bern', None],
    'price': [3.5, -2.0, None, 0.25, None],
    'social': [[1, -2, 0.5], [0.1, 0.2, -3], None, [2, 0, 1], None],
    'text': ['one word', 'two', 'three four', None, None],
}


def features_and_table():
  """Fitted features, and their table of five texts; the last has none."""
  features, kept = [], []
  for one in feature_kinds.parse_all(FEATURES):
    values = one.keep(VALUES[one.name])
    known = [one.keep(VALUES[one.name][:3])]  # Bern is not known.
    features.append(one.fitted(known))
    kept.append(values)
  return tuple(features), feature_table.FeatureTable.of(features, kept)


def packed(table=None, rows=range(5), groups=2):
  rng = np.random.default_rng(0)
  tokens = sequences_lib.listed(
      rng.integers(5, 60, length).astype(np.int32) for length in (3, 7, 5, 2, 6)
  )
  if table is not None:
    tokens = sequences_lib.Featured(tokens, table, np.arange(5))
  tokens = tokens.take(np.array(rows))
  layout = packing.plan(tokens.lengths, groups, 9, slots=len(rows))
  return packing.fill(layout, tokens), layout.flat_slot


def make_spec(features=(), **kwargs):
  return dual_encoder.EncoderSpec(tiny.bert_config(), pooling='mean', **{
      'projections': (projections.Projection(7),), 'normalize': False,
      'side_features': features, **kwargs,
  })


def embed(spec, params, batch, slots):
  vecs = dual_encoder.encode(dual_encoder.Encoder(spec), params, batch, None)
  return np.asarray(vecs).reshape(-1, vecs.shape[-1])[slots]


def test_features_are_added_before_the_projection():
  features, table = features_and_table()
  spec = make_spec(features)
  params = dual_encoder.init_params(spec, jax.random.key(3))['shared']
  plain = {key: value for key, value in params.items()
           if key != feature_layers.KEY}
  got = embed(spec, params, *packed(table))
  pooled = embed(make_spec(projections=()), {'bert': params['bert']}, *packed())
  layers = jax.tree.map(np.asarray, params[feature_layers.KEY])
  values = table.values(np.arange(5))
  for row in range(5):
    total = np.zeros(16)
    place = values['place-categorical'][row, 0]
    if place:
      total += layers['place-categorical']['embedding'][place]
    for key in ('price-numeric', 'social-vector'):
      total += values[key][row] @ layers[key]['kernel']
    ngrams = [bucket for bucket in values['text-char'][row] if bucket]
    if ngrams:
      total += np.mean([layers['text-char']['embedding'][bucket]
                        for bucket in ngrams], axis=0)
    want = (pooled[row] + 4 * total) @ params['projection']['kernel']
    np.testing.assert_allclose(got[row], want + params['projection']['bias'],
                               rtol=1e-5, atol=1e-5)
  without = embed(make_spec(), plain, *packed())
  np.testing.assert_array_equal(got[4], without[4])  # It has no feature.
  assert (np.abs(got[:4] - without[:4]).max(axis=1) > 1e-3).all()
  assert values['place-categorical'][:, 0].tolist() == [3, 0, 2, 1, 0]


def test_packing_puts_features_into_the_slots_of_their_texts():
  _, table = features_and_table()
  batch, slots = packed(table, [4, 0, 2], groups=2)
  values = table.values(np.array([4, 0, 2]))
  for key, of in batch.side_features.items():
    assert of.shape[:2] == batch.first_index.shape
    flat = of.reshape(-1, of.shape[-1])
    np.testing.assert_array_equal(flat[slots], values[key])
    assert not np.delete(flat, slots, axis=0).any()
  assert packed()[0].side_features is None
  layout = packing.plan(np.array([3, 3]), 2, 9, slots=1)
  tokens = sequences_lib.Featured(
      sequences_lib.repeated((5, 6, 7), 2), table, np.array([0, 0]))
  held = packing.fill(layout, tokens, groups=np.array([1]))
  price = held.side_features['price-numeric']
  assert not price[0].any() and price[1].any()


def test_a_model_without_features_is_as_it_was():
  spec = make_spec()
  assert 'side_features' not in spec.to_json()
  assert set(dual_encoder.init_params(spec, jax.random.key(0))['shared']) == {
      'bert', 'projection'}
  features, _ = features_and_table()
  other = make_spec(features)
  assert dual_encoder.EncoderSpec.from_json(other.to_json()) == other


def test_only_rows_that_are_named_have_gradients():
  features, table = features_and_table()
  spec = make_spec(features)
  params = dual_encoder.init_params(spec, jax.random.key(0))['shared']
  batch, slots = packed(table)

  def total(params):
    vecs = dual_encoder.encode(dual_encoder.Encoder(spec), params, batch, None)
    return jnp.square(vecs.reshape(-1, 7)[slots]).sum()

  grads = jax.grad(total)(params)[feature_layers.KEY]
  rows = np.abs(grads['place-categorical']['embedding']).max(axis=1) > 0
  assert rows.tolist() == [False, True, True, True]
  assert (np.abs(grads['social-vector']['kernel']).max(axis=1) > 0).all()
  assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(grads))


def test_texts_must_come_with_their_features():
  features, _ = features_and_table()
  spec = make_spec(features)
  params = dual_encoder.init_params(spec, jax.random.key(0))['shared']
  with pytest.raises(ValueError, match='without the features'):
    embed(spec, params, *packed())


def test_scores_of_several_vectors_are_refused():
  features, _ = features_and_table()
  with pytest.raises(ValueError, match='added to the one vector of a text'):
    dual_encoder.EncoderSpec(
        tiny.bert_config(), side_features=features,
        score=scoring.named('som', 4, 9),
    )


def test_tables_are_split_over_the_model_axis():
  features, _ = features_and_table()
  for shared in (True, False):
    params = dual_encoder.init_params(
        make_spec(features, shared=shared), jax.random.key(0))
    mesh = sharding.make_mesh(config_lib.MeshConfig(data=4, model=2))
    placed = sharding.parameter_shardings(params, mesh)
    for tower in placed.values():
      for one in tower[feature_layers.KEY].values():
        for leaf in one.values():
          assert tuple(leaf.spec) == (None, 'model')
    sharding.parameter_shardings(
        dual_encoder.init_params(make_spec(shared=shared), jax.random.key(0)),
        mesh)  # No rule is missed where there are no features.
  both = dual_encoder.init_params(
      make_spec(features, shared=False), jax.random.key(0))
  tables = [both[role][feature_layers.KEY]['place-categorical']['embedding']
            for role in ('query', 'passage')]
  assert np.abs(tables[0] - tables[1]).max() > 1e-4
