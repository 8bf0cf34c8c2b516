"""Cuts documents into disjoint passages, as the paper made its corpus.

    python -m neg_contrast.main --config=configs/split.py \
        --config.data.source=beir:DOCUMENTS --workdir=workdirs/passages

Every "passage" of the source is taken for a document: a folder with a
corpus.jsonl (`_id`, `title`, `text`), a `collection.tsv`, or any other source.
The result is workdirs/passages/corpus/corpus.jsonl, to be read as
`beir:workdirs/passages/corpus`: ids are `<document>#<number>`, each passage has
the title of its document, and `metadata.document_id` names it.

Questions and judgements of the source come along, with their weights, in
`queries.jsonl` and `qrels/`: of a document that answers a question the passage
that is nearest to it by BM25 does, or all of them
(`--config.data.passage_judgements=all`). Data whose queries are documents
themselves (ArguAna, Quora), and data with worlds, are refused: passages would
make another task of them.

Passages have 100 words (`--config.data.passage_words`); the last of a document
has what is left. With `--config.data.passage_tokens=N` and a
`--config.checkpoint` they have at most N tokens of that model instead, and end
where a word ends.

Paper: Lu et al., section 5.1: 21,015,324 passages of Wikipedia.
"""

from neg_contrast.settings import config as config_lib


def get_config(arg=None):
  """Takes no argument."""
  config_lib.arguments(arg)
  config = config_lib.base_config()
  config.job = 'split'
  return config
