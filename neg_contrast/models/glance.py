"""What is known of a model before its weights are read."""

import dataclasses
from typing import Any

from neg_contrast import errors
from neg_contrast.artifacts import places
from neg_contrast.data import tokenizer as tokenizer_lib
from neg_contrast.models import (
  by_name,
  families,
  given,
  kinds,
  loading,
  model_names,
  named_sizes,
  text_spec,
)
from neg_contrast.settings import config as config_lib

_LENGTHS = 64, 384  # Of generators whose config names none.


@dataclasses.dataclass(frozen=True)
class Glance:
  """A model at first sight.

  Attributes:
    name: of the model.
    shape: `EncoderSpec` or `T5Config`; None: it is known when it is downloaded.
    text: lengths and prefixes.
    tokenizer: of an encoder; None: it is not here, or a generator's.
  """

  name: str
  shape: Any
  text: text_spec.TextSpec
  tokenizer: tokenizer_lib.Tokenizer | None


def look(start: given.Checkpoint) -> Glance:
  """Looks at a model; of one that is trained first, at what that starts from.

  Args:
    start: what a training starts from, or another checkpoint.

  Raises:
    UserError: a file is missing or broken, or a setting does not fit the model.
  """
  config = start.config or config_lib.ModelConfig(
      init=start.checkpoint, shared=_is_shared(start.checkpoint)
  )
  while isinstance(start, given.Start) and start.after is not None:
    start = start.after.start  # type: ignore[attr-defined]
  if start.config is not None:  # What goes on from a model has its parts.
    config = dataclasses.replace(config, **{
        field.name: getattr(start.config, field.name)
        for field in dataclasses.fields(config)
        if getattr(config, field.name) is None
    })
  name = start.checkpoint
  if isinstance(start, given.GeneratorStart):
    return _generator(name, config)
  if by_name.hub_name(name) and not _has_known_size(name):
    return Glance(name, None, _text(config), None)
  if kinds.kind_of(name) is kinds.RERANKER:
    return Glance(name, None, _text(config), None)
  # Features beside text are known with the data, and cost nothing beside it.
  spec, text = by_name.describe(name, dataclasses.replace(config, features=()))
  return Glance(name, spec, text, _tokenizer(name))


def _is_shared(name: str) -> bool:
  """Whether a model that brings its settings has one tower."""
  if kinds.kind_of(name) is not None or by_name.hub_name(name):
    return True
  return len(loading.describe_towers(name)) < 2


def _generator(name: str, config: config_lib.ModelConfig) -> Glance:
  text = _text(config)
  if kinds.kind_of(name) is not None:
    return Glance(name, None, text, None)
  folder = None if model_names.is_random(name) else model_names.here(name)
  try:
    shape = (named_sizes.shape_by_name(name, 'generator') if folder is None
             else families.shape_of(folder, 'generator'))
  except errors.UserError:
    if folder is not None:
      raise
    shape = None
  place = model_names.here(model_names.tokenizer_place(name))
  if place is not None:
    tokenizer_lib.load_seq2seq_tokenizer(str(place))  # It may be broken.
  return Glance(name, shape, text, None)


def _has_known_size(name: str) -> bool:
  size = model_names.size_of(name).rpartition('/')[2]
  return size in families.sizes('encoder')


def _text(config: config_lib.ModelConfig) -> text_spec.TextSpec:
  query, passage = _LENGTHS
  return text_spec.TextSpec(
      query_length=config.query_length or query,
      passage_length=config.passage_length or passage,
      query_prefix=config.query_prefix or '',
      passage_prefix=config.passage_prefix or '',
  )


def _tokenizer(name: str) -> tokenizer_lib.Tokenizer | None:
  """The tokenizer, if it is on this machine.

  Raises:
    UserError: it is broken.
  """
  if kinds.kind_of(name) is not None:
    return loading.read_description(places.path(name))[2]
  if by_name.hub_name(name):
    return None
  if model_names.is_random(name):
    folder = model_names.here(model_names.tokenizer_place(name))
  else:
    folder = next(iter(loading.describe_towers(name).values())).folder
  return tokenizer_lib.load_tokenizer(str(folder))
