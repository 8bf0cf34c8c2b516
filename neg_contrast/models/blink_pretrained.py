"""Reads BLINK's dual encoder: the BERTs of mentions and entities in one file.

Wu et al., "Scalable Zero-shot Entity Linking with Dense Entity Retrieval",
2020; names as in `blink/biencoder/biencoder.py` of its code. What is published
is a pickle; models/README.md says how to make a safetensors file of it.
"""

import pathlib
from typing import Any

from neg_contrast.models import (
  bert,
  bert_pretrained,
  json_objects,
  tensor_files,
)

TITLE_END = '[unused2]'  # Between title and text, where others have [SEP].
_PREFIXES = {
    'query': 'context_encoder.bert_model.',
    'passage': 'cand_encoder.bert_model.',
}


def is_blink(folder: pathlib.Path) -> bool:
  """Whether the weights of a folder have the names of BLINK's.

  Raises:
    UserError: a file of weights is broken.
  """
  names = tensor_files.names(folder)
  return any(name.startswith(prefix) for name in names
             for prefix in _PREFIXES.values())


def read(
    folder: pathlib.Path,
) -> dict[str, tuple[bert.BertConfig, dict[str, Any]]]:
  """Shapes and parameters of `query` and `passage`.

  Args:
    folder: with BERT's config.json and the weights of both.

  Raises:
    UserError: a file is missing or broken, or weights do not fit config.json.
  """
  values = json_objects.read(folder / 'config.json')
  config = bert_pretrained.config_of(values)
  tensors = tensor_files.read_tensors(folder)
  return {role: (config, bert_pretrained.convert_bert({
      name.removeprefix(prefix): tensor for name, tensor in tensors.items()
      if name.startswith(prefix)
  }, config, f'{folder}: {prefix[:-1]}')) for role, prefix in _PREFIXES.items()}
