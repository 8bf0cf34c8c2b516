"""Whether weights are tuned on queries that the members were trained on."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from absl import logging

from neg_contrast import errors
from neg_contrast.artifacts import folders, places
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.evaluation import weight_tuning
from neg_contrast.settings import config as config_lib
from neg_contrast.training import run_record

_KEYS = ('train_split', 'tune_split', 'tune_fraction')  # They choose queries.


def warn(config: config_lib.Config, dataset: dataset_lib.Dataset) -> None:
  """Warns where tune queries are among those that members were trained on.

  They fit a member better than others will, and its weight becomes too large.
  Members that are no trainings of ours, or on other data, are passed over.

  Args:
    config: of the ensemble.
    dataset: that weights are tuned on.
  """
  if not weight_tuning.reads_tune_split(config.ensemble):
    return
  members = config.ensemble.members
  ours = {key: getattr(config.data, key) for key in _KEYS}
  known = {member: _chosen(member, dataset) for member in members}
  for chosen in dict.fromkeys(known.values()):
    if chosen is None or dict(chosen) == ours:
      continue
    tuned = dataset.train_and_tune[1].queries
    shared = len(np.intersect1d(_trained(config, dict(chosen)), tuned))
    if shared:
      differing = {key: value for key, value in chosen if value != ours[key]}
      logging.warning(
          '%d of the %d queries that weights are tuned on were trained on by '
          '%s: their data has %s, and here it is %s; set %s', shared,
          len(tuned), ', '.join(one for one in members if known[one] == chosen),
          _told(differing), _told({key: ours[key] for key in differing}),
          ' '.join(f'--{errors.key(f"data.{key}")}={value!r}'
                   for key, value in differing.items()),
      )


def _trained(
    config: config_lib.Config, chosen: Mapping[str, Any]
) -> np.ndarray:
  """`[queries] int32` that a training with these keys has trained on."""
  try:
    train, _ = dataset_lib.Dataset(
        dataclasses.replace(config.data, test_split='', **chosen)
    ).train_and_tune
  except errors.UserError:  # They do not fit the other keys here.
    return np.zeros(0, np.int32)
  return train.queries


def _told(values: Mapping[str, Any]) -> str:
  return ', '.join(f'{key}={value!r}' for key, value in values.items())


def _chosen(
    member: str, dataset: dataset_lib.Dataset
) -> tuple[tuple[str, str | float], ...] | None:
  """What chose the training queries of a member; None: it is of other data."""
  path = places.path(member) / run_record.FILE
  try:
    identity = folders.read_json(path)['identity']
    if identity['needs']['data']['data'] != dataset.prepared.fingerprint:
      return None
    return tuple((key, identity['settings']['data'][key]) for key in _KEYS)
  except (OSError, errors.UserError, KeyError, TypeError):
    return None  # It is no training of ours.
