"""LanceDB: tables in a folder."""

from neg_contrast.retrieval import vector_files
from neg_contrast.retrieval.stores import vector_store

_FINGERPRINT = b'neg_contrast'  # Of the schema's metadata.


class LanceStore(vector_store.VectorStore):
  """Tables with the columns `id`, `title` and `vector`; search them by `dot`.
  """

  library = 'lancedb'

  def _connect(self, place: str) -> None:
    import lancedb

    self._database = lancedb.connect(place)

  def _find(self, name: str) -> tuple[str, int] | None:
    try:
      table = self._database.open_table(name)
    except (ValueError, FileNotFoundError):  # By version of the library.
      return None
    metadata = table.schema.metadata or {}
    return metadata.get(_FINGERPRINT, b'').decode(), table.count_rows()

  def _create(self, shards: vector_store.ExportedShards, name: str) -> None:
    pyarrow, _ = vector_files.import_parquet()
    schema = pyarrow.schema(
        [('id', pyarrow.string()), ('title', pyarrow.string()),
         ('vector', pyarrow.list_(pyarrow.float32(), shards.dim))],
        metadata={_FINGERPRINT: shards.fingerprint.encode()},
    )
    self._database.create_table(name, data=(
        pyarrow.record_batch(
            [batch.column(field.name).cast(field.type) for field in schema],
            schema=schema,
        ) for batch in shards.batches()
    ), schema=schema)
