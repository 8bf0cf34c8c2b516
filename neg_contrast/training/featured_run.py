"""A training whose model may read features beside text."""

import functools

from neg_contrast.models import featured, loading
from neg_contrast.training import pooled_run


class FeaturedTraining(pooled_run.PooledTraining):
  """What trainings of dual encoders do about `model.features`."""

  @functools.cached_property
  def model(self) -> loading.Model:
    """The model that training starts from, with layers for its features."""
    return featured.with_features(
        super().model, self._config.model.features, self._dataset,
        self._config.seed,
    ) if self._config.model.features else super().model
