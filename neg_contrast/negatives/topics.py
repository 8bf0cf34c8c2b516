"""Topics of training queries: clusters of their vectors, made once.

TAS (Hofstätter et al., 2021, section 3.1) clusters the queries of MS MARCO into
2,000 topics, of 200 each, by the vectors of a retriever that is there before.
"""

import dataclasses
import hashlib
import pathlib
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from neg_contrast import errors
from neg_contrast.artifacts import arrays, artifact
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.models import loading
from neg_contrast.retrieval import embedder, encoding, text_encoder

_FILE = 'topics.npy'
_OF_ONE = 200  # Queries of a topic, where nothing else is said.
_MOST = 2000  # Topics, where nothing else is said.
_SAMPLED = 256  # Queries of a topic that its centre is made from, about.
_ROUNDS = 25
_SCORES_AT_ONCE = 2**24


@dataclasses.dataclass(frozen=True)
class Topics(artifact.Cached):
  """The topic of each query; loads as `[queries] int32`, -1: not trained on.

  They serve all trainings on these queries that start from this model.

  Attributes:
    data: that is trained on; loads as a `Dataset`.
    model: what training starts from; loads as a dual encoder.
    encoding: how it encodes.
    mined_dir: where what several trainings share is kept.
    count: topics; 0: one for 200 queries, of at most 2,000.
    key: that asks for them, for error messages.
  """

  kind = 'topics of training queries'
  name = 'topics'
  data: artifact.Artifact
  model: artifact.Artifact
  encoding: encoding.EncodingSettings
  mined_dir: pathlib.Path
  count: int
  key: str

  @property
  def root(self) -> pathlib.Path:
    """Beside half passages and vectors."""
    return self.mined_dir / 'topics'

  @property
  def label(self) -> str:
    """The data set."""
    return self._dataset.name

  def describe(self) -> str:
    """How many, and where."""
    count = f'{self.count:,} topics' if self.count else 'topics'
    return f'{count} of the training queries, clustered, in {self.root}'

  def needs(self) -> dict[str, artifact.Artifact]:
    """Texts and model."""
    return {'data': self.data, 'model': self.model}

  def settings(self) -> dict[str, Any]:
    """How many, of which queries, and what computes vectors."""
    return {
        'topics': self.count,
        'queries': hashlib.sha256(self._queries.tobytes()).hexdigest(),
        'computed': embedder.computed(self.encoding, self._model),
    }

  def write(self, scratch: pathlib.Path, manifest: dict[str, Any]) -> None:
    """Encodes the queries and clusters them."""
    rows = self._queries
    vecs = embedder.Embedder(
        self._dataset, text_encoder.TextEncoder(self._model, self.encoding)
    ).query_vecs(rows)
    count = self.count or min(_MOST, max(2, len(rows) // _OF_ONE))
    topics = np.full(len(self._dataset.prepared.queries), -1, np.int32)
    topics[rows] = cluster(vecs, count)
    manifest['sizes'] = np.bincount(topics[rows]).tolist()
    np.save(scratch / _FILE, topics)

  def read(self) -> np.ndarray:
    """The topics."""
    return arrays.load_array(self.folder / _FILE, (None,), np.int32)

  @property
  def _dataset(self) -> dataset_lib.Dataset:
    return self.data.load()

  @property
  def _model(self) -> loading.Model:
    """The model.

    Raises:
      UserError: a text has several vectors.
    """
    model = self.model.load()
    if not model.spec.score.is_dot:
      raise errors.UserError(
          f'{self.key}: topics are clusters of vectors, and model.score gives '
          'each text several; leave it out'
      )
    return model

  @property
  def _queries(self) -> Int[np.ndarray, ' queries']:
    """`[queries] int32`, ascending: those that are trained on."""
    trained, _ = self._dataset.train_and_tune
    return np.unique(trained.query_rows[trained.grades > 0]).astype(np.int32)


def cluster(
    vecs: Float[np.ndarray, 'vectors features'], count: int
) -> Int[np.ndarray, ' vectors']:
  """`[vectors] int32`, the cluster of each, by k-means (Lloyd).

  Centres are made from a sample of at most 256 vectors for each. Of 63 million
  vectors of 768 features and 2,000 topics a round takes 1.6e12 operations for
  that sample, and the last one 1.9e14 for all.

  Args:
    vecs: `[vectors, features] float32`.
    count: clusters; as many as vectors, if there are fewer of these.
  """
  rng = np.random.default_rng(0)
  count = min(count, len(vecs))
  sampled = min(len(vecs), _SAMPLED * count)
  sample = vecs[np.sort(rng.choice(len(vecs), sampled, replace=False))]
  centres = sample[rng.choice(sampled, count, replace=False)]
  before = None
  for _ in range(_ROUNDS):
    nearest = _nearest(sample, centres)
    if before is not None and (nearest == before).all():
      break
    sizes = np.bincount(nearest, minlength=count)
    sums = np.zeros_like(centres)
    np.add.at(sums, nearest, sample)
    centres = np.where(
        sizes[:, None] > 0, sums / np.maximum(sizes, 1)[:, None], centres
    )
    before = nearest
  return _nearest(vecs, centres)


def _nearest(vecs, centres):
  """`[vectors] int32`, the nearest centre of each; of equal ones the first."""
  half_squares = (centres * centres).sum(axis=1) / 2
  step = max(1, _SCORES_AT_ONCE // len(centres))
  return np.concatenate([
      np.argmax(vecs[first : first + step] @ centres.T - half_squares, axis=1)
      for first in range(0, len(vecs), step)
  ]).astype(np.int32)
