"""What a search of a corpus found, and facts about its index."""

import dataclasses
import pathlib
from typing import Any

import numpy as np

from neg_contrast.data import dataset as dataset_lib
from neg_contrast.retrieval import hits, own_passages, search_settings
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.retrieval import vectors as vectors_lib


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
  """Vectors over the whole corpus; the folder keeps their index."""
  retriever = retriever_lib.Retriever(settings, dataset, vectors, folder)
  found = retriever.search_rows(
      query_rows, own_passages.depth_for(dataset, settings.depth)
  )
  return Searched(
      own_passages.drop(dataset, query_rows, found, settings.depth),
      retriever.measure_index(query_rows, found),
  )
