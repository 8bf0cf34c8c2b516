"""Kernels by ranges of keys against attention in blocks, run on CPU."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neg_contrast import sharding
from neg_contrast.batches import packing
from neg_contrast.data import sequences as sequences_lib
from neg_contrast.models import (
  attention,
  blockwise,
  dual_encoder,
  flash_attention,
  modernbert,
  qwen3,
  range_attention,
  triton_attention,
)
from neg_contrast.models import pattern as pattern_lib
from neg_contrast.settings import config as config_lib

PATTERNS = {
    'global': pattern_lib.GLOBAL,
    'window': pattern_lib.Pattern(window=5),
    'wide window': pattern_lib.Pattern(window=200),
    'causal': pattern_lib.Pattern(causal=True),
    'causal window': pattern_lib.Pattern(window=7, causal=True),
}


def random_rows(rows, length, width, seed=0):
  """Query, key, value, gradient; segment ids with padding after them."""
  rng = np.random.default_rng(seed)
  arrays = [jnp.asarray(rng.normal(size=(rows, length, width)), jnp.float32)
            for _ in range(4)]
  cuts = np.sort(rng.integers(1, length, (rows, 4)), axis=1)
  segment_ids = (np.arange(length) < cuts[..., None]).sum(1)
  return arrays, segment_ids.astype(np.int32)


KERNELS = {'tpu': range_attention.kernel, 'gpu': triton_attention.kernel}


@functools.cache
def kernel_attention(features, platform='tpu'):
  return flash_attention.make_attention(functools.partial(
      KERNELS[platform], features, interpret=True
  ))


def in_blocks(features):
  def attend(query, key, value, segment_ids, pattern):
    heads = lambda x: x.reshape(*x.shape[:2], -1, features)
    return blockwise.attend(
        heads(query), heads(key), heads(value), segment_ids, pattern,
        lambda weights, first: weights,
    ).reshape(query.shape)

  return attend


@functools.partial(jax.jit, static_argnums=(0, 1))
def values_and_gradients(attend, pattern, arrays, segment_ids):
  *inputs, gradient = arrays
  mixed, back = jax.vjp(lambda *x: attend(*x, segment_ids, pattern), *inputs)
  return mixed, *back(gradient)


# Every pattern: two heads in a vector, and a row of several blocks.
SEVERAL = {'tpu': (600, 256, 64), 'gpu': (300, 64, 32)}
# Heads that don't divide a vector; a row of one block.
OTHERS = {'tpu': [(300, 120, 40), (100, 16, 4)], 'gpu': [(100, 16, 16)]}


@pytest.mark.parametrize(('name', 'platform', 'length', 'width', 'features'), [
    *((name, platform, *SEVERAL[platform])
      for platform in SEVERAL for name in PATTERNS),
    *((name, platform, *shape) for platform in OTHERS
      for shape in OTHERS[platform] for name in ('global', 'causal window')),
])
def test_equals_blocks(name, platform, length, width, features):
  rows = random_rows(2, length, width)
  rows[0][0] /= features**0.5
  got, want = (
      values_and_gradients(attend, PATTERNS[name], *rows)
      for attend in (kernel_attention(features, platform), in_blocks(features))
  )
  for a, b in zip(got, want, strict=True):
    assert a.shape == b.shape and float(jnp.abs(b).max()) > 0.1
    np.testing.assert_allclose(a, b, atol=5e-5)


@pytest.mark.parametrize('name', PATTERNS)
def test_ranges_are_what_a_pattern_allows(name):
  pattern = PATTERNS[name]
  _, segment_ids = random_rows(3, 60, 1)
  first, last = range_attention.key_ranges(segment_ids, pattern)
  places = np.arange(60)
  allowed = segment_ids[:, :, None] == segment_ids[:, None]
  allowed = allowed & pattern.allows(places[:, None], places)
  np.testing.assert_array_equal(first, allowed.argmax(2))
  np.testing.assert_array_equal(last, 59 - allowed[:, :, ::-1].argmax(2))


@pytest.mark.parametrize('platform', KERNELS)
@pytest.mark.parametrize('name', ['global', 'window'])
def test_blocks_that_nobody_reaches_are_not_read(name, platform):
  """What stands there is NaN, and does not come out."""
  (query, key, value, gradient), _ = random_rows(1, 1024, 32)
  segment_ids = np.repeat(np.arange(2), 512)[None].astype(np.int32)
  if name == 'window':
    segment_ids[:] = 0
  far = np.arange(1024) >= 640
  key, value = (jnp.where(far[:, None], jnp.nan, x) for x in (key, value))

  @jax.jit
  def both(query, gradient):
    mixed, back = jax.vjp(
        lambda query: kernel_attention(16, platform)(
            query, key, value, segment_ids, PATTERNS[name]
        ), query,
    )
    return mixed, back(gradient)[0]

  mixed, slope = both(query, jnp.where(far[:, None], 0, gradient))
  assert np.isfinite(mixed[:, :512]).all()
  assert np.isfinite(slope[:, :512]).all()
  assert np.isnan(mixed[:, 640:]).all()


@pytest.mark.parametrize('platform', KERNELS)
def test_bfloat16_is_as_close_to_float32_as_blocks(platform):
  arrays, segment_ids = random_rows(2, 300, 32)
  half = [array.astype(jnp.bfloat16) for array in arrays]
  exact = values_and_gradients(
      in_blocks(16), pattern_lib.GLOBAL,
      [x.astype(jnp.float32) for x in half], segment_ids,
  )
  off = lambda attend: [
      float(jnp.abs(a.astype(jnp.float32) - b).mean()) for a, b in zip(
          values_and_gradients(attend, pattern_lib.GLOBAL, half, segment_ids),
          exact, strict=True,
      )
  ]
  for ours, theirs in zip(
      off(kernel_attention(16, platform)), off(in_blocks(16)), strict=True
  ):
    assert 0 < ours < 1.1 * theirs < 0.01


def test_long_rows_and_patterns_go_there():
  """Names of the kernels that a trace calls."""
  def called(length, pattern):
    attend = flash_attention.make_attention(functools.partial(
        attention.tpu_kernel, 64, interpret=True
    ))
    array = jax.ShapeDtypeStruct((1, length, 128), jnp.float32)
    ids = jax.ShapeDtypeStruct((1, length), jnp.int32)
    return str(jax.make_jaxpr(functools.partial(attend, pattern=pattern))(
        array, array, array, ids
    )).count('range_attention_forward') > 0

  assert not called(1024, pattern_lib.GLOBAL)
  assert called(1152, pattern_lib.GLOBAL)
  assert called(256, PATTERNS['window'])
  assert called(256, PATTERNS['causal'])


@pytest.mark.parametrize(('name', 'features'), [
    *((name, 64) for name in PATTERNS),
    *(('causal window', features)
      for features in triton_attention.HEAD_FEATURES if features != 64),
])
def test_triton_makes_programs_of_it(name, features):
  """Both passes, up to what its compiler is given; no GPU is at hand."""
  attend = flash_attention.make_attention(
      functools.partial(triton_attention.kernel, features)
  )
  array = jax.ShapeDtypeStruct((2, 200, 2 * features), jnp.bfloat16)
  ids = jax.ShapeDtypeStruct((2, 200), jnp.int32)
  both = jax.jit(lambda *x: jax.vjp(
      lambda *inputs: attend(*inputs, x[3], PATTERNS[name]), *x[:3]
  )[1](x[0]))
  program = jax.export.export(both, platforms=['cuda'], disabled_checks=[
      jax.export.DisabledSafetyCheck.custom_call('__gpu$xla.gpu.triton')
  ])(array, array, array, ids)
  assert program.mlir_module().count('@__gpu$xla.gpu.triton') == 2
  assert 'tensor<2x200x200' not in program.mlir_module()


def test_the_longest_row_is_one_that_the_compiler_takes():
  """As compiled for v4:2x2x1, v5e:2x2, v5p:2x2x1 and v6e:2x2."""
  assert range_attention.longest_row('TPU v4', 2, 64) == 4608
  assert range_attention.longest_row('TPU v5 lite', 2, 128) == 19712
  assert range_attention.longest_row('TPU v6 lite', 4, 64) == 11776


SHAPE = {
    'vocab_size': 60, 'hidden_size': 16, 'num_layers': 3, 'num_heads': 4,
    'intermediate_size': 24, 'max_positions': 512,
}


@pytest.mark.parametrize('shape', [
    modernbert.ModernBertConfig(
        **SHAPE, global_every=3, window=6, attention_dropout=0.0
    ),
    qwen3.Qwen3Config(**SHAPE, num_kv_heads=2, head_dim=8),
], ids=['modernbert', 'qwen3'])
def test_encoders_with_windows_and_causal_ones(shape):
  """On a mesh, rows over `data` and heads over `model`: values, gradients."""
  mesh = sharding.make_mesh(
      config_lib.MeshConfig(data=2, model=2), jax.devices()[:4]
  )
  rng = np.random.default_rng(3)
  sequences = [rng.integers(5, 60, n).astype(np.int32)
               for n in rng.integers(10, 90, 12)]
  layout = packing.plan(np.array([len(s) for s in sequences]), 2, 100)
  batch = packing.fill(layout, sequences_lib.listed(sequences))
  spec = dual_encoder.EncoderSpec(shape, 'mean')
  params = jax.jit(functools.partial(dual_encoder.init_params, spec))(
      jax.random.key(0))['shared']
  attend = flash_attention.make_attention(
      functools.partial(
          attention.tpu_kernel, shape.head_features, interpret=True
      ),
      functools.partial(sharding.over_rows, mesh=mesh),
  )

  @functools.partial(jax.jit, static_argnums=0)
  def run(kernel, params):
    encoder = dual_encoder.Encoder(spec, attention=kernel)
    loss = lambda params: jnp.sum(jnp.sin(3 * dual_encoder.encode(
        encoder, params, batch, jax.random.key(1)
    )))
    return jax.value_and_grad(loss)(params)

  got, want = run(attend, params), run(None, params)
  for a, b in zip(*map(jax.tree.leaves, (got, want)), strict=True):
    scale = max(1.0, float(jnp.abs(b).max()))
    np.testing.assert_allclose(a / scale, b / scale, atol=5e-5)


def test_encoders_have_the_patterns_of_their_layers():
  shape = modernbert.ModernBertConfig(**SHAPE, window=6)
  assert shape.patterns == (
      pattern_lib.GLOBAL, pattern_lib.Pattern(window=6)
  )
  assert qwen3.Qwen3Config(**SHAPE, num_kv_heads=2).patterns == (
      PATTERNS['causal'],
  )
  assert dataclasses.replace(shape).kernel_problem is None
