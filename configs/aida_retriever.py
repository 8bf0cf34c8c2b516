"""An entity retriever on AIDA CoNLL-YAGO, among all pages of Wikipedia.

    python -m neg_contrast.main --config=configs/aida_retriever.py

Paper: Zhang and Stratos, "Understanding Hard Negatives in Noise Contrastive
Estimation", Table 4: test accuracy (`accuracy@1`) over 5.9 million pages:

    BLINK without finetuning  80.27
    BLINK with finetuning     81.54
    DUAL with p = 0           82.40
    DUAL with p = 50          88.01
    MULTI-2 with p = 50       88.39
    MULTI-3 with p = 50       87.94

The model and the training of configs/zeshel_retriever.py. The paper starts from
BLINK's dual encoder, trained on Wikipedia; make a folder of it
(neg_contrast/models/README.md) and name it with `--config.model.init`, or this
starts from BERT-base and is not comparable. KILT publishes no answers of its
test split, so `dev` is reported; a tenth of the pages of `train`, with their
mentions, is set apart for tuning. A page is its
first 512 words. Hours and numbers here: not measured.

Arguments, as in `aida_retriever.py:size=small`:
  score, negatives: as of configs/zeshel_retriever.py.
  size: `full` or `small` (all-MiniLM-L6-v2, one epoch, 7 negatives), for fewer
    pages.
"""

from neg_contrast import presets
from neg_contrast.settings import config as config_lib


def get_config(arg=None):
  """Takes `size`, `score` and `negatives`."""
  args = config_lib.arguments(
      arg, size='full', score='dual', negatives='mixed-50'
  )
  config = config_lib.base_config()
  config.data.source = 'kilt:data/kilt'
  config.data.how_to_get = (
      'From http://dl.fbaipublicfiles.com/KILT/ download into data/kilt\n'
      '  kilt_knowledgesource.json (5,903,530 pages; 35 GiB),\n'
      '  aidayago2-train-kilt.jsonl (18,395 mentions, 67 MB),\n'
      '  aidayago2-dev-kilt.jsonl (4,784 mentions, 21 MB)'
  )
  config.data.test_split = 'dev'
  presets.set_linking(config, **args)
  config.evaluation.eval_steps = 1000
  return config
