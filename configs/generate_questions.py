"""Questions for every passage of your corpus, by any question generator.

    python -m neg_contrast.main --config=configs/generate_questions.py \
        --config.checkpoint=workdirs/squad_generator-small \
        --config.data.source=beir:data/mine

The generator is a workdir that `job=train_generator` made (see
configs/squad_generator.py), or a T5 folder or hub name that writes questions,
with its own --config.model.passage_prefix. The questions go to the workdir as
gen-queries.jsonl and gen-qrels/train.tsv, which BEIR's loaders and ours read
beside a corpus.jsonl; the printed numbers compare them with gold ones where the
data has some.

An interruption loses one shard at most, and the same command goes on.
"""

from neg_contrast.settings import config as config_lib


def get_config(arg=None):
  """Takes no argument."""
  config_lib.arguments(arg)
  config = config_lib.base_config()
  config.job = 'generate_questions'
  config.synthetic.per_passage = 3
  return config
