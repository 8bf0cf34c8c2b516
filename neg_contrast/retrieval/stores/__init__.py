"""Vector databases that exported passages are loaded into, by name.

A new one is a file here and a line in `STORES`.
"""

from neg_contrast.retrieval.stores import (
  lancedb_store,
  milvus_store,
  vector_store,
)

STORES: dict[str, type[vector_store.VectorStore]] = {
    'milvus': milvus_store.MilvusStore,
    'lancedb': lancedb_store.LanceStore,
}
"""Name -> class."""
