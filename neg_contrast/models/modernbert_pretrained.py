"""Reads and writes ModernBERT folders as transformers does, without torch."""

from typing import Any

import numpy as np

from neg_contrast import errors
from neg_contrast.models import (
  bert_pretrained,
  family,
  json_objects,
  modernbert,
  tensor_files,
  tensor_names,
)

_TABLE = {
    'embeddings.tok_embeddings': ('embeddings/word',),
    'embeddings.norm': ('embeddings/norm',),
    'layers.{}.attn_norm': ('layers/attention_norm',),
    'layers.{}.attn.Wqkv': (
        'layers/attention/query', 'layers/attention/key',
        'layers/attention/value',
    ),
    'layers.{}.attn.Wo': ('layers/attention/output',),
    'layers.{}.mlp_norm': ('layers/output_norm',),
    'layers.{}.mlp.Wi': ('layers/gate', 'layers/intermediate'),
    'layers.{}.mlp.Wo': ('layers/output',),
    'final_norm': ('final_norm',),
}
_FIRST_KEY = 'embeddings.tok_embeddings.weight'
_PREFIXES = ('', 'model.')  # The latter of ModernBertForMaskedLM.
# Theirs has none in the first layer; ours is there, see `ModernBert`.
_NOT_THERE = {'layers.0.attn_norm.weight': 1.0, 'layers.0.attn_norm.bias': 0.0}
_LOCAL, _GLOBAL = 'sliding_attention', 'full_attention'


def read(
    values: json_objects.JsonObject,
) -> tuple[modernbert.ModernBertConfig, dict[str, Any]]:
  """Shapes and parameters of a folder.

  Args:
    values: of its config.json.

  Raises:
    UserError: it is not supported, or weights do not fit it.
  """
  config, source = config_of(values), str(values.path.parent)
  tensors = tensor_files.read_tensors(values.path.parent)
  prefix = next((p for p in _PREFIXES if p + _FIRST_KEY in tensors), None)
  if prefix is None:
    raise errors.UserError(
        f'{source}: no tensor {_FIRST_KEY}; this is no ModernBERT encoder: '
        + json_objects.REMEDY
    )

  def take(name: str, shape: tuple[int, ...]) -> np.ndarray:
    if name in _NOT_THERE:
      return np.full(shape, _NOT_THERE[name], np.float32)
    return tensor_files.take(tensors, prefix + name, shape, source)

  return config, tensor_names.from_tensors(
      modernbert.ModernBert(config), _TABLE, take
  )


def config_of(
    values: json_objects.JsonObject,
) -> modernbert.ModernBertConfig:
  """Shapes of a folder.

  Args:
    values: of its config.json.

  Raises:
    UserError: it is not supported.
  """
  layers = values.integer('num_hidden_layers', least=1)
  try:
    return modernbert.ModernBertConfig(
        vocab_size=values.integer('vocab_size'),
        hidden_size=values.integer('hidden_size'),
        num_layers=layers,
        num_heads=values.integer('num_attention_heads'),
        intermediate_size=values.integer('intermediate_size'),
        max_positions=values.integer('max_position_embeddings', 8192),
        hidden_act=values.text('hidden_activation', 'gelu'),
        hidden_dropout=values.number('embedding_dropout', 0.0),
        attention_dropout=values.number('attention_dropout', 0.0),
        mlp_dropout=values.number('mlp_dropout', 0.0),
        norm_eps=values.number('norm_eps', 1e-5),
        norm_bias=values.flag('norm_bias', False),
        attention_bias=values.flag('attention_bias', False),
        mlp_bias=values.flag('mlp_bias', False),
        initializer_range=values.number('initializer_range', 0.02),
        global_every=_global_every(values, layers),
        window=values.integer('local_attention', 128) // 2,
        global_theta=_theta(values, _GLOBAL, 'global_rope_theta', 160000.0),
        local_theta=_theta(values, _LOCAL, 'local_rope_theta', 10000.0),
    )
  except ValueError as e:
    raise values.error(str(e)) from None


def _theta(values, kind, old_key, default):
  """The base of the rotary positions of one kind of layers."""
  rotary = values.object('rope_parameters').object(kind)
  scaling = values.object('rope_scaling')
  for place in (rotary, scaling):
    scale = place.text('rope_type', 'default')
    if scale != 'default':
      raise errors.UserError(
          f'{values.path}: rope_type "{scale}" is not supported; "default" is'
      )
  return rotary.number('rope_theta', values.number(old_key, default))


