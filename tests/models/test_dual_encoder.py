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


@functools.cache
def params_of(spec):
  return jax.jit(functools.partial(dual_encoder.init_params, spec))(
      jax.random.key(1))


@functools.partial(jax.jit, static_argnums=0)
def states_alone(shape, params):
  """Hidden states of each text, encoded by itself."""
  return [bert.Bert(shape).apply(
      {'params': params}, ids[None], np.ones((1, len(ids)), np.int32),
      np.arange(len(ids), dtype=np.int32)[None], True,
  )[0] for ids in sequences()]


@functools.partial(jax.jit, static_argnums=0)
def encode(encoders, params, batch):
  return [dual_encoder.encode(encoder, params, batch, None)
          for encoder in encoders]


@pytest.mark.parametrize(('score', 'role'), [
    ('multi-4', 'query'), ('multi-4', 'passage'), ('multi-4', 'shared'),
    ('som', 'query'), ('som', 'passage'), ('poly-3', 'query'),
    ('poly-3', 'passage'), ('genpoly-3', 'passage'),
])
def test_vectors_of_packed_texts(score, role):
  """As they are, and of length 1."""
  function = scoring.named(score, 6, 8)
  spec = dual_encoder.EncoderSpec(
      tiny.bert_config(), projections=(projections.Projection(5),),
      normalize=False, shared=role == 'shared', score=function,
  )
  params = params_of(spec)[role]
  batch, slots = packed(sequences())
  encoders = tuple(
      dual_encoder.Encoder(dataclasses.replace(spec, normalize=one), role)
      for one in (False, True))
  made = [vecs[0] for vecs in encode(encoders, params, batch)]
  count = function.vectors(role)
  for vecs in made:
    assert vecs.shape == (len(LENGTHS) + 2, 5 * count)
    assert (vecs[np.setdiff1d(np.arange(len(vecs)), slots)] == 0).all()
  assert spec.features(role) == 5 * count
  params = jax.tree.map(np.asarray, params)
  for alone, slot in zip(states_alone(spec.transformer, params['bert']), slots,
                         strict=True):
    vecs = (alone @ params['projection']['kernel']
            + params['projection']['bias'])
    want = np.zeros((count, 5), np.float32)
    if function.codes and role == 'query':
      for number, code in enumerate(params['codes']):
        weights = np.exp(vecs @ code)
        want[number] = (weights / weights.sum()) @ vecs
      kept = count
    else:
      kept = min(count, len(vecs))
      want[:kept] = vecs[:kept]
    of_length_one = want.copy()
    of_length_one[:kept] /= np.linalg.norm(
        want[:kept], axis=1, keepdims=True)
    for got, wanted in zip(made, (want, of_length_one), strict=True):
      np.testing.assert_allclose(
          got[slot].reshape(count, 5), wanted, rtol=2e-5, atol=2e-5
      )


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
  params = params_of(spec)
  batch, slots = packed(sequences())

  def total(params):
    queries, passages = (
        dual_encoder.encode(
            dual_encoder.Encoder(spec, role), params[role], batch, None
        )[0][slots] for role in ('query', 'passage')
    )
    return spec.score(queries, passages).sum()

  grads = jax.jit(jax.grad(total))(params)
  assert float(jnp.abs(grads['query']['codes']).max()) > 0
  assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(grads))


def test_a_group_alone_is_as_among_others():
  """It has no axis of groups then, and dropout of the same number."""
  config = dataclasses.replace(tiny.bert_config(), hidden_dropout=0.3,
                               attention_dropout=0.3)
  spec = dual_encoder.EncoderSpec(config)
  params = params_of(spec)['shared']
  texts = sequences_lib.listed(sequences())
  batch = packing.fill(packing.plan(texts.lengths, 2, ROW), texts)
  encode = jax.jit(functools.partial(
      dual_encoder.encode, dual_encoder.Encoder(spec), params
  ))
  whole = encode(batch, jax.random.key(2))
  for number in (0, 1):
    one = jax.tree.map(operator.itemgetter(slice(number, number + 1)), batch)
    alone = encode(one, jax.random.key(2), jnp.array([number]))
    np.testing.assert_allclose(alone[0], whole[number], rtol=1e-5, atol=1e-6)
  assert abs(whole - encode(batch, None)).max() > 0.01
