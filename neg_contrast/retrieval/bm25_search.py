"""BM25 as an artifact, and for the queries of a dataset: each in its world."""

import dataclasses
import functools
import hashlib
import pathlib
from collections.abc import Callable, Sequence

import numpy as np
from absl import logging
from jaxtyping import Int

from neg_contrast import beams
from neg_contrast.artifacts import artifact, folders
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.retrieval import bm25, bm25_folder, hits, kept_rankings
from neg_contrast.settings import config as config_lib

QUERIES_AT_ONCE = 512
"""Of a part: 17 seconds, among 21 million passages."""


class Bm25Search:
  """BM25 for queries of a dataset, which are searched in their own world.

  A world is searched as if it were a corpus of its own.
  """

  def __init__(
      self, config: config_lib.EvaluationConfig, dataset: dataset_lib.Dataset
  ):
    """Opens nothing yet."""
    self._config, self._dataset = config, dataset
    self._indexes: dict[tuple[int, ...], bm25.Bm25Index] = {}

  def search(self, texts: Sequence[str], depth: int) -> hits.Hits:
    """The best passages of any texts, in all worlds."""
    return self._index(()).search(texts, depth)

  def score_texts(self, query: str, texts: Sequence[str]) -> Sequence[float]:
    """Scores of any texts, with the statistics of all worlds."""
    return self._index(()).score_texts(query, texts)

  def search_rows(
      self, query_rows: Int[np.ndarray, ' queries'], depth: int
  ) -> hits.Hits:
    """The best passages of queries, as rows of the whole corpus.

    They are kept in parts, which processes divide: an interruption loses those
    that are being searched, and who asks the same later searches nothing. Where
    the folder of the corpus can't be written to, every process searches.
    """
    kept = kept_rankings.KeptRankings(
        bm25_folder.rankings_of(self._dataset.prepared, {
            'rows': hashlib.sha256(
                query_rows.astype(np.int32).tobytes()
            ).hexdigest(),
            'depth': depth, 'k1': self._config.bm25_k1,
            'b': self._config.bm25_b,
        }), len(query_rows), depth, QUERIES_AT_ONCE,
    )
    if not kept.can_be_kept():
      logging.info('%s: can\'t be written to, so that rankings of BM25 are not '
                   'kept', kept.folder)
      return self._search_rows(query_rows, depth)
    all_found = None
    if beams.is_chosen() and not kept.are_made():
      all_found = self._search_by_beam(query_rows, depth, kept.folder)
    kept.make(
        (lambda lines: self._search_rows(query_rows[lines], depth))
        if all_found is None else all_found.part
    )
    return kept.read()

  def _search_by_beam(
      self, query_rows: np.ndarray, depth: int, folder: pathlib.Path
  ) -> hits.Hits | None:
    """`search_rows` by Beam, in a folder; None where there are worlds."""
    prepared = self._dataset.prepared
    if prepared.worlds or not len(query_rows):
      return None
    from neg_contrast.retrieval import beam_best, beam_bm25

    bm25_folder.make(prepared)
    folders.make_folder(folder)
    with beam_best.scratch_in(folder) as scratch:
      return beam_bm25.search(
          prepared, [prepared.queries[int(row)].text for row in query_rows],
          depth, self._config.bm25_k1, self._config.bm25_b,
          scratch,
      )

  def _search_rows(self, query_rows: np.ndarray, depth: int) -> hits.Hits:
    """`search_rows`, here and now."""
    prepared = self._dataset.prepared
    texts = [prepared.queries[int(row)].text for row in query_rows]
    if not prepared.worlds:
      return self.search(texts, depth)

    def search(world: int, lines: np.ndarray) -> hits.Hits:
      some = [texts[line] for line in np.flatnonzero(lines)]
      return self._index((world,)).search(some, depth)

    return hits.search_parts(prepared.query_worlds[query_rows], depth, search)

  def over_worlds_of(
      self, query_rows: Int[np.ndarray, ' queries']
  ) -> bm25.Bm25Index:
    """The index of the worlds of some queries, as if they were one corpus."""
    prepared = self._dataset.prepared
    if prepared.rows_of_worlds(query_rows) is None:  # All of them.
      return self._index(())
    return self._index(tuple(
        np.unique(prepared.query_worlds[query_rows]).tolist()
    ))

  def scorer(
      self, query_rows: Int[np.ndarray, ' queries']
  ) -> Callable[[str, Sequence[str]], Sequence[float]]:
    """(query, texts) -> their scores, by the index of some queries' worlds.

    Nothing is opened before it is called.
    """
    index = functools.cache(functools.partial(self.over_worlds_of, query_rows))

    def score(query: str, texts: Sequence[str]) -> Sequence[float]:
      return index().score_texts(query, texts)

    return score

  @functools.cached_property
  def _shards(self) -> list[bm25_folder.Shard]:
    return bm25_folder.open_shards(self._dataset.prepared)

  def _index(self, worlds: tuple[int, ...]) -> bm25.Bm25Index:
    """The index of some worlds; of none: of all passages."""
    if worlds not in self._indexes:
      shards = [shard for shard in self._shards
                if not worlds or shard.rows.world in worlds]
      self._indexes[worlds] = bm25.Bm25Index(
          shards, self._dataset.prepared.tie_ranks, self._config.bm25_k1,
          self._config.bm25_b,
      )
    return self._indexes[worlds]


@dataclasses.dataclass(frozen=True)
class Bm25(artifact.Artifact):
  """BM25 over a corpus; loads as a `Bm25Search`.

  On disk are postings, which know neither k1 nor b: see `bm25_folder`.

  Attributes:
    data: corpus and queries.
    k1: saturation of a term's count.
    b: how far the length of a passage counts.
  """

  kind = 'bm25'
  format = 2  # 2: words of any script.
  name = 'bm25 index'
  is_large = True
  is_divided = True
  data: artifact.Artifact
  k1: float
  b: float

  def describe(self) -> str:
    """What is on disk, and where."""
    return 'words of all passages, beside the prepared corpus'

  def needs(self) -> dict[str, artifact.Artifact]:
    """Passages and queries."""
    return {'texts': self.data}

  def settings(self) -> dict[str, float]:
    """Its own."""
    return {'k1': self.k1, 'b': self.b}

  def is_made(self) -> bool:
    """Whether the postings lie on disk.

    Raises:
      UserError: they are damaged, or of another format.
    """
    return self.identity is not None and (
        bm25_folder.is_made(self.data.load().prepared)
    )

  def build(self) -> None:
    """Counts the words of all passages."""
    bm25_folder.make(self.data.load().prepared)

  def read(self) -> Bm25Search:
    """Opens nothing before the first search."""
    return Bm25Search(
        config_lib.EvaluationConfig(bm25_k1=self.k1, bm25_b=self.b),
        self.data.load(),
    )


def bm25_of(
    config: config_lib.EvaluationConfig, data: artifact.Artifact
) -> Bm25:
  """BM25 as the config of an evaluation has it."""
  return Bm25(data, config.bm25_k1, config.bm25_b)
