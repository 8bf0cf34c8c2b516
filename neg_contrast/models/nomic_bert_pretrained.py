"""Reads and writes NomicBERT folders as transformers does, without torch."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from neg_contrast import errors
from neg_contrast.models import (
  family,
  json_objects,
  nomic_bert,
  tensor_files,
  tensor_names,
)

# As transformers calls them, which it reads too.
_NATIVE = {
    'embeddings.word_embeddings': ('embeddings/word',),
    'embeddings.token_type_embeddings': ('embeddings/token_type',),
    'embeddings.LayerNorm': ('embeddings/norm',),
    'layers.{}.self_attn.q_proj': ('layers/attention/query',),
    'layers.{}.self_attn.k_proj': ('layers/attention/key',),
    'layers.{}.self_attn.v_proj': ('layers/attention/value',),
    'layers.{}.self_attn.o_proj': ('layers/attention/output',),
    'layers.{}.post_attention_layernorm': ('layers/attention_norm',),
    'layers.{}.mlp.gate_proj': ('layers/gate',),
    'layers.{}.mlp.up_proj': ('layers/intermediate',),
    'layers.{}.mlp.down_proj': ('layers/output',),
    'layers.{}.post_mlp_layernorm': ('layers/output_norm',),
}
# As nomic-ai publishes them, and transformers saves them; theirs -> ours.
_PUBLISHED = {
    'embeddings.word_embeddings': ('embeddings/word',),
    'embeddings.token_type_embeddings': ('embeddings/token_type',),
    'emb_ln': ('embeddings/norm',),
    'encoder.layers.{}.attn.Wqkv': (
        'layers/attention/query', 'layers/attention/key',
        'layers/attention/value',
    ),
    'encoder.layers.{}.attn.out_proj': ('layers/attention/output',),
    'encoder.layers.{}.norm1': ('layers/attention_norm',),
    'encoder.layers.{}.mlp.fc12': ('layers/gate',),
    'encoder.layers.{}.mlp.fc11': ('layers/intermediate',),
    'encoder.layers.{}.mlp.fc2': ('layers/output',),
    'encoder.layers.{}.norm2': ('layers/output_norm',),
}
_WORDS = 'embeddings.word_embeddings.weight'
_PREFIXES = ('', 'nomic_bert.', 'bert.')
_FIXED: Mapping[str, tuple[Any, ...]] = {  # Of the code of nomic-ai.
    'prenorm': (False, None), 'qkv_proj_bias': (False, None),
    'mlp_fc1_bias': (False, None), 'mlp_fc2_bias': (False, None),
    'rotary_emb_fraction': (1.0, 1, None),
    'rotary_emb_interleaved': (False, None),
    'rotary_scaling_factor': (None,), 'use_rms_norm': (False, None),
}


def read(
    values: json_objects.JsonObject,
) -> tuple[nomic_bert.NomicBertConfig, dict[str, Any]]:
  """Shapes and parameters of a folder.

  Args:
    values: of its config.json.

  Raises:
    UserError: it is not supported, or weights do not fit it.
  """
  config, source = config_of(values), str(values.path.parent)
  tensors = tensor_files.read_tensors(values.path.parent)
  prefix = next((p for p in _PREFIXES if p + _WORDS in tensors), None)
  if prefix is None:
    raise errors.UserError(
        f'{source}: no tensor {_WORDS}; this is no NomicBERT encoder: '
        + json_objects.REMEDY
    )
  is_published = f'{prefix}emb_ln.weight' in tensors

  def take(name: str, shape: tuple[int, ...]) -> np.ndarray:
    return tensor_files.take(tensors, prefix + name, shape, source)

  table = _PUBLISHED if is_published else _NATIVE
  return config, tensor_names.from_tensors(
      nomic_bert.NomicBert(config), table, take
  )


def config_of(values: json_objects.JsonObject) -> nomic_bert.NomicBertConfig:
  """Shapes of a folder, by transformers' keys or by those of nomic-ai.

  Raises:
    UserError: it is not supported.
  """
  for key, allowed in _FIXED.items():
    if values.values.get(key) not in allowed:
      raise values.error(f'{key}={values.values[key]!r} is not supported; '
                         f'{allowed[0]} is')
  integer = lambda name, old, *default: values.integer(
      old if old in values.values else name, *default
  )
  rotary = values.object('rope_parameters')
  kind = rotary.text('rope_type', 'default')
  if kind != 'default':
    raise values.error(f'rope_type "{kind}" is not supported; "default" is')
  act = values.text('hidden_act', 'silu')
  if 'activation_function' in values.values:
    act = values.text('activation_function').replace('swiglu', 'silu')
  try:
    return nomic_bert.NomicBertConfig(
        vocab_size=values.integer('vocab_size'),
        hidden_size=integer('hidden_size', 'n_embd'),
        num_layers=integer('num_hidden_layers', 'n_layer'),
        num_heads=integer('num_attention_heads', 'n_head'),
        intermediate_size=integer('intermediate_size', 'n_inner'),
        max_positions=integer('max_position_embeddings', 'n_positions', 2048),
        type_vocab_size=values.integer('type_vocab_size', 2),
        hidden_act=act,
        hidden_dropout=values.number(
            'hidden_dropout_prob', values.number('resid_pdrop', 0.0)
        ),
        attention_dropout=values.number(
            'attention_probs_dropout_prob', values.number('attn_pdrop', 0.0)
        ),
        norm_eps=values.number(
            'layer_norm_eps', values.number('layer_norm_epsilon', 1e-12)
        ),
        initializer_range=values.number('initializer_range', 0.02),
        theta=rotary.number(
            'rope_theta', values.number('rotary_emb_base', 1000.0)
        ),
    )
  except ValueError as e:
    raise values.error(str(e)) from None


def to_tensors(
    params: Any, config: nomic_bert.NomicBertConfig, pad_id: int
) -> dict[str, np.ndarray]:
  """The tensors of a folder: the inverse of `read`.

  Args:
    params: the tree of a `nomic_bert.NomicBert`.
    config: its shapes.
    pad_id: has no tensor of its own here.
  """
  return tensor_names.to_tensors(params, _NATIVE)


def to_json(
    config: nomic_bert.NomicBertConfig, pad_id: int
) -> dict[str, Any]:
  """The config.json of transformers' `NomicBertModel`."""
  return {
      'architectures': ['NomicBertModel'],
      'model_type': 'nomic_bert',
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
      'layer_norm_eps': config.norm_eps,
      'initializer_range': config.initializer_range,
      'rope_parameters': {'rope_type': 'default', 'rope_theta': config.theta},
      'pad_token_id': pad_id,
      'torch_dtype': 'float32',
  }


NOMIC_BERT = family.Family(
    'nomic_bert', 'NomicBERT', 'encoder', read, nomic_bert.NOMIC_BERT_SIZES,
    to_json=to_json, to_tensors=to_tensors, shape_of=config_of,
)
