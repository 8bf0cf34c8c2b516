"""Writes a model as a sentence-transformers folder with a model card.

    python -m neg_contrast.main --config=configs/export.py \
        --config.checkpoint=workdirs/quickstart --workdir=workdirs/exported

`workdirs/exported/model` can then be given to `SentenceTransformer`; its
README.md shows how to embed queries and passages exactly as in training.

The checkpoint is a trained workdir of ours, or a BERT-family or
sentence-transformers folder or hub name, or `minilm`. Of separate towers the
folder holds two, `query` and `passage`. A folder that holds another model is
not overwritten.

With a `--config.data.source`, `workdirs/exported/embeddings` gets the vectors
of its passages and queries too: `passages.npy`, float32, whose row i belongs to
line i of `passages.ids.txt`; `queries.npy` and `queries.ids.txt` alike. For
databases: `--config.export.vectors=parquet` (or `json`, `csv`), and
`--config.export.store=milvus` or `lancedb`, as neg_contrast/retrieval/README.md
says.
"""

from neg_contrast.settings import config as config_lib


def get_config(arg=None):
  """Takes no argument."""
  config_lib.arguments(arg)
  config = config_lib.base_config()
  config.job = 'export'
  return config
