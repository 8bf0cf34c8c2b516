"""Reads T5 folders as towers, and writes their encoders, without torch."""

import dataclasses
from typing import Any

import numpy as np

from neg_contrast import errors
from neg_contrast.models import (
  family,
  json_objects,
  t5_encoder,
  t5_pretrained,
  tensor_files,
  tensor_names,
)

_BLOCK = 'encoder.block.{}.layer'
_WORDS = ('shared', 'encoder.embed_tokens')


def read(
    values: json_objects.JsonObject,
) -> tuple[t5_encoder.T5EncoderConfig, dict[str, Any]]:
  """Shapes and parameters of the encoder of a folder.

  Args:
    values: of its config.json.

  Raises:
    UserError: it is not supported, or weights do not fit it.
  """
  config, source = config_of(values), str(values.path.parent)
  tensors = tensor_files.read_tensors(values.path.parent)
  words = next((name for name in _WORDS if f'{name}.weight' in tensors), None)
  if words is None:
    raise errors.UserError(
        f'{source}: no tensor {_WORDS[0]}.weight; this is no T5 of '
        f'transformers: {json_objects.REMEDY}'
    )

  def take(name: str, shape: tuple[int, ...]) -> np.ndarray:
    return tensor_files.take(tensors, name, shape, source)

  return config, tensor_names.from_tensors(
      t5_encoder.T5Encoder(config), _table(config, words), take
  )


def config_of(values: json_objects.JsonObject) -> t5_encoder.T5EncoderConfig:
  """Shapes of a folder.

  Raises:
    UserError: it is not supported.
  """
  gated, act = t5_pretrained.feed_forward(
      values.path, values.text(
          'feed_forward_proj',
          'gated-gelu' if values.text('model_type') == 'mt5' else 'relu',
      )
  )
  dropout = values.number('dropout_rate', 0.1)
  try:
    return t5_encoder.T5EncoderConfig(
        vocab_size=values.integer('vocab_size'),
        hidden_size=values.integer('d_model'),
        num_layers=values.integer('num_layers'),
        num_heads=values.integer('num_heads'),
        intermediate_size=values.integer('d_ff'),
        max_positions=values.integer('n_positions', 512),
        hidden_dropout=dropout,
        attention_dropout=dropout,
        head_dim=values.integer('d_kv'),
        relative_buckets=values.integer('relative_attention_num_buckets', 32),
        relative_max_distance=values.integer(
            'relative_attention_max_distance', 128
        ),
        norm_eps=values.number('layer_norm_epsilon', 1e-6),
        gated=gated,
        hidden_act=act,
        initializer_range=values.number('initializer_factor', 1.0),
    )
  except ValueError as e:
    raise values.error(str(e)) from None


def to_tensors(
    params: Any, config: t5_encoder.T5EncoderConfig, pad_id: int
) -> dict[str, np.ndarray]:
  """The tensors of a `T5EncoderModel`: the inverse of `read`.

  Args:
    params: the tree of a `t5_encoder.T5Encoder`.
    config: its shapes.
    pad_id: has no tensor of its own here.
  """
  return tensor_names.to_tensors(params, _table(config, _WORDS[0]))


def to_json(
    config: t5_encoder.T5EncoderConfig, pad_id: int
) -> dict[str, Any]:
  """The config.json of transformers' `T5EncoderModel`.

  Raises:
    UserError: transformers has no name for the feed-forward block.
  """
  return {
      'architectures': ['T5EncoderModel'],
      'model_type': 't5',
      'is_encoder_decoder': False,
      'vocab_size': config.vocab_size,
      'd_model': config.hidden_size,
      'd_kv': config.head_dim,
      'd_ff': config.intermediate_size,
      'num_layers': config.num_layers,
      'num_heads': config.num_heads,
      'n_positions': config.max_positions,
      'dropout_rate': config.hidden_dropout,
      'relative_attention_num_buckets': config.relative_buckets,
      'relative_attention_max_distance': config.relative_max_distance,
      'layer_norm_epsilon': config.norm_eps,
      'feed_forward_proj': t5_pretrained.feed_forward_name(
          config.gated, config.hidden_act
      ),
      'initializer_factor': config.initializer_range,
      'pad_token_id': pad_id,
      'torch_dtype': 'float32',
  }


def _table(config, words) -> tensor_names.Table:
  attention, block = f'{_BLOCK}.0', f'{_BLOCK}.1'
  wide = ({'gate': 'wi_0', 'intermediate': 'wi_1'} if config.gated
          else {'intermediate': 'wi'})
  return {
      words: ('embeddings/word',),
      'encoder.block.0.layer.0.SelfAttention.relative_attention_bias': (
          'relative_bias',),
      f'{attention}.layer_norm': ('layers/attention_norm',),
      **{f'{attention}.SelfAttention.{name[0]}': (f'layers/attention/{name}',)
         for name in ('query', 'key', 'value', 'output')},
      f'{block}.layer_norm': ('layers/feed_forward_norm',),
      **{f'{block}.DenseReluDense.{theirs}': (f'layers/{ours}',)
         for ours, theirs in {**wide, 'output': 'wo'}.items()},
      'encoder.final_layer_norm': ('norm',),
  }


T5_ENCODER = family.Family(
    't5', 'T5 encoder', 'encoder', read, t5_encoder.T5_ENCODER_SIZES,
    to_json=to_json, to_tensors=to_tensors, key='t5_encoder',
    shape_of=config_of,
)
MT5_ENCODER = dataclasses.replace(
    T5_ENCODER, model_type='mt5', title='mT5 encoder', sizes={},
    key='mt5_encoder',
)
