"""Reads and writes DistilBERT folders: BERTs without token types.

Sanh et al., "DistilBERT, a distilled version of BERT", as transformers'
DistilBertModel. Sinusoidal positions are read as weights like others, and
training changes them, which it does not there.
"""

import functools
import re
from typing import Any

import numpy as np

from neg_contrast.models import (
  bert,
  bert_pretrained,
  family,
  json_objects,
  tensor_files,
)

# Theirs -> those of a BertModel; {layer}: number of the layer.
_NAMES = {
    'attention.q_lin': 'attention.self.query',
    'attention.k_lin': 'attention.self.key',
    'attention.v_lin': 'attention.self.value',
    'attention.out_lin': 'attention.output.dense',
    'sa_layer_norm': 'attention.output.LayerNorm',
    'ffn.lin1': 'intermediate.dense',
    'ffn.lin2': 'output.dense',
    'output_layer_norm': 'output.LayerNorm',
}
_THEIRS = {ours: theirs for theirs, ours in _NAMES.items()}
_LAYER = re.compile(r'(?:distilbert\.)?transformer\.layer\.(\d+)\.(.+)\.(\w+)')
_BERT_LAYER = re.compile(r'encoder\.layer\.(\d+)\.(.+)\.(\w+)')


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
  return config, bert_pretrained.convert_bert(
      {_bert_name(name): tensor
       for name, tensor in tensor_files.read_tensors(folder).items()},
      config, str(folder),
  )


def config_of(values: json_objects.JsonObject) -> bert.BertConfig:
  """Shapes of a folder.

  Args:
    values: of its config.json.

  Raises:
    UserError: it is not supported.
  """
  try:
    return bert.BertConfig(
        vocab_size=values.integer('vocab_size'),
        hidden_size=values.integer('dim'),
        num_layers=values.integer('n_layers'),
        num_heads=values.integer('n_heads'),
        intermediate_size=values.integer('hidden_dim'),
        max_positions=values.integer('max_position_embeddings'),
        type_vocab_size=0,
        hidden_act=values.text('activation', 'gelu'),
        hidden_dropout=values.number('dropout', 0.1),
        attention_dropout=values.number('attention_dropout', 0.1),
        initializer_range=values.number('initializer_range', 0.02),
        model_type='distilbert',
    )
  except ValueError as e:
    raise values.error(str(e)) from None


def to_tensors(
    params: Any, config: bert.BertConfig, pad_id: int
) -> dict[str, np.ndarray]:
  """The tensors of a folder: the inverse of `read`.

  Args:
    params: the tree of a `bert.Bert`.
    config: its shapes.
    pad_id: has no tensor of its own here.
  """
  tensors = {}
  for name, tensor in bert_pretrained.bert_tensors(
      params, config, pad_id
  ).items():
    layer = _BERT_LAYER.fullmatch(name)
    if layer:
      number, part, kind = layer.groups()
      name = f'transformer.layer.{number}.{_THEIRS[part]}.{kind}'
    if not name.startswith('pooler.'):
      tensors[name] = tensor
  return tensors


def to_json(config: bert.BertConfig, pad_id: int) -> dict[str, Any]:
  """The config.json of transformers' `DistilBertModel`."""
  return {
      'architectures': ['DistilBertModel'],
      'model_type': 'distilbert',
      'vocab_size': config.vocab_size,
      'dim': config.hidden_size,
      'n_layers': config.num_layers,
      'n_heads': config.num_heads,
      'hidden_dim': config.intermediate_size,
      'max_position_embeddings': config.max_positions,
      'activation': config.hidden_act,
      'dropout': config.hidden_dropout,
      'attention_dropout': config.attention_dropout,
      'initializer_range': config.initializer_range,
      'pad_token_id': pad_id,
      'sinusoidal_pos_embds': False,
      'torch_dtype': 'float32',
  }


def _bert_name(name: str) -> str:
  layer = _LAYER.fullmatch(name)
  if not layer:
    return name.removeprefix('distilbert.')
  number, part, kind = layer.groups()
  return f'encoder.layer.{number}.{_NAMES.get(part, part)}.{kind}'


DISTILBERT = family.Family(
    'distilbert', 'DistilBERT', 'encoder', read, {
        'distilbert': bert.BertConfig(
            num_layers=6, type_vocab_size=0, model_type='distilbert'
        ),
    }, 'DistilBertForSequenceClassification', functools.partial(
        bert_pretrained.read_head, pooler='pre_classifier', size='dim'),
    to_json=to_json, to_tensors=to_tensors, shape_of=config_of,
    head=lambda _: {'activation': 'relu'},
)
