"""Milvus: a server, or Milvus Lite in a file."""

from neg_contrast.retrieval.stores import vector_store

_LONGEST = 65_535  # Bytes of a VARCHAR.
_FINGERPRINT = 'neg_contrast'


class MilvusStore(vector_store.VectorStore):
  """Collections with the fields `id`, `title` and `vector`; inner product.

  Rows are inserted; the bulk import of a server takes the same Parquet files.
  """

  library = 'pymilvus'

  def _connect(self, place: str) -> None:
    import pymilvus

    self._client = pymilvus.MilvusClient(place)
    self._is_file = '://' not in place

  def _find(self, name: str) -> tuple[str, int] | None:
    if not self._client.has_collection(name):
      return None
    rows = self._client.query(name, output_fields=['count(*)'])
    known = self._client.describe_collection(name)
    fingerprint = known['properties'].get(_FINGERPRINT) or known['description']
    return fingerprint, rows[0]['count(*)']

  def _create(self, shards: vector_store.ExportedShards, name: str) -> None:
    import pymilvus

    schema = self._client.create_schema(
        auto_id=False, description=shards.fingerprint
    )
    text = pymilvus.DataType.VARCHAR
    schema.add_field('id', text, is_primary=True, max_length=_LONGEST)
    schema.add_field('title', text, max_length=_LONGEST)
    schema.add_field('vector', pymilvus.DataType.FLOAT_VECTOR, dim=shards.dim)
    index = self._client.prepare_index_params()
    index.add_index(
        'vector', metric_type='IP',
        index_type='FLAT' if self._is_file else 'AUTOINDEX',
    )
    # Milvus Lite forgets descriptions, and takes any property.
    properties = {_FINGERPRINT: shards.fingerprint} if self._is_file else {}
    self._client.create_collection(
        name, schema=schema, index_params=index, properties=properties
    )
    for batch in shards.batches():
      self._client.insert(name, batch.to_pylist())
    self._client.flush(name)
