"""Adapters as arithmetic, and in the layout of peft, on every family."""

import dataclasses

import flax.traverse_util
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neg_contrast.models import (
  dual_encoder,
  families,
  lora,
  peft_folder,
  pretrained,
)
from tests import tiny
from tests.models import test_family_parity as parity
from tests.models import test_t5_encoder


def make_towers(names=('shared',)):
  spec = dual_encoder.EncoderSpec(tiny.bert_config())
  params = dual_encoder.init_params(spec, jax.random.key(0))['shared']
  return {name: params for name in names}


def drawn(adapters, towers, seed=0):
  """Trained adapters: B is not zero."""
  rng = np.random.default_rng(seed)
  return jax.tree.map(
      lambda leaf: rng.normal(size=leaf.shape).astype(np.float32),
      adapters.init(towers, jax.random.key(seed)))


@pytest.fixture(scope='module')
def towers():
  return make_towers()


def test_a_merged_kernel_is_the_papers_sum(towers):
  adapters = lora.Adapters(rank=3, alpha=6.0)
  assert adapters.scale == 2
  trained = drawn(adapters, towers)
  merged = adapters.merge(trained, adapters.frozen(towers))
  before, after = (flax.traverse_util.flatten_dict(tree)
                   for tree in (towers, merged))
  own = flax.traverse_util.flatten_dict(trained)
  changed = set()
  for path, kernel in before.items():
    if (*path[:-1], lora.A) in own and path[-1] == lora.KERNEL:
      changed.add(path[-2])
      a, b = own[*path[:-1], lora.A], own[*path[:-1], lora.B]
      for layer in range(2):
        rows = np.random.default_rng(1).normal(size=(5, 16))
        wanted = rows @ kernel[layer] + 2.0 * (rows @ a[layer]) @ b[layer]
        np.testing.assert_allclose(
            rows @ after[path][layer], wanted, atol=1e-4)
    else:
      np.testing.assert_array_equal(after[path], kernel)
  assert changed == {'query', 'value'}


def test_at_first_nothing_is_changed(towers):
  adapters = lora.Adapters(rank=4, targets=('all',))
  trained = adapters.init(towers, jax.random.key(0))
  merged = adapters.merge(trained, adapters.frozen(towers))
  jax.tree.map(np.testing.assert_array_equal, merged, towers)
  a = trained['shared']['bert']['layers']['intermediate'][lora.A]
  assert a.shape == (2, 16, 4) and np.abs(a).max() <= 16**-0.5
  assert np.std(a) == pytest.approx(16**-0.5 / 3**0.5, rel=0.15)
  assert not trained['shared']['bert']['layers']['intermediate'][lora.B].any()


