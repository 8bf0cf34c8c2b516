"""Reads and writes RoBERTa and XLM-R folders: BERTs with other positions.

Liu et al., "RoBERTa: A Robustly Optimized BERT Pretraining Approach"; Conneau
et al., "Unsupervised Cross-lingual Representation Learning at Scale"; as
transformers' RobertaModel and XLMRobertaModel without pooler. There the first
position of a text is one more than the id of padding, so that the first rows of
the position embeddings are never trained. Here they are left out, and positions
begin at 0; exported folders have zeros there.
"""

import dataclasses
import functools
from typing import Any

import numpy as np

from neg_contrast.models import (
  bert,
  bert_pretrained,
  family,
  json_objects,
  tensor_files,
)

_POSITIONS = 'embeddings.position_embeddings.weight'
_ARCHITECTURES = {'roberta': 'RobertaModel', 'xlm-roberta': 'XLMRobertaModel'}


def read(
    values: json_objects.JsonObject,
) -> tuple[bert.BertConfig, dict[str, Any]]:
  """Shapes and parameters of a folder.

  Args:
    values: of its config.json.

  Raises:
    UserError: it is not supported, or weights do not fit it.
  """
  whole, first = _whole(values)
  folder = values.path.parent
  params = bert_pretrained.convert_bert(
      tensor_files.read_tensors(folder), whole, str(folder)
  )
  positions = params['embeddings']['position']
  positions['embedding'] = positions['embedding'][first:]
  return _used(values, whole, first), params


def config_of(values: json_objects.JsonObject) -> bert.BertConfig:
  """Shapes of a folder; raises as `read`, which needs weights too."""
  return _used(values, *_whole(values))


def _whole(values: json_objects.JsonObject) -> tuple[bert.BertConfig, int]:
  """Shapes as config.json has them, and the first position that texts have.

  Raises:
    UserError: it is not supported.
  """
  first = values.integer('pad_token_id', 1) + 1
  whole = bert_pretrained.config_of(values)
  if whole.max_positions <= first:
    raise values.error(
        f'max_position_embeddings={whole.max_positions} leaves no positions '
        f'after the first {first}, which no text has'
    )
  return whole, first


def _used(
    values: json_objects.JsonObject, whole: bert.BertConfig, first: int
) -> bert.BertConfig:
  """Shapes as they are computed with."""
  return dataclasses.replace(
      whole, max_positions=whole.max_positions - first,
      model_type=values.text('model_type'),
  )


def to_tensors(
    params: Any, config: bert.BertConfig, pad_id: int
) -> dict[str, np.ndarray]:
  """The tensors of a folder: the inverse of `read`.

  Args:
    params: the tree of a `bert.Bert`.
    config: its shapes.
    pad_id: id of padding.
  """
  tensors = bert_pretrained.bert_tensors(params, config)
  unused = np.zeros((pad_id + 1, config.hidden_size), np.float32)
  tensors[_POSITIONS] = np.concatenate([unused, tensors[_POSITIONS]])
  return tensors


def to_json(config: bert.BertConfig, pad_id: int) -> dict[str, Any]:
  """The config.json of transformers' class."""
  return bert_pretrained.to_json(config, pad_id) | {
      'architectures': [_ARCHITECTURES[config.model_type]],
      'model_type': config.model_type,
      'max_position_embeddings': config.max_positions + pad_id + 1,
  }


_BASE = bert.BertConfig(
    vocab_size=50265, type_vocab_size=1, layer_norm_eps=1e-5,
    model_type='roberta',
)
_XLM_BASE = dataclasses.replace(
    _BASE, vocab_size=250002, model_type='xlm-roberta'
)
read_head = functools.partial(
    bert_pretrained.read_head, pooler='classifier.dense',
    score='classifier.out_proj',
)
ROBERTA = family.Family(
    'roberta', 'RoBERTa', 'encoder', read, {'roberta-base': _BASE},
    'RobertaForSequenceClassification', read_head, to_json=to_json,
    to_tensors=to_tensors, shape_of=config_of,
)
XLM_ROBERTA = family.Family(
    'xlm-roberta', 'XLM-RoBERTa', 'encoder', read, {
        'xlm-roberta-base': _XLM_BASE,
        'xlm-roberta-large': dataclasses.replace(
            _XLM_BASE, hidden_size=1024, num_layers=24, num_heads=16,
            intermediate_size=4096,
        ),
    }, 'XLMRobertaForSequenceClassification', read_head, to_json=to_json,
    to_tensors=to_tensors, shape_of=config_of,
)
