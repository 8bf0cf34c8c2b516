"""Towers with several vectors of a text, against texts encoded alone."""

import dataclasses
import functools
import operator

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neg_contrast import scoring
from neg_contrast.batches import packing
from neg_contrast.data import sequences as sequences_lib
from neg_contrast.models import bert, dual_encoder, projections
from tests import tiny

LENGTHS = [3, 7, 5, 2, 8, 4]
ROW = 10


def sequences():
  rng = np.random.default_rng(0)
  return [rng.integers(5, 60, length).astype(np.int32) for length in LENGTHS]


def packed(texts):
  """Texts in one group, and the place of each among its slots."""
  texts = sequences_lib.listed(texts)
  layout = packing.plan(texts.lengths, 1, ROW, slots=len(texts) + 2)
  return packing.fill(layout, texts), layout.flat_slot


@pytest.mark.parametrize('normalize', [False, True])
@pytest.mark.parametrize(('score', 'role'), [
    ('multi-4', 'query'), ('multi-4', 'passage'), ('multi-4', 'shared'),
    ('som', 'query'), ('som', 'passage'), ('poly-3', 'query'),
    ('poly-3', 'passage'), ('genpoly-3', 'passage'),
])
def test_vectors_of_packed_texts(score, role, normalize):
  function = scoring.named(score, 6, 8)
  spec = dual_encoder.EncoderSpec(
      tiny.bert_config(), projections=(projections.Projection(5),),
      normalize=normalize, shared=role == 'shared', score=function,
  )
  key = jax.random.key(1)
  params = dual_encoder.init_params(spec, key)[role]
  batch, slots = packed(sequences())
  got = dual_encoder.encode(
      dual_encoder.Encoder(spec, role), params,
      jax.tree.map(lambda a: a[0:1], batch), None,
  )[0]
  count = function.vectors(role)
  assert got.shape == (len(LENGTHS) + 2, 5 * count)
  assert spec.features(role) == 5 * count
  model = bert.Bert(spec.transformer)
  for ids, slot in zip(sequences(), slots, strict=True):
    alone = model.apply(
        {'params': params['bert']}, ids[None], np.ones((1, len(ids)), np.int32),
        np.arange(len(ids), dtype=np.int32)[None], True,
    )[0]
    vecs = (alone @ params['projection']['kernel']
            + params['projection']['bias'])
    want = np.zeros((count, 5), np.float32)
    if function.codes and role == 'query':
      for number, code in enumerate(params['codes']):
        weights = np.exp(np.asarray(vecs @ code))
        want[number] = (weights / weights.sum()) @ np.asarray(vecs)
      kept = count
    else:
      kept = min(count, len(ids))
      want[:kept] = vecs[:kept]
    if normalize:
      want[:kept] /= np.linalg.norm(want[:kept], axis=1, keepdims=True)
    np.testing.assert_allclose(
        got[slot].reshape(count, 5), want, rtol=2e-5, atol=2e-5
    )
  assert (got[np.setdiff1d(np.arange(len(got)), slots)] == 0).all()


def test_json_of_a_dual_encoder_is_as_it_was():
  spec = dual_encoder.EncoderSpec(tiny.bert_config())
  assert 'score' not in spec.to_json()
  other = dual_encoder.EncoderSpec(
      tiny.bert_config(), score=scoring.named('som', 4, 9)
  )
  for one in (spec, other):
    assert dual_encoder.EncoderSpec.from_json(one.to_json()) == one


def test_gradients_reach_the_codes():
  spec = dual_encoder.EncoderSpec(
      tiny.bert_config(), normalize=False, shared=False,
      score=scoring.named('poly-2', 8, 8),
  )
  params = dual_encoder.init_params(spec, jax.random.key(0))
  batch, slots = packed(sequences())

  def total(params):
    queries, passages = (
        dual_encoder.encode(
            dual_encoder.Encoder(spec, role), params[role], batch, None
        )[0][slots] for role in ('query', 'passage')
    )
    return spec.score(queries, passages).sum()

  grads = jax.grad(total)(params)
  assert float(jnp.abs(grads['query']['codes']).max()) > 0
  assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(grads))


def test_a_group_alone_is_as_among_others():
  """It has no axis of groups then, and dropout of the same number."""
  config = dataclasses.replace(tiny.bert_config(), hidden_dropout=0.3,
                               attention_dropout=0.3)
  spec = dual_encoder.EncoderSpec(config)
  params = dual_encoder.init_params(spec, jax.random.key(1))['shared']
  texts = sequences_lib.listed(sequences())
  batch = packing.fill(packing.plan(texts.lengths, 2, ROW), texts)
  encode = functools.partial(
      dual_encoder.encode, dual_encoder.Encoder(spec), params
  )
  whole = encode(batch, jax.random.key(2))
  for number in (0, 1):
    one = jax.tree.map(operator.itemgetter(slice(number, number + 1)), batch)
    alone = encode(one, jax.random.key(2), jnp.array([number]))
    np.testing.assert_allclose(alone[0], whole[number], rtol=1e-5, atol=1e-6)
  assert abs(whole - encode(batch, None)).max() > 0.01
