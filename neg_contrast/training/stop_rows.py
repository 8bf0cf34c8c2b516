"""The passages that early stopping searches, chosen once."""

import dataclasses
import hashlib
import pathlib
from typing import Any

import numpy as np
from jaxtyping import Int32

from neg_contrast.artifacts import arrays, artifact
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.retrieval import bm25_folder, bm25_search

_DEPTH = 100  # Of BM25.
_FILE = 'rows.npy'


@dataclasses.dataclass(frozen=True)
class StopRows(artifact.Cached):
  """Passages to tune a training by; load as ascending rows, `[rows] int32`.

  They are the positives of the tune queries, the BM25 top 100 of each, and
  random passages: all passages, if there are no more of them. They are of the
  tune queries' worlds. They lie beside the prepared corpus, for all trainings
  with these tune queries and this seed.

  Attributes:
    bm25: of the data with judgements that people made.
    passages: how many random ones.
    seed: of the choice.
  """

  kind = 'stop rows'
  name = 'stop rows'
  is_divided = True
  bm25: bm25_search.Bm25
  passages: int
  seed: int

  @property
  def root(self) -> pathlib.Path:
    """Of those of any seed and split."""
    return self._dataset.prepared.folder.parent / 'stop_rows'

  @property
  def label(self) -> str:
    """For people."""
    return 'rows'

  def describe(self) -> str:
    """Which passages, and where."""
    return (f'tune positives, their BM25 top {_DEPTH} and {self.passages:,} '
            'random passages, beside the prepared corpus')

  def needs(self) -> dict[str, artifact.Artifact]:
    """Corpus and judgements."""
    return {'data': self.bm25.data}

  def inputs(self) -> dict[str, artifact.Artifact]:
    """And BM25, where not all passages are taken."""
    data = self.bm25.data
    if data.is_made() and len(self._among) <= self.passages:
      return {'data': data}
    return {'data': data, 'bm25': self.bm25}

  def settings(self) -> dict[str, Any]:
    """Those of BM25, the tune queries, how many passages, and the seed."""
    queries = self._judgements.queries.astype(np.int32)
    return {
        **self.bm25.settings(), 'postings': bm25_folder.FORMAT.number,
        'terms': bm25_folder.TERMS,
        'passages': self.passages, 'seed': self.seed,
        'tune_queries': hashlib.sha256(queries.tobytes()).hexdigest(),
    }

  def prepare(self) -> None:
    """Searches with BM25, which keeps what it finds."""
    if len(self._among) > self.passages:
      self._search()

  def write(self, scratch: pathlib.Path, manifest: dict[str, Any]) -> None:
    """Chooses them."""
    del manifest
    np.save(scratch / _FILE, self._choose())

  def read(self) -> np.ndarray:
    """The rows."""
    return arrays.load_array(self.folder / _FILE, (None,), np.int32)

  @property
  def _dataset(self) -> dataset_lib.Dataset:
    return self.bm25.data.load()

  @property
  def _judgements(self) -> prepared_lib.Judgements:
    return self._dataset.train_and_tune[1]

  @property
  def _among(self) -> range | np.ndarray:
    """Rows to choose from."""
    prepared = self._dataset.prepared
    if not prepared.worlds:
      return range(prepared.manifest['counts']['passages'])
    rows = prepared.rows_of_worlds(self._judgements.queries)
    return range(len(prepared.passage_worlds)) if rows is None else rows

  def _choose(self) -> Int32[np.ndarray, ' rows']:
    among, judgements = self._among, self._judgements
    among = np.arange(among.stop) if isinstance(among, range) else among
    if len(among) <= self.passages:
      return among.astype(np.int32)
    found = self._search()
    rng = np.random.default_rng(self.seed)
    drawn = among[rng.choice(len(among), self.passages, replace=False)]
    rows = [judgements.passage_rows, found[found >= 0], drawn]
    return np.unique(np.concatenate(rows)).astype(np.int32)

  def _search(self) -> Int32[np.ndarray, 'queries depth']:
    """What BM25 finds for the tune queries."""
    return self.bm25.load().search_rows(self._judgements.queries, _DEPTH).rows
