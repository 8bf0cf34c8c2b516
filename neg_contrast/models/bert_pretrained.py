"""Reads and writes BERT folders as transformers does, without torch."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from neg_contrast import errors
from neg_contrast.models import bert, family, json_objects, tensor_files

CLASSIFIER = 'BertForSequenceClassification'
# Activations of transformers that are others by another name.
_SAME = {'swish': 'silu', 'gelu_python': 'gelu', 'gelu_fast': 'gelu_new',
         'gelu_accurate': 'gelu_new'}
_PREFIXES = ('', 'bert.', 'electra.', 'roberta.',
             'question_encoder.bert_model.', 'ctx_encoder.bert_model.')
_FIRST_KEY = 'embeddings.word_embeddings.weight'
# Ours -> (theirs, is a matrix to transpose).
_LAYER_NAMES = {
    ('attention', 'query'): ('attention.self.query', True),
    ('attention', 'key'): ('attention.self.key', True),
    ('attention', 'value'): ('attention.self.value', True),
    ('attention', 'output'): ('attention.output.dense', True),
    ('attention_norm',): ('attention.output.LayerNorm', False),
    ('intermediate',): ('intermediate.dense', True),
    ('output',): ('output.dense', True),
    ('output_norm',): ('output.LayerNorm', False),
}


def read(
    values: json_objects.JsonObject,
) -> tuple[bert.BertConfig, dict[str, Any]]:
  """Shapes and parameters of a folder.

  Args:
    values: of its config.json.

  Raises:
    UserError: it is not supported, or weights do not fit it.
  """
  config, folder = config_of(values), values.path.parent
  return config, convert_bert(
      tensor_files.read_tensors(folder), config, str(folder)
  )


def config_of(values: json_objects.JsonObject) -> bert.BertConfig:
  """Shapes of a folder.

  Args:
    values: of its config.json.

  Raises:
    UserError: it is not supported.
  """
  embedding = values.text('position_embedding_type', 'absolute')
  if embedding != 'absolute':
    raise errors.UserError(
        f'{values.path}: position_embedding_type "{embedding}" is not '
        'supported; "absolute" is'
    )
  if values.integer('projection_dim', 0):  # Of DPR.
    raise errors.UserError(
        f'{values.path}: projection_dim={values.integer("projection_dim")} is '
        'not supported; 0 is'
    )
  act = values.text('hidden_act')
  try:
    return bert.BertConfig(
        vocab_size=values.integer('vocab_size'),
        hidden_size=values.integer('hidden_size'),
        num_layers=values.integer('num_hidden_layers'),
        num_heads=values.integer('num_attention_heads'),
        intermediate_size=values.integer('intermediate_size'),
        max_positions=values.integer('max_position_embeddings'),
        type_vocab_size=values.integer('type_vocab_size'),
        hidden_act=_SAME.get(act, act),
        hidden_dropout=values.number('hidden_dropout_prob', 0.1),
        attention_dropout=values.number('attention_probs_dropout_prob', 0.1),
        layer_norm_eps=values.number('layer_norm_eps', 1e-12),
        initializer_range=values.number('initializer_range', 0.02),
    )
  except ValueError as e:
    raise values.error(str(e)) from None


def convert_bert(
    tensors: Mapping[str, np.ndarray], config: bert.BertConfig, source: str
) -> dict[str, Any]:
  """Our parameter tree from the tensors of a `BertModel`.

  Args:
    tensors: by their names there, any known prefix.
    config: the shapes they must have.
    source: file name for messages.

  Raises:
    UserError: a tensor is missing or has another shape.
  """
  prefix = next((p for p in _PREFIXES if p + _FIRST_KEY in tensors), None)
  if prefix is None:
    raise errors.UserError(
        f'{source}: no tensor {_FIRST_KEY}; this is no BERT encoder: '
        + json_objects.REMEDY
    )

  def take(name: str, shape: tuple[int, ...]) -> np.ndarray:
    old = re.sub(r'LayerNorm\.weight$', 'LayerNorm.gamma',
                 re.sub(r'LayerNorm\.bias$', 'LayerNorm.beta', name))
    return tensor_files.take(
        tensors, prefix + name, shape, source, prefix + old
    )

  hidden = config.hidden_size

  def layer(ours: tuple[str, ...], theirs: str, is_matrix: bool):
    shapes = _shapes(config, ours)
    of = lambda i, kind: take(
        f'encoder.layer.{i}.{theirs}.{kind}', shapes[kind]
    )
    weights = [of(i, 'weight') for i in range(config.num_layers)]
    biases = [of(i, 'bias') for i in range(config.num_layers)]
    stacked = np.stack([w.T if is_matrix else w for w in weights])
    return {'kernel' if is_matrix else 'scale': stacked,
            'bias': np.stack(biases)}

  layers: dict[str, Any] = {}
  for ours, (theirs, is_matrix) in _LAYER_NAMES.items():
    target = layers
    for name in ours[:-1]:
      target = target.setdefault(name, {})
    target[ours[-1]] = layer(ours, theirs, is_matrix)
  rows = {'word': config.vocab_size, 'position': config.max_positions,
          'token_type': config.type_vocab_size}
  return {
      'embeddings': {
          **{name: {'embedding': take(f'embeddings.{name}_embeddings.weight',
                                      (count, hidden))}
             for name, count in rows.items() if count},
          'norm': {
              'scale': take('embeddings.LayerNorm.weight', (hidden,)),
              'bias': take('embeddings.LayerNorm.bias', (hidden,)),
          },
      },
      'layers': layers,
  }


def _shapes(config: bert.BertConfig, ours: tuple[str, ...]):
  hidden, inner = config.hidden_size, config.intermediate_size
  if ours[-1].endswith('norm'):
    return {'weight': (hidden,), 'bias': (hidden,)}
  if ours == ('intermediate',):
    return {'weight': (inner, hidden), 'bias': (inner,)}
  if ours == ('output',):
    return {'weight': (hidden, inner), 'bias': (hidden,)}
  return {'weight': (hidden, hidden), 'bias': (hidden,)}


def bert_tensors(
    params: Any, config: bert.BertConfig, pad_id: int = 0
) -> dict[str, np.ndarray]:
  """The tensors of transformers' `BertModel`: the inverse of `convert_bert`.

  A `BertModel` has a pooler, a layer on [CLS] that is no part of our encoders.
  It is filled with zeros: left out, transformers would draw it at random and
  warn of new weights, and the initial one was not trained with the rest.

  Args:
    params: the tree of a `bert.Bert`.
    config: its shapes.
    pad_id: has no tensor of its own here.

  Returns:
    Name -> float32, contiguous; matrices are [out, in].
  """
  del pad_id
  embeddings, hidden = params['embeddings'], config.hidden_size
  tensors = {
      f'embeddings.{name}_embeddings.weight': embeddings[name]['embedding']
      for name in ('word', 'position', 'token_type') if name in embeddings
  }
  tensors['embeddings.LayerNorm.weight'] = embeddings['norm']['scale']
  tensors['embeddings.LayerNorm.bias'] = embeddings['norm']['bias']
  for ours, (theirs, is_matrix) in _LAYER_NAMES.items():
    layers = params['layers']
    for name in ours:
      layers = layers[name]
    for i in range(config.num_layers):
      weight = layers['kernel'][i].T if is_matrix else layers['scale'][i]
      tensors[f'encoder.layer.{i}.{theirs}.weight'] = weight
      tensors[f'encoder.layer.{i}.{theirs}.bias'] = layers['bias'][i]
  tensors['pooler.dense.weight'] = np.zeros((hidden, hidden))
  tensors['pooler.dense.bias'] = np.zeros(hidden)
  return tensors


def to_json(config: bert.BertConfig, pad_id: int) -> dict[str, Any]:
  """The config.json of transformers' `BertModel`."""
  return {
      'architectures': ['BertModel'],
      'model_type': 'bert',
      'vocab_size': config.vocab_size,
      'hidden_size': config.hidden_size,
      'num_hidden_layers': config.num_layers,
      'num_attention_heads': config.num_heads,
      'intermediate_size': config.intermediate_size,
      'max_position_embeddings': config.max_positions,
      'type_vocab_size': config.type_vocab_size,
      'hidden_act': config.hidden_act,
      'hidden_dropout_prob': config.hidden_dropout,
      'attention_probs_dropout_prob': config.attention_dropout,
      'layer_norm_eps': config.layer_norm_eps,
      'initializer_range': config.initializer_range,
      'pad_token_id': pad_id,
      'position_embedding_type': 'absolute',
      'torch_dtype': 'float32',
  }


