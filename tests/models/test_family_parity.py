"""Each family of encoders against transformers: a line of CASES each.

To add a family: a line of CASES with a tiny config of transformers. Everything
below holds for it, on random weights.
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neg_contrast import sharding
from neg_contrast.batches import packing
from neg_contrast.data import sequences as sequences_lib
from neg_contrast.models import (
  blockwise,
  exporting,
  families,
  loading,
  model_card,
  named_sizes,
  pretrained,
  transformer,
)
from neg_contrast.settings import config as config_lib
from tests.models import test_bert, test_roberta_pretrained

torch = pytest.importorskip('torch')
transformers = pytest.importorskip('transformers')


@dataclasses.dataclass(frozen=True)
class Case:
  """A family, and a tiny model of it.

  Attributes:
    config: of transformers, without what `COMMON` has.
    options: of transformers' class.
    renamed: keys of `COMMON` -> theirs.
    pad_id: id of padding.
    sizes: named sizes -> what their config.json has beside transformers'
      defaults, in transformers' own words.
    tokenizer: a kind of `test_roberta_pretrained.write_tokenizer`.
    unused: vectors that ours has more than theirs; below 0: less.
    bfloat16_error: most that activations in bfloat16 change a hidden feature on
      average; features are about 1 in size.
  """

  config: dict[str, Any]
  options: dict[str, Any] = dataclasses.field(default_factory=dict)
  renamed: dict[str, str] = dataclasses.field(default_factory=dict)
  pad_id: int = 0
  sizes: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
  tokenizer: str = 'distilbert'
  unused: int = 0
  bfloat16_error: float = 0.03


COMMON = dict(
    vocab_size=400, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
    intermediate_size=24, max_position_embeddings=40, initializer_range=0.3)
_BERT = dict(options={'add_pooling_layer': False})
CASES = {
    'bert': Case({}, **_BERT, sizes={'bert-base-uncased': {}}),
    'roberta': Case(
        dict(type_vocab_size=1, layer_norm_eps=1e-5, pad_token_id=1), **_BERT,
        pad_id=1, tokenizer='roberta'),
    'distilbert': Case({}, renamed={
        'hidden_size': 'dim', 'num_hidden_layers': 'n_layers',
        'num_attention_heads': 'n_heads', 'intermediate_size': 'hidden_dim',
    }),
    'mpnet': Case(
        dict(pad_token_id=1, layer_norm_eps=1e-5), **_BERT, pad_id=1,
        unused=-2,  # Positions up to that of padding.
        tokenizer='roberta', sizes={'mpnet-base': dict(
            layer_norm_eps=1e-5, max_position_embeddings=514)}),
    # Layers 0 and 3 are global; the others see less than the longest text.
    'modernbert': Case(
        dict(num_hidden_layers=4, local_attention=8, pad_token_id=0,
             norm_bias=True, mlp_bias=True, attention_bias=True),
        tokenizer='modernbert', unused=1,  # The first layer's norm.
        sizes={'modernbert-base': {}, 'modernbert-large': dict(
            hidden_size=1024, num_hidden_layers=28, num_attention_heads=16,
            intermediate_size=2624)}),
    'nomic_bert': Case(
        dict(pad_token_id=0, layer_norm_eps=1e-5), sizes={'nomic-bert': {}}),
    # Heads of 6 features, which are more than 16 together.
    'qwen3': Case(
        dict(num_attention_heads=4, num_key_value_heads=2, head_dim=6,
             rope_theta=500.0, pad_token_id=0),
        sizes={'qwen3-embedding-0.6b': dict(
            vocab_size=151669, hidden_size=1024, num_hidden_layers=28,
            num_attention_heads=16, num_key_value_heads=8, head_dim=128,
            intermediate_size=3072, rope_theta=1e6,
            pad_token_id=0, tie_word_embeddings=True)}),
}
# One a module: what its own arithmetic may break.
OF_ARCHITECTURES = [kind for kind in CASES if kind not in ('roberta',
                                                           'distilbert')]
LENGTHS = (3, 11, 32, 1, 14, 5)
ROW_LENGTH = 40


@dataclasses.dataclass(frozen=True)
class Loaded:
  """A case's reference, and ours, read from the same folder."""

  kind: str
  reference: Any
  folder: Any
  shape: Any
  params: Any
  sequences: Any

  @property
  def case(self) -> Case:
    return CASES[self.kind]

  @functools.cached_property
  def values(self) -> Any:
    return value_and_grads(self)


def write(folder, kind):
  """A folder with random weights and a tokenizer; its reference."""
  case = CASES[kind]
  values = {case.renamed.get(key, key): value
            for key, value in {**COMMON, **case.config}.items()}
  torch.manual_seed(0)
  config = transformers.AutoConfig.for_model(kind, **values)
  reference = transformers.AutoModel.from_config(
      config, attn_implementation='eager', **case.options).eval()
  with torch.no_grad():  # New ones have biases of 0 and scales of 1.
    for parameter in reference.parameters():
      if parameter.ndim == 1:
        parameter += 0.1 * torch.randn_like(parameter)
  reference.save_pretrained(folder)
  test_roberta_pretrained.write_tokenizer(folder, case.tokenizer)
  return reference


