"""What a search of a corpus found, and facts about its index."""

import dataclasses
import functools
import hashlib
import pathlib
from typing import Any

import numpy as np

from neg_contrast import beams, hosts
from neg_contrast.artifacts import folders
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.retrieval import (
  hits,
  kept_index,
  kept_rankings,
  own_passages,
  search_settings,
  vector_table,
)
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.retrieval import vectors as vectors_lib

_RANKINGS = 'rankings'
_PART_SCORES = 2**36
"""Of a part: 4,096 queries of a corpus of 16 million passages, which two cores
search in ten minutes at 768 features."""


@dataclasses.dataclass(frozen=True)
class Searched:
  """What a search found.

  Attributes:
    found: rows and scores.
    index: facts about the index, for the manifest.
  """

  found: hits.Hits
  index: dict[str, Any] = dataclasses.field(default_factory=dict)


def search_dense(
    settings: search_settings.SearchSettings,
    dataset: dataset_lib.Dataset,
    vectors: vectors_lib.Vectors,
    folder: pathlib.Path,
    query_rows: np.ndarray,
) -> Searched:
  """Vectors over the whole corpus; the folder keeps their index.

  Where processes are together, all come here. Beam, if it is chosen, searches
  exactly, where the corpus has no worlds and its vectors lie in a table. The
  rankings of exact search are kept in parts where they are many.
  """
  retriever = retriever_lib.Retriever(settings, dataset, vectors, folder)
  depth = own_passages.depth_for(dataset, settings.depth)
  if (beams.is_chosen() and retriever.is_exact and not dataset.prepared.worlds
      and isinstance(vectors.passage_vecs, vector_table.Table)
      and len(query_rows)):
    searched = Searched(_search_by_beam(
        settings, dataset, vectors, folder, query_rows, depth
    ), {'kind': 'exact'})
  elif retriever.is_exact:
    searched = Searched(_search_in_parts(
        settings, dataset, retriever, folder, query_rows, depth
    ), {'kind': 'exact'})
  else:
    searched = search_and_measure(retriever, query_rows, depth)
  return dataclasses.replace(searched, found=own_passages.drop(
      dataset, query_rows, searched.found, settings.depth
  ))


def _search_in_parts(settings, dataset, retriever, folder, query_rows, depth):
  """Exact search; of very many queries parts are kept, if they can be."""
  prepared = dataset.prepared
  kept = kept_rankings.KeptRankings(
      folder / _RANKINGS / folders.sha256_json({
          'vectors': retriever.vectors.search_identity,
          'queries': prepared.manifest['queries_fingerprint'],
          **dataset.own_prefixes('query'),
          'rows': hashlib.sha256(query_rows.tobytes()).hexdigest(),
          'index': settings.index_identity(prepared), 'depth': depth,
      })[:12], len(query_rows), depth,
      max(1, _PART_SCORES // max(1, len(prepared.passages))),
  )
  if len(kept.blocks) < 2 or not hosts.on_first(kept.can_be_kept):
    return retriever.search_rows(query_rows, depth)
  query_vecs = functools.cache(
      lambda: retriever.vectors.query_vecs(query_rows)
  )
  kept.make_together(lambda lines: retriever.search_vecs(
      query_vecs()[lines], depth, query_rows[lines]
  ))
  return kept.read()


def _search_by_beam(settings, dataset, vectors, folder, query_rows, depth):
  from neg_contrast.retrieval import beam_best, beam_dense

  folders.make_folder(folder)
  with beam_best.scratch_in(folder) as scratch:
    return beam_dense.search(
        dataset.prepared, vectors.passage_vecs, vectors.encoder.score,
        vectors.query_vecs(query_rows), depth, settings.index.block_rows,
        scratch,
    )


def search_and_measure(
    retriever: retriever_lib.Retriever, query_rows: np.ndarray, depth: int
) -> Searched:
  """Searches, and measures what the index misses by some of the queries.

  Processes that come here together divide the queries where ScaNN searches,
  which finds the same for a query beside any others.

  Args:
    retriever: of a corpus.
    query_rows: `[queries] int32` of its dataset.
    depth: passages wanted.
  """
  if retriever.is_exact:
    return Searched(retriever.search_rows(query_rows, depth),
                    {'kind': 'exact'})
  query_vecs = retriever.vectors.query_vecs(query_rows)
  if retriever.is_on_mesh or not hosts.are_together():
    found = retriever.search_vecs(query_vecs, depth, query_rows)
  else:
    own = hosts.share_of(len(query_vecs))
    part = retriever.search_vecs(query_vecs[own.start : own.stop], depth)
    found = hits.Hits(hosts.gather(part.rows), hosts.gather(part.scores))
  some = kept_index.measured_places(len(query_rows))
  return Searched(found, kept_index.measure(
      retriever.index, found.part(some),
      retriever.search_exactly(query_vecs[some], depth),
  ))