def read_head(
    values: json_objects.JsonObject,
    pooler: str = 'bert.pooler.dense',
    score: str = 'classifier',
    size: str = 'hidden_size',
    has_bias: bool = True,
) -> dict[str, Any]:
  """Pooler and score layer of a BertForSequenceClassification, or the like.

  Args:
    values: of its config.json.
    pooler: name of the linear layer before the activation.
    score: name of the last one.
    size: key of the features.
    has_bias: whether the first of the two has one.

  Raises:
    UserError: one is missing, or it has another number of labels than one.
  """
  folder, hidden = values.path.parent, values.integer(size)
  tensors = tensor_files.read_tensors(folder, CLASSIFIER)

  def dense(
      name: str, features: int, has_bias: bool = True
  ) -> dict[str, np.ndarray]:
    shapes: dict[str, tuple[int, ...]] = {'weight': (features, hidden)}
    if has_bias:
      shapes['bias'] = features,
    for kind, shape in shapes.items():
      tensor = tensors.get(f'{name}.{kind}')
      if tensor is None or tensor.shape != shape:
        have = 'missing' if tensor is None else list(tensor.shape)
        raise errors.UserError(
            f'{folder}: {name}.{kind} is {have}, and a reranker, which has one '
            f'label, needs {list(shape)}'
        )
    take = lambda kind: tensor_files.take(
        tensors, f'{name}.{kind}', shapes[kind], str(folder)
    )
    return {'kernel': take('weight').T,
            **({'bias': take('bias')} if has_bias else {})}

  return {'pooler': dense(pooler, hidden, has_bias), 'score': dense(score, 1)}


BERT = family.Family(
    'bert', 'BERT', 'encoder', read, bert.BERT_SIZES, CLASSIFIER, read_head,
    to_json, bert_tensors, shape_of=config_of,
)
DPR = family.Family('dpr', 'DPR', 'encoder', read, shape_of=config_of)
