"""The gradient cache against the plain step."""

import re
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import optax
import pytest

from neg_contrast import sharding
from neg_contrast.batches import batcher, packing
from neg_contrast.data import sequences as sequences_lib
from neg_contrast.losses import (
  binary_cross_entropy,
  dual_encoder_loss,
  gradient_cache,
  softmax,
)
from neg_contrast.models import dual_encoder, projections
from neg_contrast.settings import config as config_lib
from neg_contrast.training import costs
from neg_contrast.training import state as state_lib
from neg_contrast.training import step as step_lib
from tests import tiny

# These programs are looked at or run a few times; compiling takes the time.
FAST = {'xla_backend_optimization_level': 0,
        'xla_llvm_disable_expensive_passes': True}


def make_batch(shared=True, size=16, negatives=2, groups=8, length=12, seed=0):
  """Random sequences; some candidates masked, some negatives missing."""
  rng = np.random.default_rng(seed)
  draw = lambda count: [rng.integers(5, 65, rng.integers(3, length + 1))
                        for _ in range(count)]
  queries, passages = draw(size), draw(size * (1 + negatives))
  sequences, slots = {}, {}
  towers = ({'shared': queries + passages} if shared
            else {'query': queries, 'passage': passages})
  for tower, some in towers.items():
    layout = packing.plan(
        np.array([len(s) for s in some]), groups, length + 4
    )
    sequences[tower] = packing.fill(layout, sequences_lib.listed(some))
    slots[tower] = layout.flat_slot
  both = slots.get('shared', ())
  query_slots = both[:size] if shared else slots['query']
  passage_slots = both[size:] if shared else slots['passage']
  forward = rng.random((size, size * (1 + negatives))) < 0.9
  backward = rng.random((size, size)) < 0.9
  own = np.arange(size)
  forward[own, own] = backward[own, own] = True
  return batcher.Batch(
      sequences=sequences,
      query_slots=query_slots,
      positive_slots=passage_slots[:size],
      negative_slots=passage_slots[size:].reshape(size, negatives),
      negative_sources=rng.integers(-1, 1, (size, negatives)).astype(np.int32),
      forward_mask=forward,
      backward_mask=backward,
  )


def make_loss(chunks=None, shared=True, remat='none', learned=True,
              bidirectional=True, kind=softmax.SoftmaxLoss, **options
              ) -> tuple[Callable[..., Any], Callable[[], Any]]:
  """A loss with dropout, and a function that makes its parameters."""
  spec = dual_encoder.EncoderSpec(
      tiny.bert_config(hidden_dropout=0.3, attention_dropout=0.2),
      pooling='mean', projections=(projections.Projection(7),), shared=shared,
  )

  def init():
    return state_lib.dual_encoder_params(
        dual_encoder.init_params(spec, jax.random.key(1)),
        20.0 if learned else None,
    )

  return dual_encoder_loss.make_loss(
      kind(bidirectional, **options),
      dual_encoder.Encoder(spec, remat=remat), 20.0, ('bm25',), chunks,
  ), init


def make_step(*args, **kwargs):
  """A training step, and the shapes of its state."""
  loss, init = make_loss(*args, **kwargs)
  optimizer = optax.adam(1e-3)
  return step_lib.make_train_step(loss, optimizer, 3), jax.eval_shape(
      lambda: state_lib.init_state(init(), optimizer)
  )


def train(loss, init, batch):
  """Losses, metrics, gradients and parameters of three steps, and one more
  loss under another dropout mask."""
  params, seen = jax.device_get(jax.jit(init)()), []
  value_and_grads = jax.jit(jax.value_and_grad(loss, has_aux=True)).lower(
      params, batch, jax.random.key(0)
  ).compile(FAST)
  for step in range(3):
    made = jax.device_get(
        value_and_grads(params, batch, jax.random.key(step))
    )
    params = jax.tree.map(
        lambda p, g: p - np.float32(0.01) * g, params, made[1]
    )
    seen.append((made, params))
  return seen, value_and_grads(params, batch, jax.random.key(7))[0][0]


