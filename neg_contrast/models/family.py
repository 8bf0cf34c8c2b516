"""One entry of the table of model families, see `families.FAMILIES`."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Literal

from neg_contrast.models import json_objects

Purpose = Literal['encoder', 'generator']


@dataclasses.dataclass(frozen=True)
class Family:
  """Models whose folders are read in one way.

  Attributes:
    model_type: in config.json.
    title: the family's own name, for people.
    purpose: `encoder`: a tower of a dual encoder or a cross-encoder, computed
      by a module of `transformer.ARCHITECTURES`; `generator`: writes questions,
      computed by `t5.T5`.
    read: config.json of a folder -> (shapes and constants, parameters): a
      `shape.Shape` or a `t5_config.T5Config`, and the float32 numpy tree of the
      module, layers stacked. Raises UserError.
    sizes: shapes that have a name, for `random:SIZE`.
    classifier: architecture in config.json of a cross-encoder of this family
      with one label; empty: none can be read.
    to_json: (shapes, id of padding) -> values of config.json.
    to_tensors: (parameters, shapes, id of padding) -> tensors of a folder.
    key: of the table, where other models have the `model_type` too.
    shape_of: config.json of a folder -> shapes and constants, without a look at
      the weights. Raises UserError.
    read_head: config.json of such a folder -> parameters of a
      `cross_encoder.CrossEncoder` beside its transformer.
    head: config.json of such a folder -> what is unusual of its
      `cross_encoder.CrossEncoderSpec`. Raises UserError.
  """

  model_type: str
  title: str
  purpose: Purpose
  read: Callable[[json_objects.JsonObject], tuple[Any, dict[str, Any]]]
  sizes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  classifier: str = ''
  read_head: Callable[[json_objects.JsonObject], dict[str, Any]] | None = None
  to_json: Callable[[Any, int], dict[str, Any]] | None = None
  to_tensors: Callable[[Any, Any, int], dict[str, Any]] | None = None
  key: str = ''
  shape_of: Callable[[json_objects.JsonObject], Any] | None = None
  head: Callable[[json_objects.JsonObject], Mapping[str, Any]] = lambda _: {}

  @property
  def name(self) -> str:
    """In the table."""
    return self.key or self.model_type
