"""Reads and writes MPNet folders, as transformers' MPNetModel without pooler.

Its first two positions are never used, as in RoBERTa, whatever the id of
padding is: they are left out here, and zeros in exported folders.
"""

import dataclasses
import re
from typing import Any

import numpy as np

from neg_contrast.models import (
  bert,
  bert_pretrained,
  family,
  json_objects,
  mpnet,
  roberta_pretrained,
  tensor_files,
)

_FIRST_POSITION = 2
_POSITIONS = 'embeddings.position_embeddings.weight'
_RELATIVE = 'encoder.relative_attention_bias.weight'
_BUCKETS = 'relative_attention_num_buckets'
# Theirs -> those of a BertModel.
_NAMES = {
    'attention.attn.q': 'attention.self.query',
    'attention.attn.k': 'attention.self.key',
    'attention.attn.v': 'attention.self.value',
    'attention.attn.o': 'attention.output.dense',
    'attention.LayerNorm': 'attention.output.LayerNorm',
}
_THEIRS = {ours: theirs for theirs, ours in _NAMES.items()}
_LAYER = re.compile(r'(encoder\.layer\.\d+)\.(.+)\.(\w+)')


def read(
    values: json_objects.JsonObject,
) -> tuple[mpnet.MPNetConfig, dict[str, Any]]:
  """Shapes and parameters of a folder.

  Args:
    values: of its config.json.

  Raises:
    UserError: it is not supported, or weights do not fit it.
  """
  whole = _whole(values)
  folder = values.path.parent
  tensors = {_renamed(name.removeprefix('mpnet.'), _NAMES): tensor
             for name, tensor in tensor_files.read_tensors(folder).items()}
  params = bert_pretrained.convert_bert(tensors, whole, str(folder))
  positions = params['embeddings']['position']
  positions['embedding'] = positions['embedding'][_FIRST_POSITION:]
  params['relative_bias'] = {'embedding': tensor_files.take(
      tensors, _RELATIVE, (mpnet.BUCKETS, whole.num_heads), str(folder)
  )}
  return _used(whole), params


def config_of(values: json_objects.JsonObject) -> mpnet.MPNetConfig:
  """Shapes of a folder; raises as `read`, which needs weights too."""
  return _used(_whole(values))


def _whole(values: json_objects.JsonObject) -> bert.BertConfig:
  """Shapes as config.json has them, with positions that no text has.

  Raises:
    UserError: it is not supported.
  """
  count = values.integer(_BUCKETS, mpnet.BUCKETS)
  if count != mpnet.BUCKETS:
    raise values.error(f'{_BUCKETS}={count}, and an MPNet has {mpnet.BUCKETS}')
  whole = bert_pretrained.config_of(json_objects.JsonObject(
      values.path, {**values.values, 'type_vocab_size': 0}
  ))
  if whole.max_positions <= _FIRST_POSITION:
    raise values.error(
        f'max_position_embeddings={whole.max_positions} leaves no positions '
        f'after the first {_FIRST_POSITION}, which no text has'
    )
  return whole


def _used(whole: bert.BertConfig) -> mpnet.MPNetConfig:
  """Shapes as they are computed with."""
  fields = dataclasses.asdict(whole) | {
      'max_positions': whole.max_positions - _FIRST_POSITION,
      'model_type': 'mpnet',
  }
  return mpnet.MPNetConfig(**fields)


def to_tensors(
    params: Any, config: mpnet.MPNetConfig, pad_id: int
) -> dict[str, np.ndarray]:
  """The tensors of a folder: the inverse of `read`.

  Args:
    params: the tree of an `mpnet.MPNet`.
    config: its shapes.
    pad_id: has no tensor of its own here.
  """
  tensors = {
      _renamed(name, _THEIRS): tensor for name, tensor
      in bert_pretrained.bert_tensors(params, config, pad_id).items()
  }
  unused = np.zeros((_FIRST_POSITION, config.hidden_size), np.float32)
  return tensors | {
      _POSITIONS: np.concatenate([unused, tensors[_POSITIONS]]),
      _RELATIVE: params['relative_bias']['embedding'],
  }


def to_json(config: mpnet.MPNetConfig, pad_id: int) -> dict[str, Any]:
  """The config.json of transformers' `MPNetModel`."""
  values = bert_pretrained.to_json(config, pad_id) | {
      'architectures': ['MPNetModel'],
      'model_type': 'mpnet',
      'max_position_embeddings': config.max_positions + _FIRST_POSITION,
      _BUCKETS: mpnet.BUCKETS,
  }
  del values['type_vocab_size'], values['position_embedding_type']
  return values


def _renamed(name: str, names: dict[str, str]) -> str:
  """A tensor's name, with that of its layer's part by another table."""
  layer = _LAYER.fullmatch(name)
  if not layer:
    return name
  place, part, kind = layer.groups()
  return f'{place}.{names.get(part, part)}.{kind}'


MPNET = family.Family(
    'mpnet', 'MPNet', 'encoder', read, {'mpnet-base': mpnet.MPNetConfig()},
    'MPNetForSequenceClassification', roberta_pretrained.read_head,
    to_json=to_json, to_tensors=to_tensors, shape_of=config_of,
)
