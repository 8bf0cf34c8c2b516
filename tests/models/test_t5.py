"""T5 against transformers: logits and gradients; packing changes nothing."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neg_contrast.models import (
  pretrained,
  relative_positions,
  t5,
  t5_config,
  t5_layers,
  t5_pretrained,
)

torch = pytest.importorskip('torch')
transformers = pytest.importorskip('transformers')
torch.set_num_threads(1)  # Threads cost more than they gain on what is small.

# Unequal dimensions; heads * d_kv is not d_model; sequences below reach into
# the shared buckets.
SHAPES = dict(vocab_size=41, d_model=18, d_kv=5, d_ff=23, num_layers=2,
              num_decoder_layers=3, num_heads=4,
              relative_attention_num_buckets=8,
              relative_attention_max_distance=13)
VERSIONS = {
    'v1.0': dict(feed_forward_proj='relu', tie_word_embeddings=True),
    'v1.0 untied': dict(feed_forward_proj='relu', untied=True),
    'v1.1': dict(feed_forward_proj='gated-gelu', tie_word_embeddings=False,
                 untied=True),
    'v1.1 tied, not scaled': dict(feed_forward_proj='gated-gelu',
                                  tie_word_embeddings=False),
}
# Programs here are small: compiling them takes longer than running them.
jit = functools.partial(jax.jit, compiler_options={
    'xla_backend_optimization_level': 0,
    'xla_llvm_disable_expensive_passes': True,
})


def make_reference(folder, seed=0, untied=False, model='T5', **kwargs):
  """Saves a random model of transformers, and gives it back."""
  config = getattr(transformers, f'{model}Config')(**{
      'decoder_start_token_id': 0, **SHAPES, **kwargs})
  torch.manual_seed(seed)
  reference = getattr(transformers, f'{model}ForConditionalGeneration')(config)
  reference.generation_config.decoder_start_token_id = 0
  reference.set_attn_implementation('eager')
  if untied:
    reference.lm_head.weight = torch.nn.Parameter(
        torch.randn(config.vocab_size, config.d_model) * 0.4)
    reference.all_tied_weights_keys.pop('lm_head.weight')
  with torch.no_grad():
    for name, weight in reference.named_parameters():
      if name.endswith('norm.weight'):
        weight.copy_(1 + 0.3 * torch.randn_like(weight))
      if name.endswith('SelfAttention.q.weight'):  # Peaked attention.
        weight.mul_(2)
  reference.save_pretrained(folder)
  return reference.eval()


@functools.cache
def random_t5(gated=True, tied=True, **kwargs):
  """A config and parameters without a reference; no two are the same."""
  config = t5_config.T5Config(
      vocab_size=41, d_model=18, d_kv=5, d_ff=23, num_layers=2,
      num_decoder_layers=3, num_heads=4, relative_buckets=8,
      relative_max_distance=13, gated=gated, tie_embeddings=tied,
      activation='gelu_new' if gated else 'relu', dropout=0.1, **kwargs)
  rng = np.random.default_rng(3)

  def draw(path, leaf):
    kind = path[-1].key
    spread = leaf.shape[-2] ** -0.5 if kind == 'kernel' else 1
    values = rng.normal(size=leaf.shape) * spread + (kind == 'scale')
    return jnp.asarray(values, leaf.dtype)

  return config, jax.tree_util.tree_map_with_path(draw, t5.shape_of(config))


def pairs(seed=0, lengths=((3, 7), (19, 1), (1, 12), (8, 17), (5, 4))):
  """Sources and targets of several lengths."""
  rng = np.random.default_rng(seed)
  draw = lambda n: rng.integers(2, 41, n).astype(np.int32)
  return [(draw(m), draw(n)) for m, n in lengths]


def padded(sequences, width=None):
  """A row each, and their segment ids."""
  width = width or max(map(len, sequences))
  ids = np.zeros((len(sequences), width), np.int32)
  segment_ids = np.zeros_like(ids)
  for i, sequence in enumerate(sequences):
    ids[i, :len(sequence)], segment_ids[i, :len(sequence)] = sequence, 1
  return ids, segment_ids


def assert_close(got, want, name=''):
  """To 1e-5 of the greatest entry, or of 1."""
  scale = max(1.0, np.abs(want).max())
  np.testing.assert_allclose(got / scale, want / scale, atol=1e-5, rtol=0,
                             err_msg=name)


@functools.partial(jit, static_argnums=0)
def logits_of(module, params, batch):
  return module.apply({'params': params}, *batch, True)


@pytest.mark.parametrize('version', VERSIONS)
def test_logits_and_gradients_equal_transformers(tmp_path, version):
  reference = make_reference(tmp_path, **VERSIONS[version])
  loaded = pretrained.load_t5(str(tmp_path))
  assert loaded.config.tie_embeddings == ('untied' not in VERSIONS[version])
  assert loaded.config.is_head_scaled == (
      VERSIONS[version].get('tie_word_embeddings') is not False)
  source, target = (padded(list(s)) for s in zip(*pairs(), strict=True))
  weights = np.random.default_rng(1).normal(
      size=(*target[0].shape, 41)).astype(np.float32)
  weights *= target[1][..., None]
  as_torch = lambda x: torch.tensor(x, dtype=torch.long)
  theirs = reference(
      input_ids=as_torch(source[0]), attention_mask=as_torch(source[1]),
      decoder_input_ids=as_torch(target[0]),
      decoder_attention_mask=as_torch(target[1]),
  ).logits
  (theirs * torch.tensor(weights)).sum().backward()

  @jit
  @functools.partial(jax.value_and_grad, has_aux=True)
  def loss(params):
    ours = t5.T5(loaded.config).apply(
        {'params': params}, *source, *target, True)
    return jnp.sum(ours * weights), ours

  (_, ours), grads = loss(loaded.params)
  assert ours.dtype == jnp.float32
  is_token = target[1] > 0
  assert_close(ours[is_token], theirs.detach().numpy()[is_token])
  ours = t5_pretrained.to_t5_state(loaded.config, grads)
  names = dict(reference.named_parameters())
  assert names.keys() == ours.keys()
  for name, weight in names.items():
    want = weight.grad.numpy()
    assert np.abs(want).max() > 1e-3, name
    assert_close(ours[name], want, name)


@pytest.mark.parametrize('is_decoder', [False, True])
def test_buckets_equal_transformers(is_decoder):
  attention = transformers.models.t5.modeling_t5.T5Attention
  for buckets, distance in ((32, 128), (8, 13), (64, 200), (4, 20), (6, 9)):
    ours = relative_positions.buckets(
        700, 600, buckets, distance, is_decoder)
    theirs = attention._relative_position_bucket(
        torch.arange(-699, 600), bidirectional=not is_decoder,
        num_buckets=buckets, max_distance=distance)
    np.testing.assert_array_equal(ours, theirs)


def pack(sequences, rows, width):
  """Sequences into the rows they are given for, some padding between them."""
  ids = np.zeros((max(rows) + 1, width), np.int32)
  segment_ids = np.zeros_like(ids)
  place, number, starts = [1] * len(ids), [1] * len(ids), []
  for row, sequence in zip(rows, sequences, strict=True):
    at = slice(place[row], place[row] + len(sequence))
    ids[row, at], segment_ids[row, at] = sequence, number[row]
    starts.append((row, at))
    place[row], number[row] = at.stop + len(sequence) % 2, number[row] + 1
  return ids, segment_ids, starts


@pytest.mark.parametrize('gated', [False, True])
def test_packing_and_padding_change_nothing(gated):
  config, params = random_t5(gated)
  apply = functools.partial(logits_of, t5.T5(config, jnp.float64), params)
  sources, targets = zip(*pairs(), strict=True)
  rows = [0, 1, 0, 1, 0]
  source, source_segments, _ = pack(sources, rows, 34)
  target, target_segments, starts = pack(targets, rows, 29)
  with jax.enable_x64(True):  # Rows of other lengths round otherwise.
    together = apply((source, source_segments, target, target_segments))
    alone = apply((*padded(sources), *padded(targets)))
  for i, (row, at) in enumerate(starts):
    np.testing.assert_allclose(
        together[row, at], alone[i, :len(targets[i])], atol=1e-6)


def test_later_tokens_and_other_sources_are_not_seen():
  """Each source token is seen from every target token, later ones are not."""
  config, params = random_t5()
  source, target = (padded(list(s)) for s in zip(*pairs()[3:4], strict=True))
  embed = params['embeddings']['word']['embedding']

  def of(source_shift, target_shift):
    module = t5.T5(config)
    shifted = {**params, 'embeddings': {'word': {'embedding': jnp.concatenate(
        [embed, embed[source[0][0]] + source_shift,
         embed[target[0][0]] + target_shift])}}}
    wide = dataclasses.replace(config, vocab_size=len(embed) + 25)
    ids = np.arange(len(embed), len(embed) + 25, dtype=np.int32)
    out = module.clone(config=wide).apply(
        {'params': shifted}, ids[None, :8], source[1], ids[None, 8:],
        target[1], True)
    return out[0, :, :41].sum(-1)

  zeros = jnp.zeros((8, 18)), jnp.zeros((17, 18))
  by_source, by_target = jit(jax.jacobian(of, (0, 1)))(*zeros)
  assert (np.abs(by_source).max(-1) > 1e-7).all()
  seen = np.abs(by_target).max(-1) > 1e-7
  np.testing.assert_array_equal(seen, np.tril(np.ones((17, 17), bool)))


def test_unrolling_and_remat_change_nothing():
  config, params = random_t5()
  source, target = (padded(list(s)) for s in zip(*pairs(2), strict=True))

  def value_and_grads(**kwargs):
    module = t5.T5(config, **kwargs)
    return jit(jax.value_and_grad(lambda p: module.apply(
        {'params': p}, *source, *target, False,
        rngs={'dropout': jax.random.key(1)},
    )[..., :5].sum()))(params)

  want = value_and_grads()
  for kwargs in ({'remat': 'attention', 'scan_unroll': 2}, {'remat': 'full'}):
    jax.tree.map(assert_close, value_and_grads(**kwargs), want)


def test_bfloat16_stays_close():
  config, params = random_t5()
  source, target = (padded(list(s)) for s in zip(*pairs(2), strict=True))
  exact = logits_of(t5.T5(config), params, (*source, *target))
  half = logits_of(t5.T5(config, jnp.bfloat16), params, (*source, *target))
  assert half.dtype == jnp.float32
  is_token = target[1] > 0
  error = np.abs(half - exact)[is_token] / np.abs(exact)[is_token].mean()
  assert 1e-5 < error.mean() < 0.03


def test_dropout_is_where_the_reference_has_it(tmp_path, monkeypatch):
  """Every mask scales by 2 and keeps all: as the reference's, replaced so.

  Where a mask is, how often and how wide, shows in the result.
  """
  reference = make_reference(
      tmp_path, dropout_rate=0.5, feed_forward_proj='gated-gelu')
  loaded = pretrained.load_t5(str(tmp_path))
  assert loaded.config.dropout == 0.5
  source, target = (padded(list(s)) for s in zip(*pairs(), strict=True))
  monkeypatch.setattr(t5_layers.layers.Dropped, '__call__',
                      lambda self, x, first=0: x / (1 - self.rate))
  monkeypatch.setattr(torch.nn.functional, 'dropout',
                      lambda x, p, training, inplace=False:
                      x / (1 - p) if training else x)
  as_torch = lambda x: torch.tensor(x, dtype=torch.long)
  with torch.no_grad():
    theirs = reference.train()(
        input_ids=as_torch(source[0]), attention_mask=as_torch(source[1]),
        decoder_input_ids=as_torch(target[0])).logits.numpy()
  ours = jit(lambda params: t5.T5(loaded.config).apply(
      {'params': params}, *source, *target, False,
      rngs={'dropout': jax.random.key(0)}))(loaded.params)
  is_token = target[1] > 0
  assert_close(ours[is_token], theirs[is_token])


def test_dropout_draws_anew():
  config, params = random_t5()
  source, target = (padded(list(s)) for s in zip(*pairs(), strict=True))
  draw = jit(lambda key: t5.T5(config).apply(
      {'params': params}, *source, *target, False,
      rngs={'dropout': jax.random.key(key)}))
  first, again, other = draw(0), draw(0), draw(1)
  np.testing.assert_array_equal(first, again)
  assert np.abs(first - other)[target[1] > 0].max() > 1e-2


def test_random_weights_are_spread_as_in_transformers():
  config = t5_config.T5Config(
      vocab_size=300, d_model=96, d_kv=24, d_ff=160, num_layers=2,
      num_decoder_layers=2, num_heads=8, initializer_factor=0.7, gated=True,
      tie_embeddings=False)
  reference = transformers.T5ForConditionalGeneration(transformers.T5Config(
      vocab_size=300, d_model=96, d_kv=24, d_ff=160, num_layers=2, num_heads=8,
      initializer_factor=0.7, feed_forward_proj='gated-relu'))
  ours = t5_pretrained.to_t5_state(
      config, jit(functools.partial(t5.init_params, config))(jax.random.key(0)))
  spread = lambda x: float(np.sqrt(np.mean(np.square(x))))
  head = ours.pop('lm_head.weight')
  assert abs(spread(head) * 96**0.5 / 0.7 - 1) < 0.05
  for name, weight in reference.named_parameters():
    want = spread(weight.detach().numpy())
    assert abs(spread(ours[name]) / want - 1) < 0.25, name


@pytest.mark.parametrize('name,value', [
    ('vocab_size', 0), ('num_heads', 0), ('relative_buckets', 7),
    ('relative_max_distance', 16), ('dropout', 1.0), ('layer_norm_eps', 0.0),
    ('initializer_factor', -1.0), ('activation', 'swish'), ('pad_id', -1),
    ('eos_id', 32128), ('decoder_start_id', 99_999),
])
def test_ranges(name, value):
  with pytest.raises(ValueError, match=f'^{name}={value!r}'):
    t5_config.T5Config(**{name: value})


def test_sizes_have_the_parameters_they_are_known_for():
  millions = {
      name: sum(leaf.size for leaf in jax.tree.leaves(t5.shape_of(config)))
      / 1e6 for name, config in t5_config.T5_SIZES.items()
  }
  assert {name: round(count, 1) for name, count in millions.items()} == {
      't5-small': 60.5, 't5-base': 222.9, 't5-large': 737.7,
      't5-v1_1-small': 77.0, 't5-v1_1-base': 247.6, 't5-v1_1-large': 783.2,
      't5-v1_1-xl': 2849.8, 'flan-t5-xl': 2849.8, 't5-tiny': 12.5}
