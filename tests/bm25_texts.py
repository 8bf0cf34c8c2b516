"""BM25 over texts, without files."""

from neg_contrast.retrieval import (
  bm25,
  bm25_folder,
  bm25_postings,
  bm25_terms,
)


def shards_of(texts, size=bm25_folder.SHARD_ROWS):
  """Texts as shards of so many passages."""
  reader, shards = bm25_terms.TermReader(), []
  for first in range(0, len(texts), size):
    rows = range(first, min(first + size, len(texts)))
    shards.append(bm25_folder.Shard(
        bm25_folder.Rows(rows),
        bm25_postings.count(reader.read(texts[first : rows.stop])),
    ))
  return shards


def index_of(texts, ranks, size=bm25_folder.SHARD_ROWS, **config):
  """An index of texts in memory."""
  return bm25.Bm25Index(shards_of(texts, size), ranks, **config)
