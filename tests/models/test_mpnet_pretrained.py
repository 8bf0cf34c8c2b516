"""MPNet folders against transformers and sentence-transformers."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tokenizers
from tokenizers import models, normalizers, pre_tokenizers, processors

from neg_contrast import errors, sharding
from neg_contrast.data import tokenized
from neg_contrast.data import tokenizer as tokenizer_lib
from neg_contrast.models import (
  attention,
  dual_encoder,
  exporting,
  families,
  loading,
  model_card,
  mpnet,
  named_sizes,
  pretrained,
  transformer,
)
from neg_contrast.settings import config as config_lib
from tests import tiny
from tests.models import test_bert

torch = pytest.importorskip('torch')
transformers = pytest.importorskip('transformers')

TEXTS = ['How tall is the Eiffel Tower?', 'naïve café — “quotes” 日本語', '']
TITLED = [('Eiffel Tower', 'It is 330 metres tall.'), ('', 'No title.'),
          ('Only a title', ''), (' ', 'A blank title.')]
LENGTHS = 3, 40, 17, 1, 34, 5
"""Some distances share a bucket: those from 8 on."""


def write_tokenizer(folder):
  """A WordPiece with RoBERTa's template, as all-mpnet-base-v2 has it."""
  backend = tokenizers.Tokenizer(models.WordPiece(unk_token='[UNK]'))
  backend.normalizer = normalizers.BertNormalizer()
  backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
  tiny.fill_vocabulary(
      backend, [*TEXTS, *map(' '.join, TITLED)],
      ['<s>', '<pad>', '</s>', '[UNK]', '<mask>'], size=200)
  backend.post_processor = processors.RobertaProcessing(
      ('</s>', 2), ('<s>', 0), add_prefix_space=False)
  backend.save(str(folder / 'tokenizer.json'))
  return backend


@pytest.fixture(scope='module')
def source(tmp_path_factory):
  """A folder with random weights, and its reference."""
  folder = tmp_path_factory.mktemp('mpnet')
  torch.manual_seed(0)
  reference = transformers.MPNetModel(transformers.MPNetConfig(
      vocab_size=210, hidden_size=16, num_hidden_layers=2,
      num_attention_heads=2, intermediate_size=24, max_position_embeddings=42,
      initializer_range=0.3, layer_norm_eps=1e-5,
  ), add_pooling_layer=False).eval()
  with torch.no_grad():  # New ones have biases of 0 and scales of 1.
    for parameter in reference.parameters():
      if parameter.ndim == 1:
        parameter += 0.1 * torch.randn_like(parameter)
    # Else relative positions would hardly be felt.
    reference.encoder.relative_attention_bias.weight *= 5
  reference.save_pretrained(folder)
  write_tokenizer(folder)
  return folder, reference


def load(folder, **settings):
  return loading.from_pretrained(str(folder), config_lib.ModelConfig(
      init='x', query_length=12, passage_length=20,
      **{'pooling': 'mean', **settings}), 0)


def weighted(config, sequences, row_length, weights, **options):
  """A function of parameters: a weighted sum of all features, and these."""

  def loss(params):
    tokens = jnp.concatenate(test_bert.packed_tokens(
        config, params, sequences, row_length, **options))
    return jnp.sum(tokens * weights), tokens

  return loss


def test_tokens_and_gradients_equal_transformers(source):
  folder, reference = source
  tower = pretrained.load_towers(str(folder))['shared']
  config = tower.transformer
  assert config == mpnet.MPNetConfig(
      vocab_size=210, hidden_size=16, num_layers=2, num_heads=2,
      intermediate_size=24, max_positions=40, initializer_range=0.3)
  sequences = test_bert.random_sequences(lengths=LENGTHS)
  weights = np.random.default_rng(1).normal(
      size=(sum(LENGTHS), 16)).astype('f')
  ids, mask = test_bert.padded(sequences)
  reference.zero_grad()
  theirs = reference(ids, attention_mask=mask).last_hidden_state[mask.bool()]
  (theirs * torch.tensor(weights)).sum().backward()

  def check(row_length, **options):
    loss = weighted(config, sequences, row_length, weights, **options)
    (_, ours), grads = jax.jit(jax.value_and_grad(loss, has_aux=True))(
        tower.params)
    np.testing.assert_allclose(ours, theirs.detach(), atol=1e-5)
    of_ours = families.FAMILIES['mpnet'].to_tensors(
        jax.tree.map(np.asarray, grads), config, 1)
    for name, parameter in reference.named_parameters():
      want = parameter.grad.numpy()
      scale = max(1.0, np.abs(want).max())
      np.testing.assert_allclose(of_ours[name] / scale, want / scale,
                                 atol=1e-5, err_msg=f'{options} {name}')
    assert np.abs(of_ours['encoder.relative_attention_bias.weight']).max() > 0.1

  check(48)  # Several texts share a row.
  check(100, remat='full', scan_unroll=2)
  check(100, remat='attention')


