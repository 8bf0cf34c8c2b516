"""Models that read features beside text: layers for them, fitted to data."""

import dataclasses
from collections.abc import Sequence

import jax
import numpy as np

from neg_contrast import errors
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import feature_store
from neg_contrast.data.side_features import feature_kinds, side_feature
from neg_contrast.models import dual_encoder, loading

_ROLES = 'query', 'passage'


def with_features(
    model: loading.Model,
    texts: Sequence[str],
    dataset: dataset_lib.Dataset,
    seed: int,
) -> loading.Model:
  """The model that reads features too, before any step of training.

  Args:
    model: to start from. One that has features keeps them.
    texts: the features, as of `model.features`.
    dataset: that is trained on. Its passages, and queries of the training
      split, give categories, means and deviations.
    seed: of random weights.

  Returns:
    The model, with its own fingerprint: that of what training begins with.

  Raises:
    UserError: a feature is in no record, or its values do not train.
  """
  if not texts or model.spec.side_features:
    return model
  try:
    spec = dataclasses.replace(model.spec, side_features=tuple(
        _fitted(one, dataset) for one in feature_kinds.parse_all(texts)
    ))
  except ValueError as e:
    raise errors.SettingError('model.features', tuple(texts), str(e)) from None
  layers = dual_encoder.init_features(spec, jax.random.key(seed))
  return dataclasses.replace(model, spec=spec, params={
      tower: {**params, **jax.tree.map(np.asarray, layers[tower])}
      for tower, params in model.params.items()
  })


def _fitted(
    feature: side_feature.SideFeature, dataset: dataset_lib.Dataset
) -> side_feature.SideFeature:
  """A feature with what it takes from the data.

  Raises:
    ValueError: no record has it.
  """
  prepared = dataset.prepared
  queries, passages = (
      feature_store.kept(prepared, role, feature, dataset.skips_invalid)
      for role in _ROLES
  )
  trained = np.unique(dataset.train_and_tune[0].query_rows)
  queries = dataclasses.replace(queries, values=queries.values[trained])
  if not (queries.values.any() or passages.values.any()):
    raise ValueError(
        f'"{feature.name}" is in no query and no passage of '
        f'{prepared.manifest["spec"]}; {_where(prepared.manifest["spec"])}'
    )
  return feature.fitted((queries, passages))


def _where(spec: str) -> str:
  """Where a source has features."""
  if spec.startswith('beir:'):
    return 'name a key of corpus.jsonl or queries.jsonl, or of their "metadata"'
  return ('name a column: query_NAME and passage_NAME in a table of questions, '
          'or NAME in one of documents')
