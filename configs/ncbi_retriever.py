"""An entity retriever for disease names: mentions in abstracts, MEDIC concepts.

    python -m neg_contrast.main --config=configs/ncbi_retriever.py:size=small \\
        --config.data.source=beir:../shared/data/ncbi-disease-el

The model and the training of configs/zeshel_retriever.py (Zhang and Stratos) on
the NCBI disease corpus, of which the paper says nothing; a concept is its name
and synonyms. Mentions have 64 tokens, concepts 48. Splits are `train` and
`dev`; a tenth of the concepts of `train`, with their mentions, is set apart for
tuning.

Arguments, as in `ncbi_retriever.py:size=small,score=som`:
  score, negatives: as of configs/zeshel_retriever.py.
  size: `full` (BERT-base, four epochs) or `small` (all-MiniLM-L6-v2, one epoch,
    7 negatives; launch/studies/RESULTS.md has what it starts from).
"""

from neg_contrast import presets
from neg_contrast.settings import config as config_lib


def get_config(arg=None):
  """Takes `size`, `score` and `negatives`."""
  args = config_lib.arguments(
      arg, size='full', score='dual', negatives='mixed-50'
  )
  config = config_lib.base_config()
  config.data.source = 'beir:data/ncbi-disease-el'
  config.data.how_to_get = (
      'A BEIR folder whose queries.jsonl has "text" (the mention), "left" and '
      '"right" (its context)'
  )
  config.data.test_split = 'dev'
  presets.set_linking(config, **args)
  config.model.query_length = 64
  config.model.passage_length = 48
  config.evaluation.eval_steps = 1000 if args['size'] == 'full' else 100
  return config