def test_gradients_are_those_of_a_and_b(towers):
  """By the chain rule: dA = s G B', dB = s A' G, of a linear loss."""
  adapters = lora.Adapters(rank=2, alpha=3.0, targets=('attention/output',))
  trained = drawn(adapters, towers)
  rng = np.random.default_rng(2)
  weights = rng.normal(size=(2, 16, 16)).astype(np.float32)
  pick = lambda tree: tree['shared']['bert']['layers']['attention']['output']
  grads = pick(jax.grad(lambda trained: jnp.sum(weights * pick(
      adapters.merge(trained, adapters.frozen(towers)))[lora.KERNEL]))(trained))
  own = pick(trained)
  for layer in range(2):
    np.testing.assert_allclose(
        grads[lora.A][layer], 1.5 * weights[layer] @ own[lora.B][layer].T,
        rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(
        grads[lora.B][layer], 1.5 * own[lora.A][layer].T @ weights[layer],
        rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(('targets', 'count'), [
    (('query', 'value'), 2), (('attention/*',), 4), (('output',), 2),
    (('attention/output',), 1), (('all',), 6), (('query', 'query'), 1)])
def test_targets_are_ends_of_names(towers, targets, count):
  paths = lora.Adapters(rank=1, targets=targets).paths(towers['shared'])
  assert len(paths) == count


def test_a_target_that_matches_nothing_names_what_there_is(towers):
  with pytest.raises(ValueError, match="'q_proj' matches no kernel of this "
                     'model; it has layers/attention/key, layers/attention/'
                     'output, layers/attention/query, layers/attention/value, '
                     "layers/intermediate, layers/output; 'all' is all"):
    lora.Adapters(rank=1, targets=('query', 'q_proj')).paths(towers['shared'])
  with pytest.raises(ValueError, match='above 16, the rank of .*query'):
    lora.Adapters(rank=17).check(towers)


def test_towers_apart_have_adapters_apart():
  towers = make_towers(('query', 'passage'))
  adapters = lora.Adapters(rank=2, frozen_tower='passage')
  trained = adapters.init(towers, jax.random.key(0))
  assert trained['passage'] == {}
  both = dataclasses.replace(adapters, frozen_tower='').init(
      towers, jax.random.key(0))
  a_of = lambda name: both[name]['bert']['layers']['attention']['query'][lora.A]
  assert not np.allclose(a_of('query'), a_of('passage'))
  merged = adapters.merge(drawn(adapters, towers), adapters.frozen(towers))
  jax.tree.map(np.testing.assert_array_equal, merged['passage'],
               towers['passage'])


def test_frozen_kernels_may_take_half_the_bytes(towers):
  adapters = lora.Adapters(rank=2, frozen_dtype='bfloat16')
  frozen = adapters.frozen(towers)['shared']['bert']
  assert frozen['layers']['attention']['query']['kernel'].dtype == jnp.bfloat16
  assert frozen['layers']['attention']['query']['bias'].dtype == jnp.float32
  assert frozen['embeddings']['word']['embedding'].dtype == jnp.float32
  merged = adapters.merge(
      adapters.init(towers, jax.random.key(0)), adapters.frozen(towers))
  query = merged['shared']['bert']['layers']['attention']['query']
  assert query['kernel'].dtype == jnp.float32
  assert adapters.describe(towers) == ', LoRA of rank 2: 256 trained'
  assert lora.OFF.describe(towers) == ''
  assert lora.OFF.trained_part(towers) == 1
  assert adapters.trained_part(towers) == pytest.approx(
      2 * 256 / (4 * 256 + 2 * 16 * 24))


def test_hashes_know_names_and_values():
  tree = {'a': {'b': np.ones(3)}, 'c': np.zeros(2)}
  again = {'c': np.zeros(2), 'a': {'b': jnp.ones(3)}}
  assert lora.hash_of(tree) == lora.hash_of(again)
  for other in ({**tree, 'c': np.array([0, 1e-7])}, {'a': tree['a']},
                {'a': {'d': np.ones(3)}, 'c': np.zeros(2)}):
    assert lora.hash_of(tree) != lora.hash_of(other)


def write(folder, kind):
  """A folder with random weights; its reference in transformers."""
  if kind == 't5_encoder':
    return test_t5_encoder.write(folder, feed_forward_proj='gated-gelu')
  return parity.write(folder, kind)


@pytest.mark.parametrize('kind', [*parity.CASES, 't5_encoder'])
@pytest.mark.parametrize('targets', [('query', 'value'), ('all',)])
def test_the_layout_of_peft_says_the_same(kind, targets, tmp_path):
  """Its formula on transformers' weights gives what we merge, and back."""
  torch = pytest.importorskip('torch')
  reference = write(tmp_path, kind)
  source = pretrained.load_towers(str(tmp_path))['shared']
  towers = {'shared': {'bert': source.params}}
  adapters = lora.Adapters(rank=2, alpha=5.0, targets=targets)
  trained = drawn(adapters, towers)['shared']
  config, tensors = peft_folder.of_tower(
      adapters, trained, towers['shared'], source.transformer)
  merged = adapters.merge_tower(
      trained, adapters.frozen(towers)['shared'])['bert']
  to_tensors = families.FAMILIES[kind].to_tensors
  assert to_tensors
  wanted = to_tensors(
      jax.tree.map(np.asarray, merged), source.transformer, 0)
  adapted, unlike = set(), set(tensors)
  for name, module in reference.named_modules():
    place = f'base_model.model.{name}'
    names = [f'{place}.lora_{one}.weight' for one in 'AB']
    # As peft chooses: by the end of a name.
    is_target = any(f'.{name}'.endswith(f'.{target}')
                    for target in config['target_modules'])
    assert is_target == (names[0] in tensors), name
    if not is_target:
      continue
    a, b = (tensors[one] for one in names)
    unlike -= set(names)
    assert isinstance(module, torch.nn.Linear)
    assert a.shape == (len(a), module.in_features)
    assert b.shape == (module.out_features, len(a))
    assert len(a) == config['rank_pattern'].get(name, 2)
    scale = config['alpha_pattern'].get(name, 5) / len(a)
    np.testing.assert_allclose(
        module.weight.detach().numpy() + scale * b @ a,
        wanted[f'{name}.weight'], atol=1e-4, err_msg=name)
    adapted.add(name)
  assert adapted and not unlike
