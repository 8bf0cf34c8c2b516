"""What computes attention is chosen by platform, or refused with a remedy."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh

from neg_contrast import errors, sharding
from neg_contrast.models import attention, bert, dual_encoder
from neg_contrast.models import by_name as model_lib
from neg_contrast.settings import config as config_lib

BASE = bert.BertConfig()
WITHOUT = bert.BertConfig(attention_dropout=0)


@dataclasses.dataclass(frozen=True)
class Device:
  """What is asked of one."""

  platform: str
  device_kind: str
  id: int = 0
  process_index: int = 0
  compute_capability: str = '8.0'


def devices(platform, kind, model=1, capability='8.0'):
  some = [Device(platform, kind, number, compute_capability=capability)
          for number in range(model)]
  return Mesh(np.array([some], object), ('data', 'model'))


V4, V3 = devices('tpu', 'TPU v4'), devices('tpu', 'TPU v3')
T4 = devices('gpu', 'Tesla T4', capability='7.5')
AMD = devices('gpu', 'AMD Instinct MI300X', capability='gfx942')
GPU, CPU = devices('gpu', 'NVIDIA H200'), devices('cpu', 'cpu')


def choose(wanted, shape, mesh, is_training=False, dtype=jnp.bfloat16,
           row_length=0):
  return attention.choose(
      shape, wanted, row_length, dtype, mesh, is_training
  )


@pytest.mark.parametrize(('shape', 'mesh', 'is_training', 'expected'), [
    (BASE, V4, False, 'Pallas'),
    (BASE, V4, True, 'xla'),
    (WITHOUT, V4, True, 'Pallas'),
    (WITHOUT, V3, False, 'xla'),
    (WITHOUT, devices('tpu', 'TPU v4', 8), False, 'xla'),
    (WITHOUT, GPU, False, 'Triton'),
    (WITHOUT, T4, False, 'xla'),
    (WITHOUT, AMD, False, 'xla'),
    (WITHOUT, CPU, True, 'xla'),
])
def test_automatic(shape, mesh, is_training, expected):
  assert choose('auto', shape, mesh, is_training) == expected
  assert choose('xla', shape, mesh, is_training) == 'xla'


@pytest.mark.parametrize(('shape', 'mesh', 'kwargs', 'message'), [
    (BASE, V4, {'is_training': True},
     'the model has 0.1; set --config.model.attention_dropout=0'),
    (BASE, CPU, {}, 'for cpu; set --config.model.attention=auto'),
    (BASE, V3, {}, 'for TPU v3; set --config.model.attention=auto'),
    (BASE, T4, {}, 'for Tesla T4; set --config.model.attention=auto'),
    (BASE, devices('tpu', 'TPU v4', 8), {}, 'mesh.model=8 .* 12 heads'),
    (BASE, V4, {'row_length': 8192}, 'data.row_length=4608'),
    (BASE, devices('tpu', 'TPU v5 lite'), {'row_length': 32768},
     'data.row_length=19712'),
    (BASE, GPU, {'dtype': jnp.float32}, '--config.model.dtype=bfloat16'),
    (bert.BertConfig(num_heads=64), GPU, {}, 'heads of 12 features'),
])
def test_where_it_cannot_work_it_is_refused(shape, mesh, kwargs, message):
  with pytest.raises(errors.UserError, match=(
      f'config.model.attention=flash: .*{message}'
  )):
    choose('flash', shape, mesh, **kwargs)


def test_where_it_can_work_it_is_taken():
  assert choose('flash', WITHOUT, V4, is_training=True) == 'Pallas'
  assert choose('flash', BASE, GPU) == 'Triton'


def altered(part, by):
  """The TPU's kernel, step by step, with something done to one of its parts."""
  kernel = attention.tpu_kernel(4, interpret=True)
  return dataclasses.replace(
      kernel, **{part: lambda *arrays: by(getattr(kernel, part), *arrays)})


def without_segments(compute, *arrays):
  return compute(*arrays[:-1], jnp.ones_like(arrays[-1]))


def with_nan(compute, *arrays):
  return jax.tree.map(lambda a: a.at[0, 0].set(jnp.nan), compute(*arrays))


def negated_values(compute, *arrays):
  query, key, value = compute(*arrays)
  return query, key, -value


def raises(compute, *arrays):
  raise NotImplementedError('cuDNN is not here')


