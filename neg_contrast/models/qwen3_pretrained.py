"""Reads and writes Qwen3 folders as transformers does, without torch."""

from typing import Any

import numpy as np

from neg_contrast import errors
from neg_contrast.models import (
  family,
  json_objects,
  qwen3,
  tensor_files,
  tensor_names,
)

_TABLE = {
    'embed_tokens': ('embeddings/word',),
    'layers.{}.input_layernorm': ('layers/attention_norm',),
    'layers.{}.self_attn.q_proj': ('layers/attention/query',),
    'layers.{}.self_attn.k_proj': ('layers/attention/key',),
    'layers.{}.self_attn.v_proj': ('layers/attention/value',),
    'layers.{}.self_attn.o_proj': ('layers/attention/output',),
    'layers.{}.self_attn.q_norm': ('layers/attention/query_norm',),
    'layers.{}.self_attn.k_norm': ('layers/attention/key_norm',),
    'layers.{}.post_attention_layernorm': ('layers/output_norm',),
    'layers.{}.mlp.gate_proj': ('layers/gate',),
    'layers.{}.mlp.up_proj': ('layers/intermediate',),
    'layers.{}.mlp.down_proj': ('layers/output',),
    'norm': ('final_norm',),
}
_FIRST_KEY = 'embed_tokens.weight'
_PREFIXES = ('', 'model.')  # The latter of Qwen3ForCausalLM.
_GLOBAL = 'full_attention'


def read(
    values: json_objects.JsonObject,
) -> tuple[qwen3.Qwen3Config, dict[str, Any]]:
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
        f'{source}: no tensor {_FIRST_KEY}; this is no Qwen3: '
        + json_objects.REMEDY
    )
  return config, tensor_names.from_tensors(
      qwen3.Qwen3(config), _TABLE, lambda name, shape: tensor_files.take(
          tensors, prefix + name, shape, source
      )
  )


def config_of(values: json_objects.JsonObject) -> qwen3.Qwen3Config:
  """Shapes of a folder.

  Args:
    values: of its config.json.

  Raises:
    UserError: it is not supported.
  """
  _check_supported(values)
  heads = values.integer('num_attention_heads')
  try:
    return qwen3.Qwen3Config(
        vocab_size=values.integer('vocab_size'),
        hidden_size=values.integer('hidden_size'),
        num_layers=values.integer('num_hidden_layers'),
        num_heads=heads,
        num_kv_heads=values.integer('num_key_value_heads', heads),
        head_dim=values.integer('head_dim', 128),
        intermediate_size=values.integer('intermediate_size'),
        max_positions=values.integer('max_position_embeddings', 32768),
        attention_dropout=values.number('attention_dropout', 0.0),
        norm_eps=values.number('rms_norm_eps', 1e-6),
        initializer_range=values.number('initializer_range', 0.02),
        # The older place, and that of transformers 5.
        rope_theta=values.object('rope_parameters').number(
            'rope_theta', values.number('rope_theta', 10000.0)
        ),
    )
  except ValueError as e:
    raise values.error(str(e)) from None


def _check_supported(values):
  """Refuses what would change the computation.

  Raises:
    UserError: names the key.
  """
  problem = None
  activation = values.text('hidden_act', 'silu')
  if activation != 'silu':
    problem = f'hidden_act "{activation}" is not supported; "silu" is'
  for key in ('attention_bias', 'use_sliding_window'):
    if values.flag(key, False):
      problem = f'{key}=true is not supported; false is'
  kinds = values.values.get('layer_types')
  if kinds is not None and (
      not isinstance(kinds, list) or any(kind != _GLOBAL for kind in kinds)
  ):
    problem = f'layer_types other than "{_GLOBAL}" are not supported'
  for key in ('rope_parameters', 'rope_scaling'):
    place = values.object(key)
    scale = place.text('rope_type', place.text('type', 'default'))
    if scale != 'default':
      problem = f'rope_type "{scale}" is not supported; "default" is'
  if problem:
    raise errors.UserError(f'{values.path}: {problem}')


def to_tensors(
    params: Any, config: qwen3.Qwen3Config, pad_id: int
) -> dict[str, np.ndarray]:
  """The tensors of a folder: the inverse of `read`.

  Args:
    params: the tree of a `qwen3.Qwen3`.
    config: its shapes.
    pad_id: has no tensor of its own here.
  """
  return tensor_names.to_tensors(params, _TABLE)


def to_json(config: qwen3.Qwen3Config, pad_id: int) -> dict[str, Any]:
  """The config.json of transformers' `Qwen3Model`.

  By the keys of its first versions, which later ones read too.
  """
  return {
      'architectures': ['Qwen3Model'],
      'model_type': 'qwen3',
      'vocab_size': config.vocab_size,
      'hidden_size': config.hidden_size,
      'num_hidden_layers': config.num_layers,
      'num_attention_heads': config.num_heads,
      'num_key_value_heads': config.num_kv_heads,
      'head_dim': config.head_dim,
      'intermediate_size': config.intermediate_size,
      'max_position_embeddings': config.max_positions,
      'hidden_act': 'silu',
      'attention_bias': False,
      'attention_dropout': config.attention_dropout,
      'rms_norm_eps': config.norm_eps,
      'rope_theta': config.rope_theta,
      'use_sliding_window': False,
      'initializer_range': config.initializer_range,
      'tie_word_embeddings': True,
      'pad_token_id': pad_id,
      'torch_dtype': 'float32',
  }


QWEN3 = family.Family(
    'qwen3', 'Qwen3', 'encoder', read, qwen3.QWEN3_SIZES, to_json=to_json,
    to_tensors=to_tensors, shape_of=config_of,
)
