"""The features of many texts, as a model takes them. Pure."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Integer

from neg_contrast.data.side_features import side_feature


@dataclasses.dataclass(frozen=True)
class FeatureTable:
  """What a model takes of the features of some texts.

  Attributes:
    columns: by the feature's key, the values that are kept, and what makes a
      model's input of them.
  """

  columns: Mapping[str, tuple[np.ndarray, side_feature.ModelValues]]

  @classmethod
  def of(
      cls, features: Sequence[side_feature.SideFeature],
      kept: Sequence[side_feature.Kept],
  ) -> 'FeatureTable':
    """Features of a model, with their values."""
    return cls({
        one.key: (of.values, one.for_model(of.vocabulary))
        for one, of in zip(features, kept, strict=True)
    })

  def values(
      self, rows: Integer[np.ndarray, ' rows']
  ) -> dict[str, np.ndarray]:
    """By the feature's key, `[rows, columns]` of some texts."""
    return {key: for_model(np.asarray(kept[rows]))
            for key, (kept, for_model) in self.columns.items()}
