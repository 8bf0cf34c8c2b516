"""FLOPs and communication are counted as they are."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from neg_contrast import sharding
from neg_contrast.batches import packed
from neg_contrast.models import (
  attention,
  dual_encoder,
  flash_attention,
  projections,
  t5,
  t5_config,
)
from neg_contrast.settings import config as config_lib
from neg_contrast.training import costs
from tests import tiny


def test_products_in_loops_branches_and_twice_computed_ones_count():
  a, b = jnp.zeros((3, 5)), jnp.zeros((5, 5))
  one = 2 * 3 * 5 * 5
  loop = lambda a: jax.lax.scan(lambda x, _: (x @ b, None), a, length=7)[0]
  assert costs.product_flops(jax.make_jaxpr(loop)(a)) == 7 * one
  branch = lambda a: jax.lax.cond(a[0, 0] > 0, lambda: a @ b @ b, lambda: a @ b)
  assert costs.product_flops(jax.make_jaxpr(branch)(a)) == 2 * one
  twice = jax.value_and_grad(
      lambda a: jax.checkpoint(lambda a: jnp.sum((a @ b) ** 2))(a))
  # Forward, again for the backward pass, and the gradient of `a`.
  assert costs.product_flops(jax.make_jaxpr(twice)(a)) == 3 * one


def one_sequence(length):
  tokens = np.zeros((1, length), np.int32)
  return packed.PackedSequences(
      tokens, tokens + 1, tokens, np.zeros(1, np.int32)
  )


@pytest.mark.parametrize('gradients', [False, True])
def test_local_layers_count_as_such(gradients):
  """A loop over layers takes one branch in some, another in the others."""
  a = np.ones((8, 8), np.float32)

  def run(x):
    def layer(x, is_local):
      return jax.lax.cond(
          is_local, lambda x: x @ a, lambda x: x @ a @ a @ a, x
      ), None

    return jax.lax.scan(layer, x, np.array([True, False, True, True]))[0].sum()

  traced = jax.make_jaxpr(jax.grad(run) if gradients else run)(a)
  one = 2 * 8**3
  times = 2 if gradients else 1
  assert costs.product_flops(traced, 0.75) == times * (3 * 1 + 3) * one
  assert costs.product_flops(traced) == times * 4 * 3 * one


def test_products_that_nobody_takes_do_not_count():
  traced = jax.make_jaxpr(
      lambda inputs: (inputs @ inputs, inputs @ inputs[:, :2])[1]
  )(jnp.ones((3, 3)))
  assert str(traced).count('dot_general') == 2
  assert costs.product_flops(traced) == 2 * 3 * 3 * 2


@pytest.mark.parametrize('length', [7, 32])
@pytest.mark.parametrize('is_fused', [False, True])
def test_formula_of_an_encoder_is_what_an_unpadded_one_does(length, is_fused):
  spec = dual_encoder.EncoderSpec(
      tiny.bert_config(), projections=(projections.Projection(6),))
  params = jax.eval_shape(
      functools.partial(dual_encoder.init_params, spec), jax.random.key(0)
  )
  attend = flash_attention.make_attention(
      functools.partial(attention.tpu_kernel, 4, interpret=True)
  ) if is_fused else None
  encoder = dual_encoder.Encoder(spec, attention=attend)
  encode = lambda params: encoder.apply(
      {'params': params['shared']}, one_sequence(length), True
  )
  counted = costs.product_flops(jax.make_jaxpr(encode)(params))
  assert counted == costs.encoder_flops(spec, [length])
  assert costs.encoder_flops(spec, [length] * 3) == 3 * counted


@pytest.mark.parametrize('gated', [False, True])
def test_formula_of_a_generator_is_what_an_unpadded_one_does(gated):
  shape = t5_config.T5Config(
      vocab_size=40, d_model=12, d_kv=5, d_ff=20, num_layers=2,
      num_decoder_layers=3, num_heads=2, gated=gated,
  )
  ids = lambda n: np.zeros((1, n), np.int32)
  run = lambda params: t5.T5(shape).apply(
      {'params': params}, ids(9), ids(9) + 1, ids(4), ids(4) + 1, True
  )
  counted = costs.product_flops(jax.make_jaxpr(run)(t5.shape_of(shape)))
  assert counted == costs.question_flops(shape, [9], [4])


def test_communication_is_read_with_its_bytes_and_how_often():
  mesh = sharding.make_mesh(config_lib.MeshConfig())
  split = NamedSharding(mesh, PartitionSpec('data'))
  whole = NamedSharding(mesh, PartitionSpec())

  def work(x, w):
    def turn(w, _):
      return w + jnp.sum(x[:, :, None] * w[None], axis=0), None

    return jax.lax.scan(turn, w, length=5)[0]

  x = jax.ShapeDtypeStruct((16, 4), jnp.float32, sharding=split)
  w = jax.ShapeDtypeStruct((4, 3), jnp.float32, sharding=whole)
  compiled = jax.jit(work, out_shardings=whole).lower(x, w).compile()
  found = costs.collectives(compiled.as_text())
  assert [(one.kind, one.bytes, one.times) for one in found] == [
      ('all-reduce', 5 * 4 * 3 * 4, 5)
  ]


def test_loops_of_the_tpu_compiler_count_without_sign():
  """Those that it cuts large products of split weights into."""
  text = '\n'.join([
      'HloModule m', '%body (p: u32[]) -> u32[] {',
      '  %c = f32[2,3]{1,0} collective-permute(%p), channel_id=1', '}',
      '%cond (p: u32[]) -> pred[] {',
      '  %n = u32[]{:T(128)} constant(8), metadata={}', '}',
      'ENTRY %main (p: u32[]) -> u32[] {',
      '  %w = u32[] while(%p), condition=%cond, body=%body', '}',
  ])
  found = costs.collectives(text)
  assert [(one.kind, one.bytes, one.times) for one in found] == [
      ('collective-permute', 8 * 6 * 4, 8)
  ]


def test_a_loop_without_a_bound_is_refused():
  text = '\n'.join([
      'HloModule m', '%body (p: s32[]) -> s32[] {', '}',
      '%cond (p: s32[]) -> pred[] {', '}', 'ENTRY %main (p: s32[]) -> s32[] {',
      '  %w = s32[] while(%p), condition=%cond, body=%body', '}',
  ])
  with pytest.raises(ValueError, match='without a constant bound'):
    costs.collectives(text)


def test_kernels_count_on_all_devices():
  mesh = sharding.make_mesh(config_lib.MeshConfig(data=4, model=2))
  attend = flash_attention.make_attention(
      functools.partial(attention.tpu_kernel, 4, interpret=True),
      functools.partial(sharding.over_rows, mesh=mesh),
  )
  row = np.zeros((8, 32, 16), np.float32)
  ids = np.ones((8, 32), np.int32)
  run = lambda row: attend(row, row, row, ids)
  forward = 2 * 2 * 8 * 32 * 32 * 16
  assert costs.product_flops(jax.make_jaxpr(run)(row)) == forward

  def back(row):
    mixed, gradient_of = jax.vjp(run, row)
    return mixed, gradient_of(row)

  # Scores once more, gradients of weights, values, keys and queries.
  assert costs.product_flops(jax.make_jaxpr(back)(row)) == forward * 7 / 2
