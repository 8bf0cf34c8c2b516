"""Published retrievers on sets of BEIR, with their prompts and lengths.

    python -m neg_contrast.main \
        --config=configs/beir_evaluate.py:set=scifact,model=bge

Published nDCG@10 stand in configs/expected.csv, with their sources; `--check`
compares a finished run to them. Not run here: the sets and BGE have to be
downloaded (`--plan` says from where).

Arguments, as in `beir_evaluate.py:set=arguana,model=minilm`:
  set: `arguana`, `scifact`, `nfcorpus` or `fiqa`: BEIR's test queries.
  model: `bge` (BAAI/bge-base-en-v1.5: [CLS], 512 tokens, and before queries
    "Represent this sentence for searching relevant passages: ", but not on
    ArguAna, as its authors measured it) or `minilm` (all-MiniLM-L6-v2, which is
    here: mean, 256 tokens, no prompt).

A query never retrieves the passage of its own id, BEIR's rule. What differs:
MTEB and Anserini join title and text by a space, and we put [SEP] between them.
What that does to sets with titles (all but `fiqa`) is not measured.
"""

from neg_contrast import beir_preset
from neg_contrast.settings import config as config_lib

_PROMPT = 'Represent this sentence for searching relevant passages: '


def get_config(arg=None):
  """Takes `set` and `model`."""
  args = config_lib.arguments(arg, set='scifact', model='bge')
  config = config_lib.base_config()
  config.job = 'evaluate'
  config.workdir = f'workdirs/beir_evaluate-{args["set"]}-{args["model"]}'
  if args['model'] == 'bge':
    config.checkpoint = 'BAAI/bge-base-en-v1.5'
    config.model.query_length = config.model.passage_length = 512
    config.model.query_prefix = '' if args['set'] == 'arguana' else _PROMPT
  elif args['model'] == 'minilm':
    config.checkpoint = 'minilm'
    config.model.query_length = config.model.passage_length = 256
  else:
    raise config_lib.unknown_argument(
        'model', args['model'], ('bge', 'minilm')
    )
  is_here = config.checkpoint == 'minilm'
  beir_preset.set_data(config, args['set'],
                       '' if is_here else config.checkpoint, 'checkpoint')
  config.evaluation.metrics = ('ndcg@10', 'recall@100', 'mrr@10')
  config.index.kind = 'exact'
  return config
