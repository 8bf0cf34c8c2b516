"""The fused kernels against XLA's attention, step by step on CPU."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neg_contrast import sharding
from neg_contrast.batches import packing
from neg_contrast.data import sequences as sequences_lib
from neg_contrast.losses import gradient_cache
from neg_contrast.models import (
  attention,
  dual_encoder,
  flash_attention,
  layers,
)
from neg_contrast.settings import config as config_lib
from tests import tiny

# These programs run once; compiling them takes the time.
FAST = {'xla_backend_optimization_level': 0,
        'xla_llvm_disable_expensive_passes': True}
KERNELS = {
    'tpu': functools.partial(attention.tpu_kernel, interpret=True),
    'gpu': functools.partial(
        flash_attention.cudnn_kernel, implementation='xla'
    ),
}


def by_xla(query, key, value, segment_ids, head_features):
  heads = lambda x: x.reshape(*x.shape[:2], -1, head_features).swapaxes(1, 2)
  mixed = layers.attend(
      heads(query), heads(key), heads(value),
      (layers.segment_bias(segment_ids),), lambda weights: weights,
  )
  return mixed.swapaxes(1, 2).reshape(query.shape)


def random_rows(rows, length, width, dtype=jnp.float32, seed=0):
  """Query, key, value, gradient; and segments, with padding after them."""
  rng = np.random.default_rng(seed)
  arrays = [jnp.asarray(rng.normal(size=(rows, length, width)), dtype)
            for _ in range(4)]
  segment_ids = np.zeros((rows, length), np.int32)
  for row in range(rows):
    cuts = np.sort(rng.integers(1, length + 1, 4))
    for number, (start, stop) in enumerate(
        zip([0, *cuts[:-1]], cuts, strict=True)
    ):
      segment_ids[row, start:stop] = number + 1
  return arrays, segment_ids


def values_and_gradients(attention, arrays, segment_ids):
  *inputs, gradient = arrays
  mixed, back = jax.vjp(lambda *x: attention(*x, segment_ids), *inputs)
  return mixed, *back(gradient)


def assert_close(got, want, tolerance=1e-5):
  for a, b in zip(got, want, strict=True):
    assert a.dtype == b.dtype
    a, b = np.asarray(a, np.float32), np.asarray(b, np.float32)
    scale = max(1.0, np.abs(b).max())
    np.testing.assert_allclose(a / scale, b / scale, atol=tolerance)


# Heads that fill a vector together, several such parts, heads that don't
# divide one, a row in several blocks, and one row.
@pytest.mark.parametrize('platform', KERNELS)
@pytest.mark.parametrize(('rows', 'length', 'width', 'features'), [
    (3, 40, 16, 4), (2, 64, 256, 64), (2, 33, 120, 40), (1, 1152, 8, 8),
])
def test_equals_xla(platform, rows, length, width, features):
  arrays, segment_ids = random_rows(rows, length, width)
  assert (segment_ids == 0).any() and segment_ids.max() == 4
  attend = flash_attention.make_attention(
      functools.partial(KERNELS[platform], features)
  )
  want = jax.jit(functools.partial(
      values_and_gradients, functools.partial(by_xla, head_features=features)
  ))(arrays, segment_ids)
  got = jax.jit(functools.partial(values_and_gradients, attend))(
      arrays, segment_ids
  )
  assert np.abs(want[1]).max() > 0.1
  assert_close(got, want)


def test_long_rows_are_taken_in_blocks():
  assert flash_attention._blocks(512) == [(0, 512)]
  assert flash_attention._blocks(1152) == [(n * 128, 128) for n in range(9)]
  assert flash_attention._blocks(1024) == [(n * 256, 256) for n in range(4)]


@pytest.mark.parametrize('platform', KERNELS)
def test_bfloat16_is_as_close_to_float32_as_xla(platform):
  arrays, segment_ids = random_rows(2, 64, 32)
  exact = values_and_gradients(
      functools.partial(by_xla, head_features=8), arrays, segment_ids
  )
  half = [array.astype(jnp.bfloat16) for array in arrays]

  def errors(attention):
    got = values_and_gradients(attention, half, segment_ids)
    assert {array.dtype for array in got} == {jnp.dtype(jnp.bfloat16)}
    return [float(jnp.abs(a.astype(jnp.float32) - b).mean())
            for a, b in zip(got, exact, strict=True)]

  theirs = errors(functools.partial(by_xla, head_features=8))
  ours = errors(flash_attention.make_attention(
      functools.partial(KERNELS[platform], 8)
  ))
  assert min(ours) > 1e-4
  for a, b in zip(ours, theirs, strict=True):
    assert a < 1.1 * b < 0.01


def make_encoder(mesh=None, **kwargs):
  """An encoder of two layers, with dropout on hidden states only."""
  spec = dual_encoder.EncoderSpec(
      tiny.bert_config(hidden_dropout=0.2, attention_dropout=0.0), 'mean'
  )
  attend = None
  if mesh is not None:
    attend = flash_attention.make_attention(
        functools.partial(attention.tpu_kernel, 4, interpret=True),
        functools.partial(sharding.over_rows, mesh=mesh),
    )
  return dual_encoder.Encoder(spec, attention=attend, **kwargs)


def make_groups(groups=8):
  rng = np.random.default_rng(3)
  sequences = [rng.integers(5, 60, n).astype(np.int32)
               for n in rng.integers(1, 15, 5 * groups)]
  layout = packing.plan(np.array([len(s) for s in sequences]), groups, 20)
  return packing.fill(layout, sequences_lib.listed(sequences))


@pytest.mark.parametrize(('data', 'model', 'chunk', 'remat'), [
    (4, 2, 0, 'attention'), (2, 2, 2, 'none'),
])
def test_on_a_mesh_in_loops_and_in_the_gradient_cache(
    data, model, chunk, remat
):
  """Rows over `data`, heads over `model`, dropout of hidden states on."""
  mesh = sharding.make_mesh(
      config_lib.MeshConfig(data=data, model=model),
      jax.devices()[: data * model],
  )
  batch = make_groups()
  params = jax.jit(functools.partial(
      dual_encoder.init_params, make_encoder().spec
  ))(jax.random.key(0))
  chunks = gradient_cache.Chunks(
      chunk, data, lambda copies: sharding.place_copies(copies, mesh)
  ) if chunk else None

  def loss(encoder, chunks, params, batch):
    vecs = gradient_cache.encode(
        encoder, params['shared'], batch, jax.random.key(1), chunks
    )
    return jnp.sum(jnp.sin(vecs + jnp.arange(vecs.size).reshape(vecs.shape)))

  def value_and_grad(encoder, chunks, *arguments):
    function = jax.jit(jax.value_and_grad(
        functools.partial(loss, encoder, chunks)
    ))
    return function.lower(*arguments).compile(FAST)(*arguments)

  plain = value_and_grad(make_encoder(), None, params, batch)
  placed = jax.device_put(params, sharding.parameter_shardings(params, mesh))
  groups = jax.device_put(
      batch, sharding.batch_shardings({'shared': batch}, mesh)['shared']
  )
  fused = value_and_grad(
      make_encoder(mesh, remat=remat), chunks, placed, groups
  )
  # Two layers and a gradient round by the processor's kernels: on another one
  # than this was written on, 1e-5 was passed by one number of 768.
  assert_close(jax.tree.leaves(fused), jax.tree.leaves(plain), 5e-5)


def test_dropout_of_attention_probabilities_is_refused():
  encoder = make_encoder(sharding.make_mesh(config_lib.MeshConfig()))
  spec = dual_encoder.EncoderSpec(tiny.bert_config(attention_dropout=0.1))
  params = jax.eval_shape(
      lambda: dual_encoder.init_params(spec, jax.random.key(0))
  )['shared']
  encoder = encoder.clone(spec=spec)
  encode = functools.partial(dual_encoder.encode, encoder)
  with pytest.raises(ValueError, match='no dropout, and the rate is 0.1'):
    jax.eval_shape(encode, params, make_groups(), jax.random.key(0))
  assert jax.eval_shape(encode, params, make_groups(), None).ndim == 3
