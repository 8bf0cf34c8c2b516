"""Bias of hard, mixed and random NCE: Zhang and Stratos (2021), Appendix C.

    python -m neg_contrast.main --config=configs/nce_bias.py \
        --config.data.source=squad:data/squad

Takes 64 queries of different gold passages, and as many passages that BM25
finds for them and that are gold for none: 128 labels in all. Measures, without
dropout, the gradient of the cross-entropy over the 128 labels, and that of NCE
with K = 8 candidates, 7 of them drawn: Random, Hard or Mixed-50. Gradients with
respect to the scores are averaged over 500 draws, and one vector-Jacobian
product carries each into the parameters (Theorem 3.1). At

* `initial`: `model.init`;
* `cross_entropy`: trained from there on these queries, by cross-entropy over
  the labels;
* `random`: the same by NCE with 7 random negatives, new ones every step.

Paper, ‖b‖ on 64 mentions of Zeshel with two BERT-base towers (accuracy 92.19%
at `cross_entropy`, 60% at `random`):

    negatives   cross_entropy   random
    Random              16.33   166.38
    Hard                 0.68     0.09
    Mixed-50             1.20     0.90

Ours are two towers too, of all-MiniLM-L6-v2. Norms depend on the model, its
scores and how far it was trained; what should come out is that hard and mixed
lie below random, ten times and more where the softmax is peaked. From a weak
start with a peaked softmax, as the paper's is, both columns come out as there
(:scores=dot, --config.model.layers=1 --config.loss.scale=8
--config.optim.steps=30).
launch/studies/RESULTS.md has ours.

Columns: `bias` as the paper has it; standard `error` of 500 draws as a part of
the bias, in the scores; norm of the NCE gradient, and its cosine with that of
the cross-entropy; NCE loss; `missed`: mass of the softmax over all labels that
the candidates miss, which bounds the bias in the scores
(neg_contrast/bias/score_bias.py); `effective` number of negatives, 1 / Σ ρ²,
where ρ is the softmax over the negatives alone. p(known positives) and
p(answer): mass on other positives of a query, and on other labels that hold its
answer, which may be false negatives.

Any model and data: --config.model.init=WORKDIR (--config.model.shared,
--config.loss.scale and the lengths as it was trained; a learned scale stands in
its log), --config.data.source, --config.data.split. Without
training: --config.nce.points="('initial',)".

Argument:
  scores: `cosine` (l2-normalised vectors, scale 20, as everywhere here), or
    `dot` (neither, as in the paper).
"""

from neg_contrast.settings import config as config_lib


def get_config(arg=None):
  """Takes `scores`."""
  scores = config_lib.arguments(arg, scores='cosine')['scores']
  if scores not in ('cosine', 'dot'):
    raise config_lib.unknown_argument('scores', scores, ('cosine', 'dot'))
  config = config_lib.base_config()
  config.job = 'nce_bias'
  config.data.source = 'squad:data/squad'
  config.data.how_to_get = (
      'Download train-v1.1.json (30 MB) and dev-v1.1.json (5 MB) from\n'
      'https://rajpurkar.github.io/SQuAD-explorer/dataset/ into data/squad/'
  )
  config.data.split = 'dev'
  config.model.init = 'minilm'
  config.model.shared = False
  config.model.query_length = 64
  config.model.passage_length = 128  # The paper's.
  config.model.dtype = 'float32'
  if scores == 'dot':
    config.model.normalize = False
    config.loss.scale = 1.0
  config.optim.learning_rate = 1e-5
  config.optim.steps = 4
  config.checkpointing.save_steps = 2
  config.checkpointing.log_steps = 1
  return config