@pytest.mark.parametrize('chunks, kwargs', [
    ((2, 1), {}),
    ((1, 4), {'shared': False, 'hardest': 5,
              'kind': binary_cross_entropy.BinaryCrossEntropyLoss}),
    ((1, 2), {'remat': 'attention', 'learned': False, 'bidirectional': False}),
])
def test_equals_the_plain_step(chunks, kwargs):
  """Eight groups, dropout on, masks, missing negatives."""
  batch = make_batch(shared=kwargs.get('shared', True))
  want, other = train(*make_loss(**kwargs), batch)
  got, _ = train(*make_loss(gradient_cache.Chunks(*chunks), **kwargs), batch)
  assert want[0][0][0][0] > 1 and abs(other - want[2][0][0][0]) > 1e-2

  def assert_close(a, b):
    scale = max(1.0, float(np.abs(b).max()))
    np.testing.assert_allclose(a / scale, b / scale, atol=1e-5)

  jax.tree.map(assert_close, got, want)
  largest = max(np.abs(g).max() for g in jax.tree.leaves(want[0][0][1]))
  assert largest > 0.1


def compile_step(step, state, batch, mesh=None):
  if mesh is not None:
    state, batch = (
        jax.tree.map(
            lambda a, s: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=s),
            tree, shardings,
        )
        for tree, shardings in (
            (state, sharding.parameter_shardings(state, mesh)),
            (batch, sharding.batch_shardings(batch, mesh)),
        )
    )
  return jax.jit(step, donate_argnums=0).lower(state, batch).compile(FAST)


COLLECTIVE = re.compile(
    r'= (.*?) (?:all-reduce|all-gather|all-to-all|collective-permute|'
    r'reduce-scatter)(?:-start)?\('
)


def test_devices_meet_only_between_the_passes():
  """No device waits for another within a pass, and no hidden state moves."""
  mesh = sharding.make_mesh(config_lib.MeshConfig())
  batch = make_batch(groups=16, size=32, length=14)
  step, state = make_step(gradient_cache.Chunks(
      1, 8, lambda copies: sharding.place_copies(copies, mesh)
  ), remat='attention')
  text = compile_step(step, state, batch, mesh).as_text()
  assert text.count(' while(') >= 4  # Two passes, over chunks and layers.
  moved: list[str] = []
  computation = ''
  for line in text.splitlines():
    if (start := re.match(r'(ENTRY )?%[\w.\-]+ .*\{$', line)):
      computation = start[1]
    if (found := COLLECTIVE.search(line)):
      assert computation == 'ENTRY ', line
      moved += re.findall(r'f32\[([\d,]*)\]', found[1])
  hidden = f'{batch.sequences["shared"].token_ids.shape[-1]},16'
  assert not [shape for shape in moved if hidden in shape]
  # Every layer's gradients, once.
  assert moved.count('2,16,24') == moved.count('2,24,16') == 1


def temp_bytes(chunks, **kwargs):
  step, state = make_step(chunks)
  compiled = compile_step(step, state, make_batch(**kwargs))
  return compiled.memory_analysis().temp_size_in_bytes


def test_activations_do_not_grow_with_the_batch():
  """Sixteen sequences a group and one group a chunk, whatever the batch."""
  one = temp_bytes(None, size=4, groups=1)
  for size in (64, 256):
    used = temp_bytes(gradient_cache.Chunks(1), size=size, groups=size // 4)
    formula = gradient_cache.loss_bytes(size, 2, 7)
    assert used <= one + sum(formula)
  assert formula == (4 * 256 * 4 * 7 * 4, 9 * 256 * 256 * 3 * 4)
  plain = [temp_bytes(None, size=size, groups=size // 4) for size in (64, 128)]
  assert plain[1] > 10 * one and plain[1] >= 2 * plain[0]


@pytest.mark.parametrize('remat', ['none', 'attention', 'full'])
def test_costs_a_third_more_products(remat):
  """And the weights' copies make `remat` forget nothing it had kept."""
  batch = make_batch()

  def count(chunks):
    step, state = make_step(chunks, remat=remat)
    return costs.product_flops(jax.make_jaxpr(step)(state, batch))

  ratio = count(gradient_cache.Chunks(1, 2)) / count(None)
  assert 1.2 < ratio < 1.35
