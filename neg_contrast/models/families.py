"""FAMILIES: the models of other libraries whose folders can be used.

To add one: write `NAME_pretrained.py`, like `bert_pretrained.py`, with
`read(values) -> (config, params)`, which takes every key of config.json from
`values` and every tensor by `tensor_files.take` (both raise the right error);
end it with a `family.Family`; add that to the table; compare with transformers
on random weights, as tests/models/test_electra_pretrained.py does.
"""

import pathlib
from collections.abc import Mapping
from typing import Any

from neg_contrast import errors
from neg_contrast.models import (
  bert_pretrained,
  distilbert_pretrained,
  electra_pretrained,
  family,
  json_objects,
  modernbert_pretrained,
  mpnet_pretrained,
  nomic_bert_pretrained,
  qwen3_pretrained,
  roberta_pretrained,
  t5_encoder_pretrained,
  t5_pretrained,
)

FAMILIES: dict[str, family.Family] = {f.name: f for f in (
    bert_pretrained.BERT,
    bert_pretrained.DPR,
    electra_pretrained.ELECTRA,
    roberta_pretrained.ROBERTA,
    roberta_pretrained.XLM_ROBERTA,
    distilbert_pretrained.DISTILBERT,
    mpnet_pretrained.MPNET,
    modernbert_pretrained.MODERNBERT,
    nomic_bert_pretrained.NOMIC_BERT,
    qwen3_pretrained.QWEN3,
    t5_encoder_pretrained.T5_ENCODER,
    t5_encoder_pretrained.MT5_ENCODER,
    t5_pretrained.T5,
    t5_pretrained.MT5,
)}
_EXAMPLES: dict[family.Purpose, str] = {
    'encoder': 'Name a BERT folder, such as a download of bert-base-uncased',
    'generator': 'Name a T5 folder, such as a download of google/t5-v1_1-small',
}
_CLASSIFIER = 'ForSequenceClassification'  # Architectures end so.
_DEFAULT = 'bert'  # Of old folders of encoders, which have no model_type.


def names(purpose: family.Purpose) -> list[str]:
  """The model types of a purpose."""
  return [f.model_type for f in FAMILIES.values() if f.purpose == purpose]


def sizes(purpose: family.Purpose) -> Mapping[str, Any]:
  """Shapes that have a name, of all families of a purpose."""
  return {name: size for f in FAMILIES.values() if f.purpose == purpose
          for name, size in f.sizes.items()}


def read(
    folder: pathlib.Path, purpose: family.Purpose
) -> tuple[Any, dict[str, Any]]:
  """Shapes and parameters of a folder with config.json and weights.

  Raises:
    UserError: a file is missing or broken, or no family of this purpose has
      such folders.
  """
  values = _config_of(folder, purpose)
  return _family_of(values, purpose).read(values)


def shape_of(folder: pathlib.Path, purpose: family.Purpose) -> Any:
  """Shapes of a folder with config.json; no weights are read.

  Raises:
    UserError: as `read`, but for the weights.
  """
  values = _config_of(folder, purpose)
  found = _family_of(values, purpose)
  assert found.shape_of is not None, found.name
  return found.shape_of(values)


def _config_of(
    folder: pathlib.Path, purpose: family.Purpose
) -> json_objects.JsonObject:
  path = folder / 'config.json'
  if not path.exists():
    kind = 'model' if purpose == 'encoder' else 'T5'
    workdir = (', or a workdir of ours that training has begun in'
               if purpose == 'encoder' else '')
    raise errors.UserError(
        f'{path}: no such file. A {kind} is a folder with config.json, '
        f'model.safetensors and a tokenizer{workdir}'
    )
  return json_objects.read(path)


def is_classifier(folder: pathlib.Path) -> bool:
  """Whether a folder holds a cross-encoder, one that can be read or not.

  Raises:
    UserError: its config.json is broken.
  """
  names = _architectures(json_objects.read_if_there(folder / 'config.json'))
  kind = json_objects.read_if_there(
      folder / 'config_sentence_transformers.json').values.get('model_type')
  return kind == 'CrossEncoder' or any(
      str(name).endswith(_CLASSIFIER) for name in names)


def read_head(folder: pathlib.Path) -> dict[str, Any]:
  """Parameters over the transformer of a folder that `is_classifier`.

  Raises:
    UserError: one is missing, or it has another number of labels than one.
  """
  values, found = _head_of(folder)
  assert found.read_head is not None
  return found.read_head(values)


def head_of(folder: pathlib.Path) -> Mapping[str, Any]:
  """What is unusual of its spec; no weights are read. Raises as `read_head`."""
  values, found = _head_of(folder)
  return found.head(values)


def _head_of(
    folder: pathlib.Path,
) -> tuple[json_objects.JsonObject, family.Family]:
  """config.json and family of a cross-encoder that can be read."""
  values = json_objects.read(folder / 'config.json')
  found = _family_of(values, 'encoder')
  if found.read_head is None or found.classifier not in _architectures(values):
    *others, last = (f.classifier for f in FAMILIES.values() if f.classifier)
    raise errors.UserError(
        f'{values.path}: cross-encoders of {", ".join(others)} and {last} can '
        f'be read, and not {", ".join(map(str, _architectures(values)))}'
    )
  return values, found


def _family_of(
    values: json_objects.JsonObject, purpose: family.Purpose
) -> family.Family:
  default = _DEFAULT if purpose == 'encoder' else ''
  kind = values.text('model_type', default)
  if kind not in names(purpose):
    *others, last = (f'"{name}"' for name in names(purpose))
    raise errors.UserError(
        f'{values.path}: model_type "{kind}" is not supported here; '
        f'{", ".join(others)} and {last} are. {_EXAMPLES[purpose]}'
    )
  return next(f for f in FAMILIES.values()
              if (f.purpose, f.model_type) == (purpose, kind))


def _architectures(values: json_objects.JsonObject) -> list[Any]:
  listed = values.values.get('architectures') or []
  if not isinstance(listed, list):
    raise values.error('architectures is no list')
  return listed
