"""ARCHITECTURES: the transformers that towers and cross-encoders use. Pure.

To add one: write its shapes, a `shape.Shape`, and its module, called as
`bert.Bert` is; add both to the table. Folders of other libraries are read by
the table `families.FAMILIES`.
"""

from collections.abc import Mapping
from typing import Any

import flax.linen as nn

from neg_contrast.models import (
  bert,
  modernbert,
  mpnet,
  nomic_bert,
  qwen3,
  t5_encoder,
)
from neg_contrast.models import shape as shape_lib

KEY = 'bert'
"""Of the transformer in trees of parameters and in files, whatever it is: they
are older than the others."""


ARCHITECTURES: dict[str, tuple[type[shape_lib.Shape], type[nn.Module]]] = {
    bert.BertConfig.architecture: (bert.BertConfig, bert.Bert),
    mpnet.MPNetConfig.architecture: (mpnet.MPNetConfig, mpnet.MPNet),
    modernbert.ModernBertConfig.architecture: (
        modernbert.ModernBertConfig, modernbert.ModernBert
    ),
    nomic_bert.NomicBertConfig.architecture: (
        nomic_bert.NomicBertConfig, nomic_bert.NomicBert
    ),
    qwen3.Qwen3Config.architecture: (qwen3.Qwen3Config, qwen3.Qwen3),
    t5_encoder.T5EncoderConfig.architecture: (
        t5_encoder.T5EncoderConfig, t5_encoder.T5Encoder
    ),
}


def make(shape: shape_lib.Shape, **options: Any) -> nn.Module:
  """The module of an architecture.

  Args:
    shape: shapes and constants.
    **options: the attributes of `bert.Bert`, and its name.
  """
  _, module = ARCHITECTURES[shape.architecture]
  return module(shape, **options)


def to_json(shape: shape_lib.Shape) -> dict[str, Any]:
  """Plain values, from which `from_json` makes the shape again."""
  values = shape.to_json()
  if shape.architecture != KEY:  # As it was before there were others.
    values['architecture'] = shape.architecture
  return values


def from_json(values: Mapping[str, Any]) -> shape_lib.Shape:
  """The inverse of `to_json`.

  Raises:
    KeyError: there is no such architecture.
    TypeError: the values are not those of its shapes.
    ValueError: they are out of range.
  """
  values = dict(values)
  shape, _ = ARCHITECTURES[values.pop('architecture', KEY)]
  return shape(**values)
