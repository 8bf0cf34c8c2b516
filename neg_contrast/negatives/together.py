"""Which training examples a batch takes together: `data.together`.

A kind of group is a function here and a line in `GROUPS`.
"""

import dataclasses
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from absl import logging
from jaxtyping import Int

from neg_contrast import errors
from neg_contrast.artifacts import artifact
from neg_contrast.batches import grouped_order
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import examples
from neg_contrast.negatives import document_neighbours
from neg_contrast.negatives import topics as topics_lib
from neg_contrast.retrieval import encoding
from neg_contrast.settings import config as config_lib

_TOPICS = 'topics'

@dataclasses.dataclass(frozen=True)
class Asked:
  """What groups may be made from, before any training.

  Attributes:
    data: that is trained on; loads as a `Dataset`.
    model: what training starts from.
    encoding: how that encodes.
    mined_dir: where what several trainings share is kept.
    settings: of the data.
  """

  data: artifact.Artifact
  model: artifact.Artifact
  encoding: encoding.EncodingSettings
  mined_dir: pathlib.Path
  settings: config_lib.DataConfig


@dataclasses.dataclass(frozen=True)
class Group:
  """A kind of groups.

  Attributes:
    groups: (data, examples, what `needs` loads as, the key and its value for
      messages) -> `[examples] int`, the group of each; -1: unknown.
    needs: what it is made from beside the data, by role.
  """

  groups: Callable[
      [dataset_lib.Dataset, examples.Examples, Mapping[str, Any], str],
      np.ndarray,
  ]
  needs: Callable[[Asked], dict[str, artifact.Artifact]] = lambda asked: {}


def _by_document(dataset, pairs, made, key):
  """Refuses data whose documents are not known."""
  del made
  documents = dataset.documents[pairs.positive_rows]
  unknown = document_neighbours.check_documents(
      documents, dataset.prepared.manifest['spec'], key,
      'Choose "topic:N", or leave it out',
  )
  if unknown:
    logging.warning('%s: %d of %d positives belong to no document, and come '
                    'with any others', key, unknown, len(documents))
  return documents


def _by_topic(dataset, pairs, made, key):
  del dataset, key
  return made[_TOPICS][pairs.query_rows]


def _needs_topics(asked):
  return {_TOPICS: topics_lib.Topics(
      asked.data, asked.model, asked.encoding, asked.mined_dir,
      asked.settings.topics, _key(),
  )}


GROUPS = {
    'document': Group(_by_document),
    'topic': Group(_by_topic, _needs_topics),
}
"""Name in `data.together` -> what makes groups."""


def _key():
  return errors.key('data.together', is_of_set=False)


def needs_of(asked: Asked) -> dict[str, artifact.Artifact]:
  """What the groups of a training are made from beside its data, by role."""
  entry = asked.settings.group
  return {} if entry is None else GROUPS[entry.names[0]].needs(asked)


def order_of(
    settings: config_lib.DataConfig,
    dataset: dataset_lib.Dataset,
    pairs: examples.Examples,
    made: Mapping[str, Any],
    seed: int,
) -> grouped_order.GroupedOrder | None:
  """The order of the examples of a training; None: all are shuffled.

  Args:
    settings: of the data.
    dataset: that is trained on.
    pairs: the training examples.
    made: what the artifacts of `needs_of` load as, by role.
    seed: of the run.

  Raises:
    UserError: it is not known which examples belong together.
  """
  entry = settings.group
  if entry is None:
    return None
  groups: Int[np.ndarray, ' examples'] = GROUPS[entry.names[0]].groups(
      dataset, pairs, made, f'{_key()}={settings.together!r}'
  )
  return grouped_order.GroupedOrder(
      groups, dataset.prepared.passage_groups[pairs.positive_rows],
      entry.count, settings.batch_size, seed,
  )