@pytest.fixture(scope='module')
def loaded(request, tmp_path_factory):
  folder = tmp_path_factory.mktemp(request.param)
  reference = write(folder, request.param)
  tower = pretrained.load_towers(str(folder))['shared']
  assert tower.transformer.model_type == request.param
  return Loaded(request.param, reference, folder, tower.transformer,
                tower.params, test_bert.random_sequences(
                    vocab=COMMON['vocab_size'], lengths=LENGTHS))


def hidden_states(shape, params, sequences, row_length=ROW_LENGTH, key=None,
                  **options):
  """`[tokens, features]` of all sequences, from packed rows."""
  layout = packing.plan(np.array([len(s) for s in sequences]), 1, row_length)
  batch = packing.fill(layout, sequences_lib.listed(sequences))
  hidden = run(
      shape, tuple(options.items()), params,
      (batch.token_ids[0], batch.segment_ids[0], batch.positions[0]), key,
  ).reshape(-1, shape.hidden_size)
  return jnp.concatenate([hidden[start : start + len(s)] for start, s in zip(
      layout.start, sequences, strict=True)])


@functools.partial(jax.jit, static_argnums=(0, 1))
def run(shape, options, params, arrays, key):
  return transformer.make(shape, **dict(options)).apply(
      {'params': params}, *arrays, key is None,
      rngs=None if key is None else {'dropout': key})


def value_and_grads(loaded, shape=None, params=None, **options):
  """All hidden features, and the gradients of a weighted sum of them."""
  weights = random_weights()

  def loss(params):
    ours = hidden_states(
        shape or loaded.shape, params, loaded.sequences, **options)
    return jnp.sum(ours * weights), ours

  (_, hidden), grads = jax.jit(jax.value_and_grad(loss, has_aux=True))(
      params or loaded.params)
  return np.asarray(hidden), jax.tree.map(np.asarray, grads)


def random_weights():
  return np.random.default_rng(1).normal(
      size=(sum(LENGTHS), COMMON['hidden_size'])).astype(np.float32)


def assert_near(ours, theirs, name=''):
  """To 1e-5 of the largest number, or of 1."""
  scale = max(1.0, np.abs(theirs).max())
  np.testing.assert_allclose(
      ours / scale, theirs / scale, atol=1e-5, err_msg=name)


@pytest.mark.parametrize('loaded', CASES, indirect=True)
def test_values_and_gradients_equal_transformers(loaded):
  ids, mask = test_bert.padded(loaded.sequences)
  states = loaded.reference(ids, attention_mask=mask).last_hidden_state
  theirs = states[mask.bool()]
  (theirs * torch.tensor(random_weights())).sum().backward()
  ours, grads = loaded.values
  np.testing.assert_allclose(ours, theirs.detach(), atol=1e-5)
  assert np.abs(ours).mean() > 0.1
  of_ours = families.FAMILIES[loaded.kind].to_tensors(
      grads, loaded.shape, loaded.case.pad_id)
  compared = 0
  for name, parameter in loaded.reference.named_parameters():
    assert_near(of_ours[name], parameter.grad.numpy(), name)
    compared += np.abs(of_ours[name]).max() > 1e-3
  assert compared > 12


@pytest.mark.parametrize('loaded', OF_ARCHITECTURES, indirect=True)
def test_row_mates_and_padding_change_nothing(loaded):
  together = hidden_states(loaded.shape, loaded.params, loaded.sequences)
  in_rows_of_32 = hidden_states(
      loaded.shape, loaded.params, loaded.sequences, 32)
  np.testing.assert_allclose(in_rows_of_32, together, atol=1e-5)
  alone = [hidden_states(loaded.shape, loaded.params, [sequence])
           for sequence in loaded.sequences]
  np.testing.assert_allclose(np.concatenate(alone), together, atol=1e-5)


@pytest.mark.parametrize('loaded', OF_ARCHITECTURES, indirect=True)
def test_bfloat16_stays_close(loaded):
  exact = hidden_states(loaded.shape, loaded.params, loaded.sequences)
  half = hidden_states(
      loaded.shape, loaded.params, loaded.sequences, dtype=jnp.bfloat16)
  assert half.dtype == jnp.bfloat16
  error = np.abs(np.asarray(half, np.float32) - np.asarray(exact)).mean()
  assert 1e-4 < error < loaded.case.bfloat16_error