# Seen first: a device that is at hand computes by both.
@pytest.mark.parametrize(('part', 'by', 'said'), [
    ('forward', lambda compute, *arrays: compute(*arrays), None),
    ('forward', without_segments, 'is off by'),
    ('backward', without_segments, 'is off by'),
    ('forward', with_nan, 'is off by'),
    ('backward', negated_values, 'is off by'),
    ('forward', raises, 'failed: cuDNN is not here'),
    ('backward', raises, 'failed: cuDNN is not here'),
])
@pytest.mark.parametrize('dtype', [jnp.float32, jnp.bfloat16])
def test_automatic_takes_what_works_at_hand(
    monkeypatch, caplog, part, by, said, dtype
):
  monkeypatch.setattr(attention, '_problem', lambda *_: None)
  monkeypatch.setitem(
      attention.KERNELS, 'cpu', {'altered': lambda *_: altered(part, by)})
  attention._fails_on.cache_clear()
  shape = bert.BertConfig(num_heads=3, hidden_size=12)
  mesh = sharding.make_mesh(config_lib.MeshConfig())
  chosen = [
      choose('auto', shape, mesh, is_training, dtype, row_length=40)
      for is_training in (False, True, False)
  ]
  attention._fails_on.cache_clear()
  assert chosen == ['xla' if said else 'altered'] * 3
  assert caplog.text.count('not by altered') == (said is not None)
  assert said is None or said in caplog.text
  assert choose('flash', shape, mesh) == 'altered'  # Which is not asked.


def test_automatic_is_the_first_that_works(monkeypatch, caplog):
  monkeypatch.setattr(attention, '_problem', lambda *_: None)
  monkeypatch.setitem(attention.KERNELS, 'cpu', {
      'first': lambda *_: altered('backward', raises),
      'second': lambda *_: altered('forward', lambda f, *x: f(*x)),
      'third': lambda *_: 1 / 0,
  })
  attention._fails_on.cache_clear()
  chosen = choose('auto', bert.BertConfig(num_heads=3, hidden_size=12),
                  sharding.make_mesh(config_lib.MeshConfig()), row_length=24)
  attention._fails_on.cache_clear()
  assert chosen == 'second'
  assert 'not by first, which on cpu failed: cuDNN is not here' in caplog.text


@pytest.mark.parametrize('processes', [1, 2])
def test_processes_that_share_a_mesh_choose_the_same(monkeypatch, processes):
  """One that is alone with its mesh does not wait for others."""
  asked = []

  def gather(fails):
    asked.append(fails.tolist())
    return np.array([False, True])

  monkeypatch.setattr(attention.hosts, 'gather', gather)
  some = [Device('tpu', 'TPU v4', number, number % processes)
          for number in range(2)]
  mesh = Mesh(np.array(some, object)[:, None], ('data', 'model'))
  for is_training in (False, True):
    chosen = choose('auto', WITHOUT, mesh, is_training)
    assert chosen == ('Pallas' if processes == 1 else 'xla')
  assert asked == ([] if processes == 1 else [[[False]]] * 2)


def test_memory_that_others_have_is_no_reason(monkeypatch):
  def is_full(compute, *arrays):
    raise RuntimeError('RESOURCE_EXHAUSTED: out of memory')

  monkeypatch.setattr(attention, '_problem', lambda *_: None)
  monkeypatch.setitem(attention.KERNELS, 'cpu', {
      'full': lambda *_: altered('forward', is_full),
  })
  attention._fails_on.cache_clear()
  with pytest.raises(RuntimeError, match='RESOURCE_EXHAUSTED'):
    choose('auto', bert.BertConfig(num_heads=3, hidden_size=12),
           sharding.make_mesh(config_lib.MeshConfig()), row_length=16)


@pytest.mark.parametrize(('length', 'is_kernel'), [(4608, True), (4864, False)])
def test_rows_that_turn_out_too_long_are_taken_in_blocks(length, is_kernel):
  """Of a model that may have them, where the row length is not known."""
  shape = bert.BertConfig(attention_dropout=0, max_positions=32768)
  assert choose('auto', shape, V4) == 'Pallas'
  assert choose('auto', shape, V4, row_length=8192) == 'xla'
  array = jax.ShapeDtypeStruct((1, length, 768), jnp.bfloat16)
  ids = jax.ShapeDtypeStruct((1, length), jnp.int32)
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(sharding, 'over_rows', lambda compute, mesh: compute)
    attend = attention._on_mesh('Pallas', 64, V4)
    program = str(jax.make_jaxpr(attend)(array, array, array, ids))
  assert ('range_attention_forward' in program) == is_kernel


def test_a_module_is_made_for_its_mesh():
  spec = dual_encoder.EncoderSpec(BASE)
  make = lambda wanted: model_lib.make_module(
      spec, config_lib.ModelConfig(init='minilm', attention=wanted), 0,
      sharding.make_mesh(config_lib.MeshConfig())
  )
  assert make('auto').attention is None
  with pytest.raises(errors.UserError, match='no such kernel for cpu'):
    make('flash')


def test_other_words_are_refused():
  with pytest.raises(errors.UserError, match='model.attention'):
    config_lib.ModelConfig(init='x', attention='splash')
