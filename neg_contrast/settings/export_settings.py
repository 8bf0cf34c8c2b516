"""Keys of exported vectors."""

import dataclasses

from neg_contrast.settings import keys


@dataclasses.dataclass(frozen=True)
class ExportConfig(keys.Section):
  """What `job=export` makes of the vectors of a source.

  Attributes:
    vectors: files of the vectors: `npy`, with the ids beside it; or files of
      `shard_rows` rows, which are written as they are encoded: `parquet`
      (columns `id`, `title` and `vector`), for Milvus, LanceDB and BigQuery;
      `json` (lines of `id` and `embedding`), for Vertex AI Vector Search;
      `csv` (rows of id, title and `[vector]`), for AlloyDB and other PostgreSQL
      with pgvector.
    shard_rows: rows of a file; 100,000 are 307 MB of 768 features in Parquet.
    store: a vector database that gets the passages, from `vectors=parquet`:
      `milvus` or `lancedb`; empty: none.
    store_place: of the database: the address of a Milvus server, or a file
      `NAME.db` for Milvus Lite; a folder for LanceDB.
    store_name: of its collection or table.
  """

  section = 'export'

  vectors: str = keys.key('npy', keys.one_of(
      'npy', keys.Table('retrieval.vector_files', 'VECTOR_FILES')
  ))
  shard_rows: int = keys.key(100_000, keys.at_least(1))
  store: str = keys.key('', keys.one_of(
      '', keys.Table('retrieval.stores', 'STORES')
  ))
  store_place: str = keys.key('')
  store_name: str = keys.key('passages', keys.matching(
      r'[A-Za-z_]\w*', 'letters, digits and _'
  ))

  def __post_init__(self):
    """Checks ranges and that the keys agree.

    Raises:
      SettingError: a store has no place, or nothing to load.
    """
    super().__post_init__()
    if self.store and self.vectors != 'parquet':
      raise self.error('vectors', f'must be parquet, for {self.store}')
    if self.store and not self.store_place:
      raise self.error('store_place', f'is needed: where {self.store} is')
