"""The ranking that a reranker gets: BM25's, a run's, or a retriever's."""

import pathlib

from neg_contrast.artifacts import places
from neg_contrast.evaluation import judged
from neg_contrast.retrieval import (
  bm25_search,
  corpus_vectors,
  encoding,
  search_settings,
)

CANDIDATES = 'candidates'  # System.
_RUN_SUFFIXES = ('.trec', '.run', '.txt', '.tsv', '.json', '.gz')


def candidates(
    queries: judged.Judged,
    names: tuple[str, ...],
    encoding_settings: encoding.EncodingSettings,
    search: search_settings.SearchSettings,
    folder: pathlib.Path,
    seed: int,
) -> judged.Ranking:
  """What is ranked anew: BM25's, a run's, or those of a checkpoint.

  Args:
    queries: of a split.
    names: `bm25`, a checkpoint, or run files of different queries.
    encoding_settings: how a checkpoint encodes.
    search: how its vectors are searched.
    folder: keeps the vectors of a retriever.
    seed: of parameters that a checkpoint does not have.
  """
  if names == ('bm25',):
    return judged.Bm25Ranking(
        queries, CANDIDATES,
        bm25_search.bm25_of(queries.config, queries.data),
    )
  paths = tuple(map(places.path, names))
  if len(paths) > 1 or _is_run(paths[0]):
    return judged.RunRanking(queries, CANDIDATES, paths)
  vectors = corpus_vectors.by_checkpoint(
      queries.data, encoding_settings, folder, names[0], seed
  )
  return judged.DenseRanking(queries, CANDIDATES, vectors, search, folder)


def _is_run(path: pathlib.Path) -> bool:
  return path.is_file() or (
      path.suffix in _RUN_SUFFIXES and not path.is_dir()
  )
