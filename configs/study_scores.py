"""A study: score functions by hard negatives, on mentions.

    python -m neg_contrast.main --config=configs/study_scores.py \\
        --config.data.source=beir:workdirs/mentions

with splits `train`, `spare` and `dev`, as of

    python launch/studies/split_beir.py workdirs/mentions \\
        DATA/ncbi-disease-el --split=train \\
        --queries train=500 tune=500 spare=500 --keep dev

Each score function is trained with each kind of negatives for the same steps on
the same mentions, from all-MiniLM-L6-v2, with [CLS] and plain dot products as
in the paper, beside BM25 and the untrained model. SOM's sum over the 32 tokens
of a mention is divided by 32: MiniLM's vectors are long, and the softmax of the
plain sum is all on one passage.

JOINT, a cross-encoder on the top entities of one of these, is
configs/ncbi_reranker.py with `--config.checkpoint` of that run, and stands
beside all others by configs/compare.py.

Paper: Zhang and Stratos, Table 1 (in zhang_stratos.csv);
launch/studies/RESULTS.md has ours.
"""

import functools

from neg_contrast import presets, study_preset
from neg_contrast.settings import config as config_lib

_SCORES = ('dual', 'poly-16', 'multi-8', 'som')
_NEGATIVES = ('random', 'hard', 'mixed-50')


def get_config(arg=None):
  """Takes no argument."""
  config_lib.arguments(arg)
  config = study_preset.make_linking(__file__, baseline='random')
  config.model.dtype = 'bfloat16'
  config.negatives.refresh_epochs = 0.16  # Six draws in 60 steps of 8.
  config.compare.systems = ('trained', 'initial', 'bm25')
  return study_preset.make_study(config, {
      score: {name: functools.partial(_set_row, score=score, negatives=name)
              for name in _NEGATIVES} for score in _SCORES
  }, seeds=(0,))


def _set_row(config, score, negatives):
  made = presets.beside(__file__, 'ncbi_retriever', size='small', score=score,
                        negatives=negatives)
  config.model.score = score
  config.negatives.hard_percent = made.negatives.hard_percent
  if score == 'som':
    config.loss.scale = 1 / 32