def test_attention_by_row_is_attention(source):
  """It is what trains on CPUs: values, gradients and dropout masks."""
  folder, _ = source
  tower = pretrained.load_towers(str(folder))['shared']
  config = dataclasses.replace(
      tower.transformer, attention_dropout=0.3, hidden_dropout=0.2)
  rng = np.random.default_rng(0)
  ids = rng.integers(5, 200, (3, 24)).astype(np.int32)
  segments = np.repeat([[1, 2, 0]], 3, 0).repeat(8, 1).astype(np.int32)
  positions = np.tile(np.arange(8, dtype=np.int32), (3, 3))

  def value_and_grads(by_row):
    def loss(params):
      hidden = transformer.make(config, by_row=by_row).apply(
          {'params': params}, ids, segments, positions, False,
          rngs={'dropout': jax.random.key(3)})
      return jnp.sum(jnp.square(hidden[..., :5])), hidden

    return jax.jit(jax.value_and_grad(loss, has_aux=True))(tower.params)

  jax.tree.map(
      lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4),
      value_and_grads(True), value_and_grads(False))


def test_tokens_are_those_of_the_template(source):
  folder, _ = source
  backend = tokenizers.Tokenizer.from_file(str(folder / 'tokenizer.json'))
  texts = tokenized.tokenize_in_memory(
      [*(('', text) for text in TEXTS), *TITLED],
      tokenizer_lib.load_tokenizer(str(folder)), 200, '')
  built = [ids.tolist() for ids in texts.tokens(np.arange(len(texts.store)))]
  assert built == [
      *(backend.encode(text).ids for text in TEXTS),
      *((backend.encode(title, text) if title.strip()
         else backend.encode(text)).ids for title, text in TITLED)]


def test_exported_equals_sentence_transformers(source, tmp_path):
  st = pytest.importorskip('sentence_transformers')
  model = load(source[0])
  exporting.write_model(model, tmp_path, model_card.model_card(
      model, model_card.Facts('tiny', source='x')))
  again = load(tmp_path, pooling=None)
  assert (again.spec, again.text) == (model.spec, model.text)
  assert dual_encoder.EncoderSpec.from_json(json.loads(json.dumps(
      model.spec.to_json()))) == model.spec
  jax.tree.map(np.testing.assert_array_equal, again.params, model.params)
  theirs = st.SentenceTransformer(str(tmp_path), device='cpu').encode([
      exporting.passage_text(*pair, model.tokenizer.separator)
      for pair in TITLED])
  ours = exporting.embed(model, 'passage', TITLED)
  np.testing.assert_allclose(ours, theirs, atol=1e-5)
  assert np.abs(ours).max() > 0.1
  loaded, report = transformers.MPNetModel.from_pretrained(
      tmp_path, output_loading_info=True)
  assert not any(report.values())
  ids, mask = test_bert.padded(test_bert.random_sequences(lengths=(9, 30)))
  with torch.no_grad():
    np.testing.assert_array_equal(*(
        one.eval()(ids, attention_mask=mask).last_hidden_state
        for one in (loaded, source[1])))


def test_the_weights_of_a_masked_language_model(source, tmp_path):
  """Such as microsoft/mpnet-base: names begin with `mpnet.`."""
  torch.manual_seed(1)
  whole = transformers.MPNetForMaskedLM(source[1].config)
  whole.save_pretrained(tmp_path)
  params = pretrained.load_towers(str(tmp_path))['shared'].params
  np.testing.assert_array_equal(
      params['relative_bias']['embedding'],
      whole.mpnet.encoder.relative_attention_bias.weight.detach())


def test_a_random_one():
  size = named_sizes.shape_by_name('random:mpnet-base', 'encoder')
  count = sum(leaf.size for leaf in jax.tree.leaves(loading.shape_of(
      dual_encoder.EncoderSpec(size))))
  with torch.device('meta'):
    reference = transformers.MPNetModel(
        transformers.MPNetConfig(), add_pooling_layer=False)
  assert count == sum(p.numel() for p in reference.parameters())


@pytest.mark.parametrize('values, problem', [
    ({'relative_attention_num_buckets': 16}, 'buckets=16, and an MPNet has 32'),
    ({'max_position_embeddings': 2}, 'embeddings=2 leaves no positions'),
    ({'hidden_act': 'mish'}, "hidden_act='mish' is not one of gelu"),
])
def test_what_is_refused(source, tmp_path, values, problem):
  own = json.loads((source[0] / 'config.json').read_text())
  (tmp_path / 'config.json').write_text(json.dumps({**own, **values}))
  with pytest.raises(errors.UserError, match=problem):
    pretrained.load_towers(str(tmp_path))


def test_the_kernels_are_refused():
  with pytest.raises(errors.UserError, match='flash: an MPNet adds relative'):
    attention.choose(mpnet.MPNetConfig(), 'flash', 0, jnp.float32,
                     sharding.make_mesh(config_lib.MeshConfig()), False)