@pytest.mark.parametrize('loaded', OF_ARCHITECTURES, indirect=True)
def test_how_the_loop_runs_changes_nothing(loaded):
  """Unrolling, remat and attention by row, with dropout on.

  What remat keeps is chosen in one place for all: `attention` is for two.
  """
  shape = dataclasses.replace(
      loaded.shape, hidden_dropout=0.1, attention_dropout=0.1)
  compute = functools.partial(
      value_and_grads, loaded, shape, key=jax.random.key(0))
  wanted = compute()
  ways = [{'remat': 'full', 'scan_unroll': 2, 'by_row': True}]
  if loaded.kind in ('bert', 'modernbert'):
    ways.append({'remat': 'attention', 'scan_unroll': 2})
  for options in ways:
    jax.tree.map(assert_near, compute(**options), wanted)
  assert np.abs(loaded.values[0] - wanted[0]).mean() > 0.01


@pytest.mark.parametrize(
    'loaded', ['bert', 'modernbert', 'nomic_bert', 'qwen3'], indirect=True)
def test_long_rows_in_blocks_change_nothing(loaded, monkeypatch):
  monkeypatch.setattr(blockwise, '_LONGEST_ROW', 8)
  monkeypatch.setattr(blockwise, '_LEAST_LOCAL', 4)
  run.clear_cache()  # type: ignore[attr-defined]
  jax.tree.map(assert_near, value_and_grads(loaded), loaded.values)
  assert '40,40]' not in str(jax.make_jaxpr(lambda params: hidden_states(
      loaded.shape, params, loaded.sequences))(loaded.params))
  run.clear_cache()  # type: ignore[attr-defined]


@pytest.mark.parametrize('loaded', OF_ARCHITECTURES, indirect=True)
def test_two_devices_along_model_change_nothing(loaded):
  mesh = sharding.make_mesh(config_lib.MeshConfig(model=2), jax.devices()[:2])
  params = sharding.put(
      loaded.params, sharding.parameter_shardings(loaded.params, mesh))
  kernel = params['layers']['attention']['query']['kernel']
  assert kernel.addressable_shards[0].data.shape[2] == kernel.shape[2] // 2
  jax.tree.map(
      assert_near, value_and_grads(loaded, params=params), loaded.values)


def load(folder, **settings):
  return loading.from_pretrained(str(folder), config_lib.ModelConfig(
      init='x', query_length=12, passage_length=20, **settings), 0)


@pytest.mark.parametrize('loaded', CASES, indirect=True)
def test_export_is_read_by_transformers_and_sentence_transformers(
    loaded, tmp_path
):
  st = pytest.importorskip('sentence_transformers')
  model = load(loaded.folder, pooling='mean')
  exporting.write_model(model, tmp_path, model_card.model_card(
      model, model_card.Facts('tiny', source='x')))
  again = load(tmp_path)
  assert (again.spec, again.text) == (model.spec, model.text)
  jax.tree.map(np.testing.assert_array_equal, again.params, model.params)
  theirs, info = transformers.AutoModel.from_pretrained(
      tmp_path, output_loading_info=True, **loaded.case.options)
  assert type(theirs) is type(loaded.reference)
  assert not info['missing_keys'] and not info['mismatched_keys']
  ids, mask = test_bert.padded(loaded.sequences)
  with torch.no_grad():
    states = [reference.eval()(ids, attention_mask=mask).last_hidden_state
              for reference in (theirs, loaded.reference)]
  np.testing.assert_allclose(*(s[mask.bool()] for s in states), atol=1e-5)
  pairs = test_roberta_pretrained.TITLED
  embedded = st.SentenceTransformer(str(tmp_path), device='cpu').encode([
      exporting.passage_text(*pair, model.tokenizer.separator)
      for pair in pairs])
  ours = exporting.embed(model, 'passage', pairs)
  np.testing.assert_allclose(ours, embedded, atol=1e-5)
  assert np.abs(ours).max() > 0.1


@pytest.mark.parametrize(('kind', 'name'), [
    (kind, name) for kind, case in CASES.items() for name in case.sizes])
def test_named_sizes_are_those_of_transformers(kind, name):
  """Fields, number of weights, and shardings, as `--compile_only` needs."""
  shape = named_sizes.shape_by_name(f'random:{name}', 'encoder')
  config = transformers.AutoConfig.for_model(kind, **CASES[kind].sizes[name])
  family = families.FAMILIES[kind]
  ours = transformers.AutoConfig.for_model(**family.to_json(
      shape, config.pad_token_id)).to_dict()
  different = {key for key, value in config.to_dict().items()
               if ours.get(key) != value}
  assert not {key for key in different if not key.endswith(
      ('architectures', 'dtype', '_token_id'))}, different
  tokens = jnp.zeros((1, 8), jnp.int32)
  params = jax.eval_shape(lambda: transformer.make(shape).init(
      jax.random.key(0), tokens, tokens, tokens, True))['params']
  with torch.device('meta'):
    theirs = transformers.AutoModel.from_config(config, **CASES[kind].options)
  count = sum(leaf.size for leaf in jax.tree.leaves(params))
  assert count - CASES[kind].unused * shape.hidden_size == sum(
      p.numel() for p in theirs.parameters())
  mesh = sharding.make_mesh(config_lib.MeshConfig(model=2))
  sharding.parameter_shardings(params, mesh)
