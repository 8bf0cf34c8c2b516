"""Keys of encoding and search."""

import dataclasses

from neg_contrast.settings import keys

KINDS = ('auto', 'exact', 'approx', 'scann', 'binary')


@dataclasses.dataclass(frozen=True)
class IndexConfig(keys.Section):
  """Encoding and search.

  Attributes:
    kind: `exact` search; `approx`, which on TPUs scores everything and may miss
      some of the best, and is exact elsewhere; `scann` (of texts with several
      vectors: ScaNN finds candidates by single vectors, which are scored
      exactly); `binary`, whose candidates are found by one bit a feature (1/31
      of float32 in memory) and scored again exactly; or `auto`: exact
      below 50,000 passages; above, ScaNN where it takes less CPU time than
      exact search, building included (from 21,000 queries on for a million
      passages or more, 55,000 for 100,000), for `job=search` always. With
      accelerators, exact but for `job=search` and the round trip of questions.
    target_recall: part of the exact top `evaluation.depth` (100, if that is
      less) that `scann` and `binary` have to find; they search as much as that
      takes. Of `approx`: of the best of every block of passages.
    shard_rows: passages in one part of such an index; larger corpora get
      several, which processes divide. A process builds one at a time, and holds
      3.3 times its vectors in memory.
    chunk_tokens: tokens that a device encodes at once; 0: 2,048 on CPU, whose
      caches hold no more of them, and 8,192 on accelerators.
    block_rows: passages that a device, or a core, scores at once in a search;
      8 times as many with `approx`.
    table_rows: passages in one file of embeddings on disk, rounded up to whole
      blocks of encoding (64 batches of `chunk_tokens`), so that no vector
      depends on it. A process that is killed loses the file that it was
      writing; 16,384 are 48 MiB of 768 features, and 1,283 files for 21
      million.
    embedding_dtype: type of embeddings on disk: `float32`, `bfloat16` (half as
      large) or `int8` (a quarter); retrieval/vector_table.py says what they
      cost. In the memory of accelerators `bfloat16` stays that, and halves the
      time of a search; `int8` becomes float32.
  """

  section = 'index'

  kind: str = keys.key('auto', keys.one_of(*KINDS))
  target_recall: float = keys.key(0.95, keys.between(0, 1))
  shard_rows: int = keys.key(1_000_000, keys.at_least(1))
  chunk_tokens: int = keys.key(0, keys.at_least(0))
  block_rows: int = keys.key(4096, keys.at_least(1))
  table_rows: int = keys.key(16384, keys.at_least(1))
  embedding_dtype: str = keys.key(
      'float32', keys.one_of('float32', 'bfloat16', 'int8')
  )
