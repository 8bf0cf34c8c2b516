"""Checks of `model.features`, the features beside text that a model reads."""

from collections.abc import Sequence

from neg_contrast import errors
from neg_contrast.data.side_features import feature_kinds, side_feature
from neg_contrast.settings import config as config_lib

_WITH_FEATURES = (
    'train', 'mine', 'audit', 'table', 'study', 'follow', 'benchmark',
)  # Jobs that train dual encoders, or compare those that do.


def check(config: config_lib.Config) -> None:
  """Refuses features beside text that are none, or that the job can't use."""
  names = config.model.features
  if not names:
    return
  try:
    features = feature_kinds.parse_all(names)
  except ValueError as e:
    raise config.error('model.features', str(e)) from None
  if config.job not in _WITH_FEATURES:
    raise config.error('model.features', 'is for trainings of dual encoders '
                       f'(job=train), and this is job={config.job}; a trained '
                       'model has its features; leave it out')
  if config.mixture.sets:
    raise config.error('model.features', 'is for trainings on one data set; '
                       'leave it out, or mixture.sets')
  if config.model.freeze:
    raise config.error('model.features', 'of passages would stay random with '
                       f'model.freeze={config.model.freeze}; leave one out')
  if config.model.score not in (None, 'dual'):
    raise config.error('model.features', 'are added to the one vector of a '
                       f'text, and model.score={config.model.score} compares '
                       'several; leave one out')
  if config.synthetic.pairs and not all(one.of_text for one in features):
    raise config.error('model.features', 'are of queries that people asked; '
                       'those of synthetic.pairs have none. Leave it out here, '
                       'and set it for the training after it (stage 2)')


def check_start(
    config: config_lib.Config, features: Sequence[side_feature.SideFeature]
) -> None:
  """Refuses trainings that features of a trained start can't be read in.

  Args:
    config: of the training.
    features: that its start has.

  Raises:
    UserError: names the key.
  """
  names, start = ', '.join(one.text for one in features), config.model.init
  if features and config.mixture.sets:
    raise errors.SettingError(
        'mixture.sets', tuple(config.mixture.sets), f'{start} reads {names}, '
        'which is for trainings on one data set; start from another model'
    )
  if config.synthetic.pairs and not all(one.of_text for one in features):
    raise config.error('synthetic.pairs', f'have queries without {names}, '
                       f'which {start} reads; start from another model')
