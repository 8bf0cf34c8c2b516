"""Reads ELECTRA folders: discriminators, which are BERTs by another name.

Clark et al., "ELECTRA: Pre-training Text Encoders as Discriminators Rather
Than Generators", appendix B; transformers' ElectraModel.
"""

import functools
from typing import Any

from neg_contrast.models import bert, bert_pretrained, family, json_objects


def read(
    values: json_objects.JsonObject,
) -> tuple[bert.BertConfig, dict[str, Any]]:
  """Shapes and parameters of a folder.

  Args:
    values: of its config.json.

  Raises:
    UserError: it is not supported, or weights do not fit it.
  """
  _check_width(values)
  return bert_pretrained.read(values)


def config_of(values: json_objects.JsonObject) -> bert.BertConfig:
  """Shapes of a folder; raises as `read`, which needs weights too."""
  _check_width(values)
  return bert_pretrained.config_of(values)


def _check_width(values: json_objects.JsonObject) -> None:
  """Refuses the small ELECTRA.

  Raises:
    UserError: names the key.
  """
  hidden = values.integer('hidden_size')
  width = values.integer('embedding_size', 128)
  if width != hidden:
    raise values.error(
        f'embedding_size={width} is not hidden_size={hidden}, as in ELECTRA '
        'small, which is not supported; base and large are'
    )


ELECTRA = family.Family(
    'electra', 'ELECTRA', 'encoder', read, {},
    'ElectraForSequenceClassification', functools.partial(
        bert_pretrained.read_head, pooler='classifier.dense',
        score='classifier.out_proj'),
    shape_of=config_of, head=lambda _: {'activation': 'gelu'},
)
