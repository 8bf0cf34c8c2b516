"""Modules of sentence-transformers folders: any number of Dense layers."""

import json
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.batches import packing
from neg_contrast.data import tokenized
from neg_contrast.models import (
  dual_encoder,
  exporting,
  loading,
  model_card,
  pretrained,
  projections,
)
from neg_contrast.settings import config as config_lib
from tests import tiny

torch = pytest.importorskip('torch')
transformers = pytest.importorskip('transformers')
st = pytest.importorskip('sentence_transformers')

NAMES = ('Identity', 'Tanh', 'ReLU', 'GELU', 'SiLU', 'Sigmoid', 'LeakyReLU',
         'ELU')
PROBES = [('', 'word1 word2'), ('', 'word3'), ('word4', 'word5 word6 ' * 20),
          ('', '')]
ALL = tuple(projections.Projection(9 + i % 3, bool(i % 2), name)
            for i, name in enumerate(projections.ACTIVATIONS))


@pytest.fixture(scope='module')
def theirs(tmp_path_factory):
  """Their model of one Dense layer an activation, and its folder."""
  from sentence_transformers import models as modules

  folder = tmp_path_factory.mktemp('dense')
  tiny.write_model(folder / 'bert')
  vocab = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', *tiny.WORDS]
  (folder / 'vocab.txt').write_text('\n'.join(vocab))
  transformers.BertModel.from_pretrained(folder / 'bert').save_pretrained(
      folder / 'hf')
  transformers.BertTokenizer(str(folder / 'vocab.txt')).save_pretrained(
      folder / 'hf')
  torch.manual_seed(0)
  body = modules.Transformer(str(folder / 'hf'), max_seq_length=12)
  dense, features = [], 16
  for name, layer in zip(NAMES, ALL, strict=True):
    dense.append(modules.Dense(
        features, layer.features, bias=layer.bias,
        activation_function=getattr(torch.nn, name)()))
    torch.nn.init.normal_(dense[-1].linear.weight, std=0.6)
    features = layer.features
  model = st.SentenceTransformer(device='cpu', modules=[
      body, modules.Pooling(16, 'mean'), *dense])
  model.similarity_fn_name = 'dot'
  model.save(str(folder / 'st'))
  return model, folder / 'st'


def load(folder, **settings):
  return loading.from_pretrained(
      str(folder), config_lib.ModelConfig(init='x', **settings), 0)


def check_equal(model, theirs):
  ours = exporting.embed(model, 'passage', PROBES)
  np.testing.assert_allclose(ours, theirs.encode([
      exporting.passage_text(*probe) for probe in PROBES]), atol=1e-5)
  assert np.ptp(ours, axis=0).max() > 1e-3


def test_read_and_exported_again(theirs, tmp_path):
  reference, folder = theirs
  model = load(folder)
  assert model.spec.projections == ALL
  assert model.spec.dim == ALL[-1].features == 10
  assert pretrained.projection_features(str(folder)) == 10
  check_equal(model, reference)
  card = model_card.model_card(model, model_card.Facts('tiny', source='x'))
  assert 'without bias; linear to 10 features, with bias, then tanh;' in card
  exporting.write_model(model, tmp_path, card)
  again = load(tmp_path)
  assert (again.spec, again.text) == (model.spec, model.text)
  jax.tree.map(np.testing.assert_array_equal, again.params, model.params)
  check_equal(model, st.SentenceTransformer(str(tmp_path), device='cpu'))
  for path in folder.glob('*_Dense/config.json'):
    own = json.loads(path.read_text())
    written = json.loads((tmp_path / path.relative_to(folder)).read_text())
    assert written == {key: own[key] for key in written}


def test_trained_and_kept_in_a_workdir(theirs, tmp_path):
  model = load(theirs[1])
  params = model.params['shared']
  sequences = tokenized.tokenize_in_memory(
      PROBES, model.tokenizer, 12, '').tokens(np.arange(len(PROBES)))
  layout = packing.plan(sequences.lengths, 1, 24)
  batch = packing.fill(layout, sequences)

  @jax.jit
  def loss(layers):
    return jnp.sum(jnp.square(dual_encoder.encode(
        dual_encoder.Encoder(model.spec), {**params, **layers}, batch, None)
        [0][layout.flat_slot, :5] - 0.5))

  layers = {name: params[name] for name in params if name != 'bert'}
  grads = jax.grad(loss)(layers)
  assert all(np.abs(leaf).max() > 0 for leaf in jax.tree.leaves(grads))
  trained = {'shared': params | jax.tree.map(
      lambda leaf, grad: np.asarray(leaf - 0.01 * grad), layers, grads)}
  assert loss({name: trained['shared'][name] for name in layers}) < loss(layers)
  loading.save_description(model, tmp_path)

  def params_of(shapes):
    jax.tree.map(lambda shape, leaf: leaf.reshape(shape.shape), shapes, trained)
    return trained, 'x'

  again = loading.from_workdir(tmp_path, params_of, 'again')
  assert again.spec == model.spec
  assert again.fingerprint != model.fingerprint