def _global_every(values, layers):
  """How many layers lie between global ones, by the older key or a list."""
  listed = values.values.get('layer_types')
  every = values.integer('global_attn_every_n_layers', None, least=1)
  if listed is None:
    return every or 3
  if not isinstance(listed, list):
    raise values.error('layer_types is no list')
  every = next((number for number, kind in enumerate(listed)
                if number and kind == _GLOBAL), every or layers)
  if listed != [_LOCAL if number % every else _GLOBAL
                for number in range(layers)]:
    raise errors.UserError(
        f'{values.path}: layer_types other than "{_GLOBAL}" in the first of '
        f'every N layers and "{_LOCAL}" in the rest are not supported'
    )
  return every


def to_tensors(
    params: Any, config: modernbert.ModernBertConfig, pad_id: int
) -> dict[str, np.ndarray]:
  """The tensors of a folder: the inverse of `read`.

  Args:
    params: the tree of a `modernbert.ModernBert`.
    config: its shapes.
    pad_id: has no tensor of its own here.
  """
  return {name: tensor
          for name, tensor in tensor_names.to_tensors(params, _TABLE).items()
          if name not in _NOT_THERE}


def to_json(
    config: modernbert.ModernBertConfig, pad_id: int
) -> dict[str, Any]:
  """The config.json of transformers' `ModernBertModel`.

  By the keys of its first versions, which later ones read too.
  """
  return {
      'architectures': ['ModernBertModel'],
      'model_type': 'modernbert',
      'vocab_size': config.vocab_size,
      'hidden_size': config.hidden_size,
      'num_hidden_layers': config.num_layers,
      'num_attention_heads': config.num_heads,
      'intermediate_size': config.intermediate_size,
      'max_position_embeddings': config.max_positions,
      'hidden_activation': config.hidden_act,
      'embedding_dropout': config.hidden_dropout,
      'attention_dropout': config.attention_dropout,
      'mlp_dropout': config.mlp_dropout,
      'norm_eps': config.norm_eps,
      'norm_bias': config.norm_bias,
      'attention_bias': config.attention_bias,
      'mlp_bias': config.mlp_bias,
      'initializer_range': config.initializer_range,
      'global_attn_every_n_layers': config.global_every,
      'local_attention': 2 * config.window,
      'global_rope_theta': config.global_theta,
      'local_rope_theta': config.local_theta,
      'pad_token_id': pad_id,
      # Of our tokenizers these are in tokenizer_config.json.
      **{f'{name}_token_id': None for name in ('bos', 'eos', 'cls', 'sep')},
      'torch_dtype': 'float32',
  }


def head(values: json_objects.JsonObject) -> dict[str, Any]:
  """The head of a ModernBertForSequenceClassification.

  Raises:
    UserError: it is not supported.
  """
  pooling = values.text('classifier_pooling', 'cls')
  activation = values.text('classifier_activation', 'gelu')
  if (pooling not in ('cls', 'mean') or activation not in ('gelu', 'relu')
      or values.flag('norm_bias', False)):
    raise errors.UserError(
        f'{values.path}: a cross-encoder with classifier_pooling "{pooling}", '
        f'classifier_activation "{activation}" or norm_bias is not supported; '
        '"cls" or "mean", "gelu" or "relu", and false are'
    )
  return {'pooling': pooling, 'activation': activation,
          'bias': values.flag('classifier_bias', False),
          'norm_eps': values.number('norm_eps', 1e-5)}


def _read_head(values: json_objects.JsonObject) -> dict[str, Any]:
  hidden = values.integer('hidden_size')
  params = bert_pretrained.read_head(
      values, 'head.dense', has_bias=values.flag('classifier_bias', False))
  folder = values.path.parent
  return params | {'head_norm': {'scale': tensor_files.take(
      tensor_files.read_tensors(folder), 'head.norm.weight', (hidden,),
      str(folder))}}


MODERNBERT = family.Family(
    'modernbert', 'ModernBERT', 'encoder', read, modernbert.MODERNBERT_SIZES,
    'ModernBertForSequenceClassification', _read_head, head=head,
    to_json=to_json, to_tensors=to_tensors, shape_of=config_of,
)
