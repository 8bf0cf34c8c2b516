"""Losses of a cross-encoder's scores, against loops."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.batches import packed, pair_batches
from neg_contrast.losses import loss_table, reranker_loss
from neg_contrast.models import bert, cross_encoder
from neg_contrast.settings import config as config_lib

SOURCES = ('bm25', 'context')
SPEC = cross_encoder.CrossEncoderSpec(bert.BertConfig(
    vocab_size=9, hidden_size=4, num_layers=1, num_heads=1,
    intermediate_size=4, max_positions=8))


class Lookup(cross_encoder.CrossEncoder):
  """A module whose score of a pair is a parameter of its first token."""

  @nn.compact
  def __call__(self, sequences, deterministic):
    table = self.param('table', nn.initializers.zeros, (100,))
    first = sequences.token_ids.reshape(-1)[sequences.first_index]
    return table[first][:, None]


def make(seed, batch=5, candidates=4):
  """Scores of all pairs, and a batch of them, some candidates missing."""
  rng = np.random.default_rng(seed)
  scores = rng.normal(0, 3, 100).astype(np.float32)
  slots = rng.permutation(batch * candidates).reshape(batch, candidates)
  is_candidate = rng.random(slots.shape) < 0.7
  is_candidate[:, 0] = True
  is_candidate[0, 1:] = False  # A query without negatives.
  tokens = np.arange(batch * candidates, dtype=np.int32)[None, None]
  sources = np.where(is_candidate[:, 1:], rng.integers(0, 2, (batch, 3)), -1)
  sequences = packed.PackedSequences(
      tokens, tokens + 1, tokens * 0, tokens[0], tokens * 0)
  return scores, pair_batches.PairBatch(
      sequences, np.where(is_candidate, slots, 0), is_candidate, sources)


def loss_of(scores, batch, distillation=None, **settings):
  loss = reranker_loss.make_loss(
      Lookup(SPEC), loss_table.make_of_pairs(config_lib.LossConfig(**settings)),
      SOURCES, distillation=distillation)
  params = {'reranker': {'table': jnp.asarray(scores)}}
  return jax.value_and_grad(loss, has_aux=True)(
      params, batch, jax.random.key(0))


def by_loop(scores, batch, kind, weight=1.0, margin=1.0):
  total = 0.0
  for slots, there in zip(batch.candidate_slots, batch.is_candidate,
                          strict=True):
    own = [float(scores[slot])
           for slot, real in zip(slots, there, strict=True) if real]
    if kind == 'softmax':
      total += np.log(sum(np.exp(s) for s in own)) - own[0]
    elif kind == 'bce':
      total += (weight * np.log1p(np.exp(-own[0]))
                + sum(np.log1p(np.exp(s)) for s in own[1:])) / len(own)
    elif kind == 'lambdarank':
      ranked = sorted(own, reverse=True)
      place = {s: 1 / (1 + ranked.index(s)) for s in own}
      total += sum(abs(place[own[0]] - place[s]) * np.log1p(np.exp(s - own[0]))
                   for s in own[1:])
    else:
      over = [max(0, s - own[0] + margin) for s in own[1:]]
      total += np.mean(over) if over else 0
  return total / len(batch.is_candidate)


@pytest.mark.parametrize('seed', range(3))
@pytest.mark.parametrize('settings', [
    {'kind': 'softmax'}, {'kind': 'bce'}, {'kind': 'hinge', 'margin': 2.5},
    {'kind': 'bce', 'positive_weight': 3.5}, {'kind': 'lambdarank'},
])
def test_losses_are_those_of_a_loop(seed, settings):
  scores, batch = make(seed)
  (value, metrics), _ = loss_of(scores, batch, **settings)
  want = by_loop(scores, batch, settings['kind'],
                 settings.get('positive_weight', 1.0),
                 settings.get('margin', 1.0))
  assert float(value) == pytest.approx(want, rel=1e-5)
  best = [scores[slots[0]] > max(
      (scores[slot] for slot in slots[1:][there[1:]]), default=-np.inf)
      for slots, there in zip(batch.candidate_slots, batch.is_candidate,
                              strict=True)]
  assert float(metrics['accuracy']) == pytest.approx(np.mean(best))


def test_missing_candidates_get_no_gradient():
  scores, batch = make(1)
  (_, _), grads = loss_of(scores, batch, kind='bce')
  slope = np.asarray(grads['reranker']['table'])
  used = np.unique(batch.candidate_slots[batch.is_candidate])
  assert (slope[used] != 0).all()
  assert (np.delete(slope, used) == 0).all()


def test_keys_of_dual_encoders_change_nothing():
  scores, batch = make(2)
  plain = loss_of(scores, batch, kind='bce')[0][0]
  other = loss_of(scores, batch, kind='bce', scale=3.0, learn_scale=True,
                  bidirectional=False, candidates='own')[0][0]
  assert plain == other


def test_a_loss_of_vectors_is_refused():
  with pytest.raises(errors.UserError, match='compares vectors.*softmax or'):
    loss_table.make_of_pairs(config_lib.LossConfig(kind='triplet'))
