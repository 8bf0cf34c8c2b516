"""Topics of training queries: clusters of their vectors, made once.

TAS (Hofstätter et al., 2021, section 3.1) clusters the queries of MS MARCO into
2,000 topics, of 200 each, by the vectors of a retriever that is there before.
"""

import dataclasses
import hashlib
import pathlib
import warnings
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from neg_contrast import errors
from neg_contrast.artifacts import arrays, artifact, kept_parts
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import feature_store
from neg_contrast.models import loading
from neg_contrast.retrieval import embedder, encoding, text_encoder

_TOPICS, _CENTRES = 'topics', 'centres'
_OF_ONE = 200  # Queries of a topic, where nothing else is said.
_MOST = 2000  # Topics, where nothing else is said.
_SAMPLED = 256  # Queries of a topic that its centre is made from, about.
_ROUNDS = 25
_SCORES_AT_ONCE = 2**30  # SciPy holds all of them: 4 GiB.
_QUERIES_AT_ONCE = 2**16


@dataclasses.dataclass(frozen=True)
class Topics(artifact.Cached):
  """The topic of each query; loads as `[queries] int32`, -1: not trained on.

  They serve all trainings on these queries that start from this model. Vectors
  are held of a sample, and then of 65,536 queries at once, by each process.

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
  is_divided = True
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
    model = self._model
    return {
        'topics': self.count,
        'queries': hashlib.sha256(self._queries.tobytes()).hexdigest(),
        'computed': embedder.computed(self.encoding, model),
        **feature_store.contents_of(
            self._dataset.prepared, model.side_features
        ),
    }

  def prepare(self) -> None:
    """Encodes a sample for the centres, and then all queries, in parts."""
    rows, blocks = self._queries, self._blocks()
    vecs_of = embedder.Embedder(
        self._dataset, text_encoder.TextEncoder(self._model, self.encoding)
    ).query_vecs
    count = self.count or min(_MOST, max(2, len(rows) // _OF_ONE))

    def make_centres(_, scratch, manifest):
      del manifest
      sample, rng = sample_of(len(rows), count)
      np.save(scratch / f'{_CENTRES}.npy',
              centres_of(vecs_of(rows[sample]), count, rng))

    def assign(part, scratch, manifest):
      del manifest
      np.save(scratch / f'{_TOPICS}.npy',
              nearest(vecs_of(rows[blocks[part]]), centres))

    first = self.parts(_CENTRES, 1)
    first.make(make_centres)
    centres = np.array(first.array(0, _CENTRES, (None, None), np.float32))
    self.parts(_TOPICS, len(blocks)).make(assign)

  def write(self, scratch: pathlib.Path, manifest: dict[str, Any]) -> None:
    """Joins the parts."""
    rows, blocks = self._queries, self._blocks()
    parts = self.parts(_TOPICS, len(blocks))
    topics = np.full(len(self._dataset.prepared.queries), -1, np.int32)
    for part, some in enumerate(blocks):
      topics[rows[some]] = parts.array(part, _TOPICS, (None,), np.int32)
    manifest['sizes'] = np.bincount(topics[rows]).tolist()
    np.save(scratch / f'{_TOPICS}.npy', topics)

  def read(self) -> np.ndarray:
    """The topics."""
    return arrays.load_array(self.folder / f'{_TOPICS}.npy', (None,), np.int32)

  def _blocks(self) -> list[slice]:
    """The queries of each part."""
    return kept_parts.divide(len(self._queries), _QUERIES_AT_ONCE)

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


def sample_of(
    vectors: int, count: int
) -> tuple[Int[np.ndarray, ' sample'], np.random.Generator]:
  """`[sample] int64`, ascending: what centres are made from; and what drew it.

  Args:
    vectors: how many there are.
    count: clusters; of each, at most 256 are drawn, and above 2,000 fewer, so
      that their scores fit into memory.
  """
  rng = np.random.default_rng(0)
  count = min(count, vectors)
  size = max(count, min(vectors, _SAMPLED * count, _SCORES_AT_ONCE // count))
  return np.sort(rng.choice(vectors, size, replace=False)), rng


def centres_of(
    sample: Float[np.ndarray, 'vectors features'],
    count: int,
    rng: np.random.Generator,
) -> Float[np.ndarray, 'clusters features']:
  """`[clusters, features] float32`, by k-means (Lloyd, 25 rounds).

  A round with 2,000 clusters of 256 vectors of 768 features takes 1.6e12
  operations and 4 GB; to find the nearest of these centres for 63 million
  vectors takes 1.9e14.

  Args:
    sample: `[vectors, features] float32`.
    count: clusters; as many as vectors, if there are fewer of these.
    rng: draws the first centres.
  """
  from scipy.cluster import vq  # A tenth of a second, of every command.

  count = min(count, len(sample))
  first = sample[rng.choice(len(sample), count, replace=False)]
  with warnings.catch_warnings():  # A cluster without vectors keeps its centre.
    warnings.simplefilter('ignore', UserWarning)
    return vq.kmeans2(sample, first, iter=_ROUNDS, minit='matrix')[0]


def nearest(
    vecs: Float[np.ndarray, 'vectors features'],
    centres: Float[np.ndarray, 'clusters features'],
) -> Int[np.ndarray, ' vectors']:
  """`[vectors] int32`, the nearest centre of each."""
  from scipy.cluster import vq

  step = max(1, _SCORES_AT_ONCE // len(centres))
  return np.concatenate([
      vq.vq(vecs[first : first + step], centres)[0]
      for first in range(0, len(vecs), step)
  ]).astype(np.int32)
