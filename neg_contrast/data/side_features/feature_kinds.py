"""FEATURES: kinds of features beside text, by name. Pure.

A feature is written `name:kind`, as in `location:categorical`. A `?` after the
name says that records may lack it: `price?:numeric`.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from neg_contrast.data.side_features import (
  categorical,
  character_ngrams,
  numeric,
  vector,
)
from neg_contrast.data.side_features.side_feature import SideFeature

FEATURES: Mapping[str, type[SideFeature]] = {
    one.kind: one for one in (
        categorical.Categorical,
        numeric.Numeric,
        vector.Vector,
        character_ngrams.CharacterNgrams,
    )
}

_FORM = re.compile(r'([\w-]+)(\??):([a-z]+)(.*)')


def parse(text: str) -> SideFeature:
  """The feature that a text names; nothing of it is fitted to data.

  Args:
    text: as a key of `model.features` has it.

  Raises:
    ValueError: says what is wrong, and the forms that there are.
  """
  found = _FORM.fullmatch(text)
  kind = FEATURES.get(found[3]) if found else None
  if found is None or kind is None:
    forms = ', '.join(form for one in FEATURES.values() for form in one.forms)
    raise ValueError(f'is not of the form name:kind; write one of {forms}')
  try:
    return kind.parse(found[1], bool(found[2]), found[4])
  except ValueError as e:
    raise ValueError(f'{e}; write {" or ".join(kind.forms)}') from None


def parse_all(texts: Sequence[str]) -> tuple[SideFeature, ...]:
  """The features that texts name.

  Raises:
    ValueError: names the text, and what is wrong with it.
  """
  features: dict[str, SideFeature] = {}
  for text in texts:
    try:
      one = parse(text)
    except ValueError as e:
      raise ValueError(f'{text!r} {e}') from None
    if one.key in features:
      raise ValueError(f'{text!r} is named twice; leave one of them out')
    features[one.key] = one
  return tuple(features.values())


def from_json(values: Mapping[str, Any]) -> SideFeature:
  """The inverse of `SideFeature.to_json`.

  Raises:
    KeyError: a key is missing.
    TypeError: one is not of its type.
    ValueError: it is of no kind that there is.
  """
  return parse(values['feature']).with_facts(
      {key: value for key, value in values.items() if key != 'feature'}
  )