def test_old_descriptions_are_read_as_before():
  """Models of one projection, and of none, have the keys that they had."""
  shape = tiny.bert_config()
  for kept, old in (
      ((), (None, True, 'identity')), ((projections.Projection(7),),
                                       (7, True, 'identity')),
      ((projections.Projection(5, False, 'tanh'),), (5, False, 'tanh')),
  ):
    spec = dual_encoder.EncoderSpec(shape, projections=kept)
    values = json.loads(json.dumps(spec.to_json()))
    keys = 'projection_dim', 'projection_bias', 'projection_activation'
    assert tuple(values[key] for key in keys) == old
    assert 'projections' not in values
    assert dual_encoder.EncoderSpec.from_json(values) == spec
  several = dual_encoder.EncoderSpec(shape, projections=ALL)
  values = json.loads(json.dumps(several.to_json()))
  assert dual_encoder.EncoderSpec.from_json(values) == several
  params = loading.shape_of(several)['shared']
  assert set(params) == {'bert', 'projection'} | {
      f'projection_{number}' for number in range(2, 9)}
  drawn = dual_encoder.init_projection(several, jax.random.key(0))
  assert jax.tree.map(jnp.shape, drawn) == jax.tree.map(
      jnp.shape, {name: params[name] for name in drawn})


def test_another_size_replaces_all(theirs):
  model = load(theirs[1], projection_dim=4)
  assert model.spec.projections == (projections.Projection(4),)
  assert model.params['shared']['projection']['kernel'].shape == (16, 4)
  assert not load(theirs[1], projection_dim=0).spec.projections


@pytest.mark.parametrize('place, values, problem', [
    ('3_Dense', {'activation_function': 'torch.nn.modules.activation.Softplus'},
     r'3_Dense/config.json: activation "torch.nn.modules.activation.Softplus" '
     'of the Dense module is not supported; Identity, Tanh, .* and ELU of'),
    ('2_Dense', {'activation_function': 'mine.Tanh'}, '"mine.Tanh"'),
    ('3_Dense', {'in_features': 5},
     '3_Dense/config.json: in_features=5, and the 2_Dense gives 9'),
    ('2_Dense', {'in_features': 5}, 'the Transformer gives 16'),
    ('2_Dense', {'use_residual': True}, 'without use_residual'),
    ('2_Dense', {'module_input_name': 'token_embeddings'},
     'from sentence_embedding'),
    ('2_Dense', {'out_features': 0}, 'out_features=0 is out of range'),
])
def test_what_is_refused(theirs, tmp_path, place, values, problem):
  folder = tmp_path / 'model'
  shutil.copytree(theirs[1], folder)
  path = folder / place / 'config.json'
  path.write_text(json.dumps(json.loads(path.read_text()) | values))
  with pytest.raises(errors.UserError, match=problem) as caught:
    pretrained.load_towers(str(folder))
  assert '\n' not in str(caught.value)


def test_a_prompt_that_is_usual_is_that_of_both(theirs, tmp_path):
  folder = tmp_path / 'model'
  shutil.copytree(theirs[1], folder)
  path = folder / 'config_sentence_transformers.json'
  values = json.loads(path.read_text())
  prompts = {'find': 'find it: ', 'query': 'ask: '}
  path.write_text(json.dumps(
      values | {'prompts': prompts, 'default_prompt_name': 'find'}))
  text = load(folder).text
  assert (text.query_prefix, text.passage_prefix) == ('ask: ', 'find it: ')


@pytest.mark.parametrize('kind', ['bert', 'xlm-roberta'])
def test_settings_under_an_old_name(theirs, tmp_path, kind):
  folder = tmp_path / 'model'
  shutil.copytree(theirs[1], folder)
  path, = folder.rglob('sentence_bert_config.json')
  path.unlink()
  path.with_name(f'sentence_{kind}_config.json').write_text(
      json.dumps({'max_seq_length': 9, 'do_lower_case': False}))
  assert pretrained.load_towers(str(folder))['shared'].max_length == 9


def test_letters_that_the_tokenizer_does_not_write_small(theirs, tmp_path):
  folder = tmp_path / 'model'
  shutil.copytree(theirs[1], folder)
  for path in folder.rglob('sentence_bert_config.json'):
    path.write_text(json.dumps({'do_lower_case': True}))
  load(folder)  # The tokenizer does.
  for path in folder.rglob('tokenizer*.json'):
    values = json.loads(path.read_text())
    path.write_text(json.dumps(
        values | {'normalizer': None, 'do_lower_case': False}))
  with pytest.raises(errors.UserError, match='do_lower_case=true: texts are'):
    load(folder)


@pytest.mark.parametrize('kinds', [
    ('Transformer', 'Dense', 'Pooling'), ('Transformer', 'Normalize', 'Dense'),
    ('Transformer', 'Pooling', 'Pooling'), ('Pooling',), (),
    ('Transformer', 'LSTM'), ('Pooling', 'Transformer'),
])
def test_modules_in_another_order(tmp_path, kinds):
  (tmp_path / 'modules.json').write_text(json.dumps([
      {'type': f'sentence_transformers.models.{kind}', 'path': kind}
      for kind in kinds]))
  with pytest.raises(errors.UserError, match='a Normalize are, in this order'):
    pretrained.load_towers(str(tmp_path))
